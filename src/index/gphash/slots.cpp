#include "index/gphash/slots.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "exec/bits.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

Slots::Slots(pm::Pool& pool, pm::RecordHeap& heap)
    : pool_(&pool),
      heap_(&heap),
      in_place_(pool.header().in_place()),
      logged_(pool.header().logged()),
      hashed_(pool.header().logs_hashes()) {
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

bool Slots::has_slot(Offset at) const {
  if (logged_) return false;
  for (std::uint32_t i = 0; i < view_.all_levels(); ++i) {
    Level const& level = view_.level[i];
    if (at.bytes >= level.base.bytes &&
        at.bytes < (level.base + in_place::level_slots(level, view_.slots) * 8).bytes)
      return at.bytes % 8 == 0;
  }
  return false;
}

void Slots::store(Offset at, std::uint64_t word) {
  PERDURE_ASSERT(!logged_ && at.bytes % sizeof word == 0 && at.bytes < pool_->bytes());
  pm::store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + at.bytes), word);
}

std::optional<Entry> Slots::entry(std::uint64_t number) const {
  SlotAt const at = locate(number);
  if (!holds_entry(at)) return std::nullopt;
  Offset const record = record_at(at);
  return read_entry(at,
                    std::min<std::uint64_t>(view_.room(record),
                                            heap_->is_record(record) ? heap_->room(record) : 0));
}

pm::RecordView Slots::view_at(SlotAt at, Offset record, std::uint64_t room) const {
  if (!view_.records.bare()) return pm::view_record(pool_->base(), view_.records, record, room);
  std::uint64_t const number = at.level->first_slot + at.slot;
  std::byte const* const value = pool_->base() + record.bytes;
  pm::will_read(value, view_.value_bytes);
  return pm::view_bare(view_.records, mirror_.identity(number), mirror_.tail(number)->value_sum,
                       value);
}

Entry Slots::read_entry(SlotAt at, std::uint64_t room) const {
  Entry e;
  e.record = record_at(at);
  bool const bare = view_.records.bare();
  std::uint64_t const least = bare ? view_.value_bytes : sizeof(pm::RecordHeader);
  if (room < least || !view_.may_hold(e.record)) return e;
  pm::RecordView const r = view_at(at, e.record, room);
  e.key = {r.key, r.header.key_bytes};
  if (logged_) {
    std::uint64_t const number = at.level->first_slot + at.slot;
    if (hashed_)
      std::memcpy(&e.hash, mirror_.identity(number), sizeof e.hash);
    else
      e.key = {mirror_.identity(number), view_.key_bytes};
    e.value_sum = mirror_.tail(number)->value_sum;
  }
  if (in_place_ && view_.key_bytes != 0)
    e.key = {pool_->base() + in_place::key(view_, *at.level, at.slot).bytes, view_.key_bytes};
  pm::will_read(e.key.data(), e.key.size());
  e.value = {r.value, r.header.value_bytes};
  e.readable = true;
  PERDURE_ASSERT(!kCostlyAssertions || e.key.data() != nullptr);
  return e;
}

std::vector<std::uint64_t> Slots::candidate_slots(std::span<std::byte const> key) const {
  return slots_at({view_, hash_bytes(key.data(), key.size())});
}

std::vector<std::uint64_t> Slots::slots_at(Candidates<ShapeAny> const& where) const {
  std::vector<std::uint64_t> slots;
  for (std::uint32_t lanes = where.distinct_lanes(view_); lanes != 0; lanes &= lanes - 1)
    slots.push_back(where.slot_number(view_, exec::lowest_bit(lanes)));
  return slots;
}

std::optional<Slots::Found> Slots::find(std::span<std::byte const> key) const {
  std::uint64_t const hash = hash_bytes(key.data(), key.size());
  std::optional<Found> suspect;
  for (std::uint64_t const number : slots_at({view_, hash})) {
    std::uint64_t const word = word_at(locate(number));
    bool const marked = in_place_ ? word == in_place::fingerprint(hash)
                                  : word == word::make(hash, word::record(word));
    auto const e = marked ? entry(number) : std::nullopt;
    if (!e) continue;
    if (e->readable && std::ranges::equal(e->key, key)) return Found{*e, true};
    suspect = Found{*e, false};
  }
  return suspect;
}

bool Slots::intact(Entry const& e) const {
  PERDURE_ASSERT(e.readable);
  if (view_.records.bare())
    return pm::short_sum(crc32c(0, e.value.data(), e.value.size())) == e.value_sum;
  pm::RecordView const r =
      pm::view_record(pool_->base(), view_.records, e.record, heap_->room(e.record));
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return crc32c(crc, data, bytes);
  };
  if (pm::record_sum(r, r.value, sum) != r.header.crc) return false;
  // Layout `log` knows which record it has to be.
  if (!logged_) return true;
  bool const its_key = hashed_ ? hash_bytes(r.key, r.header.key_bytes) == e.hash
                               : std::ranges::equal(e.key, std::span(r.key, r.header.key_bytes));
  return its_key && pm::short_sum(r.header.crc) == e.value_sum;
}

std::uint64_t Slots::astray() const {
  std::uint64_t n = 0;
  for (std::uint64_t number = 0; number < slots_; ++number) {
    auto const e = entry(number);
    n += e.has_value() && !e->readable;
  }
  return n;
}

std::string Slots::fault(std::uint64_t number, Entry const& e) const {
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
    std::uint64_t const mask = in_place_ ? ~std::uint64_t{0} : ~word::kAddressMask;
    if (((theirs ^ word) & mask) != 0) continue;
    if (auto const twin = entry(other);
        twin && twin->readable && std::ranges::equal(twin->key, e.key))
      return "key stands in an earlier slot too";
  }
  return {};
}

std::string Slots::name(std::uint64_t number) const {
  SlotAt const at = locate(number);
  std::string const word =
      logged_ ? std::string() : " at byte " + std::to_string(word_of(at).bytes);
  return "slot " + std::to_string(number) + word + ", record at byte " +
         std::to_string(record_at(at).bytes);
}

Slots::Sum Slots::sum(exec::Workers& workers) const {
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

}  // namespace perdure::gphash
