#include "wal/undo_log.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 32;  // so that no sum of bytes wraps

}  // namespace

std::uint64_t UndoLog::run_of(std::uint64_t entries) const {
  return (entries * sizeof(UndoEntry) + pool_->superblock_bytes() - 1) / pool_->superblock_bytes();
}

std::uint64_t* UndoLog::epoch() const {
  return reinterpret_cast<std::uint64_t*>(pool_->base() + pm::kEpochOffset);
}

std::uint64_t UndoLog::word() const {
  return pm::load_word(reinterpret_cast<std::byte const*>(epoch()));
}

std::uint64_t UndoLog::ended() const { return word() & ~pm::kEpochRevertible; }

void UndoLog::set_word(std::uint64_t word) {
  pm::store_word(epoch(), word);
  pm::order();
}

Status UndoLog::attach() {
  pm::RootEntry const* const room = pool_->root().find(kUndoRoom);
  if (room == nullptr) return {};
  bool const sane = room->value != 0 && room->value <= kMostEntries &&
                    room->value % kUndoLanes == 0 &&
                    pool_->is_free_run(Offset{room->offset}, run_of(room->value));
  if (!sane)
    return {Code::corrupt,
            "the root names an undo log that cannot be there; restore it from a copy"};
  base_ = Offset{room->offset};
  capacity_ = room->value;
  pool_->claim_run(base_, run_of(capacity_));
  return {};
}

Status UndoLog::make_room(std::uint64_t entries) {
  if (entries <= capacity()) return {};
  std::uint64_t const needed = std::bit_ceil(std::max(entries, kUndoLanes));
  PERDURE_ASSERT(needed <= kMostEntries);
  Offset const old = base_;
  std::uint64_t const old_run = run_of(capacity_);
  Offset at = old;
  if (run_of(needed) > old_run) {
    auto run = pool_->take_run(run_of(needed));
    if (!run) return run.status();
    at = *run;
  }
  pm::Root root = pool_->root();
  root.set(kUndoRoom, at.bytes, needed);
  pool_->publish_root(root);
  base_ = at;
  capacity_ = needed;
  PERDURE_ASSERT(capacity() >= entries && capacity() % kUndoLanes == 0);
  if (old_run != 0 && !(at == old)) pool_->give_run(old, old_run);
  return {};
}

UndoRegion UndoLog::next_step(std::uint64_t first) {
  PERDURE_ASSERT(capacity() > 0 && first <= capacity());
  ++step_;
  return {base_, first, ended() + 1, step_};
}

void UndoLog::append(UndoRegion const& region, Offset slot) {
  PERDURE_ASSERT(region.first < capacity() && region.transaction == ended() + 1);
  PERDURE_ASSERT(slot.bytes % sizeof(std::uint64_t) == 0 && slot.bytes < pool_->bytes());
  UndoEntry entry{slot.bytes, pm::load_word(pool_->base() + slot.bytes), region.transaction,
                  region.step, 0};
  entry.check = undo_check(entry);
  std::uint32_t words[kUndoRows];
  std::memcpy(words, &entry, sizeof entry);
  for (std::uint64_t row = 0; row < kUndoRows; ++row)
    pm::write_bytes(pool_->base() + undo_cell(region.base, region.first, row).bytes, &words[row],
                    sizeof words[row]);
}

UndoEntry UndoLog::entry(std::uint64_t number) const {
  std::uint32_t words[kUndoRows];
  for (std::uint64_t row = 0; row < kUndoRows; ++row)
    pm::read_bytes(&words[row], pool_->base() + undo_cell(base_, number, row).bytes,
                   sizeof words[row]);
  UndoEntry entry;
  std::memcpy(&entry, words, sizeof entry);
  return entry;
}

std::vector<UndoEntry> UndoLog::entries_of(std::uint64_t transaction, std::uint32_t step,
                                           std::function<bool(Offset)> const& is_slot) const {
  std::vector<UndoEntry> found;
  for (std::uint64_t i = 0; i < capacity(); ++i) {
    UndoEntry const e = entry(i);
    bool const whole = e.check == undo_check(e) || mutated("undo_check_ignored");
    if (whole && e.transaction == transaction && e.step >= step && is_slot(Offset{e.slot}))
      found.push_back(e);
  }
  return found;
}

std::uint64_t UndoLog::undo(std::uint32_t step, std::function<bool(Offset)> const& is_slot) {
  if (capacity() == 0) return 0;
  std::vector<UndoEntry> live = entries_of(ended() + 1, step, is_slot);
  std::stable_sort(live.begin(), live.end(), [](auto& a, auto& b) { return a.step > b.step; });
  if (mutated("undo_oldest_first")) std::reverse(live.begin(), live.end());
  for (UndoEntry const& e : live)
    pm::store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + e.slot), e.old);
  if (!mutated("no_order_after_undo")) pm::order();
  return live.size();
}

/// The newest first, step by step: what a crash leaves undoes to the same.
void UndoLog::forget(std::uint32_t step) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> live;
  for (std::uint64_t i = 0; i < capacity(); ++i) {
    UndoEntry const e = entry(i);
    if (e.transaction == ended() + 1 && e.step >= step) live.emplace_back(e.step, i);
  }
  std::ranges::sort(live, std::greater{});
  constexpr std::uint32_t kNothing = 0;
  for (std::size_t k = 0; k < live.size(); ++k) {
    for (std::uint64_t row = 0; row < kUndoRows; ++row)
      pm::write_bytes(pool_->base() + undo_cell(base_, live[k].second, row).bytes, &kNothing,
                      sizeof kNothing);
    if (k + 1 == live.size() || live[k + 1].first != live[k].first) pm::order();
  }
}

void UndoLog::end(bool revertible) {
  pm::store_word(epoch(), (ended() + 1) | (revertible ? pm::kEpochRevertible : 0));
  if (!mutated("no_order_after_epoch")) pm::order();
}

// ------------------------------------------------------------------------------------------------
// Taking the last transaction back

void UndoLog::allow_revertible() {
  if (pool_->root().find(kUndoReverts) != nullptr) return;
  pm::Root root = pool_->root();
  root.set(kUndoReverts, 0, 0);
  pool_->publish_root(root);
}

bool UndoLog::revertible() const { return word() != ended() && ended() > 0; }

void UndoLog::keep() {
  pm::store_word(epoch(), ended());
  if (!mutated("no_order_after_keeping")) pm::order();
}

void UndoLog::reopen() {
  PERDURE_ASSERT(revertible());
  pm::store_word(epoch(), ended() - 1);
  if (!mutated("no_order_after_reopening")) pm::order();
}

std::vector<UndoEntry> UndoLog::of_last(std::function<bool(Offset)> const& is_slot) const {
  std::vector<UndoEntry> found = entries_of(ended(), 0, is_slot);
  std::ranges::sort(found, {}, [](UndoEntry const& e) { return std::pair(e.slot, e.step); });
  return found;
}

}  // namespace perdure::wal
