#include "pm/emulated_core.hpp"

#include <algorithm>

namespace perdure::pm {

/// Loads that the window has moved past are waited for.
void EmulatedCore::take(std::uint32_t instructions, double cycles) {
  instructions_ += instructions;
  now_ += cycles / shape_.ghz;
  while (!loads_.empty() && instructions_ - loads_.front().instruction > shape_.window) {
    now_ = std::max(now_, loads_.front().done);
    loads_.pop_front();
  }
}

void EmulatedCore::compute(std::uint32_t instructions) {
  take(instructions, instructions / shape_.instructions_a_cycle);
}

double EmulatedCore::fill(std::uint64_t line, double from) {
  now_ = fills_.room(now_);
  double const there = medium_->read(line, std::max(now_, from));
  fills_.add(line, there);
  return there;
}

void EmulatedCore::leave(std::uint64_t line, double from, double at_least_ns) {
  now_ = leaving_.room(now_);
  double const begin = std::max(now_, from);
  leaving_.add(line, std::max(begin + at_least_ns, medium_->write(line, begin)));
}

void EmulatedCore::make_room(CacheModel::Touched const& touched) {
  if (touched.written_back != CacheModel::kNone) leave(touched.written_back, now_, 0);
}

void EmulatedCore::store(std::uint64_t line) {
  take(2, 2);
  now_ = std::max(now_, leaving_.done(line));
  CacheModel::Touched const touched = cache_->touch(line, true);
  if (touched.hit) return;
  make_room(touched);
  static_cast<void>(fill(line, now_));
}

void EmulatedCore::load(std::uint64_t line) {
  take(1, 1 / shape_.instructions_a_cycle);
  CacheModel::Touched const touched = cache_->touch(line, false);
  if (touched.hit) return;
  make_room(touched);
  double const there = fill(line, std::max(leaving_.done(line), fills_.done(line)));
  loads_.push_back({instructions_, there});
}

void EmulatedCore::load_near(std::uint64_t line) {
  take(1, 1 / shape_.instructions_a_cycle);
  CacheModel::Touched const touched = cache_->touch(line, false);
  if (touched.hit) return;
  make_room(touched);
  now_ = fills_.room(now_);
  fills_.add(line, now_ + shape_.dram_ns);
  loads_.push_back({instructions_, now_ + shape_.dram_ns});
}

void EmulatedCore::clean(std::uint64_t line) {
  take(1, 1);
  if (cache_->clean(line)) leave(line, fills_.done(line), shape_.clean_ns);
}

void EmulatedCore::skip(std::uint64_t line) {
  take(2, 2);
  cache_->drop(line);
  now_ = fills_.room(now_);
  fills_.add(line, std::max(now_ + shape_.skip_ns, medium_->write(line, now_)));
}

void EmulatedCore::fence() {
  now_ = std::max({now_, fills_.all_done(), leaving_.all_done()});
  for (Load const& load : loads_) now_ = std::max(now_, load.done);
  loads_.clear();
}

}  // namespace perdure::pm
