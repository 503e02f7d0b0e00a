#include "index/gphash/table.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "index/gphash/root_levels.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

std::uint64_t slots_under(Shape shape, std::uint32_t top) {
  PERDURE_ASSERT(top + 1 >= shape.levels && top <= kMaxTop);  // each level has a bucket
  std::uint64_t buckets = 0;
  for (std::uint32_t i = 0; i < shape.levels; ++i) buckets += std::uint64_t{1} << (top - i);
  return buckets * shape.slots;
}

std::uint32_t top_level_for(Shape shape, std::uint64_t records, double load) {
  PERDURE_ASSERT(shape.levels > 0 && shape.slots > 0);
  std::uint32_t top = shape.levels - 1;
  while (top < kMaxTop &&
         static_cast<double>(slots_under(shape, top)) * load < static_cast<double>(records))
    ++top;
  return top;
}

Table::Table(pm::Pool& pool, pm::RecordHeap& heap)
    : pool_(&pool), heap_(&heap), in_place_(pool.header().in_place()) {
  pm::PoolHeader const& h = pool.header();
  view_.levels = h.levels;
  view_.hashes = h.hashes;
  view_.slots = h.slots;
  view_.key_bytes = h.key_bytes;
  view_.value_bytes = h.value_bytes;
  view_.records = pm::RecordShape(h);
  view_.max_record =
      static_cast<std::uint32_t>(pm::record_bytes(h.max_key_bytes, h.max_value_bytes));
  PERDURE_ASSERT(view_.levels > 0 && view_.levels * view_.hashes * view_.slots <= 32);
}

std::uint64_t Table::run_of(std::uint32_t log2_buckets) const {
  PERDURE_ASSERT(log2_buckets <= kMaxTop);
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
    PERDURE_ASSERT(i == 0 || view_.level[i].log2_buckets < view_.level[i - 1].log2_buckets);
    view_.level[i].first_slot = slots_;
    // Whole claim words a level, so that a row's bits never straddle two.
    slots_ += (in_place::level_slots(view_.level[i], view_.slots) + 31) / 32 * 32;
  }
  std::uint32_t const lowest = view_.level[view_.all_levels() - 1].log2_buckets;
  view_.unit_bits = lowest - std::min(lowest, window_bits());
  view_.pool_bytes = pool_->bytes();
  PERDURE_ASSERT(slots_ % 32 == 0 && view_.unit_bits <= lowest);
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
  PERDURE_ASSERT(run->bytes % pool_->superblock_bytes() == 0);
  return Level{*run, 0, log2_buckets};
}

Status Table::create(std::uint32_t top_level, exec::Workers& workers) {
  PERDURE_ASSERT(top_level + 1 >= view_.levels && slots_ == 0);
  for (std::uint32_t i = 0; i < view_.levels; ++i) {
    auto level = new_level(top_level - i, workers);
    if (!level) return level.status();
    view_.level[i] = *level;
  }
  publish_levels({view_.level, view_.levels}, false);
  renumber();
  return {};
}

/// In place of those that the root names now.
void Table::publish_levels(std::span<Level const> levels, bool retires) {
  pm::Root root = pool_->root();  // taking their runs may have grown the file
  put_levels(root, levels, retires);
  pool_->publish_root(root);
}

/// Whether a level that the root names lies in the pool and on nothing else.
bool Table::may_hold(Level const& l) const {
  if (std::uint64_t{view_.slots} << l.log2_buckets > pool_->bytes() / 8)
    return false;  // so that run_of cannot wrap
  return pool_->is_free_run(l.base, run_of(l.log2_buckets));
}

Status Table::attach() {
  auto named = read_levels(pool_->root(), view_.levels);
  if (!named) return named.status();
  for (std::size_t i = 0; i < named->levels.size(); ++i) {
    Level const& level = named->levels[i];
    if (!may_hold(level)) {
      return {Code::corrupt,
              "the root names a level that cannot be there (size, place or overlap); restore it "
              "from a copy"};
    }
    pool_->claim_run(level.base, run_of(level.log2_buckets));
    view_.level[i] = level;
  }
  retire(named->retires);
  return {};
}

// ------------------------------------------------------------------------------------------------
// Slots

Table::SlotAt Table::locate(std::uint64_t number) const {
  PERDURE_ASSERT(!kCostlyAssertions || number < slots_);
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
  PERDURE_ASSERT(at.bytes % sizeof word == 0 && at.bytes < pool_->bytes());
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
  PERDURE_ASSERT(!kCostlyAssertions || e.key.data() != nullptr);
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
  PERDURE_ASSERT(e.readable);
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

}  // namespace perdure::gphash
