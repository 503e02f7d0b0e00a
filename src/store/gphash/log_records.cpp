#include "store/gphash/log_records.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "base/prefetch.hpp"
#include "store/gphash/copied_value.hpp"
#include "wal/entries.hpp"

namespace perdure::gphash {

LogRecords::LogRecords(pm::PoolHeader const& h)
    : shape_(h),
      hashes_(h.logs_hashes()),
      key_bytes_(h.key_bytes),
      value_bytes_(h.value_bytes),
      most_record_(pm::record_bytes(h.max_key_bytes, h.max_value_bytes)) {}

void LogRecords::prefetch(std::uint64_t what) const {
  std::uint64_t const at = wal::record_of(what).bytes;
  if (at < pool_bytes) prefetch_line(base + at);
}

LogRecords::Copied LogRecords::copy(std::uint64_t what, Key key, Target& target) const {
  if (shape_.bare()) return copy_bare(what, target) ? Copied::whole : Copied::damaged;
  auto const r = view(what);
  if (!r) return Copied::damaged;
  Target none;
  Key const its(r->key, r->header.key_bytes);
  bool const another = hashes_ && !std::ranges::equal(its, key);
  if (another && copy_of(*r, what, its, none)) return Copied::of_another;
  return !another && copy_of(*r, what, key, target) ? Copied::whole : Copied::damaged;
}

bool LogRecords::has_record_of(std::span<std::byte const> cell) const {
  wal::LogEntry entry;
  std::memcpy(&entry, cell.data(), sizeof entry);
  Target none;
  if (hashes_) {
    auto const r = view(entry.what);
    return r && copy_of(*r, entry.what, {r->key, r->header.key_bytes}, none) &&
           hash_bytes(r->key, r->header.key_bytes) == entry.key;
  }
  std::byte key[wal::kMostEntryKey + sizeof entry.what];
  std::memcpy(key, &entry.key, sizeof entry.key);
  std::ranges::copy(cell.subspan(sizeof entry), key + sizeof entry.key);
  return copy(entry.what, Key(key, key_bytes_), none) == Copied::whole;
}

bool LogRecords::copy_bare(std::uint64_t what, Target& target) const {
  std::uint64_t const at = wal::record_of(what).bytes;
  if (at > pool_bytes || value_bytes_ > pool_bytes - at) return false;
  target.value_bytes = value_bytes_;
  std::uint32_t const sum = copied_value(0, {base + at, value_bytes_}, {target.to, target.bytes});
  return pm::short_sum(sum) == wal::value_sum_of(what);
}

/// None: its header says what no record of this pool can be.
std::optional<pm::RecordView> LogRecords::view(std::uint64_t what) const {
  std::uint64_t const at = wal::record_of(what).bytes;
  if (at > pool_bytes || sizeof(pm::RecordHeader) > pool_bytes - at) return std::nullopt;
  pm::RecordView const r = pm::view_whole(base + at, std::min(most_record_, pool_bytes - at));
  bool const fits = (key_bytes_ == 0 || r.header.key_bytes == key_bytes_) &&
                    (value_bytes_ == 0 || r.header.value_bytes == value_bytes_);
  return fits ? std::optional(r) : std::nullopt;
}

/// Whether it is whole with this key, which its checksum covers.
bool LogRecords::copy_of(pm::RecordView const& r, std::uint64_t what, Key key,
                         Target& target) const {
  pm::RecordHeader const& header = r.header;
  target.value_bytes = header.value_bytes;
  auto const* const front = reinterpret_cast<std::byte const*>(&header) + pm::kCrcSkip;
  std::uint32_t sum = crc32c(0, front, pm::summed_before_key(false));
  sum = crc32c(sum, key.data(), key.size());
  sum = copied_value(sum, {r.value, header.value_bytes}, {target.to, target.bytes});
  bool const its = pm::short_sum(header.crc) == wal::value_sum_of(what);
  return its && sum == header.crc;
}

}  // namespace perdure::gphash
