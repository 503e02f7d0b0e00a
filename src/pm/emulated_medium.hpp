// Timing of six Optane modules, emulated (Izraelevitz et al. 2019; Yang et al., FAST'20): when a line that is read
// arrives, and when lines that were written have left the write-combining buffers. It knows nothing of clocks: who asks
// says when it is, so that patterns can be replayed in time of their own. Any number of threads may ask.
//
//   latency     a line that its module has to fetch: read_ns; one of an internal line of 256 bytes that the module has
//               read lately: near_ns
//   bandwidth   two token buckets, of what media read and of what they write, 256 bytes for each internal line
//   writing     lines gather in their module's write-combining buffer; the oldest leaves when there is no room, and is
//               charged 256 bytes whatever was written of it
//
// Not modelled: wear, thermal limits, flushing one line again and again, sockets.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace perdure::pm {

struct MediumShape {
  double read_gb_per_s = 39.4;  // published, six modules
  double write_gb_per_s = 13.9;  // published
  double read_ns = 300;  // published: 305, of random reads
  double near_ns = 124;  // so that four lines of an internal line take 168 each; published: 169, of reads in order
  std::uint32_t modules = 6;
  std::uint32_t buffered = 64;  // internal lines a module: 16 KB of 256 bytes
  std::uint32_t interleave = 4096;  // bytes that lie side by side in one module
};

class EmulatedMedium {
 public:
  explicit EmulatedMedium(MediumShape const& shape = {});

  /// When the line is there, in ns, if it is asked for at `now`.
  double read(std::uint64_t line, double now);
  /// A line leaves a cache at `now`; answers until when media are busy with what left the buffers.
  double write(std::uint64_t line, double now);
  /// Until when media are busy writing.
  [[nodiscard]] double busy_until() const { return writes_.until(); }
  [[nodiscard]] MediumShape const& shape() const { return shape_; }

 private:
  static constexpr std::uint32_t kInternalLine = 256;
  static constexpr std::uint32_t kLinesOfInternal = kInternalLine / 64;

  /// Bytes are served one after the other.
  class Bucket {
   public:
    explicit Bucket(double gb_per_s) : ns_per_byte_(1 / gb_per_s) {}
    /// When they have been.
    double charge(std::uint32_t bytes, double now);
    [[nodiscard]] double until() const { return until_.load(std::memory_order_relaxed); }

   private:
    double const ns_per_byte_;
    std::atomic<double> until_{0};
  };
  struct Fetched {
    std::uint64_t internal;
    double there;  // when it is
  };
  /// Of one module: what it read lately, and what it gathers to write; both rings, the oldest first to go.
  struct alignas(64) Module {
    std::mutex mutex;
    std::vector<Fetched> read;
    std::vector<std::uint64_t> written;
    std::size_t next_read = 0;
    std::size_t next_written = 0;
  };
  Module& module_of(std::uint64_t line) { return modules_[line * 64 / shape_.interleave % shape_.modules]; }

  MediumShape const shape_;
  Bucket reads_, writes_;
  std::vector<Module> modules_;
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
