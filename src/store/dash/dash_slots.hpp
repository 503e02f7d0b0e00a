// What a slot of a Dash table stands for: a key and a value in the slot itself, or a record.
// Invariants: a slot that make() answers leads to bytes that are written and ordered; what a
// damaged slot leads to is told apart from what belongs to its key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "exec/counts.hpp"
#include "index/dash/keys.hpp"
#include "perdure/batch.h"
#include "pm/pool.hpp"
#include "pm/record.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/threads/records.hpp"
#include "store/threads/space.hpp"

namespace perdure {

/// Keys and values of up to 8 bytes.
class InlineSlots {
 public:
  using Keys = dash::InlineKeys;
  using Key = Keys::Key;
  static constexpr bool kRecords = false;

  InlineSlots(pm::Pool const&, threads::Space const&, DashOptions const& options)
      : keys_(options.key_bytes),
        key_bytes_(options.key_bytes),
        value_bytes_(options.value_bytes) {}

  [[nodiscard]] Keys keys() const { return keys_; }
  [[nodiscard]] Key key(exec::ByteColumn const& column, std::size_t i) const {
    return keys_.key(column.at(i));
  }
  [[nodiscard]] static bool leads_to(dash::Slot const&, Key const&) { return true; }

  /// The value that a key's slot leads to, or why it cannot be had. `word` is where it is put.
  template <class Host>
  KeyStatus value(Host&, Key const&, dash::Slot const& slot, std::uint64_t& word,
                  std::span<std::byte const>& value) const {
    word = slot.second;
    value = {reinterpret_cast<std::byte const*>(&word), value_bytes_};
    return KeyStatus::ok;
  }
  template <class Host>
  dash::Slot make(Host&, Key const& key, std::span<std::byte const> value, std::uint64_t record,
                  std::uint64_t) const {
    dash::Slot slot{key.word, 0};
    PERDURE_ASSERT(record == 0 && value.size() <= sizeof slot.second);
    std::memcpy(&slot.second, value.data(), value.size());
    return slot;
  }

  [[nodiscard]] static std::string fault(dash::Slot const&) { return {}; }
  [[nodiscard]] std::span<std::byte const> key_at(dash::Slot const& slot) const {
    return {reinterpret_cast<std::byte const*>(&slot.first), key_bytes_};
  }
  /// Whether the slot has a record that a scan shows; if so, visit() has seen it.
  bool show(dash::Slot const& slot, threads::Visitor const& visit) const {
    visit(key_at(slot), {reinterpret_cast<std::byte const*>(&slot.second), value_bytes_});
    return true;
  }

 private:
  Keys keys_;
  std::uint32_t key_bytes_, value_bytes_;
};

/// Records of any sizes.
class RecordSlots {
 public:
  using Keys = dash::RecordKeys<threads::Records>;
  using Key = Keys::Key;
  static constexpr bool kRecords = true;

  RecordSlots(pm::Pool const& pool, threads::Space const& space, DashOptions const& options)
      : records_(pool.base(), space.shape(), space.pool_bytes()),
        value_bytes_(options.value_bytes),
        fixed_stride_(options.key_bytes != 0 && options.value_bytes != 0
                          ? pm::fixed_stride(pool.header())
                          : 0),
        verify_reads_(options.verify_reads) {}

  [[nodiscard]] Keys keys() const { return Keys(records_); }
  [[nodiscard]] static Key key(exec::ByteColumn const& column, std::size_t i) {
    return Keys::key(column.at(i), column.size(i));
  }
  [[nodiscard]] std::uint64_t stride(std::size_t key_bytes, std::size_t value_bytes) const {
    return fixed_stride_ != 0 ? fixed_stride_
                              : pm::stride_for(pm::record_bytes(key_bytes, value_bytes));
  }
  /// A record that may lie there; where they have any length, its first lines.
  void prefetch(dash::Slot const& slot) const {
    records_.prefetch(slot.first, fixed_stride_ != 0 ? fixed_stride_ : 2 * pm::kCacheLine);
  }
  /// Whether a slot leads to a record of this key, and so has it to itself; else it is damaged.
  [[nodiscard]] bool leads_to(dash::Slot const& slot, Key const& key) const {
    return records_.has(slot.first, key.bytes, key.size);
  }

  template <class Host>
  KeyStatus value(Host& host, Key const& key, dash::Slot const& slot, std::uint64_t&,
                  std::span<std::byte const>& value) const {
    auto const record = records_.view(slot.first);
    if (!record || (verify_reads_ && !threads::Records::intact(*record)) ||
        !threads::Records::is_of(*record, key.bytes, key.size))
      return KeyStatus::corrupt;
    value = {record->value, record->header.value_bytes};
    host.read(value.data(), value.size());
    bool const fits = value_bytes_ == 0 || value.size() == value_bytes_;
    return fits ? KeyStatus::ok : KeyStatus::corrupt;
  }
  /// Writes `record`, which is the caller's.
  template <class Host>
  dash::Slot make(Host& host, Key const& key, std::span<std::byte const> value,
                  std::uint64_t record, std::uint64_t sequence) const {
    PERDURE_ASSERT(record != 0);
    auto const bytes = static_cast<std::uint32_t>(value.size());
    records_.write(
        host, record,
        {{0, bytes, static_cast<std::uint32_t>(key.size), 0, sequence}, key.bytes, value.data()});
    return {record, key.hash};
  }

  /// What is wrong with what a slot leads to; empty: nothing.
  [[nodiscard]] std::string fault(dash::Slot const& slot) const {
    auto const record = records_.view(slot.first);
    if (!record) return "leads to no record";
    if (!threads::Records::intact(*record)) return "record's checksum does not match";
    if (value_bytes_ != 0 && record->header.value_bytes != value_bytes_)
      return "record's value has another length than the pool's";
    if (hash_bytes(record->key, record->header.key_bytes) != slot.second)
      return "hash does not match the key";
    return {};
  }
  /// Of a slot that is not damaged.
  [[nodiscard]] std::span<std::byte const> key_at(dash::Slot const& slot) const {
    auto const record = records_.view(slot.first);
    if (!record) return {};
    return {record->key, record->header.key_bytes};
  }
  bool show(dash::Slot const& slot, threads::Visitor const& visit) const {
    auto const record = records_.view(slot.first);
    if (!record || (value_bytes_ != 0 && record->header.value_bytes != value_bytes_)) return false;
    if (hash_bytes(record->key, record->header.key_bytes) != slot.second)
      return false;  // another slot's record
    visit({record->key, record->header.key_bytes}, {record->value, record->header.value_bytes});
    return true;
  }

 private:
  threads::Records records_;
  std::uint32_t value_bytes_;
  std::uint64_t fixed_stride_;  // 0: records have any length
  bool verify_reads_;
};

}  // namespace perdure
