#include "store/gphash/pool_look.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "index/gphash/root_levels.hpp"
#include "pm/record.hpp"
#include "store/gphash/copied_value.hpp"

namespace perdure::gphash {
namespace {

constexpr int kLooks = 4;  // at a key that changes while it is looked up

std::uint64_t load(std::byte const* at) {
  auto* const word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

}  // namespace

Result<TableView> table_of(std::string const& path, pm::PoolHeader const& h, pm::Root const& root,
                           std::uint64_t mapped) {
  auto found = read_levels(root, h.levels);
  if (!found)
    return Status{found.status().code(), "pool " + path + ": " + found.status().message()};
  TableView t{};
  t.records = pm::RecordShape(h);
  t.pool_bytes = std::min(mapped, root.superblocks * h.superblock_bytes);
  t.hashes = h.hashes;
  t.slots = h.slots;
  t.key_bytes = h.key_bytes;
  t.value_bytes = h.value_bytes;
  t.max_record = static_cast<std::uint32_t>(pm::record_bytes(h.max_key_bytes, h.max_value_bytes));
  for (Level const& level : found->levels) {
    std::uint64_t const bytes = level_bytes(false, h.key_bytes, h.slots, level.log2_buckets);
    if (level.base.bytes % 8 != 0 || level.base.bytes > t.pool_bytes ||
        bytes > t.pool_bytes - level.base.bytes)
      return Status{Code::corrupt, "pool " + path + ": its root names levels that are not in it"};
    t.level[t.levels++] = level;
  }
  return t;
}

KeyStatus PoolLook::at(std::span<std::byte const> key, std::byte* to, std::uint32_t bytes,
                       std::uint32_t& value_bytes) const {
  Key const looked{key, hash_bytes(key.data(), key.size()), to, bytes};
  Candidates<ShapeAny> const where(table_, looked.hash);
  KeyStatus status = KeyStatus::not_found;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::this_thread::yield();
    std::uint64_t const before = changes();
    Met const met = search(where, looked);
    if (met.answer) {
      value_bytes = met.value_bytes;
      return *met.answer;
    }
    bool const damaged = met.slot && load(words_ + met.slot.bytes) == met.word;
    status = damaged ? KeyStatus::corrupt : KeyStatus::not_found;
    if (!damaged && before % 2 == 0 && changes() == before) break;
  }
  return status;
}

std::uint64_t PoolLook::changes() const { return load(words_ + pm::kChangeWordOffset); }

PoolLook::Met PoolLook::search(Candidates<ShapeAny> const& where, Key const& key) const {
  Met met;
  std::uint32_t const groups = table_.levels * table_.hashes;
  for (std::uint32_t lane = 0; lane < groups * table_.slots; ++lane) {
    Offset const slot = where.slot(table_, lane);
    std::uint64_t const found = load(words_ + slot.bytes);
    if ((found & ~word::kAddressMask) != word::fingerprint(key.hash)) continue;
    auto const whole = copied(word::record(found), key, met.value_bytes);
    if (!whole) continue;
    if (*whole) {
      met.answer = KeyStatus::ok;
      return met;
    }
    met.slot = slot, met.word = found;
  }
  return met;
}

/// None: the record there has another key, or none is there. Else whether it is whole.
std::optional<bool> PoolLook::copied(Offset at, Key const& key, std::uint32_t& value_bytes) const {
  bool const any_length = table_.key_bytes == 0 || table_.value_bytes == 0;
  if (!(any_length ? table_.may_hold(at) : table_.may_hold_all(at))) return std::nullopt;
  pm::RecordView const r = pm::view_record(records_, table_.records, at, table_.room(at));
  if (table_.value_bytes != 0 && r.header.value_bytes != table_.value_bytes) return std::nullopt;
  std::span<std::byte const> const its(r.key, r.header.key_bytes);
  bool const trusted = mutated("reader_trusts_fingerprint");
  if (!std::ranges::equal(its, key.key) && !trusted) return std::nullopt;
  value_bytes = r.header.value_bytes;
  std::uint32_t const before = pm::summed_before_key(r.split);
  std::uint32_t sum = crc32c(0, its.data() - before, before);
  sum = crc32c(sum, trusted ? its.data() : key.key.data(), its.size());
  sum = copied_value(sum, {r.value, value_bytes}, {key.to, key.bytes});
  return sum == r.header.crc || mutated("reader_ignores_checksum");
}

}  // namespace perdure::gphash
