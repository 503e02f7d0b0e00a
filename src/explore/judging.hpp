// How a store's answers and contents are looked at and told apart from what they must be, for all
// systems that are stores. Each check says what is wrong, if anything is.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "explore/history.hpp"
#include "explore/scenario.hpp"
#include "explore/window.hpp"
#include "perdure/store.h"
#include "store/gphash/device_access.hpp"

namespace perdure::explore {

/// A batch as the columns a store takes.
struct Columns {
  Columns(Scenario const& s, Batch const& b)
      : key_bytes(s.key_bytes), value_bytes(s.value_bytes), rmw(b.rmw), by_put(b.by_put) {
    for (Operation const& o : b.operations) {
      s.add_key(o.key, keys);
      key_offsets.push_back(static_cast<std::int64_t>(keys.size()));
      s.add_value(o.operand, value_data);
      value_offsets.push_back(static_cast<std::int64_t>(value_data.size()));
      values.push_back(o.operand);
      kinds.push_back(o.kind);
    }
    out.resize(values.size());
    statuses.resize(values.size());
  }
  static Column column(std::vector<std::uint64_t> const& words) {
    return {reinterpret_cast<std::byte const*>(words.data()), nullptr, 8, words.size(),
            MemorySpace::host};
  }
  [[nodiscard]] Column key_column() const {
    return {keys.data(), key_bytes == 0 ? key_offsets.data() : nullptr, key_bytes, values.size(),
            MemorySpace::host};
  }
  [[nodiscard]] Column value_column() const {
    return {value_data.data(), value_bytes == 0 ? value_offsets.data() : nullptr, value_bytes,
            values.size(), MemorySpace::host};
  }
  MutableColumn out_column() {
    if (value_bytes == 0) return {};
    return {reinterpret_cast<std::byte*>(out.data()), 8, out.size(), MemorySpace::host};
  }
  Status apply(Store& store, CallOptions const& how = {}) {
    if (by_put) return store.put(key_column(), value_column(), statuses, how);
    return store.apply({key_column(), kinds, value_column(), rmw, Element::u64, out_column()},
                       statuses, how);
  }
  /// By key: whether it found no room.
  [[nodiscard]] std::vector<bool> refused(Batch const& batch) const {
    std::vector<bool> by_key(kKeys);
    for (std::size_t i = 0; i < statuses.size(); ++i)
      if (statuses[i] == KeyStatus::no_space) by_key[batch.operations[i].key] = true;
    return by_key;
  }
  /// What is wrong with the answers, if anything is.
  [[nodiscard]] std::optional<std::string> check(Batch const& batch,
                                                 std::vector<Answer> const& answers) const {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      bool const value_matters =
          batch.operations[i].kind == OpKind::get && answers[i].status == KeyStatus::ok;
      if (statuses[i] == answers[i].status && (!value_matters || out[i] == answers[i].value))
        continue;
      return "operation " + std::to_string(i) + " of a batch answers status " +
             std::to_string(static_cast<int>(statuses[i])) + " value " + std::to_string(out[i]) +
             ", not status " + std::to_string(static_cast<int>(answers[i].status)) + " value " +
             std::to_string(answers[i].value);
    }
    return std::nullopt;
  }

  std::vector<std::byte> keys;
  std::vector<std::byte> value_data;
  std::vector<std::int64_t> key_offsets{0}, value_offsets{0};
  std::uint32_t key_bytes, value_bytes;
  std::vector<std::uint64_t> values, out;
  std::vector<OpKind> kinds;
  std::vector<KeyStatus> statuses;
  Rmw rmw;
  bool by_put;
};

inline std::string name_of(std::size_t key) {
  return std::string(1, 'k').append(std::to_string(key));
}

inline std::string shown(std::optional<std::uint64_t> const& value) {
  return value ? std::to_string(*value) : "absent";
}

