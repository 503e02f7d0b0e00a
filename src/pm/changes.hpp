// The change word of a pool: tells who looks on from outside (live_copy.cpp) when the pool is
// between two changes. Invariant: the word is odd from before the first write of a change until
// after its last one, and never again what it was; so who finds it even, and the same afterwards,
// has read no part of a change in between. It is of the process that has the pool open for writing,
// and says nothing once that is gone: a kill may leave it odd.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {

class Changes {
 public:
  explicit Changes(std::byte* base)
      : word_(reinterpret_cast<std::uint64_t*>(base + kChangeWordOffset)) {}

  /// What is written from here on is of a change.
  void begin() {
    if (mutated("change_not_begun")) return;
    std::atomic_ref<std::uint64_t> const word(*word_);
    word.store((word.load(std::memory_order_relaxed) + 1) | 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void end() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic_ref<std::uint64_t> const word(*word_);
    std::uint64_t const now = word.load(std::memory_order_relaxed);
    PERDURE_ASSERT(now % 2 != 0 || mutated("change_not_begun"));
    word.store(mutated("change_word_comes_back") ? 2 : (now | 1) + 1, std::memory_order_release);
  }

 private:
  std::uint64_t* word_;
};

}  // namespace perdure::pm
