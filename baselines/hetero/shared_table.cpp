#include "shared_table.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "update.hpp"

namespace perdure::hetero {
namespace {

constexpr double kFullest = 0.85;  // of the slots; beyond, evictions take long

std::uint32_t log2_buckets_for(std::uint64_t keys) {
  std::uint32_t log2 = 1;
  while (static_cast<double>(std::uint64_t{kEntries} << log2) * kFullest <
         static_cast<double>(keys))
    ++log2;
  return log2;
}
std::uint64_t pairs_at(std::uint32_t log2_buckets) {
  std::uint64_t const end = kPage + (kRowBytes << log2_buckets);
  return (end + kPage - 1) / kPage * kPage;
}
/// Locks of all buckets, and behind them the number of pairs that were handed out.
std::uint64_t lock_bytes(std::uint32_t log2_buckets) {
  return (sizeof(std::uint32_t) << log2_buckets) + sizeof(std::uint64_t);
}
void set_locks(View& view, std::byte* locks) {
  view.locks = reinterpret_cast<std::uint32_t*>(locks);
  view.used =
      reinterpret_cast<std::uint64_t*>(locks + (sizeof(std::uint32_t) << view.log2_buckets));
}

}  // namespace

std::uint64_t table_bytes(std::uint64_t keys) {
  return pairs_at(log2_buckets_for(keys)) + keys * kPairBytes;
}

Result<std::unique_ptr<Table>> create_table(std::shared_ptr<Sides> sides,
                                            TableOptions const& options) {
  auto made = SharedTable::create(std::move(sides), options);
  if (!made) return made.status();
  return std::unique_ptr<Table>(std::move(*made));
}

Result<std::unique_ptr<SharedTable>> SharedTable::create(std::shared_ptr<Sides> sides,
                                                         TableOptions const& options) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;  // location ids have 32 bits
  if (options.keys == 0 || options.keys > kMost)
    return Status{Code::invalid_argument,
                  "a table of " + std::to_string(options.keys) + " keys: give 1 to 2147483648"};
  std::unique_ptr<SharedTable> made(new SharedTable(std::move(sides), options.where));
  SharedTable& t = *made;
  t.keys_ = options.keys;
  t.bytes_ = table_bytes(options.keys);
  t.host_.log2_buckets = log2_buckets_for(options.keys);
  t.host_.pairs = Offset{pairs_at(t.host_.log2_buckets)};
  t.host_.capacity = options.keys;
  t.device_ = t.host_;
  auto queue = t.sides_->device().queue();
  if (!queue) return queue.status();
  t.queue_ = std::move(*queue);
  if (options.where != Where::device) {
    if (Status s = t.make_host_copy(); !s.ok()) return s;
  }
  if (Status s = t.make_device_copy(); !s.ok()) return s;
  if (options.where == Where::twice) {
    if (Status s = t.make_trail(); !s.ok()) return s;
  }
  return made;
}

Status SharedTable::make_host_copy() {
  auto table = sides_->region(bytes_);
  if (!table) return table.status();
  table_ = std::move(*table);
  auto locks = sides_->region(lock_bytes(host_.log2_buckets));
  if (!locks) return locks.status();
  locks_ = std::move(*locks);
  host_.base = table_.data();
  set_locks(host_, locks_.data());
  return {};
}

/// The device has locks of its own whichever copy it reads and changes.
Status SharedTable::make_device_copy() {
  auto locks = sides_->device().memory(lock_bytes(device_.log2_buckets));
  if (!locks) return locks.status();
  device_locks_ = *locks;
  set_locks(device_, device_locks_);
  if (where_ == Where::host) return {};
  auto table = sides_->device().memory(bytes_);
  if (!table) return table.status();
  device_.base = *table;
  return {};
}

Status SharedTable::make_trail() {
  std::size_t const list = kPiece * sizeof(std::uint32_t);
  auto trail = sides_->region(4 * list + sizeof(std::uint64_t));
  if (!trail) return trail.status();
  trail_ = std::move(*trail);
  auto const part = [&](std::size_t k) {
    return reinterpret_cast<std::uint32_t*>(trail_.data() + k * list);
  };
  host_.trail = {part(0), part(1), part(2), reinterpret_cast<std::uint64_t*>(part(4)), 2 * kPiece};
  auto rows = sides_->region(3 * kPiece * kRowBytes);
  if (!rows) return rows.status();
  rows_ = std::move(*rows);
  return {};
}

View SharedTable::device_view(Copy copy) const {
  View view = device_;
  if (copy == Copy::host) view.base = host_.base;
  return view;
}

Status SharedTable::check(Keys keys, std::size_t values) {
  if (keys.size() == values) return {};
  return {Code::invalid_argument, std::to_string(keys.size()) + " keys with " +
                                      std::to_string(values) + " values: give as many of each"};
}

Status SharedTable::full() const {
  return {Code::no_space, "the table is full: it was made for " + std::to_string(keys_) +
                              " keys; make it for more (--keys)"};
}

Status SharedTable::refuse_absent(Keys values) {
  std::atomic<bool> found{false};
  sides_->share_out(values.size(), [&](std::size_t begin, std::size_t end) {
    if (std::find(values.begin() + static_cast<std::ptrdiff_t>(begin),
                  values.begin() + static_cast<std::ptrdiff_t>(end),
                  kAbsent) != values.begin() + static_cast<std::ptrdiff_t>(end))
      found = true;
  });
  if (!found) return {};
  return {Code::invalid_argument,
          "the value 2^64-1 stands for an absent key: put values that are smaller"};
}

