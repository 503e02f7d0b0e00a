// The reader-writer lock: any number of readers, or one writer exclusively. It is one volatile word
// that changes through a Host (pm/host_concept.hpp: load, cas, pause), so the explorer's simulated
// threads run it as real ones do. Where the Host can sleep (SleepingThreads), who waits sleeps.
// Invariants:
//  1. While the lock is exclusive nobody else has it, and only the writer takes it exclusively.
//  2. Writers take turns in the order in which they came.
//  3. Readers who came while it was exclusive have it before it is exclusive again.
//  4. With Newcomers::wait a writer that waits for readers goes before those who come after it.
//  5. No thread owns the lock: what one thread locked, another may unlock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"

namespace perdure::exec {

/// What a lock needs of real threads.
struct SleepingThreads {
  static std::uint64_t load(std::uint64_t const* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  static bool cas(std::uint64_t* word, std::uint64_t expected, std::uint64_t value) {
    return __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
  }
  /// Sleeps until the word is no longer `seen` and somebody woke those who wait for it.
  static void wait(std::uint64_t* word, std::uint64_t seen) {
    std::atomic_ref(*word).wait(seen, std::memory_order_acquire);
  }
  /// Looks at no word: it may be gone by now.
  static void wake(std::uint64_t* word) { std::atomic_ref(*word).notify_all(); }
};
inline constexpr SleepingThreads kSleepingThreads;

/// Readers that come while a writer waits for those who have the lock.
enum class Newcomers : bool {
  wait,
  enter,  // for readers that may come again inside what they hold
};

class ReaderWriterLock {
 public:
  explicit ReaderWriterLock(Newcomers newcomers = Newcomers::wait) : newcomers_(newcomers) {}

  template <class Host>
  void lock_shared(Host& host) {
    for (;;) {
      Word const seen{host.load(&word_)};
      PERDURE_ASSERT(seen.readers() < kMost && seen.waiting() < kMost);
      bool const may_enter = !seen.is(kExclusive | kAwaited);
      if (!host.cas(&word_, seen.bits, seen.bits + (may_enter ? kReader : kWaiting))) continue;
      if (!may_enter) until(host, [&](Word now) { return now.is(kTurn) != seen.is(kTurn); });
      return;
    }
  }
  template <class Host>
  void unlock_shared(Host& host) {
    Word const now = change(host, [](Word word) {
      PERDURE_ASSERT(word.readers() > 0);
      PERDURE_ASSERT(!word.is(kExclusive) || mutated("lock_beside_readers"));
      return Word{word.bits - kReader};
    });
    if (now.readers() == 0 && now.has_writer()) wake(host);
  }

  /// Exclusively, in one's turn.
  template <class Host>
  void lock(Host& host) {
    if (host.cas(&word_, kFree, kAlone)) return;
    begin_writing(host);
    lock_exclusive(host);
  }
  template <class Host>
  void unlock(Host& host) {
    if (host.cas(&word_, kAlone, kFree)) return;  // nobody waits
    change(host, [](Word word) { return word.not_exclusive().next_writer(); });
    wake(host);
  }

  /// Keeps other writers out, and no reader.
  template <class Host>
  void begin_writing(Host& host) {
    Word const now = change(host, [](Word word) { return word.with_ticket(); });
    until(host, [&](Word word) {
      return word.with(kTickets, word.serving() + 1).tickets() == now.tickets();
    });
  }
  template <class Host>
  void end_writing(Host& host) {
    change(host, [](Word word) { return word.next_writer(); });
    wake(host);
  }
  /// For the writer.
  template <class Host>
  void lock_exclusive(Host& host) {
    for (;;) {
      Word const seen{host.load(&word_)};
      PERDURE_ASSERT(seen.has_writer() && !seen.is(kExclusive));  // it is the only one that locks
      if (seen.readers() == 0 || mutated("lock_beside_readers")) {
        if (host.cas(&word_, seen.bits, (seen.bits | kExclusive) & ~kAwaited)) return;
      } else if (newcomers_ == Newcomers::wait && !seen.is(kAwaited)) {
        host.cas(&word_, seen.bits, seen.bits | kAwaited);
      } else {
        wait(host, seen);
      }
    }
  }
  template <class Host>
  void unlock_exclusive(Host& host) {
    change(host, [](Word word) { return word.not_exclusive(); });
    wake(host);
  }

  /// For who is sure to be that somebody, if there is one.
  [[nodiscard]] bool is_exclusive() const { return now().is(kExclusive); }
  [[nodiscard]] bool has_writer() const { return now().has_writer(); }

