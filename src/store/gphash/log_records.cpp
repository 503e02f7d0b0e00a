#include "store/gphash/log_records.hpp"

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"
#include "base/prefetch.hpp"
#include "pm/record.hpp"
#include "store/gphash/copied_value.hpp"
#include "wal/entries.hpp"

namespace perdure::gphash {

LogRecords::LogRecords(pm::PoolHeader const& h)
    : shape_(h),
      key_bytes_(h.key_bytes),
      value_bytes_(h.value_bytes),
      most_record_(pm::record_bytes(h.max_key_bytes, h.max_value_bytes)) {}

void LogRecords::prefetch(std::uint64_t what) const {
  std::uint64_t const at = wal::record_of(what).bytes;
  if (at < pool_bytes) prefetch_line(base + at);
}

bool LogRecords::copy(std::uint64_t what, std::byte const* key, Target& target) const {
  return shape_.bare() ? copy_bare(what, target) : copy_whole(what, key, target);
}

bool LogRecords::copy_bare(std::uint64_t what, Target& target) const {
  std::uint64_t const at = wal::record_of(what).bytes;
  if (at > pool_bytes || value_bytes_ > pool_bytes - at) return false;
  target.value_bytes = value_bytes_;
  std::uint32_t const sum = copied_value(0, {base + at, value_bytes_}, {target.to, target.bytes});
  return pm::short_sum(sum) == wal::value_sum_of(what);
}

/// The key need not be read: the checksum covers it.
bool LogRecords::copy_whole(std::uint64_t what, std::byte const* key, Target& target) const {
  std::uint64_t const at = wal::record_of(what).bytes;
  if (at > pool_bytes || sizeof(pm::RecordHeader) > pool_bytes - at) return false;
  pm::RecordView const r = pm::view_whole(base + at, std::min(most_record_, pool_bytes - at));
  pm::RecordHeader const& header = r.header;
  if (header.key_bytes != key_bytes_ || (value_bytes_ != 0 && header.value_bytes != value_bytes_))
    return false;
  target.value_bytes = header.value_bytes;
  auto const* const front = reinterpret_cast<std::byte const*>(&header) + pm::kCrcSkip;
  std::uint32_t sum = crc32c(0, front, pm::summed_before_key(false));
  sum = crc32c(sum, key, key_bytes_);
  sum = copied_value(sum, {r.value, header.value_bytes}, {target.to, target.bytes});
  bool const its = pm::short_sum(header.crc) == wal::value_sum_of(what);
  return its && sum == header.crc;
}

}  // namespace perdure::gphash
