// A batch on its way into a run: brought to the machine, looked over, sorted.
// Invariant: what the caller says of its batch is checked before anything is made of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "exec/counts.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/key_order.hpp"
#include "lsm/engine/run_on.hpp"

namespace perdure::lsm {

/// Labels are the entries, counted from the last; see KeyOrder.
struct BatchKeys {
  exec::ByteColumn keys;
  std::uint32_t last = 0;

  [[nodiscard]] PERDURE_FN std::uint32_t size(std::uint32_t label) const {
    return keys.size(last - label);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t label, std::uint64_t from) const {
    return key_word(keys.at(last - label), keys.size(last - label), from);
  }
};

/// What all keys have in common with the first, at least.
template <class W>
struct SharedBody {
  BatchKeys keys;
  std::uint64_t* shared;
  PERDURE_FN void operator()(std::size_t i) const {
    std::uint64_t known = W::load(shared);
    if (known == 0) return;
    std::uint64_t const mine = common_bytes(keys, 0, static_cast<std::uint32_t>(i), 0);
    while (mine < known) {
      std::uint64_t const before = W::cas(shared, known, mine);
      if (before == known) return;
      known = before;
    }
  }
};

struct BatchWordBody {
  BatchKeys keys;
  std::uint64_t shared;
  exec::Sorted* items;
  PERDURE_FN void operator()(std::size_t k) const {
    items[k] = {k, keys.word(static_cast<std::uint32_t>(k), shared)};
  }
};

/// Entries in the order of the run; see RunMaker.
struct BatchFrom {
  exec::ByteColumn keys;
  std::uint32_t last = 0;
  exec::Sorted const* order = nullptr;  // labels, and the words that become prefixes
  Kind const* kinds = nullptr;
  RequestId const* requests = nullptr;
  RequestId first_request = 0;
  ValueRef const* values = nullptr;
  exec::ByteColumn value_column;  // its bytes are the host's, its offsets here
  bool has_values = false;  // of one of the two kinds
  // values' bytes here, of which so many come for each; null: only where the values are
  std::byte const* near = nullptr;
  std::uint32_t near_bytes = 0;
  // Not null: `near` has what the host has from here on, and values lie there as they do here.
  std::byte const* near_first = nullptr;

  [[nodiscard]] PERDURE_FN std::uint32_t entry(std::size_t k) const {
    return last - static_cast<std::uint32_t>(order[k].index);
  }
  [[nodiscard]] PERDURE_FN bool has_value(std::uint64_t i) const {
    return has_values && (kinds == nullptr || kinds[i] != Kind::erase);
  }
  [[nodiscard]] PERDURE_FN std::byte const* value(std::uint64_t i) const {
    return values != nullptr ? values[i].data : value_column.at(i);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t value_bytes(std::uint64_t i) const {
    if (values != nullptr) return values[i].size;
    if (value_column.offsets == nullptr) return value_column.width;
    return static_cast<std::uint64_t>(value_column.offsets[i + 1] - value_column.offsets[i]);
  }
  [[nodiscard]] PERDURE_FN std::uint32_t key_size(std::size_t k) const {
    return keys.size(entry(k));
  }
  PERDURE_FN void copy_key(std::size_t k, std::uint64_t* to) const {
    std::byte const* const key = keys.at(entry(k));
    std::uint32_t const size = keys.size(entry(k));
    for (std::uint64_t from = 0; from < size; from += 8)
      to[from / 8] = swapped(key_word(key, size, from));
  }
  [[nodiscard]] PERDURE_FN std::uint64_t prefix(std::size_t k) const { return order[k].hash; }
  [[nodiscard]] PERDURE_FN StoredVersion version(std::size_t k) const {
    std::uint32_t const i = entry(k);
    std::uint64_t const request = first_request + (requests != nullptr ? requests[i] : i);
    auto const kind = static_cast<std::uint64_t>(kinds != nullptr ? kinds[i] : Kind::put);
    return {request << StoredVersion::kKindBits | kind, has_value(i) ? value(i) : nullptr};
  }
  [[nodiscard]] PERDURE_FN std::uint32_t value_size(std::size_t k) const {
    std::uint32_t const i = entry(k);
    return has_value(i) ? static_cast<std::uint32_t>(value_bytes(i)) : 0;
  }
  [[nodiscard]] PERDURE_FN std::uint64_t value_word(std::size_t k) const {
    std::uint32_t const i = entry(k);
    if (!has_value(i)) return 0;
    if (near == nullptr) return bytes_as_word(value(i), static_cast<std::uint32_t>(value_bytes(i)));
    return bytes_as_word(near + std::uint64_t{i} * near_bytes, near_bytes);
  }
  struct Row {
    std::byte const* bytes;
    std::uint32_t size;  // 0: of an erase
    [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t w) const {
      std::uint32_t const from = w * std::uint32_t{sizeof(std::uint64_t)};
      if (from >= size) return 0;
      std::uint32_t const left = size - from;
      constexpr std::uint32_t kWord = sizeof(std::uint64_t);
      return bytes_as_word(bytes + from, left < kWord ? left : kWord);
    }
  };
  [[nodiscard]] PERDURE_FN Row value_row(std::size_t k) const {
    std::uint32_t const i = entry(k);
    if (!has_value(i)) return {nullptr, 0};
    std::byte const* at = value(i);
    if (near != nullptr)
      at = near_first != nullptr ? near + (at - near_first) : near + std::uint64_t{i} * near_bytes;
    return {at, static_cast<std::uint32_t>(value_bytes(i))};
  }
};

/// Whether values have other sizes than `size`, and whether one is too long.
template <class W>
struct ValueSizesBody {
  BatchFrom batch;
  std::uint64_t size;
  std::uint32_t* vary;
  std::uint32_t* too_long;
  PERDURE_FN void operator()(std::size_t i) const {
    if (!batch.has_value(i)) return;
    std::uint64_t const mine = batch.value_bytes(i);
    if (mine == size) return;
    W::store(vary, 1u);
    if (mine > ~0u) W::store(too_long, 1u);
  }
};

template <class Machine>
class BatchIn {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

