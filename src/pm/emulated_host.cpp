#include "pm/emulated_host.hpp"

#include <x86intrin.h>

#include <algorithm>
#include <chrono>

#include "base/assert.hpp"
#include "base/prefetch.hpp"

namespace perdure::pm {
namespace {

double measure_ns_a_tick() {
  using Clock = std::chrono::steady_clock;
  auto const begin = Clock::now();
  std::uint64_t const first = __rdtsc();
  while (Clock::now() - begin < std::chrono::milliseconds(20)) {
  }
  std::uint64_t const ticks = __rdtsc() - first;
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() /
         static_cast<double>(ticks);
}

}  // namespace

double tsc_ns() {
  static std::uint64_t const first = __rdtsc();
  static double const ns_a_tick = measure_ns_a_tick();
  return static_cast<double>(__rdtsc() - first) * ns_a_tick;
}

/// What passes while it stands is nobody's.
class EmulatedHost::OwnTime {
 public:
  explicit OwnTime(EmulatedHost& host) : host_(&host), begin_(host.now()) {}
  OwnTime(OwnTime const&) = delete;
  OwnTime& operator=(OwnTime const&) = delete;
  ~OwnTime() { host_->own_ += host_->now() - begin_; }
  [[nodiscard]] double begin() const { return begin_; }

 private:
  EmulatedHost* host_;
  double begin_;
};

/// Without pauses, which may take longer than what is waited for.
void EmulatedHost::wait_until(double then) const {
  while (now() < then) {
  }
}

void EmulatedHost::ask_for(std::uint64_t line) {
  double room = 0;
  {
    OwnTime const own(*this);
    CacheModel::Touched const touched = cache_.touch(line, false);
    if (touched.hit) return;
    prefetch_line(reinterpret_cast<void const*>((line + durable_.first_line()) * kCacheLine));
    if (touched.written_back != CacheModel::kNone)
      room = medium_->write(touched.written_back, own.begin());
    asked_ += pending_[next_pending_].line == CacheModel::kNone;
    pending_[next_pending_] = {line, medium_->read(line, std::max(own.begin(), room))};
    next_pending_ = (next_pending_ + 1) % kInFlight;
    PERDURE_ASSERT(asked_ <= kInFlight);
  }
  wait_until(room);
}

void EmulatedHost::wait_slowly(std::uint64_t line) {
  ask_for(line);
  waited_.add(line);
  if (asked_ == 0) return;
  // Without OwnTime, as looking for it takes less than looking at the clock, and what nobody waits
  // for stays for long.
  double there = 0;
  for (Pending& pending : pending_) {
    if (pending.line != line) continue;
    PERDURE_ASSERT(asked_ > 0);
    pending.line = CacheModel::kNone;
    --asked_;
    there = std::max(there, pending.there);
  }
  if (there > 0) wait_until(there);
}

void EmulatedHost::stored_first(std::uint64_t line) {
  stored_.add(line);
  double room = 0;
  {
    OwnTime const own(*this);
    CacheModel::Touched const touched = cache_.touch(line, true);
    if (touched.hit) return;
    if (touched.written_back != CacheModel::kNone)
      room = medium_->write(touched.written_back, own.begin());
    static_cast<void>(medium_->read(line, own.begin()));
  }
  wait_until(room);
}

void EmulatedHost::flush(void const* at, std::size_t bytes) {
  FlushedHost::flush(at, bytes);
  if (!durable_.has(at)) return;
  OwnTime const own(*this);
  LineRange const lines = LineRange::of(at, bytes);
  for (std::uint64_t line = lines.first; line < lines.end; ++line) {
    stored_.drop(line - durable_.first_line());
    if (cache_.clean(line - durable_.first_line()))
      media_busy_ =
          std::max(media_busy_, medium_->write(line - durable_.first_line(), own.begin()));
  }
}

/// Lines go to the media as they are, whatever the caches had of them.
void EmulatedHost::stream(std::byte* to, std::byte const* from, std::size_t bytes) {
  FlushedHost::stream(to, from, bytes);
  if (!durable_.has(to)) return;
  OwnTime const own(*this);
  LineRange const lines = LineRange::of(to, bytes);
  for (std::uint64_t n = lines.first; n < lines.end; ++n) {
    std::uint64_t const line = n - durable_.first_line();
    stored_.drop(line);
    waited_.drop(line);
    cache_.drop(line);
    media_busy_ = std::max(media_busy_, medium_->write(line, own.begin()));
  }
}

void EmulatedHost::fence() {
  FlushedHost::fence();
  wait_until(media_busy_);
}

}  // namespace perdure::pm
