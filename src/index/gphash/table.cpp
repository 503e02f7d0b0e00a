#include "index/gphash/table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {
namespace {

constexpr std::uint32_t kMaxTop = 40;  // buckets beyond 2^40 would run into the fingerprint's bits

// A word at a place, mixed so that one that changes always changes it, and the way back.
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u, kMix1 = 0xbf58476d1ce4e5b9u,
                        kMix2 = 0x94d049bb133111ebu;
constexpr std::uint64_t kBack1 = 0x96de1b173f119089u, kBack2 = 0x319642b2d24d8ec3u;
static_assert(kMix1 * kBack1 == 1 && kMix2 * kBack2 == 1);
constexpr std::uint64_t mixed(std::uint64_t word, Offset at) {
  std::uint64_t x = word + at.bytes * kStep;
  x = (x ^ x >> 30) * kMix1;
  x = (x ^ x >> 27) * kMix2;
  return x ^ x >> 31;
}
constexpr std::uint64_t unmixed(std::uint64_t mix, Offset at) {
  std::uint64_t x = (mix ^ mix >> 31 ^ mix >> 62) * kBack2;
  x = (x ^ x >> 27 ^ x >> 54) * kBack1;
  return (x ^ x >> 30 ^ x >> 60) - at.bytes * kStep;
}
static_assert(unmixed(mixed(0x123456789abcdef0u, Offset{4096}), Offset{4096}) ==
              0x123456789abcdef0u);

bool two_bits_apart(std::uint64_t a, std::uint64_t b) { return std::popcount(a ^ b) <= 2; }

}  // namespace

std::uint64_t slots_under(Shape shape, std::uint32_t top) {
  std::uint64_t buckets = 0;
  for (std::uint32_t i = 0; i < shape.levels; ++i) buckets += std::uint64_t{1} << (top - i);
  return buckets * shape.slots;
}

std::uint32_t top_level_for(Shape shape, std::uint64_t records, double load) {
  std::uint32_t top = shape.levels - 1;
  while (top < kMaxTop &&
         static_cast<double>(slots_under(shape, top)) * load < static_cast<double>(records))
    ++top;
  return top;
}

Table::Table(pm::Pool& pool, pm::RecordHeap& heap)
    : pool_(&pool), heap_(&heap), in_place_(pool.header().layout == 1) {
  pm::PoolHeader const& h = pool.header();
  view_.levels = h.levels;
  view_.hashes = h.hashes;
  view_.slots = h.slots;
  view_.key_bytes = h.key_bytes;
  view_.value_bytes = h.value_bytes;
  view_.records = pm::RecordShape(h);
  view_.max_record =
      static_cast<std::uint32_t>(pm::record_bytes(h.max_key_bytes, h.max_value_bytes));
}

std::uint64_t Table::run_of(std::uint32_t log2_buckets) const {
  std::uint64_t const bytes = level_bytes(in_place_, view_.key_bytes, view_.slots, log2_buckets);
  return (bytes + pool_->superblock_bytes() - 1) / pool_->superblock_bytes();
}

std::uint64_t Table::usable_slots() const {
  std::uint64_t slots = 0;
  for (std::uint32_t i = 0; i < view_.levels; ++i)
    slots += in_place::level_slots(view_.level[i], view_.slots);
  return slots;
}

std::uint64_t Table::bytes() const {
  std::uint64_t superblocks = 0;
  for (std::uint32_t i = 0; i < view_.all_levels(); ++i)
    superblocks += run_of(view_.level[i].log2_buckets);
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
    if (at.bytes >= level.base.bytes &&
        at.bytes < (level.base + in_place::level_slots(level, view_.slots) * 8).bytes)
      return at.bytes % 8 == 0;
  }
  return false;
}

