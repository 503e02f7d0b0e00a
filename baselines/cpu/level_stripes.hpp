// The locks of level hashing: stripes of one small volatile array. Invariant: whoever holds two of
// them, for the two hashes of a key, has locked the lower one first; a further one is only tried.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "keys.hpp"
#include "locks.hpp"

namespace perdure::cpu_baselines {

[[nodiscard]] inline std::uint64_t top_bits(std::uint64_t hash, std::uint64_t bits) {
  return bits == 0 ? 0 : hash >> (64 - bits);
}
[[nodiscard]] inline std::uint64_t second_hash(std::uint64_t hash) { return nth_hash(hash, 1); }

class LevelStripes {
 public:
  struct Pair {
    std::uint64_t first = 0, second = 0;  // in the order of locking; may be the same
  };

  void make(std::uint32_t log2) {
    log2_ = log2;
    words_ = std::make_unique<std::uint64_t[]>(std::size_t{1} << log2);
  }
  [[nodiscard]] std::uint64_t number(std::uint64_t hash) const { return top_bits(hash, log2_); }
  [[nodiscard]] Pair of(std::uint64_t hash) const {
    std::uint64_t const a = number(hash), b = number(second_hash(hash));
    return {std::min(a, b), std::max(a, b)};
  }
  [[nodiscard]] LockWord stripe(std::uint64_t i) const { return {&words_[i], 0}; }
  template <class Host>
  void lock(Host& host, Pair const& s) {
    stripe(s.first).lock(host);
    if (s.second != s.first) stripe(s.second).lock(host);
  }
  template <class Host>
  void unlock(Host& host, Pair const& s) {
    stripe(s.first).unlock(host);
    if (s.second != s.first) stripe(s.second).unlock(host);
  }
  template <class Host>
  Outcome unlocked(Host& host, Pair const& s, Outcome outcome) {
    unlock(host, s);
    return outcome;
  }
  template <class Host>
  void lock_shared(Host& host, Pair const& s) {
    stripe(s.first).lock_shared(host);
    if (s.second != s.first) stripe(s.second).lock_shared(host);
  }
  template <class Host>
  void unlock_shared(Host& host, Pair const& s) {
    stripe(s.first).unlock_shared(host);
    if (s.second != s.first) stripe(s.second).unlock_shared(host);
  }
  template <class Host>
  void lock_all(Host& host) {
    for (std::uint64_t i = 0; i < std::uint64_t{1} << log2_; ++i) stripe(i).lock(host);
  }
  template <class Host>
  void unlock_all(Host& host) {
    for (std::uint64_t i = 0; i < std::uint64_t{1} << log2_; ++i) stripe(i).unlock(host);
  }

 private:
  std::uint32_t log2_ = 0;
  std::unique_ptr<std::uint64_t[]> words_;
};

}  // namespace perdure::cpu_baselines
