// Version words: a node's lock, and what tells a reader that the node changed while it was read
// (optimistic lock coupling; Leis et al., DaMoN'16). Readers store nothing.
//
//   bit 0  locked: one thread may change the node. Readers go on: what it does under this bit alone
//          is an entry that nobody looks at yet and one store that shows it
//   bit 1  changing: nobody may read the node, it is half changed
//   2..63  version: a reader that finds another one than before has read nothing
//
// Of nodes that outlive an opening bits 32..63 are the opening's generation, which the Host says:
// a word of another generation is one that nobody has locked, whatever it says. So what a crash
// left locked is free, and no opening has to look for it.
//
// Invariant: whoever sets `changing`, or lets the memory of what was read be used for something
// else, raises the version when it unlocks.
#pragma once

#include <cstdint>

#include "base/hooks.hpp"
#include "exec/epochs.hpp"

namespace perdure::btree {

inline constexpr std::uint64_t kLocked = 1;
inline constexpr std::uint64_t kChanging = 2;
inline constexpr std::uint64_t kRaise = 4;

/// Waits for another thread: shortly at first, then others may have the core.
template <class Host>
void wait_a_little(Host& host, unsigned& waited) {
  host.pause();
  if (++waited % 64 == 0) exec::let_others_go_on();
}

template <class Host>
concept OfGeneration = requires(Host host) { host.generation(); };  // in bits 32..63

/// What a version word says now.
template <class Host>
std::uint64_t current_version(Host& host, std::uint64_t word) {
  if constexpr (OfGeneration<Host>) {
    if ((word ^ host.generation()) >> 32 != 0 && !mutated("btree_generation_ignored"))
      return host.generation();
  }
  return word;
}
/// The same, raised.
template <class Host>
std::uint64_t raised_version(std::uint64_t word) {
  if constexpr (!OfGeneration<Host>) return word + kRaise;
  constexpr std::uint64_t kBelow = ~std::uint64_t{0} >> 32;
  return (word & ~kBelow) | ((word + kRaise) & kBelow);
}
template <class Host>
std::uint64_t load_version(Host& host, std::uint64_t const* version) {
  return current_version(host, host.load(version));
}
/// Under the node's lock. A Host that logs what it stores does not log locks.
template <class Host>
void store_version(Host& host, std::uint64_t* version, std::uint64_t word) {
  if constexpr (requires { host.store_lock(version, word); })
    host.store_lock(version, word);
  else
    host.store(version, word);
}

/// The version of a node that may be read, without the lock's bit.
template <class Host>
std::uint64_t stable_version(Host& host, std::uint64_t const* version) {
  std::uint64_t word = load_version(host, version);
  for (unsigned waited = 0; (word & kChanging) != 0; word = load_version(host, version))
    wait_a_little(host, waited);
  return word & ~kLocked;
}

/// Whether what was read since then holds.
template <class Host>
bool unchanged(Host& host, std::uint64_t const* version, std::uint64_t seen) {
  return (load_version(host, version) & ~kLocked) == seen;
}

/// The lock of a node, for as long as one of these stands, if it has it.
template <class Host>
class NodeLock {
 public:
  /// Waits for whoever has it; not had if the version is another one than was seen.
  NodeLock(Host& host, std::uint64_t* version, std::uint64_t seen) : host_(host), at_(version) {
    for (unsigned waited = 0;; wait_a_little(host_, waited)) {
      std::uint64_t const stored = host_.load(at_), word = current_version(host_, stored);
      if ((word & ~kLocked) != seen) return;
      bool const may = word == seen || mutated("btree_lock_ignored");
      if (may && host_.cas(at_, stored, seen | kLocked)) break;
    }
    word_ = seen | kLocked;
  }
  /// Waits for whoever has it. The node stays where it is: the caller has its parent's lock.
  NodeLock(Host& host, std::uint64_t* version) : host_(host), at_(version) {
    for (unsigned waited = 0;; wait_a_little(host_, waited)) {
      std::uint64_t const stored = host_.load(at_), word = current_version(host_, stored);
      word_ = word | kLocked;
      if (host_.cas(at_, word == stored ? word & ~kLocked : stored, word_)) return;
    }
  }
  NodeLock(NodeLock const&) = delete;
  NodeLock& operator=(NodeLock const&) = delete;
  ~NodeLock() { unlock(); }

  [[nodiscard]] bool held() const { return (word_ & kLocked) != 0; }
  /// Readers wait from now on, and what they have read before is nothing.
  void changes() {
    word_ |= kChanging;
    store_version(host_, at_, word_);
    raise_ = true;
  }
  /// What readers have read before will be nothing.
  void raises() { raise_ = true; }
  void unlock() {
    if (!held()) return;
    word_ &= ~(kLocked | kChanging);
    if (raise_) word_ = raised_version<Host>(word_);
    store_version(host_, at_, word_);
  }

 private:
  Host& host_;
  std::uint64_t* at_;
  std::uint64_t word_ = 0;  // as stored while it is held
  bool raise_ = false;
};

}  // namespace perdure::btree