 public:
  // what the machines' sorts can count
  static constexpr std::uint64_t kMostEntries = std::numeric_limits<std::int32_t>::max();

  Result<RunPtr> build(Machine& machine, KeyOrder<Machine>& order, RunMaker<Machine>& maker,
                       Entries const& entries, EngineOptions const& options) {
    if (Status s = check(entries); !s.ok()) return s;
    std::size_t const n = entries.keys.count;
    if (n == 0) return maker.make(machine, {}, BatchFrom{}, {});
    BatchFrom batch;
    batch.last = static_cast<std::uint32_t>(n - 1);
    batch.first_request = entries.first_request;
    reads_device_ = Machine::kPoolIsFar || options.reads_device_arrays;
    if (Status s = bring_all(machine, entries, batch); !s.ok()) return s;
    RunShape shape;
    shape.count = static_cast<std::uint32_t>(n);
    if (Status s = key_shape(machine, entries.keys, batch, shape); !s.ok()) return s;
    if (Status s = value_shape(machine, entries, batch, shape); !s.ok()) return s;
    if (!shape.value_sizes_vary && shape.value_size != 0 &&
        shape.value_size <= options.value_bytes_inside) {
      if (Status s = bring_values(machine, entries, batch, shape); !s.ok()) return s;
    }
    BatchKeys const keys{batch.keys, batch.last};
    auto const items = order.room(n);
    if (!items) return items.status();
    BatchWordBody const word{keys, shape.shared, items.value()};
    if (Status s = machine.threads(n, word); !s.ok()) return s;
    if (Status s = order.sort(machine, keys, n, shape.shared, shape.whole()); !s.ok()) return s;
    batch.order = order.order();
    auto const* const key = entries.keys.data + first_offset(entries.keys);
    return maker.make(machine, shape, batch, std::vector<std::byte>(key, key + shape.shared));
  }

 private:
  static std::int64_t first_offset(Column const& keys) {
    return keys.offsets != nullptr ? keys.offsets[0] : 0;
  }

  static bool has_column(Entries const& entries) { return entries.value_column.count != 0; }
  static bool is_host(Entries const& entries, std::size_t n) {
    return entries.value_column.space == MemorySpace::host && entries.value_column.count == n;
  }

  static Status check(Entries const& entries) {
    std::size_t const n = entries.keys.count;
    PERDURE_ASSERT(entries.keys.space == MemorySpace::host);
    PERDURE_ASSERT(entries.kinds.empty() || entries.kinds.size() == n);
    PERDURE_ASSERT(entries.requests.empty() || entries.requests.size() == n);
    PERDURE_ASSERT(entries.values.empty() || entries.values.size() == n);
    PERDURE_ASSERT(!has_column(entries) || (entries.values.empty() && is_host(entries, n)));
    PERDURE_ASSERT(!kCostlyAssertions || std::ranges::is_sorted(entries.requests));
    if (n <= kMostEntries) return {};
    return {Code::invalid_argument, "a batch of " + std::to_string(n) +
                                        " entries; a memtable takes up to " +
                                        std::to_string(kMostEntries) + ": write several batches"};
  }