 private:
  // bits 0..15 readers who have it | 16..31 readers who wait | 32..45 tickets that writers drew |
  // 46..59 writers that have left | 60 turn | 61 a writer waits for readers | 62 exclusive
  static constexpr std::uint64_t kMost = 0xffff, kMostTickets = 0x3fff;
  static constexpr std::uint64_t kReader = 1, kWaiting = std::uint64_t{1} << 16;
  static constexpr int kTickets = 32, kServing = 46;
  static constexpr std::uint64_t kTurn = std::uint64_t{1} << 60;  // who waited has been let in
  static constexpr std::uint64_t kAwaited = std::uint64_t{1} << 61;
  static constexpr std::uint64_t kExclusive = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kFree = 0, kAlone = kExclusive | std::uint64_t{1} << kTickets;

  struct Word {
    std::uint64_t bits;

    [[nodiscard]] bool is(std::uint64_t any) const { return (bits & any) != 0; }
    [[nodiscard]] std::uint64_t readers() const { return bits & kMost; }
    [[nodiscard]] std::uint64_t waiting() const { return bits >> 16 & kMost; }
    [[nodiscard]] std::uint64_t tickets() const { return bits >> kTickets & kMostTickets; }
    [[nodiscard]] std::uint64_t serving() const { return bits >> kServing & kMostTickets; }
    [[nodiscard]] bool has_writer() const { return tickets() != serving(); }
    [[nodiscard]] Word with(int shift, std::uint64_t number) const {
      return {(bits & ~(kMostTickets << shift)) | (number & kMostTickets) << shift};
    }
    [[nodiscard]] Word with_ticket() const {
      Word const next = with(kTickets, tickets() + 1);
      PERDURE_ASSERT(next.has_writer());  // as many writers wait as there are tickets
      return next;
    }
    [[nodiscard]] Word next_writer() const {
      PERDURE_ASSERT(has_writer() && !is(kExclusive | kAwaited));
      Word const next = with(kServing, serving() + 1);
      if (next.has_writer()) return next;
      bool const is_free = readers() == 0 && waiting() == 0;  // so nobody looks at the turn
      return is_free ? Word{kFree} : next.with(kTickets, 0).with(kServing, 0);
    }
    /// Readers who waited have it: the next writer waits for them.
    [[nodiscard]] Word not_exclusive() const {
      PERDURE_ASSERT(is(kExclusive) && (readers() == 0 || mutated("lock_beside_readers")));
      std::uint64_t const rest = bits & ~(kExclusive | kMost << 16);
      return {waiting() == 0 ? rest : (rest ^ kTurn) + waiting()};
    }
  };

  [[nodiscard]] Word now() const { return {SleepingThreads::load(&word_)}; }
  template <class Host, class Next>
  Word change(Host& host, Next next) {
    for (;;) {
      Word const seen{host.load(&word_)};
      Word const now = next(seen);
      if (host.cas(&word_, seen.bits, now.bits)) return now;
    }
  }
  template <class Host, class Holds>
  void until(Host& host, Holds holds) {
    for (;;) {
      Word const seen{host.load(&word_)};
      if (holds(seen)) return;
      wait(host, seen);
    }
  }
  template <class Host>
  void wait(Host& host, Word seen) {
    if constexpr (requires { host.wait(&word_, seen.bits); })
      host.wait(&word_, seen.bits);
    else
      host.pause();
  }
  template <class Host>
  void wake(Host& host) {
    if constexpr (requires { host.wake(&word_); }) host.wake(&word_);
  }

  std::uint64_t word_ = 0;
  Newcomers newcomers_;
};

/// The lock for as long as it stands; sleeping threads unless a Host is named.
template <class Host = SleepingThreads const>
class SharedHold {
 public:
  explicit SharedHold(ReaderWriterLock& lock) : SharedHold(kSleepingThreads, lock) {}
  SharedHold(Host& host, ReaderWriterLock& lock) : host_(host), lock_(&lock) {
    lock.lock_shared(host);
  }
  SharedHold(SharedHold const&) = delete;
  SharedHold& operator=(SharedHold const&) = delete;
  ~SharedHold() { release(); }
  /// Before its time.
  void release() {
    if (lock_ != nullptr) lock_->unlock_shared(host_);
    lock_ = nullptr;
  }

 private:
  Host& host_;
  ReaderWriterLock* lock_;
};
template <class Host = SleepingThreads const>
class ExclusiveHold {
 public:
  explicit ExclusiveHold(ReaderWriterLock& lock) : ExclusiveHold(kSleepingThreads, lock) {}
  ExclusiveHold(Host& host, ReaderWriterLock& lock) : host_(host), lock_(lock) { lock.lock(host); }
  ExclusiveHold(ExclusiveHold const&) = delete;
  ExclusiveHold& operator=(ExclusiveHold const&) = delete;
  ~ExclusiveHold() { lock_.unlock(host_); }

 private:
  Host& host_;
  ReaderWriterLock& lock_;
};
SharedHold(ReaderWriterLock&) -> SharedHold<>;
ExclusiveHold(ReaderWriterLock&) -> ExclusiveHold<>;

}  // namespace perdure::exec
