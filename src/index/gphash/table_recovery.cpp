// What an opening finds in a table's slots, and how it mends what a crash leaves.
#include "index/gphash/table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/gphash/slot_sums.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::gphash {

using slot_sums::mixed;

/// Of one slot. A word that changes always changes it: mixing is one to one.
std::uint64_t Table::sum_of(SlotAt at, std::uint64_t word) const {
  PERDURE_ASSERT(!kCostlyAssertions || word != 0);  // empty slots add nothing
  std::uint64_t sum = mixed(word, word_of(at));
  if (!in_place_) return sum;
  Offset const place = in_place::place(view_, *at.level, at.slot);
  sum += mixed(pm::load_word(pool_->base() + place.bytes), place);
  if (view_.key_bytes == 0) return sum;
  Offset const key = in_place::key(view_, *at.level, at.slot);
  pm::will_read(pool_->base() + key.bytes, view_.key_bytes);
  return sum + mixed(hash_bytes(pool_->base() + key.bytes, view_.key_bytes), key);
}

Table::Sum Table::sum(exec::Workers& workers) const {
  std::atomic<std::uint64_t> records{0}, sum{0};
  workers.for_chunks(slots_, 1 << 16, [&](std::size_t begin, std::size_t end) {
    std::uint64_t my_records = 0, my_sum = 0;
    for (std::uint64_t number = begin; number < end; ++number) {
      SlotAt const at = locate(number);
      std::uint64_t const word = word_at(at);
      if (word == 0) continue;
      ++my_records;
      my_sum += sum_of(at, word);
    }
    records += my_records;
    sum += my_sum;
  });
  return {records, sum};
}

Survey Table::survey(exec::Workers& workers) {
  heap_->find_superblocks();
  std::atomic<std::uint64_t> records{0}, astray{0}, sum{0};
  std::mutex mutex;
  Survey found;
  std::uint64_t const slots =
      mutated("recovery_skips_last_level") ? view_.level[view_.levels - 1].first_slot : slots_;
  workers.for_chunks(slots, 1 << 16, [&](std::size_t begin, std::size_t end) {
    std::uint64_t my_records = 0, my_astray = 0, my_sum = 0;
    constexpr std::size_t kAhead = 32;
    std::array<std::pair<std::uint64_t, pm::RecordHeap::MarkBit>, kAhead> near;
    std::size_t waiting = 0;
    auto const mark_all = [&] {
      for (std::size_t i = 0; i < waiting; ++i) {
        switch (pm::RecordHeap::mark(near[i].second)) {
          case pm::RecordHeap::Mark::first: ++my_records; break;
          case pm::RecordHeap::Mark::invalid: ++my_astray; break;
          case pm::RecordHeap::Mark::again: {
            std::lock_guard const lock(mutex);
            found.again.push_back(near[i].first);
          }
        }
      }
      waiting = 0;
    };
    for (std::uint64_t number = begin; number < end; ++number) {
      SlotAt const at = locate(number);
      std::uint64_t const word = word_at(at);
      if (word == 0) continue;
      my_sum += sum_of(at, word);
      if (in_place_ && word == in_place::kInsert) {
        std::lock_guard const lock(mutex);
        found.half.push_back(number);
        continue;
      }
      near[waiting++] = {number, heap_->bit_to_mark(record_at(at))};
      if (waiting == kAhead) mark_all();
    }
    mark_all();
    records += my_records;
    astray += my_astray;
    sum += my_sum;
  });
  heap_->finish_recovery();
  PERDURE_ASSERT(records + astray + found.again.size() + found.half.size() <= slots_);
  found.records = records;
  found.astray = astray;
  found.sum = sum;
  std::sort(found.again.begin(), found.again.end());
  return found;
}

/// Slot `number` leads to a record that another slot leads to as well: keep the valid one, the
/// first in candidate order.
void Table::resolve_duplicate(std::uint64_t number, Mended& mended) {
  auto const e = entry(number);
  if (!e || !e->readable) return;
  auto const drop = [&](std::uint64_t slot) {
    mended.lines.push_back(name(slot) + ": a second copy, cleared");
    ++mended.dropped;
    PERDURE_ASSERT(holds_entry(locate(slot)));
    clear(locate(slot));
  };
  bool kept = false;
  for (std::uint64_t const slot : candidate_slots(e->key)) {
    SlotAt const at = locate(slot);
    if (!holds_entry(at) || !(record_at(at) == e->record)) continue;
    if (slot == number && kept) continue;  // cleared below
    if (mutated("recovery_clears_both_duplicates")) clear(at);
    if (kept && slot != number) drop(slot);
    kept = true;
    if (slot == number) number = ~std::uint64_t{0};  // this one is the valid one
  }
  if (number != ~std::uint64_t{0}) drop(number);
}

Mended Table::mend_crash(Survey const& found) {
  Mended mended;
  PERDURE_ASSERT(in_place_ || found.half.empty());
  for (std::uint64_t const number : found.half) {
    mended.lines.push_back(name(number) + ": half inserted, cleared");
    if (!mutated("recovery_keeps_half_inserts")) clear(locate(number));
  }
  if (!mutated("recovery_keeps_duplicates"))
    for (std::uint64_t const number : found.again) resolve_duplicate(number, mended);
  pm::order();
  return mended;
}

}  // namespace perdure::gphash
