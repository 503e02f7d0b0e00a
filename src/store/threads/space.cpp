#include "store/threads/space.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"

namespace perdure::threads {

pm::RecordHeap& Space::heap() {
  pool_->find_owners();
  return heap_;
}

Status Space::take(std::uint64_t stride, std::size_t n, std::vector<std::uint64_t>& to) {
  PERDURE_ASSERT(n > 0 && stride > 0);
  std::size_t const before = to.size();
  to.resize(before + n);
  std::uint64_t* const out = to.data() + before;
  if (!goes_past_hands(n) && take_from_hand(stride, n, out)) return {};
  Status taken = reserve(stride, n, out);
  if (!taken.ok() && empty_hands()) taken = reserve(stride, n, out);
  if (!taken.ok()) to.resize(before);
  return taken;
}

Status Space::reserve(std::uint64_t stride, std::size_t n, std::uint64_t* to) {
  std::lock_guard const lock(*memory_);
  Status taken = heap().reserve(stride, n, to);
  note_size();
  PERDURE_ASSERT(!kCostlyAssertions || !taken.ok() || heap_.in_use(Offset{to[n - 1]}) ||
                 mutated("record_handed_out_twice"));
  return taken.ok() ? taken : refusal_ = taken;
}

bool Space::take_from_hand(std::uint64_t stride, std::size_t n, std::uint64_t* to) {
  Hand& mine = hand();
  MutexLock const lock(mine.mutex);
  if ((mine.stride != stride || mine.to_take < n) && !refill(mine, stride)) return false;
  for (std::size_t i = 0; i < n; ++i) to[i] = mine.taken[--mine.to_take];
  return true;
}

/// Handed out in the heap's order: from the end on. Only for a stride that is asked for again,
/// since where sizes change with each call nothing would be handed out of a hand.
bool Space::refill(Hand& hand, std::uint64_t stride) {
  if (hand.stride != stride) {
    if (hand.to_take != 0) release(std::span(hand.taken).first(std::exchange(hand.to_take, 0)));
    hand.stride = stride;
    return false;
  }
  std::array<std::uint64_t, Hand::kSome> more;
  if (!reserve(stride, more.size(), more.data()).ok()) return false;
  PERDURE_ASSERT(hand.to_take + more.size() <= hand.taken.size());
  std::move_backward(hand.taken.begin(),
                     hand.taken.begin() + static_cast<std::ptrdiff_t>(hand.to_take),
                     hand.taken.begin() + static_cast<std::ptrdiff_t>(hand.to_take + more.size()));
  std::reverse_copy(more.begin(), more.end(), hand.taken.begin());
  hand.to_take += more.size();
  return true;
}

void Space::release(std::span<std::uint64_t const> records) {
  std::lock_guard const lock(*memory_);
  for (std::uint64_t const record : records) heap().release(Offset{record});
}

bool Space::empty_hands() {
  bool any = false;
  for (Hand& each : hands_) {
    MutexLock const lock(each.mutex);
    any = any || each.to_take + each.to_give != 0;
    release(std::span(each.taken).first(std::exchange(each.to_take, 0)));
    release(std::span(each.given).first(std::exchange(each.to_give, 0)));
  }
  return any;
}

void Space::give(std::span<std::uint64_t const> records) {
  if (records.empty()) return;
  if (goes_past_hands(records.size())) return release(records);
  Hand& mine = hand();
  MutexLock const lock(mine.mutex);
  if (mine.to_give + records.size() > mine.given.size())
    release(std::span(mine.given).first(std::exchange(mine.to_give, 0)));
  for (std::uint64_t const record : records) mine.given[mine.to_give++] = record;
}

void Space::give_waiting(std::span<std::uint64_t const> records) {
  transactions_ ? unlink(records) : give(records);
  std::uint64_t const waited = waiting_.fetch_sub(records.size());
  PERDURE_ASSERT(waited >= records.size());
}

void Space::unlink(std::span<std::uint64_t const> records) {
  std::lock_guard const lock(*memory_);
  if (mutated("unlinked_reused_before_commit"))
    for (std::uint64_t const record : records) heap().release(Offset{record});
  else
    unlinked_.insert(unlinked_.end(), records.begin(), records.end());
}

Status Space::free_unlinked() {
  if (lost_) return {Code::no_space, "out of memory"};
  std::lock_guard const lock(*memory_);
  for (std::uint64_t const record : unlinked_) heap().release(Offset{record});
  unlinked_.clear();
  return {};
}

void Space::load_anew() {
  std::lock_guard const lock(*memory_);
  heap().forget();
  unlinked_.clear();
  lost_ = false;
  pool_->find_owners_later([this] { heap_.load_superblocks(); });
}

void Space::load_later() {
  std::lock_guard const lock(*memory_);
  pool_->find_owners_later([this] { heap_.load_superblocks(); });
}

bool Space::in_use(std::uint64_t record) {
  std::lock_guard const lock(*memory_);
  return heap().in_use(Offset{record});
}

void Space::find_superblocks() {
  std::lock_guard const lock(*memory_);
  heap().find_superblocks();
}

void Space::finish_recovery() {
  std::lock_guard const lock(*memory_);
  heap().finish_recovery();
}

std::vector<pm::RecordHeap::Superblock> Space::superblocks() {
  std::lock_guard const lock(*memory_);
  return heap().superblocks();
}

void Space::claim_later() {
  std::lock_guard const lock(*memory_);
  pool_->find_owners_later([this] { heap_.claim_superblocks(); });
  sweeping_ = true;
}

void Space::begin_sweep() {
  std::lock_guard const lock(*memory_);
  heap().begin_sweep();
}

void Space::mark(std::span<std::uint64_t const> records) {
  std::lock_guard const lock(*memory_);
  for (std::uint64_t const record : records) heap().mark_reached(Offset{record});
}

void Space::finish_sweep() {
  std::lock_guard const lock(*memory_);
  heap().finish_sweep();
  sweeping_ = false;
}

}  // namespace perdure::threads
