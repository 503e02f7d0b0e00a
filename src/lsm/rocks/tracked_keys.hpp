// The keys that a transaction must find unchanged: since when, and how often it read and wrote
// them. One set a transaction, and one a savepoint with what came after it.
//
// Invariant: a key is in the set while reads + writes of it are not zero.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/types.h>
#include <tsl/robin_set.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "lsm/rocks/transaction_store.hpp"

namespace perdure::lsm {

/// A key of a family with its hash, which is computed once for all the tables that it is looked up
/// in. The bytes are somebody else's.
struct KeyRef {
  KeyRef(std::uint32_t family, rocksdb::Slice const& key);

  [[nodiscard]] rocksdb::Slice slice() const { return {bytes.data(), bytes.size()}; }
  bool operator==(KeyRef const& other) const {
    return hash == other.hash && family == other.family && bytes == other.bytes;
  }

  std::string_view bytes;
  std::uint64_t hash;
  std::uint32_t family;
};

/// The `since` of a key of which nothing is known. Above all sequence numbers.
inline constexpr rocksdb::SequenceNumber kNotYet = ~rocksdb::SequenceNumber{0};

class TrackedKeys {
 public:
  struct Entry {
    rocksdb::SequenceNumber since = 0;
    std::uint32_t reads = 0;
    std::uint32_t writes = 0;
    bool exclusive = false;
  };
  enum class Forgotten : std::uint8_t {
    nothing,  // no read of the key was tracked
    a_read,
    the_key,  // with its last read
  };

  /// Null: not tracked.
  [[nodiscard]] Entry* find(KeyRef const& key);
  /// The same, by a hint where the key may be: as a rule one look, and no index is needed.
  [[nodiscard]] Entry* find_at(std::uint32_t place, KeyRef const& key);
  /// Where a key will be that is tracked next.
  [[nodiscard]] std::uint32_t next_place() const { return static_cast<std::uint32_t>(size()); }
  [[nodiscard]] std::size_t size() const { return held_ == nullptr ? 0 : held_->items.size(); }
  /// The key's earliest `since` and its strongest lock count. `known` is what find() says of it.
  void track(KeyRef const& key, Entry* known, rocksdb::SequenceNumber since, bool read_only,
             bool exclusive);
  Forgotten forget_read(KeyRef const& key);
  /// Takes back what `newer` counted; keys of which nothing is left go.
  void subtract(TrackedKeys const& newer);
  void add(TrackedKeys const& newer);
  void clear() { held_.reset(); }

  template <class Visitor>
  void for_each(Visitor&& visit) const {
    if (held_ == nullptr) return;
    for (Item const& item : held_->items) visit(item.key, item.entry);
  }
  /// As a store is asked about them.
  [[nodiscard]] std::vector<TrackedKey> list() const;

 private:
  struct Item {
    KeyRef key;
    Entry entry;
  };
  // Items and keys come from one arena, which goes at once: a transaction may have millions.
  using Items = std::pmr::deque<Item>;

  // The index has places alone, so that a look-up of a key that is not there is one small read.
  // It is behind the items until somebody looks a key up: who asks the lock table first, which
  // knows what is tracked, makes none.
  struct HashAt {
    Items const* items;
    std::size_t operator()(std::uint32_t at) const noexcept { return (*items)[at].key.hash; }
    std::size_t operator()(KeyRef const& key) const noexcept { return key.hash; }
  };
  struct EqualAt {
    using is_transparent = void;
    Items const* items;
    bool operator()(std::uint32_t a, std::uint32_t b) const noexcept { return a == b; }
    bool operator()(KeyRef const& key, std::uint32_t at) const noexcept {
      return (*items)[at].key == key;
    }
    bool operator()(std::uint32_t at, KeyRef const& key) const noexcept {
      return (*items)[at].key == key;
    }
  };
  using Index = tsl::robin_set<std::uint32_t, HashAt, EqualAt, std::allocator<std::uint32_t>, true>;
  struct Held {
    std::pmr::monotonic_buffer_resource arena;
    Items items{&arena};
    Index index{0, HashAt{&items}, EqualAt{&items}};
    std::uint32_t indexed = 0;  // so many items are in it

    void catch_up();
  };

  Entry& append(KeyRef const& key);
  /// Of a key that find() has just found. The last item takes its place.
  void erase(KeyRef const& key);

  std::unique_ptr<Held> held_;
};

}  // namespace perdure::lsm
