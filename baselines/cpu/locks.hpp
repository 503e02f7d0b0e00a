// Reader-writer spinlocks of one word that any number of which may lie side by side, on durable
// memory too. Invariant: the upper half names the opening of the pool in which it was taken; a lock
// of an earlier opening is free.
#pragma once

#include <cstdint>

namespace perdure::cpu_baselines {

class LockWord {
 public:
  static constexpr std::uint32_t kAlone = ~std::uint32_t{0};

  LockWord(std::uint64_t* word, std::uint32_t opening) : word_(word), opening_(opening) {}

  template <class Host>
  void lock_shared(Host& host) const {
    for (;; host.pause()) {
      std::uint64_t const found = host.load(word_);
      std::uint32_t const held = holders(found);
      if (held != kAlone && host.cas(word_, found, word(held + 1))) return;
    }
  }
  template <class Host>
  void unlock_shared(Host& host) const {
    for (;;) {
      std::uint64_t const found = host.load(word_);
      if (host.cas(word_, found, word(holders(found) - 1))) return;
    }
  }
  template <class Host>
  [[nodiscard]] bool try_lock(Host& host) const {
    std::uint64_t const found = host.load(word_);
    return holders(found) == 0 && host.cas(word_, found, word(kAlone));
  }
  template <class Host>
  void lock(Host& host) const {
    while (!try_lock(host)) host.pause();
  }
  template <class Host>
  void unlock(Host& host) const {
    host.store(word_, word(0));
  }
  [[nodiscard]] std::uint64_t locked() const { return word(kAlone); }

 private:
  [[nodiscard]] std::uint32_t holders(std::uint64_t found) const {
    return static_cast<std::uint32_t>(found >> 32) == opening_ ? static_cast<std::uint32_t>(found)
                                                               : 0;
  }
  [[nodiscard]] std::uint64_t word(std::uint32_t held) const {
    return std::uint64_t{opening_} << 32 | held;
  }

  std::uint64_t* word_;
  std::uint32_t opening_;
};

}  // namespace perdure::cpu_baselines