  Status bring_all(Machine& machine, Entries const& entries, BatchFrom& batch) {
    if (Status s = bring_keys(machine, entries, batch.keys); !s.ok()) return s;
    Column const values = Column::of(std::as_bytes(entries.values));
    exec::ByteColumn values_here;
    if (Status s = machine.upload(values, values_here, 1); !s.ok()) return s;
    if (!entries.values.empty()) batch.values = reinterpret_cast<ValueRef const*>(values_here.data);
    Status const placed =
        bring_places(machine, entries.value_column, batch.value_column, value_offsets_);
    if (!placed.ok()) return placed;
    batch.has_values = !entries.values.empty() || has_column(entries);
    auto const kinds = bring(machine, kinds_, entries.kinds);
    if (!kinds) return kinds.status();
    if (!entries.kinds.empty()) batch.kinds = kinds.value();
    auto const requests = bring(machine, requests_, entries.requests);
    if (!requests) return requests.status();
    if (!entries.requests.empty()) batch.requests = requests.value();
    return {};
  }

  Status bring_keys(Machine& machine, Entries const& entries, exec::ByteColumn& here) {
    if (!reads_device_ || entries.device_keys == nullptr)
      return machine.upload(entries.keys, here, 0);
    Column keys = entries.keys;
    keys.data = entries.device_keys;
    return bring_places(machine, keys, here, key_offsets_);
  }

  /// Of a column, what tells where each of its elements is.
  Status bring_places(Machine& machine, Column const& column, exec::ByteColumn& here,
                      Buffer<std::int64_t>& room) {
    here = {column.data, nullptr, column.width};
    if (column.offsets == nullptr) return {};
    auto const offsets = bring(machine, room, std::span(column.offsets, column.count + 1));
    if (!offsets) return offsets.status();
    here.offsets = offsets.value();
    return {};
  }

  /// How long keys are and what they share.
  Status key_shape(Machine& machine, Column const& keys, BatchFrom const& batch, RunShape& shape) {
    shape.width = keys.width;
    if (keys.offsets != nullptr) {
      auto const size = [&](std::size_t i) { return keys.offsets[i + 1] - keys.offsets[i]; };
      shape.width = static_cast<std::uint32_t>(size(0));
      std::int64_t longest = size(0);
      for (std::size_t i = 1; i < keys.count; ++i) {
        shape.sizes_vary |= size(i) != size(0);
        longest = std::max(longest, size(i));
      }
      if (longest > std::numeric_limits<std::uint32_t>::max())
        return {Code::invalid_argument, "a key of " + std::to_string(longest) +
                                            " bytes; a memtable takes keys below 4 GiB"};
      std::uint64_t const most = std::uint64_t{std::numeric_limits<std::uint32_t>::max()} * 8;
      std::uint64_t const bytes =
          static_cast<std::uint64_t>(keys.offsets[keys.count] - keys.offsets[0]);
      if (bytes + 7 * keys.count > most)
        return {Code::invalid_argument, "a batch with " + std::to_string(bytes) +
                                            " bytes of keys; a memtable takes up to 32 GiB: write "
                                            "several batches"};
    }
    if (shape.whole()) return {};
    if (Status s = shared_.resize(1); !s.ok()) return s;
    std::uint64_t const most = shape.width;
    if (Status s = machine.send(shared_.data(), &most, 1); !s.ok()) return s;
    SharedBody<typename Machine::Solo> const body{{batch.keys, batch.last}, shared_.data()};
    if (Status s = machine.threads(keys.count, body); !s.ok()) return s;
    auto const shared = machine.fetch(shared_, 1);
    if (!shared) return shared.status();
    shape.shared = static_cast<std::uint32_t>(shared.value()[0]);
    return {};
  }