/// Values of any length, as their numbers; what is no value is an error.
inline Status get_any(Store& store, Scenario const& s, Column const& keys,
                      std::vector<std::uint64_t>& out, std::vector<KeyStatus>& statuses) {
  auto got = store.get_variable(keys, statuses);
  if (!got) return got.status();
  for (std::size_t i = 0; i < keys.count; ++i) {
    std::int64_t const at = got->offsets[i];
    auto const bytes = static_cast<std::size_t>(got->offsets[i + 1] - at);
    if (statuses[i] != KeyStatus::ok) continue;
    auto const value = s.find_value(got->data.data() + at, bytes);
    if (!value) return {Code::corrupt, name_of(i) + " has a value that nobody wrote"};
    out[i] = *value;
  }
  return {};
}

/// What a get of every key answers, against what it must.
inline std::optional<std::string> check_gets(Store& store, Scenario const& s,
                                             Contents const& contents) {
  std::vector<std::byte> keys;
  std::vector<std::int64_t> offsets{0};
  for (std::size_t k = 0; k < kKeys; ++k) {
    s.add_key(k, keys);
    offsets.push_back(static_cast<std::int64_t>(keys.size()));
  }
  std::vector<std::uint64_t> out(kKeys);
  std::vector<KeyStatus> statuses(kKeys);
  Column const column{keys.data(), s.key_bytes == 0 ? offsets.data() : nullptr, s.key_bytes, kKeys,
                      MemorySpace::host};
  MutableColumn const to{reinterpret_cast<std::byte*>(out.data()), 8, kKeys, MemorySpace::host};
  Status const got = s.value_bytes == 0 ? get_any(store, s, column, out, statuses)
                                        : store.get(column, to, statuses);
  if (!got.ok()) return "get: " + got.message();
  for (std::size_t k = 0; k < kKeys; ++k) {
    KeyStatus const want = contents[k] ? KeyStatus::ok : KeyStatus::not_found;
    if (statuses[k] != want || (contents[k] && out[k] != *contents[k])) {
      return "get k" + std::to_string(k) + " answers status " +
             std::to_string(static_cast<int>(statuses[k])) + " value " + std::to_string(out[k]) +
             ", not " + shown(contents[k]);
    }
  }
  return std::nullopt;
}

/// Everything a scan finds, each key once.
inline std::optional<std::string> scan_contents(Store& store, Scenario const& s, Contents& found) {
  found = {};
  ScanCursor cursor;
  while (!cursor.done) {
    auto page = store.scan(cursor, 1000);
    if (!page) return "scan: " + page.status().message();
    for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
      auto const key_at = page->keys.offsets[i], value_at = page->values.offsets[i];
      auto const key_bytes = page->keys.offsets[i + 1] - key_at;
      auto const value =
          s.find_value(page->values.data.data() + value_at,
                       static_cast<std::size_t>(page->values.offsets[i + 1] - value_at));
      if (!value) return "a scan finds a record that nobody wrote";
      std::size_t const k =
          s.find_key(page->keys.data.data() + key_at, static_cast<std::size_t>(key_bytes));
      if (k == kKeys) return "a scan finds a key which nobody wrote";
      if (found[k]) return "a scan finds k" + std::to_string(k) + " twice";
      found[k] = value;
    }
    cursor = page->next;
  }
  return std::nullopt;
}

inline std::uint64_t count(Contents const& contents) {
  return static_cast<std::uint64_t>(
      std::count_if(contents.begin(), contents.end(), [](auto& v) { return !!v; }));
}

inline std::optional<std::string> check_verify(Store& store, Contents const& contents) {
  auto report = store.verify();
  if (!report) return "verify: " + report.status().message();
  if (report->fault_count != 0) return "verify: " + report->faults.front();
  if (report->records != count(contents))
    return "verify counts " + std::to_string(report->records) + " records of " +
           std::to_string(count(contents));
  return std::nullopt;
}

/// Between batches the store counts its keys, and each record that is in use is some key's, or was
/// before a commit that can be taken back.
inline std::optional<std::string> check_counts(Store& store, Contents const& contents) {
  std::uint64_t const keys = count(contents), counted = store.stats().records;
  if (counted != keys)
    return "the store counts " + std::to_string(counted) + " records of " + std::to_string(keys);
  auto const used = DeviceAccess::records_in_use(store);
  if (!used.ok()) return "records in use: " + used.status().message();
  auto const can_revert = store.can_revert();
  bool const more_may_be = can_revert.ok() && can_revert.value();
  if (used.value() == keys || (more_may_be && used.value() > keys)) return std::nullopt;
  return "the heap has " + std::to_string(used.value()) + " records in use, for " +
         std::to_string(keys) + " keys";
}