Status SharedTable::put(Keys keys, Keys values) {
  if (Status s = check(keys, values.size()); !s.ok()) return s;
  if (Status s = refuse_absent(values); !s.ok()) return s;
  for (std::size_t at = 0; at < keys.size(); at += kPiece) {
    std::size_t const n = std::min(kPiece, keys.size() - at);
    Status const done = where_ == Where::device
                            ? put_on_device(keys.subspan(at, n), values.subspan(at, n))
                            : put_on_host(keys.subspan(at, n), values.subspan(at, n));
    if (!done.ok()) return done;
  }
  return {};
}

Status SharedTable::put_on_host(Keys keys, Keys values) {
  if (host_.trail.moved_count != nullptr) *host_.trail.moved_count = 0;
  std::mutex mutex;
  exec::Counts counts;
  sides_->share_out(keys.size(), [&](std::size_t begin, std::size_t end) {
    PutArrays const part{keys.data(), values.data(), end - begin};
    exec::Counts const mine = sides_->thread().put(host_, part, begin);
    std::lock_guard const lock(mutex);
    counts += mine;
  });
  records_ += counts[TableCounts::inserted];
  if (where_ == Where::twice) {
    if (Status s = follow(keys.size(), counts[TableCounts::inserted] != 0); !s.ok()) return s;
  }
  return counts[TableCounts::full] == 0 ? Status{} : full();
}

Status SharedTable::put_on_device(Keys keys, Keys values) {
  if (Status s = queue_->put(device_, {keys.data(), values.data(), keys.size()}); !s.ok()) return s;
  if (Status s = queue_->wait(); !s.ok()) return s;
  records_ += queue_->counts()[TableCounts::inserted];
  return queue_->counts()[TableCounts::full] == 0 ? Status{} : full();
}

/// The device's copy gets what the last piece changed in the host's.
Status SharedTable::follow(std::size_t n, bool inserted) {
  if (Status s = gather(host_.trail.pairs, n, false); !s.ok()) return s;
  // Evictions change buckets even where what they made room for was not inserted.
  return inserted || *host_.trail.moved_count != 0 ? follow_buckets(n) : Status{};
}

Status SharedTable::follow_buckets(std::size_t n) {
  Trail const& trail = host_.trail;
  if (*trail.moved_count > trail.moved_room) return upload_all();
  if (Status s = gather(trail.buckets, n, true); !s.ok()) return s;
  return gather(trail.moved, *trail.moved_count, true);
}

Status SharedTable::upload_all() {
  return sides_->device().upload(device_.base, table_.data(), bytes_);
}

Status SharedTable::gather(std::uint32_t const* ids, std::size_t n, bool of_buckets) {
  if (n == 0) return {};
  std::size_t const bytes = of_buckets ? kRowBytes : kPairBytes;
  std::byte* const to = rows_.data();
  sides_->share_out(n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (ids[i] == kNone) continue;
      Offset const from = of_buckets ? host_.row(ids[i]) : host_.pair(ids[i]);
      std::memcpy(to + i * bytes, host_.base + from.bytes, bytes);
    }
  });
  Rows const rows{ids, reinterpret_cast<std::uint64_t const*>(to), n, of_buckets};
  if (Status s = queue_->copy(device_, rows); !s.ok()) return s;
  return queue_->wait();
}

Status SharedTable::clear() {
  if (where_ != Where::device) {
    std::memset(locks_.data(), 0, lock_bytes(host_.log2_buckets));
    std::size_t const rows = host_.pairs.bytes;
    sides_->workers().for_chunks(rows, std::size_t{1} << 20,
                                 [&](std::size_t begin, std::size_t end) {
                                   std::memset(table_.data() + begin, 0, end - begin);
                                 });
  }
  records_ = 0;
  if (where_ == Where::host) return {};
  std::vector<std::byte> const zeros(std::min<std::size_t>(bytes_, std::size_t{1} << 20));
  hetero::Device& device = sides_->device();
  for (std::size_t at = 0; at < device_.pairs.bytes; at += zeros.size()) {
    std::size_t const n = std::min<std::size_t>(zeros.size(), device_.pairs.bytes - at);
    if (Status s = device.upload(device_.base + at, zeros.data(), n); !s.ok()) return s;
  }
  return device.upload(reinterpret_cast<std::byte*>(device_.used), zeros.data(),
                       sizeof(std::uint64_t));
}

TableStats SharedTable::stats() const {
  return {records_, keys_, std::uint64_t{kEntries} << host_.log2_buckets, bytes_};
}

Result<bool> SharedTable::copies_equal() {
  if (where_ != Where::twice)
    return Status{Code::invalid_argument, "this table has one copy: make it with Where::twice"};
  std::vector<std::byte> piece(std::min<std::size_t>(bytes_, std::size_t{4} << 20));
  for (std::size_t at = 0; at < bytes_; at += piece.size()) {
    std::size_t const n = std::min<std::size_t>(piece.size(), bytes_ - at);
    if (Status s = sides_->device().download(piece.data(), device_.base + at, n); !s.ok()) return s;
    if (std::memcmp(piece.data(), table_.data() + at, n) != 0) return false;
  }
  return true;
}

}  // namespace perdure::hetero