  Status value_shape(Machine& machine, Entries const& entries, BatchFrom const& batch,
                     RunShape& shape) {
    if (has_column(entries) && entries.value_column.offsets == nullptr) {
      shape.value_size = entries.value_column.width;
      return {};
    }
    auto const has_value = [&](std::size_t i) {
      return entries.kinds.empty() || entries.kinds[i] != Kind::erase;
    };
    std::size_t const n = batch.has_values ? entries.keys.count : 0;
    std::size_t first = 0;
    while (first < n && !has_value(first)) ++first;
    shape.has_values = first < n;
    if (!shape.has_values) return {};
    std::int64_t const* const offsets = entries.value_column.offsets;
    std::uint64_t const size = offsets != nullptr
                                   ? static_cast<std::uint64_t>(offsets[first + 1] - offsets[first])
                                   : entries.values[first].size;
    if (Status s = flags_.resize(2); !s.ok()) return s;
    if (Status s = machine.fill(flags_.data(), 0, 2); !s.ok()) return s;
    ValueSizesBody<typename Machine::Solo> const body{batch, size, flags_.data(),
                                                      flags_.data() + 1};
    if (Status s = machine.threads(n, body); !s.ok()) return s;
    auto const flags = machine.fetch(flags_, 2);
    if (!flags) return flags.status();
    shape.value_size = static_cast<std::uint32_t>(size);
    shape.value_sizes_vary = flags.value()[0] != 0;
    if (flags.value()[1] == 0 && size <= std::numeric_limits<std::uint32_t>::max()) return {};
    return {Code::invalid_argument, "a value of 4 GiB or more: a memtable takes shorter ones"};
  }

  /// The bytes of values of one size, for the run itself.
  Status bring_values(Machine& machine, Entries const& entries, BatchFrom& batch, RunShape& shape) {
    batch.near_bytes = shape.value_size;
    std::span<std::byte const> bytes = side_by_side(entries, batch.near_bytes);
    if (bytes.empty() && shape.value_size > sizeof(std::uint64_t)) {
      bytes = all_around(entries, shape.value_size);
      batch.near_first = bytes.data();
    }
    shape.values_inside = !bytes.empty() || !Machine::kPoolIsFar;
    if (bytes.empty()) return {};
    if (reads_device_ && has_column(entries) && entries.device_values != nullptr) {
      batch.near = entries.device_values + (bytes.data() - entries.value_column.data);
      return {};
    }
    if constexpr (Machine::kPoolIsFar) {
      if (Status s = near_.resize(bytes.size()); !s.ok()) return s;
      batch.near = near_.data();
      return machine.send_much(near_.data(), bytes.data(), bytes.size());
    }
    batch.near = bytes.data();
    return {};
  }

  /// All values, or none, where they lie apart; `each`: the bytes of one, and then of one there.
  static std::span<std::byte const> side_by_side(Entries const& entries, std::uint32_t& each) {
    Column const& column = entries.value_column;
    if (!entries.value_words.empty()) {
      each = sizeof(std::uint64_t);
      return std::as_bytes(entries.value_words);
    }
    if (!has_column(entries)) return {};
    if (column.offsets == nullptr) return {column.data, column.count * column.width};
    if (!entries.kinds.empty()) return {};  // an erase may have none
    return {column.data + column.offsets[0], column.count * each};
  }

  /// From the first value to the end of the last, as they lie in a log's record, keys between them;
  /// or none, where values are too little of it.
  static std::span<std::byte const> all_around(Entries const& entries, std::uint32_t size) {
    constexpr std::uint64_t kMostSpread = 3;
    Column const& column = entries.value_column;
    std::uint64_t const most = kMostSpread * entries.keys.count * size;
    if (has_column(entries)) {
      auto const bytes =
          static_cast<std::uint64_t>(column.offsets[column.count] - column.offsets[0]);
      return bytes <= most ? std::span(column.data + column.offsets[0], bytes)
                           : std::span<std::byte const>();
    }
    std::byte const* first = nullptr;
    std::byte const* end = nullptr;
    for (std::size_t i = 0; i < entries.values.size(); ++i) {
      if (!entries.kinds.empty() && entries.kinds[i] == Kind::erase) continue;
      std::byte const* const at = entries.values[i].data;
      if (end == nullptr || std::less<>()(at, first)) first = at;
      if (end == nullptr || std::less<>()(end, at + size)) end = at + size;
    }
    auto const bytes = static_cast<std::uint64_t>(end - first);
    return bytes <= most ? std::span(first, bytes) : std::span<std::byte const>();
  }

  Buffer<Kind> kinds_;
  Buffer<RequestId> requests_;
  bool reads_device_ = false;
  Buffer<std::int64_t> key_offsets_;
  Buffer<std::int64_t> value_offsets_;
  Buffer<std::byte> near_;
  Buffer<std::uint32_t> flags_;
  Buffer<std::uint64_t> shared_;
};

}  // namespace perdure::lsm