/// Puts to absent keys, a change and an erasure, whichever the contents allow.
inline Batch further_writes(Contents const& contents) {
  Batch batch;
  std::size_t fresh = 0, changed = 0;
  for (std::uint32_t k = 0; k < kKeys; ++k) {
    if (!contents[k] && fresh++ < 3) batch.operations.push_back({OpKind::put, k, 900000 + k});
    if (contents[k] && changed++ < 2)
      batch.operations.push_back({changed == 1 ? OpKind::update : OpKind::erase, k, 800000 + k});
  }
  return batch;
}

inline std::uint64_t hash_of(Contents const& contents) {
  std::uint64_t h = 0;
  for (auto const& value : contents) h = mix(h, value ? *value + 1 : 0);
  return h;
}

// ------------------------------------------------------------------------------------------------
// Threads of the host, whose operations are judged key by key

/// Values by key.
using ByKey = std::map<std::uint64_t, std::uint64_t>;

inline std::optional<std::uint64_t> value_in(ByKey const& contents, std::uint64_t key) {
  auto const at = contents.find(key);
  return at == contents.end() ? std::nullopt : std::optional(at->second);
}

inline std::string named(std::uint64_t key, std::optional<std::uint64_t> value) {
  return "key " + std::to_string(key) +
         (value ? " is " + std::to_string(*value) : std::string(" is absent"));
}

inline std::uint64_t hash_of(ByKey const& contents) {
  std::uint64_t h = 0;
  for (auto const& [key, value] : contents) h = mix(h, mix(key, value));
  return h;
}

struct DoneOperation {
  std::uint64_t key = 0;
  Seen seen;
};
using History = std::vector<std::vector<DoneOperation>>;  // of each thread

/// What a crash may leave: what some order of the history explains, or just `old`.
struct HistoryOracle {
  ByKey old;
  History history = {};
  bool gets_count = true;  // what a get has seen is durable when it answers
};

inline std::uint64_t hash_of(HistoryOracle const& oracle) {
  return mix(oracle.history.size(), hash_of(oracle.old));
}

/// Of each thread so many operations were acknowledged, in their order; of others nobody knows.
inline constexpr std::uint64_t kAllDone = ~std::uint64_t{0};

/// Whether some order of the history's operations on this key explains what it is.
inline std::optional<std::string> explain_key(HistoryOracle const& oracle,
                                              std::span<std::uint64_t const> done,
                                              std::uint64_t key,
                                              std::optional<std::uint64_t> after) {
  std::vector<Seen> seen;
  for (std::size_t t = 0; t < oracle.history.size(); ++t) {
    for (std::size_t i = 0; i < oracle.history[t].size(); ++i) {
      if (oracle.history[t][i].key != key) continue;
      Seen const& each = seen.emplace_back(oracle.history[t][i].seen);
      bool const counts = oracle.gets_count || each.kind != OpKind::get || done[t] == kAllDone;
      seen.back().acknowledged = i < done[t] && counts;
    }
  }
  if (explained(seen, value_in(oracle.old, key), after)) return std::nullopt;
  return named(key, after) + ", was " + named(key, value_in(oracle.old, key)) +
         ", and no order of its " + std::to_string(seen.size()) + " operations explains that";
}

/// All that was found: `keys`, which the history is of, and `fillers`, which nobody touched.
inline std::optional<std::string> explain(HistoryOracle const& oracle,
                                          std::span<std::uint64_t const> done, ByKey const& found,
                                          std::span<std::uint64_t const> keys,
                                          std::span<std::uint64_t const> fillers) {
  std::size_t known = 0;
  for (std::uint64_t const key : keys) {
    known += found.contains(key);
    if (auto wrong = explain_key(oracle, done, key, value_in(found, key))) return wrong;
  }
  for (std::uint64_t const key : fillers) {
    if (value_in(found, key) != key)
      return named(key, value_in(found, key)) + ", and was never touched";
    ++known;
  }
  if (known != found.size()) return "there are keys that nobody wrote";
  return std::nullopt;
}

}  // namespace perdure::explore
