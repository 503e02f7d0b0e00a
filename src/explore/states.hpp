// The states that the simulated medium goes through while a run's windows are applied to it, one
// after the other, and crashed. Invariant: hash() follows from the words and values in which the
// medium differs from the state that had hash 0, whatever way led there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "explore/sim_arena.hpp"
#include "explore/window.hpp"

namespace perdure::explore {

/// One to come back to, as long as no earlier one was.
struct State {
  std::size_t mark = 0;  // of the arena
  std::uint64_t file_bytes = 0;
  std::uint64_t hash = 0;
};

class States {
 public:
  explicit States(Arena& a) : arena_(&a) {}

  [[nodiscard]] State now() const { return {arena_->mark(), arena_->file_bytes, hash_}; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  void back_to(State const& state) {
    arena_->undo_to(state.mark);
    arena_->file_bytes = state.file_bytes;
    hash_ = state.hash;
  }
  void apply(Window const& window) {
    for (Event const& e : window.events) set(e.word, e.value);
    arena_->file_bytes = window.file_bytes;
  }
  void apply(Image const& image) {
    for (auto const& [word, value] : image) set(word, value);
  }

 private:
  void set(std::uint32_t word, std::uint64_t value) {
    hash_ += mix(word, value) - mix(word, arena_->now(word));
    arena_->set(word, value);
  }

  Arena* arena_;
  std::uint64_t hash_ = 0;
};

}  // namespace perdure::explore
