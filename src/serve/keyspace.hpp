// The store as the commands of one turn see it. Keys that they name are got in one batch, commands
// run in order on what was got, and what they left is put and erased in one atomic batch.
// Invariant: until commit() the store is as it was, and commit() changes all or nothing; so a turn
// that fails can be run again.
#pragma once

#include <tsl/robin_map.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "perdure/store.h"
#include "serve/value.hpp"

namespace perdure::serve {

class Keyspace {
 public:
  Keyspace(Store& store, std::pmr::memory_resource& turn_memory);

  /// A new turn, at this moment.
  void begin(std::int64_t now_ms);
  /// Keys that commands of this turn will read: got together, when the first is asked for.
  void will_read(std::string_view key);

  /// What the key has; type none where it has nothing, or had what has expired.
  Value get(std::string_view key);
  /// `value.bytes` stay until the turn ends.
  void set(std::string_view key, Value const& value);
  /// False: the key has nothing.
  bool remove(std::string_view key);
  /// Bytes that stay until the turn ends.
  std::string_view keep(std::string_view bytes);

  /// Keys there are, what this turn changed included.
  std::uint64_t records();
  [[nodiscard]] Stats stats() const { return store_.stats(); }
  [[nodiscard]] std::uint64_t slots() const { return store_.stats().slots; }
  /// A page of keys from `at` on, moved past it; each with what it has. False where the table moved
  /// its keys meanwhile, and a scan begins anew.
  bool scan(ScanCursor& at, std::size_t limit,
            std::function<void(std::string_view, Value const&)> const& each);
  /// Keys that this turn made and the store does not have yet.
  void each_made(std::function<void(std::string_view, Value const&)> const& each);
  /// Everything goes, batch by batch: a turn of its own.
  Status clear();

  /// What the turn changed, durably. On failure nothing has changed. `in_pieces`: where keys are
  /// erased alone, each goes by itself, which needs no space; after a failure some have gone.
  Status commit(bool in_pieces = false);
  /// The first failure of a get or a scan in this turn.
  [[nodiscard]] Status const& failure() const { return failure_; }
  /// After a commit that failed: an operation was larger than the pool allows.
  [[nodiscard]] bool was_too_large() const { return too_large_; }
  [[nodiscard]] std::int64_t now_ms() const { return now_ms_; }
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] std::uint64_t expired_keys() const { return expired_; }

  /// Whether a key was set that expires, since the last forget_expiring().
  [[nodiscard]] bool has_expiring() const { return has_expiring_; }
  void forget_expiring() { has_expiring_ = false; }

  /// Called with each key that changes.
  std::function<void(std::string_view)> on_change;

 private:
  struct Entry {
    std::string_view key;
    Value value = {};
    bool known = false;  // what value says
    bool stored = false;  // if known: the store had the key before the turn
    bool looked = false;  // `stored` is known
    bool dirty = false;
  };
  struct KeyHash {
    std::size_t operator()(std::string_view key) const {
      return hash_bytes(reinterpret_cast<std::byte const*>(key.data()), key.size());
    }
  };
  struct Columns {
    std::string bytes;
    std::vector<std::int64_t> offsets;
    void clear() { bytes.clear(), offsets.assign(1, 0); }
    void end_element() { offsets.push_back(static_cast<std::int64_t>(bytes.size())); }
    [[nodiscard]] Column column() const;
  };

  Entry& entry_of(std::string_view key);
  Entry& looked_at(std::string_view key);
  void load(std::vector<std::uint32_t> const& which);
  void take(Entry& entry, KeyStatus status, std::string_view record);
  void change(Entry& entry, Value const& value);
  [[nodiscard]] bool has_expired(Value const& value) const {
    return value.expires_ms != 0 && value.expires_ms <= now_ms_;
  }

  Store& store_;
  std::pmr::memory_resource& memory_;
  std::int64_t now_ms_ = 0;
  std::vector<Entry> entries_;
  tsl::robin_map<std::string_view, std::uint32_t, KeyHash> by_key_;
  std::vector<std::uint32_t> awaited_;  // to be got together
  std::deque<VariableValues> got_;
  Columns keys_, values_;
  std::vector<OpKind> kinds_;
  std::vector<KeyStatus> statuses_;
  Status failure_;
  bool too_large_ = false, has_expiring_ = false;
  std::uint64_t changes_ = 0, expired_ = 0;
};

}  // namespace perdure::serve
