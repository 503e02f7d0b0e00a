#include "pm/emulated_host.hpp"

#include <x86intrin.h>

#include <algorithm>
#include <chrono>

namespace perdure::pm {
namespace {

double measure_ns_a_tick() {
  using Clock = std::chrono::steady_clock;
  auto const begin = Clock::now();
  std::uint64_t const first = __rdtsc();
  while (Clock::now() - begin < std::chrono::milliseconds(20)) {
  }
  std::uint64_t const ticks = __rdtsc() - first;
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / static_cast<double>(ticks);
}

void spin_until(double ns) {
  while (tsc_ns() < ns) _mm_pause();
}

}  // namespace

double tsc_ns() {
  static double const ns_a_tick = measure_ns_a_tick();
  return static_cast<double>(__rdtsc()) * ns_a_tick;
}

CacheModel::Touched CacheModel::touch(std::uint64_t line, bool store) {
  Set& set = set_of(line);
  auto const tag = static_cast<std::uint32_t>(2 * line + 2);
  std::size_t way = 0;
  while (way < kWays && (set[way] & ~1u) != tag) ++way;
  Touched touched{way < kWays, kNone};
  std::uint32_t const entry = (touched.hit ? set[way] : tag) | static_cast<std::uint32_t>(store);
  if (!touched.hit) {
    way = kWays - 1;
    if ((set[way] & 1) != 0) touched.written_back = set[way] / 2 - 1;
  }
  std::copy_backward(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(way),
                     set.begin() + static_cast<std::ptrdiff_t>(way) + 1);
  set[0] = entry;
  return touched;
}

bool CacheModel::clean(std::uint64_t line) {
  Set& set = set_of(line);
  auto const dirty = static_cast<std::uint32_t>(2 * line + 3);
  auto const found = std::find(set.begin(), set.end(), dirty);
  if (found == set.end()) return false;
  *found = dirty - 1;
  return true;
}

void EmulatedHost::ask_for(std::uint64_t line) {
  CacheModel::Touched const touched = cache_.touch(line, false);
  if (touched.hit) return;
  __builtin_prefetch(reinterpret_cast<void const*>((line + durable_.first_line()) * kCacheLine));
  if (touched.written_back != CacheModel::kNone) write_back(touched.written_back);
  asked_ += pending_[next_pending_].line == CacheModel::kNone;
  pending_[next_pending_] = {line, medium_->read(line, tsc_ns())};
  next_pending_ = (next_pending_ + 1) % kInFlight;
}

void EmulatedHost::wait_slowly(std::uint64_t line) {
  ask_for(line);
  last_ = line;
  if (asked_ == 0) return;
  for (Pending& pending : pending_) {
    if (pending.line != line) continue;
    pending.line = CacheModel::kNone;
    --asked_;
    spin_until(pending.there);
  }
}

void EmulatedHost::stored(std::uint64_t line) {
  CacheModel::Touched const touched = cache_.touch(line, true);
  if (touched.hit) return;
  if (touched.written_back != CacheModel::kNone) write_back(touched.written_back);
  static_cast<void>(medium_->read(line, tsc_ns()));
}

void EmulatedHost::write_back(std::uint64_t line) { spin_until(medium_->write(line, tsc_ns())); }

void EmulatedHost::flush(void const* at, std::size_t bytes) {
  FlushedHost::flush(at, bytes);
  if (!durable_.has(at)) return;
  LineRange const lines = LineRange::of(at, bytes);
  for (std::uint64_t line = lines.first; line < lines.end; ++line) {
    if (cache_.clean(line - durable_.first_line()))
      media_busy_ = medium_->write(line - durable_.first_line(), tsc_ns());
  }
}

void EmulatedHost::fence() {
  FlushedHost::fence();
  spin_until(media_busy_);
}

}  // namespace perdure::pm
