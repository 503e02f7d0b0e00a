// Growth of a table: its levels come and go, and what units hold is carried over.
#include "index/gphash/table.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

Status Table::begin_growth(exec::Workers& workers) {
  PERDURE_ASSERT(!growing() && units_left_ == 0);
  auto top = new_level(view_.level[0].log2_buckets + 1, workers);
  if (!top) return top.status();
  std::vector<Level> next{*top};
  next.insert(next.end(), view_.level, view_.level + view_.levels);
  publish_levels(next, !mutated("retiring_flag_missing"));
  if (mutated("resize_finished_early")) publish_levels({next.data(), view_.levels}, false);
  std::ranges::copy(next, view_.level);
  retire(true);
  return {};
}

/// Whether the level behind the others retires; then none of its units has moved.
void Table::retire(bool retires) {
  view_.retiring = retires ? 1 : 0;
  renumber();
  PERDURE_ASSERT(units() > 0 && view_.unit_bits <= view_.level[view_.levels - 1].log2_buckets);
  units_left_ = retires ? units() : 0;
  moved_.assign(retires ? (units() + 31) / 32 : 0, 0);
  view_.moved = moved_.data();
  PERDURE_ASSERT(growing() == !moved_.empty());
}

std::vector<std::uint32_t> Table::unmoved(std::uint64_t most,
                                          std::span<std::uint32_t const> without) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t unit = 0; growing() && unit < units() && found.size() < most; ++unit)
    if (!view_.unit_moved(unit) && std::find(without.begin(), without.end(), unit) == without.end())
      found.push_back(unit);
  return found;
}

void Table::moved(std::span<std::uint32_t const> units) {
  PERDURE_ASSERT(growing() && units.size() <= units_left_);
  for (std::uint32_t const unit : units) {
    PERDURE_ASSERT(unit < this->units() && !view_.unit_moved(unit));
    moved_[unit / 32] |= 1u << unit % 32;
  }
  units_left_ -= units.size();
}

void Table::finish_growth() {
  PERDURE_ASSERT(growing());
  Level const retired = view_.retiring_level();
  publish_levels({view_.level, view_.levels}, false);
  give_level(retired);
  retire(false);
  PERDURE_ASSERT(!growing() && units_left_ == 0);
}

void Table::give_level(Level const& level) {
  if (!logged_) pool_->give_run(level.base, run_of(level.log2_buckets));
}

Status Table::widen(exec::Workers& workers) {
  PERDURE_ASSERT(growing() && (!logged_ || units_left_ == units()));
  for (std::uint32_t bits = top_level() + 1;; ++bits) {
    auto wider = new_level(bits, workers);
    if (!wider) return wider.status();
    if (!mutated("wider_level_without_entries") && !carry_into(*wider)) {
      give_level(*wider);
      continue;
    }
    Level const old = view_.level[0];
    view_.level[0] = *wider;
    publish_levels({view_.level, view_.all_levels()}, true);
    give_level(old);
    renumber();
    return {};
  }
}

/// Copies what moved units hold on the top level; false if some of it finds no room. Of other units
/// there are copies at most. By one thread: no shape of several slots a bucket comes here.
bool Table::carry_into(Level const& wider) {
  PERDURE_ASSERT(growing() && wider.log2_buckets > view_.level[0].log2_buckets);
  if (units_left_ == units()) return true;
  TableView alone = view_;
  alone.level[0] = wider;
  alone.levels = 1;
  alone.retiring = 0;
  for (std::uint64_t slot = 0; slot < in_place::level_slots(view_.level[0], view_.slots); ++slot) {
    SlotAt const from{&view_.level[0], slot};
    if (!holds_entry(from)) continue;
    Entry const e = read_entry(from, view_.room(record_at(from)));
    if (!e.readable) continue;
    std::uint64_t const hash = hash_bytes(e.key.data(), e.key.size());
    if (!view_.unit_moved(view_.unit_of(hash))) continue;
    Candidates<ShapeAny> const where(alone, hash);
    bool placed = false;
    for (std::uint32_t lanes = where.distinct_lanes(alone); lanes != 0 && !placed;
         lanes &= lanes - 1) {
      std::uint32_t const lane = exec::lowest_bit(lanes);
      SlotAt const to{&wider, where.slot_in_level(alone, lane / view_.slots) + lane % view_.slots};
      placed = word_at(to) == 0;
      if (placed) put_entry(from, to);
    }
    if (!placed) return false;
  }
  return true;
}

/// Says of slot `to`, which nobody sees yet, what `from` says.
void Table::put_entry(SlotAt from, SlotAt to) {
  PERDURE_ASSERT(to.slot < in_place::level_slots(*to.level, view_.slots) && word_at(to) == 0);
  std::byte* const base = pool_->base();
  auto const word = [&](Offset at) { return reinterpret_cast<std::uint64_t*>(base + at.bytes); };
  if (in_place_) {
    if (view_.key_bytes != 0) {
      std::byte const* const key = base + in_place::key(view_, *from.level, from.slot).bytes;
      pm::will_read(key, view_.key_bytes);
      pm::write_bytes(base + in_place::key(view_, *to.level, to.slot).bytes, key, view_.key_bytes);
    }
    pm::store_word(word(in_place::address(view_, *to.level, to.slot)), record_at(from).bytes);
  }
  pm::store_word(word(to.level->base + to.slot * 8), word_at(from));
}

// Their originals are on the retiring level until the unit counts as moved.
void Table::clear_copies(std::uint64_t unit) {
  PERDURE_ASSERT(growing() && unit < units());
  PERDURE_ASSERT(!view_.unit_moved(unit));
  Level const& retiring = view_.retiring_level();
  for (std::uint64_t slot = unit * unit_slots(); slot < (unit + 1) * unit_slots(); ++slot) {
    SlotAt const original{&retiring, slot};
    if (!holds_entry(original)) continue;
    Entry const e = read_entry(original, view_.room(record_at(original)));
    if (!e.readable) continue;
    Candidates<ShapeAny> where;
    where.set_moved(view_, hash_bytes(e.key.data(), e.key.size()));
    for (std::uint64_t const number : slots_at(where)) {
      SlotAt const at = locate(number);
      if (word_at(at) != 0 && record_at(at) == e.record) clear(at);
    }
  }
}

// The copies go while the root still names the retiring level: a crash meanwhile leaves a growth to
// resume.
void Table::give_up(std::span<std::uint32_t const> units) {
  PERDURE_ASSERT(growing() && units_left_ <= this->units());
  if (!mutated("stuck_unit_keeps_copies"))
    for (std::uint32_t const unit : units) clear_copies(unit);
  if (units_left_ != this->units()) return;
  Level const top = view_.level[0];
  publish_levels({view_.level + 1, view_.levels}, false);
  give_level(top);
  for (std::uint32_t i = 0; i < view_.levels; ++i) view_.level[i] = view_.level[i + 1];
  retire(false);
}

}  // namespace perdure::gphash
