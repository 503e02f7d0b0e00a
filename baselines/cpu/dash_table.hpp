// Dash's tables behind the face of their baselines: slots and records as a store makes them. This
// is the one place in baselines/ that knows index/dash, for what is measured has to stand beside
// what it is measured against.
#pragma once

#include <optional>

#include "baseline_pool.hpp"
#include "exec/epochs.hpp"
#include "index/dash/keys.hpp"
#include "index/dash/layout.hpp"
#include "index/dash/segment.hpp"
#include "keys.hpp"

namespace perdure::cpu_baselines {

/// Keys of Dash's slots, and from a key to a slot.
class DashInline {
 public:
  using Keys = dash::InlineKeys;
  explicit DashInline(BaselinePool&) {}
  [[nodiscard]] static Keys keys(BaselinePool&) { return Keys(8); }
  [[nodiscard]] static Keys::Key key(Key bytes) { return Keys(8).key(bytes.data()); }
  template <class Host>
  Result<dash::Slot> slot(Host&, KeyLog&, Key bytes, Keys::Key const&, std::uint64_t value) const {
    return dash::Slot{word_at(bytes, 0), value};
  }
  template <class Host>
  std::uint64_t value(Host&, dash::Slot slot) const {
    return slot.second;
  }
};

class DashRecords {
 public:
  using Keys = dash::RecordKeys<KeyRecords>;
  explicit DashRecords(BaselinePool& pool) : records_(pool) {}
  [[nodiscard]] static Keys keys(BaselinePool& pool) { return Keys(KeyRecords(pool)); }
  [[nodiscard]] static Keys::Key key(Key bytes) { return Keys::key(bytes.data(), bytes.size()); }
  template <class Host>
  Result<dash::Slot> slot(Host& host, KeyLog& log, Key bytes, Keys::Key const& key,
                          std::uint64_t value) const {
    auto place = log.write(host, bytes, std::as_bytes(std::span(&value, 1)));
    if (!place) return place.status();
    return dash::Slot{*place, key.hash};
  }
  template <class Host>
  std::uint64_t value(Host& host, dash::Slot slot) const {
    std::uint64_t value = 0;
    records_.value(host, slot.first, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  KeyRecords records_;
};

/// `Dash` is one of index/dash's tables. Stash buckets: as many as the paper's default unless told
/// otherwise.
template <class Dash, class Kind, std::uint32_t kStash = 2>
class DashTable {
 public:
  DashTable(BaselinePool& pool, Options const&)
      : pool_(&pool), kind_(pool), table_(pool.pool, pool.memory, Kind::keys(pool), kShape) {}

  template <class Host>
  Status create(Host& host, Options const& options) {
    std::uint32_t depth = 1;
    while (std::uint64_t{kShape.buckets * dash::kSlots} << (depth + 1) <= options.initial_slots)
      ++depth;
    return table_.create(host, pool_->index(), depth);
  }
  template <class Host>
  Status open(Host& host) {
    return table_.open(host, pool_->index(), false);
  }
  template <class Host>
  Outcome find(Host& host, Key bytes, std::uint64_t& value) {
    dash::Slot found;
    if (table_.find(host, Kind::key(bytes), found) != dash::Answer::done) return Outcome::absent;
    value = kind_.value(host, found);
    return Outcome::done;
  }
  template <class Host>
  Outcome insert(Host& host, KeyLog& log, Key bytes, std::uint64_t value) {
    return write(host, log, bytes, value, Dash::Write::insert);
  }
  template <class Host>
  Outcome update(Host& host, KeyLog& log, Key bytes, std::uint64_t value) {
    return write(host, log, bytes, value, Dash::Write::update);
  }
  template <class Host>
  Outcome erase(Host& host, Key bytes) {
    dash::Slot before;
    return table_.erase(host, Kind::key(bytes), before) == dash::Answer::done ? Outcome::done
                                                                              : Outcome::absent;
  }
  template <class Host>
  TableStats stats(Host& host, bool count) {
    TableStats stats;
    stats.slots = table_.buckets(host) * dash::kSlots;
    if (!count) return stats;
    std::uint64_t position = 0;
    do {
      exec::EpochGuard const guard(epochs());
      position = table_.walk(host, position, [&](dash::Slot) { ++stats.records; }).value_or(0);
    } while (position != 0);
    return stats;
  }
  [[nodiscard]] exec::Epochs& epochs() { return table_.epochs(); }
  [[nodiscard]] Status why_full() { return table_.why_full(); }

 private:
  static constexpr dash::SegmentShape kShape{64, kStash};

  template <class Host>
  Outcome write(Host& host, KeyLog& log, Key bytes, std::uint64_t value, typename Dash::Write how) {
    auto const key = Kind::key(bytes);
    auto slot = kind_.slot(host, log, bytes, key, value);
    if (!slot) return Outcome::full;
    std::optional<dash::Slot> before;
    switch (table_.write(host, key, *slot, how, before)) {
      case dash::Answer::done: return Outcome::done;
      case dash::Answer::exists: return Outcome::exists;
      case dash::Answer::absent: return Outcome::absent;
      default: return Outcome::full;
    }
  }

  BaselinePool* pool_;
  Kind kind_;
  Dash table_;
};

}  // namespace perdure::cpu_baselines
