#include "pm/far_device.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace perdure::pm {

FarShape far_fast() { return {}; }

FarShape far_slow() {
  FarShape shape;
  shape.latency = 200;
  shape.gb_per_s = 1.5;
  return shape;
}

FarCore::FarCore(FarShape const& shape)
    : shape_(shape),
      line_cycles_(shape.line_bytes / shape.gb_per_s * shape.ghz),
      private_(shape.private_lines),
      cached_(shape.cached_lines) {
  PERDURE_ASSERT(shape.private_lines > 0 && shape.cached_lines > 0 && shape.gb_per_s > 0);
}

FarCore::Private* FarCore::find(std::uint64_t line) {
  auto const found = std::find_if(private_.begin(), private_.end(),
                                  [line](Private const& one) { return one.line == line; });
  return found == private_.end() ? nullptr : &*found;
}

double FarCore::move_line(double from) {
  link_busy_ = std::max(link_busy_, from) + line_cycles_;
  return link_busy_;
}

void FarCore::ask(Private& one) {
  Cached& cached = set_of(one.line);
  one.asked = true;
  one.done = now_;
  if (cached.line != one.line) {
    ++counts_.acquired;
    if (cached.dirty) write_back(cached, now_);
    one.done = move_line(now_ + 2 * shape_.latency);
  } else if (!cached.dirty) {
    one.done = now_ + shape_.latency;
  }
  cached = {one.line, true};
}

double FarCore::write_back(Cached& cached, double from) {
  ++counts_.written_back;
  cached.dirty = false;
  return move_line(from);
}

void FarCore::publish(Private& one) {
  if (one.line == kNone) return;
  if (!one.asked) ask(one);
  counts_.waited += one.done > now_;
  now_ = std::max(now_, one.done);
  one = {};
}

void FarCore::store(std::uint64_t line) {
  if (Private* const same = find(line)) {
    if (same->asked) publish(*same);
    if (same->line == line) return;
  }
  publish(private_[oldest_]);
  private_[oldest_].line = line;
  oldest_ = (oldest_ + 1) % private_.size();
}

void FarCore::demote(std::uint64_t line) {
  if (Private* const one = find(line); one != nullptr && !one->asked) ask(*one);
}

void FarCore::clean(std::uint64_t line) {
  demote(line);
  Cached& cached = set_of(line);
  if (cached.line != line || !cached.dirty) return;
  Private* const one = find(line);
  double const written = write_back(cached, one == nullptr ? now_ : one->done);
  if (one != nullptr) one->done = written;
}

void FarCore::skip(std::uint64_t line) {
  if (Private* const same = find(line)) publish(*same);
  if (Cached& cached = set_of(line); cached.line == line) cached = {};
  publish(private_[oldest_]);
  ++counts_.written_back;
  private_[oldest_] = {line, true, move_line(now_) + shape_.latency};
  oldest_ = (oldest_ + 1) % private_.size();
}

/// All are asked for before any is waited for.
void FarCore::fence() {
  for (Private& one : private_)
    if (one.line != kNone && !one.asked) ask(one);
  for (Private& one : private_) publish(one);
}

}  // namespace perdure::pm
