// A device whose memory a core caches from afar, as an FPGA's behind a coherent link (thesis of X.
// Wu, section 3.4.2), in cycles of its own: no byte is moved and no clock is looked at.
//
//   directory     lies on the device. Who wants to write a line asks there for the exclusive right,
//                 and then reads the line, whole: two times the latency, and the line's bytes at
//                 the device's bandwidth, which lines that are written back take as well
//   private       what a core stores stays in a buffer of its own until the buffer is full, a
//   buffer        pre-store asks for it, or a fence does, which waits until all of it is in the
//                 cache
//   pre-stores    demote: asks for the line now, and goes on. clean: the same, and writes it back.
//                 skip: a whole line goes to the device, which needs neither right nor bytes first
//   cache         a line a set. A line that is there dirty is the core's already; one that is there
//                 clean needs the right alone
//
// Invariants: time never goes back; after a fence nothing is private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace perdure::pm {

struct FarShape {
  double latency = 60;  // cycles
  double gb_per_s = 10;
  double ghz = 2.0;  // of the core, whose cycles count: ThunderX-1
  std::uint32_t line_bytes = 128;
  std::uint32_t private_lines = 4;
  std::uint64_t cached_lines = std::uint64_t{16} << 20 >> 7;  // its level 2 cache: 16 MB
};
[[nodiscard]] FarShape far_fast();  // Machine B-Fast: 60 cycles, 10 GB/s
[[nodiscard]] FarShape far_slow();  // Machine B-Slow: 200 cycles, 1.5 GB/s

struct FarCounts {
  std::uint64_t acquired = 0;  // lines: exclusive right, and read
  std::uint64_t written_back = 0;  // lines
  std::uint64_t waited = 0;  // lines that a fence, or a full buffer, had to wait for
};

class FarCore {
 public:
  explicit FarCore(FarShape const& shape);

  /// Cycles since it was made.
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] FarCounts const& counts() const { return counts_; }

  /// What concerns no line of the device, reads of the L1 cache among it.
  void compute(double cycles) { now_ += cycles; }
  /// A whole line.
  void store(std::uint64_t line);
  void demote(std::uint64_t line);
  void clean(std::uint64_t line);
  void skip(std::uint64_t line);
  void fence();

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Private {
    std::uint64_t line = kNone;
    bool asked = false;  // for its right
    double done = 0;  // then it is in the cache
  };

  struct Cached {
    std::uint64_t line = kNone;
    bool dirty = false;
  };

  [[nodiscard]] Cached& set_of(std::uint64_t line) { return cached_[line % cached_.size()]; }
  [[nodiscard]] Private* find(std::uint64_t line);
  /// Asks for the line; it makes room in the cache for itself.
  void ask(Private& one);
  /// Answers when the device has it.
  double write_back(Cached& cached, double from);
  /// When the device's link has moved a line more, from `from` on.
  double move_line(double from);
  /// Waits until it is in the cache.
  void publish(Private& one);

  FarShape const shape_;
  double const line_cycles_;
  double now_ = 0;
  double link_busy_ = 0;  // until when
  std::vector<Private> private_;
  std::size_t oldest_ = 0;
  std::vector<Cached> cached_;
  FarCounts counts_;
};

}  // namespace perdure::pm
