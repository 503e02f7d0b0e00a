#include "index/gphash/slot_recovery.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::gphash {

Survey survey(Slots const& slots, exec::Workers& workers) {
  slots.heap().find_superblocks();
  std::atomic<std::uint64_t> records{0}, astray{0}, sum{0};
  std::mutex mutex;
  Survey found;
  TableView const& view = slots.view();
  std::uint64_t const all =
      mutated("recovery_skips_last_level") ? view.level[view.levels - 1].first_slot : slots.slots();
  workers.for_chunks(all, 1 << 16, [&](std::size_t begin, std::size_t end) {
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
      SlotAt const at = slots.locate(number);
      std::uint64_t const word = slots.word_at(at);
      if (word == 0) continue;
      my_sum += slots.sum_of(at, word);
      if (slots.is_in_place() && word == in_place::kInsert) {
        std::lock_guard const lock(mutex);
        found.half.push_back(number);
        continue;
      }
      near[waiting++] = {number, slots.heap().bit_to_mark(slots.record_at(at))};
      if (waiting == kAhead) mark_all();
    }
    mark_all();
    records += my_records;
    astray += my_astray;
    sum += my_sum;
  });
  slots.heap().finish_recovery();
  PERDURE_ASSERT(records + astray + found.again.size() + found.half.size() <= slots.slots());
  found.records = records;
  found.astray = astray;
  found.sum = sum;
  std::sort(found.again.begin(), found.again.end());
  return found;
}

namespace {

/// Slot `number` leads to a record that another slot leads to as well: keep the valid one, the
/// first in candidate order.
void resolve_duplicate(Slots& slots, std::uint64_t number, Mended& mended) {
  auto const e = slots.entry(number);
  if (!e || !e->readable) return;
  auto const drop = [&](std::uint64_t slot) {
    mended.lines.push_back(slots.name(slot) + ": a second copy, cleared");
    ++mended.dropped;
    PERDURE_ASSERT(slots.holds_entry(slots.locate(slot)));
    slots.clear(slots.locate(slot));
  };
  bool kept = false;
  for (std::uint64_t const slot : slots.candidate_slots(e->key)) {
    SlotAt const at = slots.locate(slot);
    if (!slots.holds_entry(at) || !(slots.record_at(at) == e->record)) continue;
    if (slot == number && kept) continue;  // cleared below
    if (mutated("recovery_clears_both_duplicates")) slots.clear(at);
    if (kept && slot != number) drop(slot);
    kept = true;
    if (slot == number) number = ~std::uint64_t{0};  // this one is the valid one
  }
  if (number != ~std::uint64_t{0}) drop(number);
}

}  // namespace

Mended mend_crash(Slots& slots, Survey const& found) {
  Mended mended;
  PERDURE_ASSERT(slots.is_in_place() || found.half.empty());
  for (std::uint64_t const number : found.half) {
    mended.lines.push_back(slots.name(number) + ": half inserted, cleared");
    if (!mutated("recovery_keeps_half_inserts")) slots.clear(slots.locate(number));
  }
  if (!mutated("recovery_keeps_duplicates"))
    for (std::uint64_t const number : found.again) resolve_duplicate(slots, number, mended);
  pm::order();
  return mended;
}

}  // namespace perdure::gphash
