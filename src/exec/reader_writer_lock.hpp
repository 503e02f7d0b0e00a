// The reader-writer lock: any number of readers, or one writer exclusively. It is one volatile word
// that changes through a Host (pm/host_concept.hpp: load, cas, pause), so the explorer's simulated
// threads run it as real ones do. Where the Host can sleep (SleepingThreads), who waits sleeps.
// Invariants:
//  1. While the lock is exclusive nobody else has it, and only the writer takes it exclusively.
//  2. Readers who came while it was exclusive have it before it is exclusive again.
//  3. With Newcomers::wait a writer that waits for readers goes before those who come after it.
//  4. A writer that comes may go before one that sleeps: turns among writers would cost a switch of
//     threads for each batch.
//  5. No thread owns the lock: what one thread locked, another may unlock.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/assert.hpp"
#include "base/hooks.hpp"

namespace perdure::exec {

/// What a lock needs of real threads. They sleep on events that are the process's, not the lock's:
/// who has unlocked wakes the others though one of them may have destroyed the lock by then.
/// Locks may share an event; its sleepers look at their own lock again.
struct SleepingThreads {
  static std::uint64_t load(std::uint64_t const* word) {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
  }
  static bool cas(std::uint64_t* word, std::uint64_t expected, std::uint64_t value) {
    return __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
  }
  /// Without std::atomic::wait(): that yields the processor several times before it sleeps, which
  /// costs more than sleeping where there are more threads than cores.
  class Event {
   public:
    [[nodiscard]] std::uint32_t count() const { return count_; }
    /// Sleeps, unless it has happened since the count was `seen`.
    void wait(std::uint32_t seen) {
      ++sleepers_;
      ::syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
      --sleepers_;
    }
    void happen() {
      ++count_;
      if (sleepers_ != 0)
        ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }

   private:
    std::atomic<std::uint32_t> count_{0}, sleepers_{0};
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  };
  static Event& event(void const* lock, std::size_t of_lock) {
    static std::array<Event, 64> events;
    return events[(reinterpret_cast<std::uintptr_t>(lock) / 16 * 5 + of_lock) % events.size()];
  }
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
      if (!may_enter)
        until(host, kReadersEnter, [&](Word now) { return now.is(kTurn) != seen.is(kTurn); });
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
    if (now.readers() == 0 && now.is(kWriting)) wake(host, kReadersLeft);
  }

  /// Exclusively: the writer's two steps in one.
  template <class Host>
  void lock(Host& host) {
    if (host.cas(&word_, kFree, kAlone)) return;
    begin_writing(host);
    lock_exclusive(host);
  }
  /// The same, unless anybody has it or waits for it.
  template <class Host>
  [[nodiscard]] bool try_lock(Host& host) {
    return host.cas(&word_, kFree, kAlone);
  }
  template <class Host>
  void unlock(Host& host) {
    if (host.cas(&word_, kAlone, kFree)) return;  // nobody waits
    Word const now = change(host, [](Word word) { return word.not_exclusive().without_writer(); });
    if (now.readers() != 0) wake(host, kReadersEnter);
    if (now.queued() != 0) wake(host, kNextWriter);
  }

