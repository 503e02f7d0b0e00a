#include "index/gphash/table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/crc32c.hpp"
#include "base/mutants.hpp"
#include "exec/bits.hpp"
#include "pm/record.hpp"
#include "pm/watch.hpp"

namespace perdure::gphash {
namespace {

constexpr std::uint32_t kMaxTop = 40;  // buckets beyond 2^40 would run into the fingerprint's bits

}  // namespace

std::uint64_t slots_under(Shape shape, std::uint32_t top) {
  std::uint64_t buckets = 0;
  for (std::uint32_t i = 0; i < shape.levels; ++i) buckets += std::uint64_t{1} << (top - i);
  return buckets * shape.slots;
}

std::uint32_t top_level_for(Shape shape, std::uint64_t records, double load) {
  std::uint32_t top = shape.levels - 1;
  while (top < kMaxTop && static_cast<double>(slots_under(shape, top)) * load < static_cast<double>(records)) ++top;
  return top;
}

Table::Table(pm::Pool& pool, pm::RecordHeap& heap) : pool_(&pool), heap_(&heap), in_place_(pool.header().layout == 1) {
  pm::PoolHeader const& h = pool.header();
  view_.levels = h.levels;
  view_.hashes = h.hashes;
  view_.slots = h.slots;
  view_.key_bytes = h.key_bytes;
  view_.value_bytes = h.value_bytes;
  view_.records = pm::RecordShape(h);
  view_.max_record = static_cast<std::uint32_t>(pm::record_bytes(h.max_key_bytes, h.max_value_bytes));
}

std::uint64_t Table::run_of(std::uint32_t log2_buckets) const {
  std::uint64_t const bytes = level_bytes(in_place_, view_.key_bytes, view_.slots, log2_buckets);
  return (bytes + pool_->superblock_bytes() - 1) / pool_->superblock_bytes();
}

std::uint64_t Table::usable_slots() const {
  std::uint64_t slots = 0;
  for (std::uint32_t i = 0; i < view_.levels; ++i) slots += in_place::level_slots(view_.level[i], view_.slots);
  return slots;
}

std::uint64_t Table::bytes() const {
  std::uint64_t superblocks = 0;
  for (std::uint32_t i = 0; i < view_.all_levels(); ++i) superblocks += run_of(view_.level[i].log2_buckets);
  return superblocks * pool_->superblock_bytes();
}

void Table::renumber() {
  slots_ = 0;
  for (std::uint32_t i = 0; i < view_.all_levels(); ++i) {
    view_.level[i].first_slot = slots_;
    // Whole claim words a level, so that a row's bits never straddle two.
    slots_ += (in_place::level_slots(view_.level[i], view_.slots) + 31) / 32 * 32;
  }
  std::uint32_t const lowest = view_.level[view_.all_levels() - 1].log2_buckets;
  view_.unit_bits = lowest - std::min(lowest, window_bits());
  view_.pool_bytes = pool_->bytes();
}

bool Table::has_slot(Offset at) const {
  for (std::uint32_t i = 0; i < view_.all_levels(); ++i) {
    Level const& level = view_.level[i];
    if (at.bytes >= level.base.bytes && at.bytes < (level.base + in_place::level_slots(level, view_.slots) * 8).bytes)
      return at.bytes % 8 == 0;
  }
  return false;
}

Result<Level> Table::new_level(std::uint32_t log2_buckets, exec::Workers& workers) {
  if (log2_buckets > kMaxTop) return Status{Code::no_space, "the table cannot grow beyond 2^40 buckets a level"};
  heap_->give_back_empty();
  auto run = pool_->take_run(run_of(log2_buckets));
  if (!run) return run.status();
  // Zero is EMPTY in both layouts. publish_root orders this before the root that names the level.
  if (!mutated(Mutant::level_not_zeroed)) {
    constexpr std::size_t kPiece = 1u << 20;
    std::byte* const base = pool_->base() + run->bytes;
    workers.for_chunks(level_bytes(in_place_, view_.key_bytes, view_.slots, log2_buckets), kPiece,
                       [&](std::size_t begin, std::size_t end) { pm::zero_bytes(base + begin, end - begin); });
  }
  return Level{*run, 0, log2_buckets};
}

Status Table::create(std::uint32_t top_level, exec::Workers& workers) {
  pm::Root root = pool_->root();
  root.levels = view_.levels;
  for (std::uint32_t i = 0; i < view_.levels; ++i) {
    auto level = new_level(top_level - i, workers);
    if (!level) return level.status();
    view_.level[i] = *level;
  }
  root = pool_->root();
  root.levels = view_.levels;
  for (std::uint32_t i = 0; i < view_.levels; ++i)
    root.level[i] = {view_.level[i].base.bytes, view_.level[i].log2_buckets, 0};
  pool_->publish_root(root);
  renumber();
  return {};
}

/// Whether a level that the root names lies in the pool and on nothing else.
bool Table::may_hold(pm::RootLevel const& l) const {
  if (l.log2_buckets > kMaxTop || l.offset < pool_->superblock_bytes()) return false;
  if (std::uint64_t{view_.slots} << l.log2_buckets > pool_->bytes() / 8) return false;  // so that run_of cannot wrap
  return pool_->is_free_run(Offset{l.offset}, run_of(l.log2_buckets));
}

Status Table::attach() {
  pm::Root const& root = pool_->root();
  for (std::uint32_t i = 0; i < root.levels + root.retiring; ++i) {
    pm::RootLevel const& l = root.level[i];
    bool const smaller = i == 0 || l.log2_buckets < root.level[i - 1].log2_buckets;
    if (!smaller || !may_hold(l)) {
      return {Code::corrupt,
              "the root names a level that cannot be there (size, place or overlap); restore it from a copy"};
    }
    Level const level{Offset{l.offset}, 0, l.log2_buckets};
    pool_->claim_run(level.base, run_of(level.log2_buckets));
    view_.level[i] = level;
  }
  retire(root.retiring == 1);
  return {};
}

// ------------------------------------------------------------------------------------------------

Status Table::begin_growth(exec::Workers& workers) {
  auto top = new_level(view_.level[0].log2_buckets + 1, workers);
  if (!top) return top.status();
  pm::Root root = pool_->root();  // taking the run may have grown the file
  for (std::uint32_t i = root.levels; i > 0; --i) root.level[i] = root.level[i - 1];
  root.level[0] = {top->base.bytes, top->log2_buckets, 0};
  root.retiring = mutated(Mutant::retiring_flag_missing) ? 0 : 1;
  pool_->publish_root(root);
  if (mutated(Mutant::resize_finished_early)) {
    root.retiring = 0;
    pool_->publish_root(root);
  }
  for (std::uint32_t i = view_.levels; i > 0; --i) view_.level[i] = view_.level[i - 1];
  view_.level[0] = *top;
  retire(true);
  return {};
}

/// Whether the level behind the others retires; then none of its units has moved.
void Table::retire(bool retires) {
  view_.retiring = retires ? 1 : 0;
  renumber();
  units_left_ = retires ? units() : 0;
  moved_.assign(retires ? (units() + 31) / 32 : 0, 0);
  view_.moved = moved_.data();
}

std::vector<std::uint32_t> Table::unmoved(std::uint64_t most, std::span<std::uint32_t const> without) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t unit = 0; growing() && unit < units() && found.size() < most; ++unit)
    if (!view_.unit_moved(unit) && std::find(without.begin(), without.end(), unit) == without.end())
      found.push_back(unit);
  return found;
}

