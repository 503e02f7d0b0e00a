// Version words: a node's lock, and what tells a reader that the node changed while it was read
// (optimistic lock coupling; Leis et al., DaMoN'16). Readers store nothing.
//
//   bit 0  locked: one thread may change the node. Readers go on: what it does under this bit alone
//          is an entry that nobody looks at yet and one store that shows it
//   bit 1  changing: nobody may read the node, it is half changed
//   2..63  version: a reader that finds another one than before has read nothing
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

/// The version of a node that may be read, without the lock's bit.
template <class Host>
std::uint64_t stable_version(Host& host, std::uint64_t const* version) {
  std::uint64_t word = host.load(version);
  for (unsigned waited = 0; (word & kChanging) != 0; word = host.load(version))
    wait_a_little(host, waited);
  return word & ~kLocked;
}

/// Whether what was read since then holds.
template <class Host>
bool unchanged(Host& host, std::uint64_t const* version, std::uint64_t seen) {
  return (host.load(version) & ~kLocked) == seen;
}

/// The lock of a node, for as long as one of these stands, if it has it.
template <class Host>
class NodeLock {
 public:
  /// Waits for whoever has it; not had if the version is another one than was seen.
  NodeLock(Host& host, std::uint64_t* version, std::uint64_t seen) : host_(host), at_(version) {
    for (unsigned waited = 0;; wait_a_little(host_, waited)) {
      std::uint64_t const word = host_.load(at_);
      if ((word & ~kLocked) != seen) return;
      bool const may = word == seen || mutated("btree_lock_ignored");
      if (may && host_.cas(at_, word, seen | kLocked)) break;
    }
    word_ = seen | kLocked;
  }
  /// Waits for whoever has it. The node stays where it is: the caller has its parent's lock.
  NodeLock(Host& host, std::uint64_t* version) : host_(host), at_(version) {
    for (unsigned waited = 0;; wait_a_little(host_, waited)) {
      word_ = host_.load(at_) | kLocked;
      if (host_.cas(at_, word_ & ~kLocked, word_)) return;
    }
  }
  NodeLock(NodeLock const&) = delete;
  NodeLock& operator=(NodeLock const&) = delete;
  ~NodeLock() { unlock(); }

  [[nodiscard]] bool held() const { return (word_ & kLocked) != 0; }
  /// Readers wait from now on, and what they have read before is nothing.
  void changes() {
    word_ |= kChanging;
    host_.store(at_, word_);
    raise_ = true;
  }
  /// What readers have read before will be nothing.
  void raises() { raise_ = true; }
  void unlock() {
    if (!held()) return;
    word_ = (word_ & ~(kLocked | kChanging)) + (raise_ ? kRaise : 0);
    host_.store(at_, word_);
  }

 private:
  Host& host_;
  std::uint64_t* at_;
  std::uint64_t word_ = 0;  // as stored while it is held
  bool raise_ = false;
};

}  // namespace perdure::btree
