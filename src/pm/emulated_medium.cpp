#include "pm/emulated_medium.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/hash.hpp"

namespace perdure::pm {
namespace {

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

/// Stores of `bytes` each that arrive as fast as the link has them, until all have left the
/// buffers.
template <class LineOf>
double gb_per_s_written(MediumShape const& shape, double bytes, double link, LineOf line_of) {
  EmulatedMedium medium(shape);
  double arrived = 0, done = 0;
  for (std::uint64_t i = 0; i < kLines; ++i) {
    arrived += bytes / link;
    done = std::max({done, arrived, medium.write(line_of(i), arrived)});
  }
  return bytes * kLines / done;
}

double gb_per_s_read(MediumShape const& shape) {
  EmulatedMedium medium(shape);
  double last = 0;
  for (std::uint64_t i = 0; i < kLines; ++i) last = std::max(last, medium.read(i, 0));
  return 64.0 * kLines / last;
}

/// A line far from all others, in no order.
std::uint64_t scattered(std::uint64_t i) { return nth_hash(i, 1) >> 24; }
/// The line before and after it reach the modules long after it, as those of warps that run apart
/// do.
std::uint64_t unaligned(std::uint64_t i) { return i % 4 * (kLines / 4) + i / 4 * 4 + i % 4; }

}  // namespace

EmulatedMedium::EmulatedMedium(MediumShape const& shape)
    : shape_(shape),
      reads_(shape.read_gb_per_s),
      writes_(shape.write_gb_per_s),
      read_(std::size_t{shape.modules} * shape.buffered),
      written_(read_.size()) {
  PERDURE_ASSERT(shape.modules > 0 && shape.buffered > 0);
}

/// A window has room for many internal lines, so that what the last one has too many does not
/// count.
EmulatedMedium::Bandwidth::Bandwidth(double gb_per_s)
    : ns_per_byte_(1 / gb_per_s),
      window_ns_(std::max(4000.0, 16 * kInternalLine * ns_per_byte_)),
      words_(kWindows) {
  PERDURE_ASSERT(gb_per_s > 0);
}

std::optional<std::uint64_t> EmulatedMedium::Bandwidth::claim(std::uint64_t window) {
  std::atomic<std::uint64_t>& word = words_[window % kWindows];
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  for (;;) {
    if (seen >> kBytesBits > window) return 0;  // longer ago than the ring knows
    std::uint64_t const now = seen >> kBytesBits == window ? seen : window << kBytesBits;
    std::uint64_t const before = now & ((std::uint64_t{1} << kBytesBits) - 1);
    if (static_cast<double>(before) * ns_per_byte_ >= window_ns_) return std::nullopt;
    if (word.compare_exchange_weak(seen, now + kInternalLine, std::memory_order_relaxed))
      return before;
  }
}

double EmulatedMedium::Bandwidth::charge(double now) {
  for (auto window = static_cast<std::uint64_t>(now / window_ns_);; ++window) {
    if (auto const before = claim(window)) {
      double const begin =
          static_cast<double>(window) * window_ns_ + static_cast<double>(*before) * ns_per_byte_;
      return std::max(begin, now) + kInternalLine * ns_per_byte_;
    }
  }
}

double EmulatedMedium::read(std::uint64_t line, double now) {
  std::uint64_t const internal = line / kLinesOfInternal;
  if (written_[internal % written_.size()].internal.load(std::memory_order_relaxed) == internal)
    return now + shape_.near_ns;
  Entry& lately = read_[internal % read_.size()];
  if (lately.internal.load(std::memory_order_relaxed) == internal) {
    double const there = lately.there.load(std::memory_order_relaxed);
    return std::max(std::min(there, now + shape_.read_ns), now + shape_.near_ns);
  }
  double const there = std::max(now + shape_.read_ns, reads_.charge(now));
  lately.there.store(there, std::memory_order_relaxed);
  lately.internal.store(internal, std::memory_order_relaxed);
  return there;
}

double EmulatedMedium::write(std::uint64_t line, double now) {
  std::uint64_t const internal = line / kLinesOfInternal;
  std::uint64_t const left =
      written_[internal % written_.size()].internal.exchange(internal, std::memory_order_relaxed);
  lines_.fetch_add(1, std::memory_order_relaxed);
  if (left == internal) return now;
  internal_.fetch_add(1, std::memory_order_relaxed);
  return left == kNothing ? now : writes_.charge(now);
}

std::vector<CalibrationPoint> calibration(MediumShape const& shape) {
  auto const in_order = [](std::uint64_t i) { return i; };
  double const no_link = 1e9;
  return {
      {"latency, random reads", "ns", 305, ns_a_read(shape, scattered)},
      {"latency, reads in order", "ns", 169, ns_a_read(shape, in_order)},
      {"bandwidth, reads in order", "GB/s", 39.4, gb_per_s_read(shape)},
      {"bandwidth, writes in order", "GB/s", 13.9, gb_per_s_written(shape, 64, no_link, in_order)},
      {"GPU stores, in order, aligned to 256 bytes", "GB/s", 12.5,
       gb_per_s_written(shape, 64, kLinkGbPerS, in_order)},
      {"GPU stores, in order, unaligned (lines that come apart)", "GB/s", 3.13,
       gb_per_s_written(shape, 64, kLinkGbPerS, unaligned)},
      {"GPU stores, random (of 16 bytes)", "GB/s", 0.72,
       gb_per_s_written(shape, 16, kLinkGbPerS, scattered)},
  };
}

}  // namespace perdure::pm
