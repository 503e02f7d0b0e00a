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
  Status const taken = heap().reserve(stride, n, to.data() + before);
  note_size();
  PERDURE_ASSERT(!kCostlyAssertions || !taken.ok() || heap_.in_use(Offset{to.back()}) ||
                 mutated("record_handed_out_twice"));
  if (!taken.ok()) to.resize(before);
  return taken;
}

void Space::give(std::span<std::uint64_t const> records) {
  if (records.empty()) return;
  std::lock_guard const lock(*memory_);
  for (std::uint64_t const record : records) heap().release(Offset{record});
}

void Space::give_waiting(std::span<std::uint64_t const> records) {
  give(records);
  std::uint64_t const waited = waiting_.fetch_sub(records.size());
  PERDURE_ASSERT(waited >= records.size());
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
