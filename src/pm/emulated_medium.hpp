// Timing of six Optane modules, emulated (Izraelevitz et al. 2019; Yang et al., FAST'20): when a
// line that is read arrives, and when lines that were written have left the write-combining
// buffers. It knows nothing of clocks: who asks says when it is, so that patterns can be replayed
// in time of their own. Any number of threads may ask.
//
//   latency     a line that its module has to fetch: read_ns; one of an internal line of 256 bytes
//               that the modules have read lately: near_ns
//   bandwidth   of what media read and of what they write, 256 bytes for each internal line,
//               counted by windows of time
//   counting    exact: each line that came, and each time an internal line took a buffer, which is
//               256 bytes that media write
//   writing     lines gather in the modules' write-combining buffers; an internal line that makes
//               room for another leaves, and is charged 256 bytes whatever was written of it
//
// Invariant: who asks waits for what media do at its own time, never for another thread's clock.
// Threads' clocks run apart, for each leaves out what emulating takes it (emulated_host.hpp): so
// bandwidth belongs to windows, which a thread that lags still finds as they were, and what another
// thread has asked for arrives read_ns from now at the latest. Nothing here locks: a race costs a
// line's latency or a line's bandwidth.
//
// Not modelled: wear, thermal limits, flushing one line again and again, sockets, which module a
// line lies in.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace perdure::pm {

struct MediumShape {
  double read_gb_per_s = 39.4;  // published, six modules
  double write_gb_per_s = 13.9;  // published
  double read_ns = 300;  // published: 305, of random reads
  double near_ns = 124;  // so that four lines of an internal line take 168 each; published: 169, of
                         // reads in order
  std::uint32_t modules = 6;
  std::uint32_t buffered = 64;  // internal lines a module: 16 KB of 256 bytes
};

/// What came to the modules and what their media write of it, to the byte.
struct MediumWrites {
  std::uint64_t lines = 0;  // of 64 bytes, evicted, cleaned, flushed or stored past caches
  std::uint64_t internal = 0;  // of 256 bytes

  /// Bytes that media write a byte that came: 1 where whole internal lines gather, 4 at worst.
  [[nodiscard]] double amplification() const {
    return lines == 0 ? 0 : 4.0 * static_cast<double>(internal) / static_cast<double>(lines);
  }
  friend MediumWrites operator-(MediumWrites const& a, MediumWrites const& b) {
    return {a.lines - b.lines, a.internal - b.internal};
  }
};

class EmulatedMedium {
 public:
  explicit EmulatedMedium(MediumShape const& shape = {});

  /// When the line is there, in ns, if it is asked for at `now`.
  double read(std::uint64_t line, double now);
  /// A line leaves a cache at `now`; answers when there is room for it.
  double write(std::uint64_t line, double now);
  [[nodiscard]] MediumShape const& shape() const { return shape_; }
  /// Since it was made.
  [[nodiscard]] MediumWrites writes() const {
    return {lines_.load(std::memory_order_relaxed), internal_.load(std::memory_order_relaxed)};
  }

 private:
  static constexpr std::uint32_t kInternalLine = 256;
  static constexpr std::uint32_t kLinesOfInternal = kInternalLine / 64;

  /// How many bytes were charged to each window of time; a ring, which knows the last quarter of a
  /// second.
  class Bandwidth {
   public:
    explicit Bandwidth(double gb_per_s);
    /// When media have done with an internal line more, from `now` on.
    double charge(double now);

   private:
    static constexpr std::size_t kWindows = std::size_t{1} << 16;
    static constexpr std::uint32_t kBytesBits = 24;
    /// Bytes before it in the window, or none where the window is full.
    std::optional<std::uint64_t> claim(std::uint64_t window);

    double const ns_per_byte_;
    double const window_ns_;
    std::vector<std::atomic<std::uint64_t>> words_;  // number of a window << kBytesBits | its bytes
  };
  /// Of the internal lines that share it, the latest.
  struct Entry {
    std::atomic<std::uint64_t> internal{kNothing};
    std::atomic<double> there{0};  // when it is
  };
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};

  MediumShape const shape_;
  Bandwidth reads_, writes_;
  std::vector<Entry> read_, written_;  // by the internal line's number
  std::atomic<std::uint64_t> lines_{0}, internal_{0};
};

/// A published figure, and what the model gives for the same pattern.
struct CalibrationPoint {
  char const* what;
  char const* unit;
  double published;
  double modelled;
};
/// GPU figures are of stores over PCIe 3.0, which is a link of 13 GB/s before the modules.
std::vector<CalibrationPoint> calibration(MediumShape const& shape = {});

}  // namespace perdure::pm
