// A lock that many may share, of one volatile word; waiting goes through the Host, so that
// simulated threads can.
#pragma once

#include <cstdint>

#include "base/assert.hpp"

namespace perdure::dash {

class SharedLock {
 public:
  template <class Host>
  void lock(Host& host) {
    while (!host.cas(&word_, 0, kAlone)) host.pause();
  }
  template <class Host>
  void unlock(Host& host) {
    PERDURE_ASSERT(__atomic_load_n(&word_, __ATOMIC_RELAXED) == kAlone);
    host.store(&word_, 0);
  }
  template <class Host>
  void lock_shared(Host& host) {
    for (;; host.pause()) {
      std::uint64_t const word = host.load(&word_);
      if (word != kAlone && host.cas(&word_, word, word + 1)) return;
    }
  }
  template <class Host>
  void unlock_shared(Host& host) {
    for (;;) {
      std::uint64_t const word = host.load(&word_);
      PERDURE_ASSERT(word != 0 && word != kAlone);
      if (host.cas(&word_, word, word - 1)) return;
    }
  }

 private:
  static constexpr std::uint64_t kAlone = ~std::uint64_t{0};
  std::uint64_t word_ = 0;
};

/// One of the two for as long as it stands.
template <class Host>
class HeldAlone {
 public:
  HeldAlone(Host& host, SharedLock& lock) : host_(host), lock_(lock) { lock_.lock(host_); }
  HeldAlone(HeldAlone const&) = delete;
  HeldAlone& operator=(HeldAlone const&) = delete;
  ~HeldAlone() { lock_.unlock(host_); }

 private:
  Host& host_;
  SharedLock& lock_;
};
template <class Host>
class HeldShared {
 public:
  HeldShared(Host& host, SharedLock& lock) : host_(host), lock_(&lock) { lock.lock_shared(host_); }
  HeldShared(HeldShared const&) = delete;
  HeldShared& operator=(HeldShared const&) = delete;
  ~HeldShared() { release(); }
  /// Before its time.
  void release() {
    if (lock_ != nullptr) lock_->unlock_shared(host_);
    lock_ = nullptr;
  }

 private:
  Host& host_;
  SharedLock* lock_;
};

}  // namespace perdure::dash
