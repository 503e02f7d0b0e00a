#include "lsm/rocks/cached_reads.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;

struct SliceKeys {
  Slice const* slices;
  [[nodiscard]] std::byte const* at(std::size_t i) const { return as_bytes(slices[i].data()); }
  [[nodiscard]] std::uint32_t size(std::size_t i) const {
    return static_cast<std::uint32_t>(slices[i].size());
  }
};

/// Whether the options ask for no more than what RocksDB has of the key.
bool asks_plainly(ReadOptions const& options) {
  return options.read_tier == rocksdb::kReadAllTier && options.timestamp == nullptr &&
         !options.ignore_range_deletions &&
         options.value_size_soft_limit == std::numeric_limits<std::uint64_t>::max();
}

rocksdb::Status answer(rocksdb::Status const& is, Slice const& known, PinnableSlice* value) {
  value->Reset();
  if (is.ok()) value->PinSelf(known);
  return is;
}

}  // namespace

std::uint64_t* CachedReads::room(std::size_t words) {
  thread_local std::vector<std::uint64_t> all;
  if (all.size() < words) all.resize(words);
  return all.data();
}

std::uint64_t CachedReads::sequence(ReadOptions const& options) const {
  return options.snapshot != nullptr ? options.snapshot->GetSequenceNumber()
                                     : base_.GetLatestSequenceNumber();
}

bool CachedReads::may_answer(ReadOptions const& options, std::uint32_t family) const {
  return cache_ != nullptr && asks_plainly(options) && families_.is_cached(family);
}

std::optional<CacheTicket> CachedReads::ticket(ReadOptions const& options, std::uint32_t family,
                                               std::uint64_t keys) {
  if (!may_answer(options, family)) return std::nullopt;
  auto ticket = cache_->ticket(sequence(options), keys);
  if (ticket && !options.fill_cache) ticket->may_fill = false;
  return ticket;
}

bool CachedReads::saw(CacheTicket const& ticket, ReadOptions const& options) const {
  if (options.snapshot != nullptr) return true;
  return base_.GetLatestSequenceNumber() == ticket.sequence && cache_->holds(ticket);
}

void CachedReads::keep(CacheTicket const& ticket, std::uint32_t family, Slice const& key,
                       Slice const& value, rocksdb::Status const& status) {
  if (!status.ok() && !status.IsNotFound()) return;
  CacheValue const said{as_bytes(value.data()), status.ok() ? value.size() : 0, !status.ok()};
  cache_->insert(ticket, family, std::as_bytes(std::span(key.data(), key.size())), said);
}

bool SingleGets::ask() { return trust_ > 0 || gets_++ % kTried == 0; }

void SingleGets::answered(bool hit) {
  if (hit)
    trust_ = std::min(trust_ + 2, kMostTrust);
  else if (trust_ > 0)
    --trust_;
}

rocksdb::Status CachedReads::get(ReadOptions const& options, ColumnFamilyHandle* family,
                                 Slice const& key, PinnableSlice* value) {
  thread_local SingleGets gets;
  if (cache_ == nullptr || !gets.ask()) return base_.Get(options, family, key, value);
  std::uint32_t const id = family->GetID();
  auto const ticket = this->ticket(options, id, 1);
  if (!ticket) return base_.Get(options, family, key, value);
  CacheAnswer found;
  std::uint64_t* const at = room(cache_->value_words());
  bool const hit =
      cache_->look_up(*ticket, id, SliceKeys{&key}, 1, &found, at) > 0 && cache_->holds(*ticket);
  gets.answered(hit);
  if (hit) return answer(status_of(found), value_of(found, at), value);
  ++cache_->counters().misses;
  auto s = base_.Get(options, family, key, value);
  if (ticket->may_fill && saw(*ticket, options)) keep(*ticket, id, key, *value, s);
  return s;
}

/// Where RocksDB's state changed between the cache's answers and RocksDB's, all are RocksDB's.
std::size_t CachedReads::multi_get(ReadOptions const& options, ColumnFamilyHandle* family,
                                   std::span<Slice const> keys, PinnableSlice* values,
                                   rocksdb::Status* statuses, bool sorted) {
  std::uint32_t const id = family->GetID();
  auto const all_by_rocksdb = [&] {
    base_.MultiGet(options, family, keys.size(), keys.data(), values, statuses, sorted);
    return std::size_t{0};
  };
  auto const ticket = this->ticket(options, id, keys.size());
  if (!ticket) return all_by_rocksdb();
  std::vector<std::uint32_t> missing;
  look_up(
      *ticket, id, SliceKeys{keys.data()}, keys.size(),
      [&](std::size_t i, rocksdb::Status const& is, Slice const& found) {
        statuses[i] = answer(is, found, &values[i]);
      },
      [&](std::size_t i) { missing.push_back(static_cast<std::uint32_t>(i)); });
  if (missing.empty()) return keys.size();
  cache_->counters().misses += missing.size();
  if (missing.size() == keys.size()) {
    all_by_rocksdb();
    if (!ticket->may_fill || !saw(*ticket, options)) return 0;
    for (std::size_t i = 0; i < keys.size(); ++i)
      keep(*ticket, id, keys[i], values[i], statuses[i]);
    return 0;
  }
  std::vector<Slice> slices;
  slices.reserve(missing.size());
  for (std::uint32_t const i : missing) slices.push_back(keys[i]);
  std::vector<PinnableSlice> found(missing.size());
  std::vector<rocksdb::Status> said(missing.size());
  base_.MultiGet(options, family, slices.size(), slices.data(), found.data(), said.data(), sorted);
  if (!saw(*ticket, options)) {
    for (std::size_t i = 0; i < keys.size(); ++i) values[i].Reset();
    return all_by_rocksdb();
  }
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (ticket->may_fill) keep(*ticket, id, slices[i], found[i], said[i]);
    values[missing[i]] = std::move(found[i]);
    statuses[missing[i]] = said[i];
  }
  return keys.size() - missing.size();
}

}  // namespace perdure::lsm
