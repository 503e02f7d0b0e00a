#include "lsm/rocks/lock_table.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/prefetch.hpp"
#include "lsm/rocks/lock_slot.hpp"

namespace perdure::lsm {

std::uint64_t lock_clock_us() {
  auto const now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

WaitGraph::Wait LockOwner::waits() const {
  MutexLock lock(mutex_);
  return wait_;
}

void LockOwner::set_waits(WaitGraph::Wait wait) {
  MutexLock lock(mutex_);
  wait_ = std::move(wait);
}

namespace {

/// The tables take a hash's low bits, the choice of a stripe others.
std::size_t stripe_of(KeyRef const& key, std::size_t stripes) { return (key.hash >> 40) % stripes; }

/// Fuller than the library would have them: tables of millions of locks are mostly their memory.
LockSlots no_slots() {
  LockSlots slots;
  slots.max_load_factor(0.8F);
  return slots;
}

}  // namespace

struct LockTable::Waiter {
  std::uint64_t hash;  // of its key
  rocksdb::TransactionID in_graph;  // 0: not there
  Condition condition = {};
  bool woken = false;
};

struct alignas(64) LockTable::Stripe {
  Mutex mutex;
  LockSlots locks PERDURE_GUARDED_BY(mutex) = no_slots();
  std::vector<Waiter*> waiters PERDURE_GUARDED_BY(mutex);

  /// They wait for nobody from here on, though they have yet to run: who waits for them next is in
  /// no cycle.
  void wake(std::uint64_t hash, WaitGraph& waits) PERDURE_REQUIRES(mutex) {
    for (Waiter* const waiter : waiters) {
      if (waiter->hash != hash) continue;
      waiter->woken = true;
      if (waiter->in_graph != 0) waits.end(waiter->in_graph);
      waiter->condition.notify_one();
    }
  }
};

struct LockTable::Family {
  explicit Family(std::size_t count) : stripes(count) {}
  std::atomic<std::int64_t> locks{0};
  std::atomic<bool> dropped = false;
  std::vector<Stripe> stripes;

  Stripe& stripe(KeyRef const& key) { return stripes[stripe_of(key, stripes.size())]; }
};

struct LockTable::Attempt {
  Taken taken;
  std::vector<rocksdb::TransactionID> holders;  // where they are in the way
  std::uint64_t expires_us = 0;  // when they may be robbed; 0: never
};

LockTable::LockTable(Options const& options)
    : stripes_(std::max<std::size_t>(options.stripes, 1)),
      max_locks_(options.max_locks),
      waits_(options.paths_kept) {}

LockTable::~LockTable() = default;

LockTable::Family* LockTable::family(std::uint32_t id) {
  Family* found = nullptr;
  if (id < kSoonFound) {
    found = soon_found_[id].load(std::memory_order_acquire);
  } else {
    std::shared_lock const lock(families_mutex_);
    if (auto const at = families_.find(id); at != families_.end()) found = at->second.get();
  }
  if (found == nullptr) found = &make_family(id);
  return found->dropped.load(std::memory_order_acquire) ? nullptr : found;
}

LockTable::Family& LockTable::make_family(std::uint32_t id) {
  std::unique_lock const lock(families_mutex_);
  auto const [at, is_new] = families_.try_emplace(id);
  if (is_new) at->second = std::make_unique<Family>(stripes_);
  if (id < kSoonFound) soon_found_[id].store(at->second.get(), std::memory_order_release);
  return *at->second;
}

void LockTable::drop_family(std::uint32_t id) {
  Family& family = make_family(id);
  family.dropped = true;
  for (Stripe& stripe : family.stripes) {
    MutexLock lock(stripe.mutex);
    stripe.locks = no_slots();
  }
}

LockTable::Taken LockTable::acquire(LockOwner& owner, KeyRef const& key, bool exclusive,
                                    std::uint32_t place) {
  Family* const where = family(key.family);
  if (where == nullptr)
    return {rocksdb::Status::InvalidArgument("Column family id not found: " +
                                             std::to_string(key.family))};
  Stripe& stripe = where->stripe(key);
  std::uint64_t until_us = 0;  // the clock is looked at only where it waits
  MutexLock lock(stripe.mutex);
  for (;;) {
    Attempt tried = attempt(*where, stripe, owner, key, exclusive, place);
    if (tried.holders.empty() || owner.timeout_us == 0) return std::move(tried.taken);
    if (owner.timeout_us > 0 && until_us == 0)
      until_us = lock_clock_us() + static_cast<std::uint64_t>(owner.timeout_us);
    // Whoever comes back late has tried once more, for the lock may have become free unseen.
    if (until_us != 0 && lock_clock_us() >= until_us) return std::move(tried.taken);
    rocksdb::Status status = wait(stripe, owner, key, exclusive, tried, until_us);
    if (!status.ok()) return {std::move(status)};
  }
}

LockTable::Attempt LockTable::attempt(Family& family, Stripe& stripe, LockOwner const& owner,
                                      KeyRef const& key, bool exclusive, std::uint32_t place)
    PERDURE_REQUIRES(stripe.mutex) {
  Attempt tried;
  auto const found = stripe.locks.find(key, key.hash);
  if (found == stripe.locks.end()) {
    if (max_locks_ > 0 && family.locks.load() >= max_locks_) {
      tried.taken.status = rocksdb::Status::Busy(rocksdb::Status::kLockLimit);
      return tried;
    }
    stripe.locks.emplace(LockedKey(key),
                         HeldLock(owner.lock_id, owner.expires_us, exclusive, place));
    if (max_locks_ > 0) ++family.locks;
    return tried;
  }
  HeldLock& lock = found.value();
  if (lock.only(owner.lock_id)) {
    tried.taken.had_it = true;
    tried.taken.place = lock.place();
    if (exclusive) lock.set_exclusive(true);
  } else if (!lock.exclusive() && !exclusive) {
    tried.taken.had_it = lock.is_held_by(owner.lock_id);
    tried.taken.place = lock.place();
    if (!tried.taken.had_it) lock.share(owner.lock_id, owner.expires_us);
  } else if (lock.expires_us() != 0 && lock.expires_us() <= lock_clock_us() &&
             all_gave_up(lock, owner.lock_id)) {
    lock = HeldLock(owner.lock_id, owner.expires_us, exclusive, place);
  } else {
    tried.taken.status = rocksdb::Status::TimedOut(rocksdb::Status::kLockTimeout);
    tried.holders = lock.holders();
    tried.expires_us = lock.expires_us();
  }
  return tried;
}

bool LockTable::all_gave_up(HeldLock const& lock, rocksdb::TransactionID but) {
  MutexLock guard(expiring_mutex_);
  for (rocksdb::TransactionID const id : lock.holders()) {
    if (id == but) continue;
    auto const found = expiring_.find(id);
    // One that has withdrawn is about to give its locks back.
    if (found != expiring_.end() && !found->second->give_up()) return false;
  }
  return true;
}

rocksdb::Status LockTable::wait(Stripe& stripe, LockOwner& owner, KeyRef const& key, bool exclusive,
                                Attempt const& failed, std::uint64_t until_us)
    PERDURE_REQUIRES(stripe.mutex) {
  WaitGraph::Wait what{failed.holders, key.family, exclusive, std::string(key.bytes)};
  std::erase(what.on, owner.lock_id);  // of a shared lock that it wants for itself
  if (owner.detects_deadlocks && !waits_.begin(owner.lock_id, what, owner.detection_depth))
    return rocksdb::Status::Busy(rocksdb::Status::kDeadlock);
  owner.set_waits(std::move(what));

  // A holder that will not give up though its time is over commits just now, and wakes us.
  bool const robs = failed.expires_us > lock_clock_us();
  std::uint64_t end_us = until_us;
  if (robs && (end_us == 0 || failed.expires_us < end_us)) end_us = failed.expires_us;
  Waiter waiter{key.hash, owner.detects_deadlocks ? owner.lock_id : 0};
  stripe.waiters.push_back(&waiter);
  if (end_us == 0) {
    while (!waiter.woken) waiter.condition.wait(stripe.mutex);
  } else {
    for (auto now = lock_clock_us(); !waiter.woken && now < end_us; now = lock_clock_us())
      waiter.condition.wait_for(stripe.mutex, std::chrono::microseconds(end_us - now));
  }
  std::erase(stripe.waiters, &waiter);

  owner.set_waits({});
  if (owner.detects_deadlocks) waits_.end(owner.lock_id);
  return rocksdb::Status::OK();
}

void LockTable::lower(LockOwner const& owner, KeyRef const& key) {
  Family* const where = family(key.family);
  if (where == nullptr) return;
  Stripe& stripe = where->stripe(key);
  MutexLock lock(stripe.mutex);
  auto const found = stripe.locks.find(key, key.hash);
  if (found == stripe.locks.end() || !found->second.only(owner.lock_id)) return;
  found.value().set_exclusive(false);
  stripe.wake(key.hash, waits_);
}

void LockTable::release(LockOwner const& owner, KeyRef const& key) {
  Family* const where = family(key.family);
  if (where == nullptr) return;
  Stripe& stripe = where->stripe(key);
  MutexLock lock(stripe.mutex);
  give_back(*where, stripe, owner, key);
}

void LockTable::release(LockOwner const& owner, TrackedKeys const& keys) {
  constexpr std::size_t kMany = 1024;
  if (keys.size() < kMany) {
    keys.for_each([&](KeyRef const& key, TrackedKeys::Entry const&) { release(owner, key); });
    return;
  }
  std::vector<std::size_t> ends(stripes_ + 1);  // of the groups, as they fill
  keys.for_each([&](KeyRef const& key, auto const&) { ++ends[stripe_of(key, stripes_) + 1]; });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<KeyRef const*> order(keys.size());
  keys.for_each(
      [&](KeyRef const& key, auto const&) { order[ends[stripe_of(key, stripes_)]++] = &key; });
  // So that nobody waits long for a stripe, and nobody for a lock that has been given back.
  constexpr std::size_t kAtOnce = 64;
  std::size_t begin = 0;
  for (std::size_t stripe = 0; stripe < stripes_; ++stripe) {
    for (std::size_t next = begin; begin < ends[stripe]; begin = next) {
      next = std::min(begin + kAtOnce, ends[stripe]);
      for (std::size_t i = begin; i < next; ++i) prefetch_line(order[i]);
      release_group(owner, Keys(order).subspan(begin, next - begin));
    }
  }
}

/// Of one stripe, whatever the family.
void LockTable::release_group(LockOwner const& owner, Keys group) {
  for (KeyRef const* const key : group) prefetch_line(key->bytes.data());
  while (!group.empty()) {
    KeyRef const& first = *group.front();
    auto const other = [&](KeyRef const* key) { return key->family != first.family; };
    auto const end = std::find_if(group.begin(), group.end(), other);
    Keys const same(group.begin(), end);
    group = group.subspan(same.size());
    Family* const where = family(first.family);
    if (where == nullptr) continue;
    Stripe& stripe = where->stripe(first);
    MutexLock lock(stripe.mutex);
    for (KeyRef const* const key : same) give_back(*where, stripe, owner, *key);
  }
}

void LockTable::give_back(Family& family, Stripe& stripe, LockOwner const& owner, KeyRef const& key)
    PERDURE_REQUIRES(stripe.mutex) {
  auto const found = stripe.locks.find(key, key.hash);
  if (found == stripe.locks.end() || !found.value().leave(owner.lock_id)) return;
  if (found->second.is_free()) {
    stripe.locks.erase(found);
    if (max_locks_ > 0) --family.locks;
    // A table that was large is not kept for locks that may never come: at most 256 KiB. To make it
    // anew costs a tenth of a lock's time, for its pages.
    constexpr std::size_t kKept = 4096;
    if (stripe.locks.empty() && stripe.locks.bucket_count() > kKept) stripe.locks = no_slots();
  }
  if (!stripe.waiters.empty()) stripe.wake(key.hash, waits_);
}

void LockTable::enroll(LockOwner& owner) {
  MutexLock lock(expiring_mutex_);
  expiring_[owner.lock_id] = &owner;
}

void LockTable::withdraw(LockOwner const& owner) {
  MutexLock lock(expiring_mutex_);
  expiring_.erase(owner.lock_id);
}

std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> LockTable::locks() const {
  std::shared_lock const families(families_mutex_);
  std::unordered_multimap<std::uint32_t, rocksdb::KeyLockInfo> all;
  for (auto const& [id, family] : families_) {
    if (family->dropped) continue;
    for (Stripe& stripe : family->stripes) {
      MutexLock lock(stripe.mutex);
      for (auto const& [key, held] : stripe.locks)
        all.emplace(
            id, rocksdb::KeyLockInfo{std::string(key.bytes()), held.holders(), held.exclusive()});
    }
  }
  return all;
}

}  // namespace perdure::lsm