  /// Keeps other writers out, and no reader.
  template <class Host>
  void begin_writing(Host& host) {
    Word const seen{host.load(&word_)};
    if (!seen.is(kWriting) && host.cas(&word_, seen.bits, seen.bits | kWriting)) return;
    change(host, [](Word word) {
      PERDURE_ASSERT(word.queued() < kMostQueued);
      return Word{word.bits + kQueued};
    });
    until(host, kNextWriter, [&](Word word) {
      for (; !word.is(kWriting); word = {host.load(&word_)})
        if (host.cas(&word_, word.bits, (word.bits - kQueued) | kWriting)) return true;
      return false;
    });
  }
  template <class Host>
  void end_writing(Host& host) {
    Word const now = change(host, [](Word word) { return word.without_writer(); });
    if (now.queued() != 0) wake(host, kNextWriter);
  }
  /// For the writer.
  template <class Host>
  void lock_exclusive(Host& host) {
    Word const now = change(host, [this](Word word) {
      PERDURE_ASSERT(word.is(kWriting) && !word.is(kExclusive));  // it is the only one that locks
      if (word.may_be_exclusive()) return word.exclusive();
      return newcomers_ == Newcomers::wait ? Word{word.bits | kAwaited} : word;
    });
    if (now.is(kExclusive)) return;
    until(host, kReadersLeft, [&](Word seen) {
      for (; seen.may_be_exclusive(); seen = {host.load(&word_)})
        if (host.cas(&word_, seen.bits, seen.exclusive().bits)) return true;
      return false;
    });
  }
  template <class Host>
  void unlock_exclusive(Host& host) {
    Word const now = change(host, [](Word word) { return word.not_exclusive(); });
    if (now.readers() != 0) wake(host, kReadersEnter);
  }

  /// Whether somebody has it exclusively, or keeps other writers out. For who is sure to be that
  /// somebody, if there is one.
  [[nodiscard]] bool is_exclusive() const { return now().is(kExclusive); }
  [[nodiscard]] bool has_writer() const { return now().is(kWriting); }

 private:
  // bits 0..15 readers who have it | 16..31 readers who wait | 32..45 writers who wait | 59 there
  // is a writer | 60 turn | 61 the writer waits for readers | 62 exclusive
  static constexpr std::uint64_t kMost = 0xffff, kMostQueued = 0x3fff;
  static constexpr std::uint64_t kReader = 1, kWaiting = std::uint64_t{1} << 16;
  static constexpr std::uint64_t kQueued = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kWriting = std::uint64_t{1} << 59;
  static constexpr std::uint64_t kTurn = std::uint64_t{1} << 60;  // who waited has been let in
  static constexpr std::uint64_t kAwaited = std::uint64_t{1} << 61;
  static constexpr std::uint64_t kExclusive = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kFree = 0, kAlone = kExclusive | kWriting;

  struct Word {
    std::uint64_t bits;

    [[nodiscard]] bool is(std::uint64_t any) const { return (bits & any) != 0; }
    [[nodiscard]] std::uint64_t readers() const { return bits & kMost; }
    [[nodiscard]] std::uint64_t waiting() const { return bits >> 16 & kMost; }
    [[nodiscard]] std::uint64_t queued() const { return bits >> 32 & kMostQueued; }
    [[nodiscard]] Word without_writer() const {
      PERDURE_ASSERT(is(kWriting) && !is(kExclusive | kAwaited));
      bool const turn_matters = readers() != 0 || waiting() != 0;
      return {bits & ~(kWriting | (turn_matters ? 0 : kTurn))};
    }
    [[nodiscard]] bool may_be_exclusive() const {
      return readers() == 0 || mutated("lock_beside_readers");
    }
    [[nodiscard]] Word exclusive() const { return {(bits | kExclusive) & ~kAwaited}; }
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
  /// What a thread waits for.
  enum Event : std::size_t { kReadersEnter, kReadersLeft, kNextWriter };

  template <class Host, class Holds>
  void until(Host& host, Event event, Holds holds) {
    for (;;) {
      if constexpr (requires { host.event(this, event); }) {
        // Looked at before the word: whoever changes that makes the event come afterwards.
        std::uint32_t const seen = host.event(this, event).count();
        if (holds(Word{host.load(&word_)})) return;
        host.event(this, event).wait(seen);
      } else {
        if (holds(Word{host.load(&word_)})) return;
        host.pause();
      }
    }
  }
  template <class Host>
  void wake(Host& host, Event event) {
    if constexpr (requires { host.event(this, event); }) {
      host.event(this, event).happen();
    }
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
  /// Of a lock that try_lock() has.
  ExclusiveHold(ReaderWriterLock& lock, std::adopt_lock_t) : host_(kSleepingThreads), lock_(lock) {}
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
