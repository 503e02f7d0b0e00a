#include "explore/tracker.hpp"

#include "exec/sim/sim_scheduler.hpp"

namespace perdure::explore {

void Tracker::order() {
  exec::SimScheduler* const running = exec::sim_scheduler;
  if (!threads_order_ || running == nullptr || running->thread() == 0) return recorder.cut(false);
  exec::sim_point();
  recorder.fence();
}

void Tracker::will_read(void const* at, std::size_t bytes) {
  if (bytes == 0) return;
  bool const durable = arena_->holds(at);
  recorder.told(at, bytes, durable);
  if (!durable) return;
  std::uint32_t const first = arena_->word_of(at);
  std::uint32_t const last = arena_->word_of(static_cast<std::byte const*>(at) + bytes - 1);
  for (std::uint32_t word = first; word <= last && word < arena_->words(); ++word) {
    crashed.will_read_word(word);
    recorder.heed(word);
  }
}

void Tracker::wrote(void const* at, std::size_t bytes) {
  if (bytes == 0) return;
  bool const durable = arena_->holds(at);
  recorder.tells(at, bytes, durable);
  if (!durable) return;
  std::uint32_t const first = arena_->word_of(at);
  std::uint32_t const last = arena_->word_of(static_cast<std::byte const*>(at) + bytes - 1);
  for (std::uint32_t word = first; word <= last; ++word) {
    crashed.overwritten(word);
    std::uint64_t const value = arena_->now(word);
    if (value == arena_->before(word)) {
      recorder.heed(word);  // the same value once more: once that is fenced, the write that it
                            // repeats is there
      continue;
    }
    arena_->keep(word);
    recorder.wrote_word(word, value);
  }
}

}  // namespace perdure::explore
