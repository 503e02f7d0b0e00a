#include "pm/emulated_medium.hpp"

#include <algorithm>

#include "base/hash.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::uint64_t kLines = 1 << 18;  // of a pattern
constexpr double kLinkGbPerS = 13;         // PCIe 3.0 x16, achieved

/// Reads one after the other, in the order of line_of(i).
template <class LineOf>
double ns_a_read(MediumShape const& shape, LineOf line_of) {
  EmulatedMedium medium(shape);
  double now = 0;
  for (std::uint64_t i = 0; i < kLines; ++i) now = medium.read(line_of(i), now);
  return now / kLines;
}

/// Stores of `bytes` each that arrive as fast as the link has them, until all have left the buffers.
template <class LineOf>
double gb_per_s_written(MediumShape const& shape, double bytes, double link, LineOf line_of) {
  EmulatedMedium medium(shape);
  double arrived = 0, done = 0;
  for (std::uint64_t i = 0; i < kLines; ++i) {
    arrived += bytes / link;
    done = std::max(arrived, medium.write(line_of(i), arrived));
  }
  return bytes * kLines / done;
}

double gb_per_s_read(MediumShape const& shape) {
  EmulatedMedium medium(shape);
  double last = 0;
  for (std::uint64_t i = 0; i < kLines; ++i) last = medium.read(i, 0);
  return 64.0 * kLines / last;
}

/// A line far from all others, in no order.
std::uint64_t scattered(std::uint64_t i) { return nth_hash(i, 1) >> 24; }
/// The line before and after it reach the modules long after it, as those of warps that run apart do.
std::uint64_t unaligned(std::uint64_t i) { return i % 4 * (kLines / 4) + i / 4 * 4 + i % 4; }

}  // namespace

EmulatedMedium::EmulatedMedium(MediumShape const& shape)
    : shape_(shape), reads_(shape.read_gb_per_s), writes_(shape.write_gb_per_s), modules_(shape.modules) {
  for (Module& module : modules_) {
    module.read.assign(shape.buffered, {kNone, 0});
    module.written.assign(shape.buffered, kNone);
  }
}

double EmulatedMedium::Bucket::charge(std::uint32_t bytes, double now) {
  double before = until_.load(std::memory_order_relaxed);
  double after = 0;
  do {
    after = std::max(before, now) + bytes * ns_per_byte_;
  } while (!until_.compare_exchange_weak(before, after, std::memory_order_relaxed));
  return after;
}

double EmulatedMedium::read(std::uint64_t line, double now) {
  std::uint64_t const internal = line / kLinesOfInternal;
  Module& module = module_of(line);
  std::lock_guard const lock(module.mutex);
  for (Fetched const& lately : module.read) {
    if (lately.internal == internal) return std::max(lately.there, now + shape_.near_ns);
  }
  if (std::find(module.written.begin(), module.written.end(), internal) != module.written.end())
    return now + shape_.near_ns;
  double const there = std::max(now + shape_.read_ns, reads_.charge(kInternalLine, now));
  module.read[module.next_read] = {internal, there};
  module.next_read = (module.next_read + 1) % module.read.size();
  return there;
}

double EmulatedMedium::write(std::uint64_t line, double now) {
  std::uint64_t const internal = line / kLinesOfInternal;
  Module& module = module_of(line);
  {
    std::lock_guard const lock(module.mutex);
    if (std::find(module.written.begin(), module.written.end(), internal) != module.written.end()) return busy_until();
    std::uint64_t& oldest = module.written[module.next_written];
    module.next_written = (module.next_written + 1) % module.written.size();
    bool const leaves = oldest != kNone;
    oldest = internal;
    if (!leaves) return busy_until();
  }
  return writes_.charge(kInternalLine, now);
}

std::vector<CalibrationPoint> calibration(MediumShape const& shape) {
  auto const in_order = [](std::uint64_t i) { return i; };
  double const no_link = 1e9;
  return {
      {"latency, random reads", "ns", 305, ns_a_read(shape, scattered)},
      {"latency, reads in order", "ns", 169, ns_a_read(shape, in_order)},
      {"bandwidth, reads in order", "GB/s", 39.4, gb_per_s_read(shape)},
      {"bandwidth, writes in order", "GB/s", 13.9, gb_per_s_written(shape, 64, no_link, in_order)},
      {"GPU stores, in order, aligned to 256 bytes", "GB/s", 12.5, gb_per_s_written(shape, 64, kLinkGbPerS, in_order)},
      {"GPU stores, in order, unaligned (lines that come apart)", "GB/s", 3.13,
       gb_per_s_written(shape, 64, kLinkGbPerS, unaligned)},
      {"GPU stores, random (of 16 bytes)", "GB/s", 0.72, gb_per_s_written(shape, 16, kLinkGbPerS, scattered)},
  };
}

}  // namespace perdure::pm
