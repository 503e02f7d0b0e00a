#include "store/threads/space.hpp"

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
  std::lock_guard const lock(*memory_);
  Status taken = heap().reserve(stride, n, to.data() + before);
  note_size();
  PERDURE_ASSERT(!kCostlyAssertions || !taken.ok() || heap_.in_use(Offset{to.back()}) ||
                 mutated("record_handed_out_twice"));
  if (taken.ok()) return taken;
  to.resize(before);
  return refusal_ = taken;
}

void Space::give(std::span<std::uint64_t const> records) {
  if (records.empty()) return;
  std::lock_guard const lock(*memory_);
  for (std::uint64_t const record : records) heap().release(Offset{record});
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
}

}  // namespace perdure::threads
