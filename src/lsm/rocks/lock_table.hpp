// Locks on single keys, by family, for pessimistic transactions and for the plain writes beside
// them.
//
// Invariants:
//  1. A lock is one owner's, or shared by several none of whom has it exclusively.
//  2. Who waits for a key was entered in its stripe under the lock under which he saw the key
//  taken,
//     and whoever gives the key back wakes all of the key's waiters: no wake-up is lost.
//  3. The locks of an owner whose time is over can be taken from it, but only once it agreed never
//     to commit (LockOwner::give_up).
#pragma once

#include <rocksdb/status.h>
#include <rocksdb/utilities/transaction_db.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/rocks/tracked_keys.hpp"
#include "lsm/rocks/wait_graph.hpp"

namespace perdure::lsm {

/// Microseconds of the clock that deadlines are in.
[[nodiscard]] std::uint64_t lock_clock_us();

/// Who takes locks.
class LockOwner {
 public:
  virtual ~LockOwner() = default;
  /// Another wants what this owner has, and its time is over. True: it will never commit. Called
  /// from other threads.
  virtual bool give_up() { return false; }

  /// What it waits for; `on` is empty while it does not. For other threads.
  [[nodiscard]] WaitGraph::Wait waits() const;
  void set_waits(WaitGraph::Wait wait);

  rocksdb::TransactionID lock_id = 0;
  std::uint64_t expires_us = 0;  // 0: never
  std::int64_t timeout_us = 0;   // negative: waits for ever
  bool detects_deadlocks = false;
  std::int64_t detection_depth = 50;

 private:
  mutable Mutex mutex_;
  WaitGraph::Wait wait_ PERDURE_GUARDED_BY(mutex_);
};

class HeldLock;

class LockTable {
 public:
  struct Options {
    std::size_t stripes = 16;    // of a family
    std::int64_t max_locks = 0;  // of a family; 0 or less: no limit
    std::uint32_t paths_kept = rocksdb::kInitialMaxDeadlocks;
  };

  explicit LockTable(Options const& options);
  ~LockTable();

  [[nodiscard]] rocksdb::TransactionID next_id() { return next_id_.fetch_add(1); }

  struct Taken {
    rocksdb::Status status;
    bool had_it = false;      // before this call, though it may have been shared then
    std::uint32_t place = 0;  // where that was: a hint, for keys move and locks change hands
  };
  /// OK also where the owner has it already; what is exclusive stays so. TimedOut(kLockTimeout),
  /// Busy(kDeadlock), and at once Busy(kLockLimit). `place` is the owner's, and kept with the lock.
  Taken acquire(LockOwner& owner, KeyRef const& key, bool exclusive, std::uint32_t place);
  /// The owner's exclusive lock becomes a shared one.
  void lower(LockOwner const& owner, KeyRef const& key);
  /// A key that was taken from the owner is left alone.
  void release(LockOwner const& owner, KeyRef const& key);
  /// The same of many keys, stripe by stripe.
  void release(LockOwner const& owner, TrackedKeys const& keys);

  /// An owner whose `expires_us` is not 0, from its first lock to its last.
  void enroll(LockOwner& owner);
  /// When it returns, nobody calls give_up() any more.
  void withdraw(LockOwner const& owner);

  /// Locks of the family are refused from here on.
  void drop_family(std::uint32_t family);

  [[nodiscard]] std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> locks() const;
  [[nodiscard]] WaitGraph& waits() { return waits_; }

 private:
  struct Waiter;
  struct Stripe;
  struct Family;
  struct Attempt;
  using Keys = std::span<KeyRef const* const>;

  /// Null: it was dropped. What is not null stays as long as this.
  Family* family(std::uint32_t id);
  Family& make_family(std::uint32_t id);
  Attempt attempt(Family& family, Stripe& stripe, LockOwner const& owner, KeyRef const& key,
                  bool exclusive, std::uint32_t place);
  rocksdb::Status wait(Stripe& stripe, LockOwner& owner, KeyRef const& key, bool exclusive,
                       Attempt const& failed, std::uint64_t until_us);
  void give_back(Family& family, Stripe& stripe, LockOwner const& owner, KeyRef const& key);
  void release_group(LockOwner const& owner, Keys group);
  bool all_gave_up(HeldLock const& lock, rocksdb::TransactionID but);

  std::size_t const stripes_;
  std::int64_t const max_locks_;
  std::atomic<rocksdb::TransactionID> next_id_{1};
  WaitGraph waits_;

  // A look at the families of a transaction's every key takes no lock, but for many families.
  static constexpr std::size_t kSoonFound = 64;
  std::array<std::atomic<Family*>, kSoonFound> soon_found_{};
  mutable std::shared_mutex families_mutex_;
  std::map<std::uint32_t, std::unique_ptr<Family>> families_;

  Mutex expiring_mutex_;
  std::unordered_map<rocksdb::TransactionID, LockOwner*> expiring_
      PERDURE_GUARDED_BY(expiring_mutex_);
};

}  // namespace perdure::lsm