void Table::moved(std::span<std::uint32_t const> units) {
  for (std::uint32_t const unit : units) moved_[unit / 32] |= 1u << unit % 32;
  units_left_ -= units.size();
}

void Table::finish_growth() {
  Level const retired = view_.retiring_level();
  pm::Root root = pool_->root();
  root.level[root.levels] = {};
  root.retiring = 0;
  pool_->publish_root(root);
  pool_->give_run(retired.base, run_of(retired.log2_buckets));
  retire(false);
}

Status Table::widen(exec::Workers& workers) {
  for (std::uint32_t bits = top_level() + 1;; ++bits) {
    auto wider = new_level(bits, workers);
    if (!wider) return wider.status();
    if (!mutated(Mutant::wider_level_without_entries) && !carry_into(*wider)) {
      pool_->give_run(wider->base, run_of(bits));
      continue;
    }
    Level const old = view_.level[0];
    pm::Root root = pool_->root();
    root.level[0] = {wider->base.bytes, wider->log2_buckets, 0};
    pool_->publish_root(root);
    pool_->give_run(old.base, run_of(old.log2_buckets));
    view_.level[0] = *wider;
    renumber();
    return {};
  }
}

/// Copies what moved units hold on the top level; false if some of it finds no room. Of other units there are copies
/// at most. By one thread: no shape of several slots a bucket comes here.
bool Table::carry_into(Level const& wider) {
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
    for (std::uint32_t lanes = where.distinct_lanes(alone); lanes != 0 && !placed; lanes &= lanes - 1) {
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
  std::byte* const base = pool_->base();
  auto const word = [&](Offset at) { return reinterpret_cast<std::uint64_t*>(base + at.bytes); };
  if (in_place_) {
    if (view_.key_bytes != 0) {
      std::byte const* const key = base + in_place::key(view_, *from.level, from.slot).bytes;
      pm::will_read(key, view_.key_bytes);
      pm::write_bytes(base + in_place::key(view_, *to.level, to.slot).bytes, key, view_.key_bytes);
    }
    pm::store_word(word(in_place::place(view_, *to.level, to.slot)), record_at(from).bytes);
  }
  pm::store_word(word(to.level->base + to.slot * 8), word_at(from));
}

// Their originals are on the retiring level until the unit counts as moved.
void Table::clear_copies(std::uint64_t unit) {
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

// The copies go while the root still names the retiring level: a crash meanwhile leaves a growth to resume.
void Table::give_up(std::span<std::uint32_t const> units) {
  if (!mutated(Mutant::stuck_unit_keeps_copies))
    for (std::uint32_t const unit : units) clear_copies(unit);
  if (units_left_ != this->units()) return;
  Level const top = view_.level[0];
  pm::Root root = pool_->root();
  for (std::uint32_t i = 0; i < root.levels; ++i) root.level[i] = root.level[i + 1];
  root.level[root.levels] = {};
  root.retiring = 0;
  pool_->publish_root(root);
  pool_->give_run(top.base, run_of(top.log2_buckets));
  for (std::uint32_t i = 0; i < view_.levels; ++i) view_.level[i] = view_.level[i + 1];
  retire(false);
}

// ------------------------------------------------------------------------------------------------

Table::SlotAt Table::locate(std::uint64_t number) const {
  std::uint32_t i = view_.all_levels() - 1;
  while (view_.level[i].first_slot > number) --i;
  return {&view_.level[i], number - view_.level[i].first_slot};
}

std::uint64_t Table::word_at(SlotAt at) const {
  if (at.slot >= in_place::level_slots(*at.level, view_.slots)) return 0;  // rounding up to claim words
  return pm::load_word(pool_->base() + (at.level->base + at.slot * 8).bytes);
}

Offset Table::record_at(SlotAt at) const {
  if (!in_place_) return word::record(word_at(at));
  return Offset{pm::load_word(pool_->base() + in_place::place(view_, *at.level, at.slot).bytes)};
}

bool Table::holds_entry(SlotAt at) const {
  std::uint64_t const word = word_at(at);
  return word != 0 && !(in_place_ && word == in_place::kInsert);
}

void Table::clear(SlotAt at) {
  auto* const word = reinterpret_cast<std::uint64_t*>(pool_->base() + (at.level->base + at.slot * 8).bytes);
  pm::store_word(word, 0);
}

std::optional<Entry> Table::entry(std::uint64_t number) const {
  SlotAt const at = locate(number);
  if (!holds_entry(at)) return std::nullopt;
  Offset const record = record_at(at);
  return read_entry(at,
                    std::min<std::uint64_t>(view_.room(record), heap_->is_record(record) ? heap_->room(record) : 0));
}

Entry Table::read_entry(SlotAt at, std::uint64_t room) const {
  Entry e;
  e.record = record_at(at);
  if (room < sizeof(pm::RecordHeader) || !view_.may_hold(e.record)) return e;
  pm::RecordView const r = pm::view_record(pool_->base(), view_.records, e.record, room);
  e.key = {r.key, r.header.key_bytes};
  if (in_place_ && view_.key_bytes != 0)
    e.key = {pool_->base() + in_place::key(view_, *at.level, at.slot).bytes, view_.key_bytes};
  pm::will_read(e.key.data(), e.key.size());
  e.value = {r.value, r.header.value_bytes};
  e.readable = true;
  return e;
}

std::vector<std::uint64_t> Table::candidate_slots(std::span<std::byte const> key) const {
  return slots_at({view_, hash_bytes(key.data(), key.size())});
}

std::vector<std::uint64_t> Table::slots_at(Candidates<ShapeAny> const& where) const {
  std::vector<std::uint64_t> slots;
  for (std::uint32_t lanes = where.distinct_lanes(view_); lanes != 0; lanes &= lanes - 1)
    slots.push_back(where.slot_number(view_, exec::lowest_bit(lanes)));
  return slots;
}

std::string Table::fault(std::uint64_t number, Entry const& e) const {
  if (!e.readable) return "leads to no record";
  pm::RecordView const r = pm::view_record(pool_->base(), view_.records, e.record, heap_->room(e.record));
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) { return crc32c(crc, data, bytes); };
  if (pm::record_sum(r, r.value, sum) != r.header.crc) return "record's checksum does not match";
  if (view_.value_bytes != 0 && e.value.size() != view_.value_bytes)
    return "record's value has another length than the pool's";
  auto const slots = candidate_slots(e.key);
  if (std::find(slots.begin(), slots.end(), number) == slots.end()) return "key does not belong in this slot";
  std::uint64_t const hash = hash_bytes(e.key.data(), e.key.size());
  std::uint64_t const word = word_at(locate(number));
  bool const marked = in_place_ ? word == in_place::fingerprint(hash) : word == word::make(hash, e.record);
  if (!marked) return "fingerprint does not match the key";
  for (std::uint64_t const other : slots) {
    if (other == number) break;
    std::uint64_t const theirs = word_at(locate(other));
    std::uint64_t const mask = in_place_ ? ~std::uint64_t{0} : ~word::kPlaceMask;
    if (((theirs ^ word) & mask) != 0) continue;
    if (auto const twin = entry(other); twin && twin->readable && std::ranges::equal(twin->key, e.key))
      return "key stands in an earlier slot too";
  }
  return {};
}

/// Slot `number` leads to a record that another slot leads to as well: keep the valid one, the first
/// in candidate order. Returns how many were cleared.
std::uint64_t Table::resolve_duplicate(std::uint64_t number) {
  auto const e = entry(number);
  if (!e || !e->readable) return 0;
  std::uint64_t cleared = 0;
  bool kept = false;
  for (std::uint64_t const slot : candidate_slots(e->key)) {
    SlotAt const at = locate(slot);
    if (!holds_entry(at) || !(record_at(at) == e->record)) continue;
    if (slot == number && kept) continue;  // cleared below
    if (mutated(Mutant::recovery_clears_both_duplicates)) clear(at);
    if (kept && slot != number) {
      clear(at);
      ++cleared;
    }
    kept = true;
    if (slot == number) number = ~std::uint64_t{0};  // this one is the valid one
  }
  if (number != ~std::uint64_t{0}) {
    clear(locate(number));
    ++cleared;
  }
  return cleared;
}

Recovered Table::recover(exec::Workers& workers) {
  heap_->find_superblocks();
  std::atomic<std::uint64_t> records{0}, half{0}, astray{0};
  std::mutex mutex;
  std::vector<std::uint64_t> again;
  std::uint64_t const slots =
      mutated(Mutant::recovery_skips_last_level) ? view_.level[view_.levels - 1].first_slot : slots_;
  workers.for_chunks(slots, 1 << 16, [&](std::size_t begin, std::size_t end) {
    std::uint64_t my_records = 0, my_half = 0, my_astray = 0;
    constexpr std::size_t kAhead = 32;
    std::array<std::pair<std::uint64_t, pm::RecordHeap::MarkSpot>, kAhead> near;
    std::size_t waiting = 0;
    auto const mark_all = [&] {
      for (std::size_t i = 0; i < waiting; ++i) {
        switch (pm::RecordHeap::mark(near[i].second)) {
          case pm::RecordHeap::Mark::first: ++my_records; break;
          case pm::RecordHeap::Mark::invalid: ++my_astray; break;
          case pm::RecordHeap::Mark::again: {
            std::lock_guard const lock(mutex);
            again.push_back(near[i].first);
          }
        }
      }
      waiting = 0;
    };
    for (std::uint64_t number = begin; number < end; ++number) {
      SlotAt const at = locate(number);
      std::uint64_t const word = word_at(at);
      if (word == 0) continue;
      if (in_place_ && word == in_place::kInsert) {
        if (!pool_->read_only() && !mutated(Mutant::recovery_keeps_half_inserts)) clear(at);
        ++my_half;
        continue;
      }
      near[waiting++] = {number, heap_->spot_to_mark(record_at(at))};
      if (waiting == kAhead) mark_all();
    }
    mark_all();
    records += my_records;
    half += my_half;
    astray += my_astray;
  });
  heap_->finish_recovery();
  Recovered r{records, half, astray, 0};
  if (!pool_->read_only()) {
    if (mutated(Mutant::recovery_keeps_duplicates)) again.clear();
    for (std::uint64_t const number : again) r.duplicates += resolve_duplicate(number);
    pm::order();
  } else {
    r.duplicates = again.size();
  }
  return r;
}

}  // namespace perdure::gphash