Result<Level> Table::new_level(std::uint32_t log2_buckets, exec::Workers& workers) {
  if (log2_buckets > kMaxTop)
    return Status{Code::no_space, "the table cannot grow beyond 2^40 buckets a level"};
  heap_->give_back_empty();
  auto run = pool_->take_run(run_of(log2_buckets));
  if (!run) return run.status();
  // Zero is EMPTY in both layouts. publish_root orders this before the root that names the level.
  if (!mutated("level_not_zeroed")) {
    constexpr std::size_t kPiece = 1u << 20;
    std::byte* const base = pool_->base() + run->bytes;
    workers.for_chunks(
        level_bytes(in_place_, view_.key_bytes, view_.slots, log2_buckets), kPiece,
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
  if (std::uint64_t{view_.slots} << l.log2_buckets > pool_->bytes() / 8)
    return false;  // so that run_of cannot wrap
  return pool_->is_free_run(Offset{l.offset}, run_of(l.log2_buckets));
}

Status Table::attach() {
  pm::Root const& root = pool_->root();
  for (std::uint32_t i = 0; i < root.levels + root.retiring; ++i) {
    pm::RootLevel const& l = root.level[i];
    bool const smaller = i == 0 || l.log2_buckets < root.level[i - 1].log2_buckets;
    if (!smaller || !may_hold(l)) {
      return {Code::corrupt,
              "the root names a level that cannot be there (size, place or overlap); restore it "
              "from a copy"};
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
  root.retiring = mutated("retiring_flag_missing") ? 0 : 1;
  pool_->publish_root(root);
  if (mutated("resize_finished_early")) {
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

std::vector<std::uint32_t> Table::unmoved(std::uint64_t most,
                                          std::span<std::uint32_t const> without) const {
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
    if (!mutated("wider_level_without_entries") && !carry_into(*wider)) {
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

/// Copies what moved units hold on the top level; false if some of it finds no room. Of other units
/// there are copies at most. By one thread: no shape of several slots a bucket comes here.
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

// The copies go while the root still names the retiring level: a crash meanwhile leaves a growth to
// resume.
void Table::give_up(std::span<std::uint32_t const> units) {
  if (!mutated("stuck_unit_keeps_copies"))
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
  if (at.slot >= in_place::level_slots(*at.level, view_.slots))
    return 0;  // rounding up to claim words
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

void Table::store(Offset at, std::uint64_t word) {
  pm::store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + at.bytes), word);
}

std::optional<Entry> Table::entry(std::uint64_t number) const {
  SlotAt const at = locate(number);
  if (!holds_entry(at)) return std::nullopt;
  Offset const record = record_at(at);
  return read_entry(at,
                    std::min<std::uint64_t>(view_.room(record),
                                            heap_->is_record(record) ? heap_->room(record) : 0));
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

bool Table::intact(Entry const& e) const {
  pm::RecordView const r =
      pm::view_record(pool_->base(), view_.records, e.record, heap_->room(e.record));
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return crc32c(crc, data, bytes);
  };
  return pm::record_sum(r, r.value, sum) == r.header.crc;
}

std::uint64_t Table::astray() const {
  std::uint64_t n = 0;
  for (std::uint64_t number = 0; number < slots_; ++number) {
    auto const e = entry(number);
    n += e.has_value() && !e->readable;
  }
  return n;
}

std::string Table::fault(std::uint64_t number, Entry const& e) const {
  if (!e.readable) return "leads to no record";
  if (!intact(e)) return "record's checksum does not match";
  if (view_.value_bytes != 0 && e.value.size() != view_.value_bytes)
    return "record's value has another length than the pool's";
  auto const slots = candidate_slots(e.key);
  if (std::find(slots.begin(), slots.end(), number) == slots.end())
    return "key does not belong in this slot";
  std::uint64_t const hash = hash_bytes(e.key.data(), e.key.size());
  std::uint64_t const word = word_at(locate(number));
  bool const marked =
      in_place_ ? word == in_place::fingerprint(hash) : word == word::make(hash, e.record);
  if (!marked) return "fingerprint does not match the key";
  for (std::uint64_t const other : slots) {
    if (other == number) break;
    std::uint64_t const theirs = word_at(locate(other));
    std::uint64_t const mask = in_place_ ? ~std::uint64_t{0} : ~word::kPlaceMask;
    if (((theirs ^ word) & mask) != 0) continue;
    if (auto const twin = entry(other);
        twin && twin->readable && std::ranges::equal(twin->key, e.key))
      return "key stands in an earlier slot too";
  }
  return {};
}

std::string Table::name(std::uint64_t number) const {
  SlotAt const at = locate(number);
  return "slot " + std::to_string(number) + " at byte " + std::to_string(word_of(at).bytes) +
         ", record at byte " + std::to_string(record_at(at).bytes);
}

// ------------------------------------------------------------------------------------------------
// Opening

/// Of one slot. A word that changes always changes it: mixing is one to one.
std::uint64_t Table::sum_of(SlotAt at, std::uint64_t word) const {
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
    std::array<std::pair<std::uint64_t, pm::RecordHeap::MarkSpot>, kAhead> near;
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
      near[waiting++] = {number, heap_->spot_to_mark(record_at(at))};
      if (waiting == kAhead) mark_all();
    }
    mark_all();
    records += my_records;
    astray += my_astray;
    sum += my_sum;
  });
  heap_->finish_recovery();
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
  for (std::uint64_t const number : found.half) {
    mended.lines.push_back(name(number) + ": half inserted, cleared");
    if (!mutated("recovery_keeps_half_inserts")) clear(locate(number));
  }
  if (!mutated("recovery_keeps_duplicates"))
    for (std::uint64_t const number : found.again) resolve_duplicate(number, mended);
  pm::order();
  return mended;
}

// ------------------------------------------------------------------------------------------------
// Damage

/// Whether a slot may say that: a whole record, of a key that belongs there, which no slot leads to
/// now.
bool Table::explains(std::uint64_t number, std::uint64_t word) const {
  Offset const record = word::record(word);
  if (!heap_->is_record(record) || !view_.may_hold(record) || heap_->in_use(record)) return false;
  std::uint64_t const room = std::min<std::uint64_t>(view_.room(record), heap_->room(record));
  pm::RecordView const r = pm::view_record(pool_->base(), view_.records, record, room);
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return crc32c(crc, data, bytes);
  };
  if (pm::record_sum(r, r.value, sum) != r.header.crc) return false;
  if (word != word::make(hash_bytes(r.key, r.header.key_bytes), record)) return false;
  auto const slots = candidate_slots({r.key, r.header.key_bytes});
  return std::find(slots.begin(), slots.end(), number) != slots.end();
}

/// The one word within two bits of what stands there that explains it; none where there are
/// several.
std::optional<std::uint64_t> Table::word_nearby(std::uint64_t number) const {
  std::uint64_t const word = word_at(locate(number));
  std::optional<std::uint64_t> found;
  for (std::uint32_t a = 0; a < 64; ++a) {
    for (std::uint32_t b = a; b < 64; ++b) {
      std::uint64_t const other =
          word ^ (std::uint64_t{1} << a) ^ (b == a ? 0 : std::uint64_t{1} << b);
      if (!explains(number, other)) continue;
      if (found) return std::nullopt;
      found = other;
    }
  }
  return found;
}

Table::Change Table::put_right(std::uint64_t number, Offset at, std::uint64_t word,
                               std::string const& what) const {
  return {at, word, false, name(number) + ": " + what + ", put right"};
}
Table::Change Table::drop(std::uint64_t number, std::string const& why) const {
  return {word_of(locate(number)), 0, true, name(number) + ": " + why + ", dropped"};
}

/// The one word that is what it was when the sum lacks nothing. In all likelihood: of 2^64 sums,
/// 2,081 words are two bits apart.
std::optional<Table::Change> Table::change_by_sum(std::uint64_t missing) const {
  for (std::uint64_t number = 0; number < slots_; ++number) {
    SlotAt const at = locate(number);
    if (at.slot >= in_place::level_slots(*at.level, view_.slots)) continue;
    std::uint64_t const word = word_at(at);
    if (word != 0 && sum_of(at, word) + missing == 0 && two_bits_apart(word, 0))
      return put_right(number, word_of(at), 0, "was empty");
    if (std::uint64_t const was =
            unmixed((word != 0 ? mixed(word, word_of(at)) : 0) + missing, word_of(at));
        was != 0 && two_bits_apart(was, word))
      return put_right(number, word_of(at), was, "its word had changed");
    if (!in_place_ || word == 0) continue;
    Offset const place = in_place::place(view_, *at.level, at.slot);
    std::uint64_t const leads = record_at(at).bytes,
                        led = unmixed(mixed(leads, place) + missing, place);
    if (two_bits_apart(leads, led)) return put_right(number, place, led, "its place had changed");
  }
  return std::nullopt;
}

/// in_place, fixed sizes: the key in the slot that its state is the hash of, one or two bits of one
/// word apart.
std::optional<Table::Change> Table::key_nearby(std::uint64_t number) const {
  SlotAt const at = locate(number);
  Offset const place = in_place::key(view_, *at.level, at.slot);
  std::byte const* const stored = pool_->base() + place.bytes;
  std::vector<std::byte> key(stored, stored + view_.key_bytes);
  auto const flip = [&](std::uint32_t bit) {
    key[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  };
  auto const right = [&] {
    return in_place::fingerprint(hash_bytes(key.data(), key.size())) == word_at(at);
  };
  for (std::uint32_t a = 0; a < view_.key_bytes * 8; ++a) {
    for (std::uint32_t b = a; b < view_.key_bytes * 8 && b / 64 == a / 64; ++b) {
      flip(a);
      if (b != a) flip(b);
      bool const found = right();
      if (b != a) flip(b);
      flip(a);
      if (!found) continue;
      Offset const word = place + a / 64 * 8;
      std::uint64_t const bits = std::uint64_t{1} << a % 64 | std::uint64_t{1} << b % 64;
      return put_right(number, word, pm::load_word(pool_->base() + word.bytes) ^ bits,
                       "its key had changed");
    }
  }
  return std::nullopt;
}

/// What to do about an entry; none where it is right, or only its record is damaged. `words_right`:
/// the sum of all slots says that they are what they were. Then a record that cannot be right is
/// damaged itself, and no other is in its place.
std::optional<Table::Change> Table::change_for(std::uint64_t number, bool words_right) const {
  SlotAt const at = locate(number);
  std::uint64_t const word = word_at(at);
  if (word == 0) return std::nullopt;
  if (in_place_ && word == in_place::kInsert) return drop(number, "half inserted");
  std::optional<Entry> const e = entry(number);
  std::string const what = fault(number, *e);
  if (what.empty() || (words_right && e->readable)) return std::nullopt;
  if (words_right) return drop(number, what);
  if (e->readable) {
    std::uint64_t const hash = hash_bytes(e->key.data(), e->key.size());
    auto const slots = candidate_slots(e->key);
    bool const belongs = std::find(slots.begin(), slots.end(), number) != slots.end();
    std::uint64_t const right =
        in_place_ ? in_place::fingerprint(hash) : word::make(hash, e->record);
    bool const alone = std::none_of(slots.begin(), slots.end(), [&](std::uint64_t other) {
      return other != number && holds_entry(locate(other)) && record_at(locate(other)) == e->record;
    });
    if (belongs && alone && word == right && !what.starts_with("key stands")) return std::nullopt;
    if (belongs && alone && intact(*e) && two_bits_apart(word, right))
      return put_right(number, word_of(at), right, what);
  }
  if (in_place_ && view_.key_bytes != 0) {
    if (auto right = key_nearby(number)) return right;
  }
  if (!in_place_) {
    if (auto const right = word_nearby(number)) return put_right(number, word_of(at), *right, what);
  }
  return drop(number, what);
}

std::vector<Table::Change> Table::changes(Survey const& found,
                                          std::optional<std::uint64_t> missing) const {
  if (missing.value_or(0) != 0) {
    if (auto one = change_by_sum(*missing)) return {*one};
  }
  bool const words_right = missing == 0u && found.half.empty() && found.again.empty();
  // Records of `in_place` do not say whose they are: of two slots that lead to one, neither is to
  // be believed.
  std::set<std::uint64_t> shared;
  if (in_place_ && view_.key_bytes != 0)
    for (std::uint64_t const number : found.again) shared.insert(record_at(locate(number)).bytes);
  std::vector<Change> all;
  for (std::uint64_t number = 0; number < slots_; ++number) {
    SlotAt const at = locate(number);
    if (holds_entry(at) && shared.contains(record_at(at).bytes))
      all.push_back(drop(number, "another slot leads to its record"));
    else if (auto change = change_for(number, words_right))
      all.push_back(std::move(*change));
  }
  return all;
}

}  // namespace perdure::gphash
