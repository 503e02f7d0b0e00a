// Point reads: memtables first, RocksDB for what they do not know.
//
// Invariant: what a read answers was so at one moment between its begin and its end, or at its
// snapshot: it looks at the view's runs, and at RocksDB as it was when the view was published.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/cached_reads.hpp"
#include "lsm/rocks/counters.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/hot_entries.hpp"
#include "lsm/rocks/tables.hpp"

namespace perdure::lsm {

/// What a read sees: the present, or a snapshot of ours.
struct Sight {
  rocksdb::Status refusal;  // not OK: the snapshot is RocksDB's own, which sees no memtables
  ViewPtr view;  // null: RocksDB alone, as the user's options say
  rocksdb::ReadOptions options;  // for RocksDB
};

class Reader {
 public:
  /// `cache` and `hot` are null where there are none.
  Reader(rocksdb::DB& base, Engine& engine, Tables const& tables, Families const& families,
         Counters& counters, BlockCache* cache, HotEntries* hot)
      : base_(base),
        engine_(engine),
        tables_(tables),
        families_(families),
        counters_(counters),
        cached_(base, families, cache),
        hot_(hot) {}

  [[nodiscard]] Sight sight(rocksdb::ReadOptions const& options) const;
  /// The runs to ask for many keys. (Of few, RocksDB is asked as fast as flushed memtables.)
  [[nodiscard]] RunList known_runs(View const& view, std::uint32_t family) const {
    return families_.is_cached(family) ? view.known_runs(family) : view.runs(family);
  }
  /// What these found.
  void count(View const& view, std::span<Answer const> answers);
  /// Of a read of so many keys the block cache answered some, which the machine may have one day.
  void count_cached(std::size_t keys, std::size_t answered);

  /// What the memtables say of a key; nothing: they do not know it.
  std::optional<rocksdb::Status> from_tables(Sight const& sight,
                                             rocksdb::ColumnFamilyHandle* family,
                                             rocksdb::Slice const& key,
                                             rocksdb::PinnableSlice* value);
  /// Whether what the memtables have of a key are operands of an entity in RocksDB.
  rocksdb::Status merges_entity(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                                rocksdb::Slice const& key, bool* answer);
  rocksdb::Status get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value);
  /// Keys of one family.
  void multi_get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                 std::span<rocksdb::Slice const> keys, rocksdb::PinnableSlice* values,
                 rocksdb::Status* statuses, bool sorted);
  /// The same of what is in sight; each key's own limit counts in a view.
  void multi_get(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                 std::span<rocksdb::Slice const> keys, Limits const& limits,
                 rocksdb::PinnableSlice* values, rocksdb::Status* statuses, bool sorted);
  /// Keys that no memtable in sight knows, by the block cache or RocksDB. `sorted`: they come in
  /// the family's order. The answer is how many the block cache knew.
  std::size_t below(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                    std::span<rocksdb::Slice const> keys, rocksdb::PinnableSlice* values,
                    rocksdb::Status* statuses, bool sorted);
  [[nodiscard]] CachedReads& cached() { return cached_; }
  bool may_exist(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                 rocksdb::Slice const& key, std::string* value, bool* value_found);

 private:
  /// Keys at `which` of the arrays: their newest versions in the memtables are operands.
  void merge(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
             std::span<rocksdb::Slice const> keys, std::span<std::size_t const> which,
             Limits const& limits, rocksdb::PinnableSlice* values, rocksdb::Status* statuses);
  struct Below {
    std::vector<rocksdb::PinnableSlice> values;
    std::vector<rocksdb::Status> statuses;
    std::size_t cached = 0;  // the block cache answered so many
  };
  /// Many keys, and no memtables: what was flushed is asked all the same.
  void see_flushed(Sight& sight, std::uint32_t family) const;
  /// What RocksDB has of the keys at `which` of the array.
  Below get_below(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                  std::span<rocksdb::Slice const> keys, std::span<std::size_t const> which,
                  bool sorted);

  rocksdb::DB& base_;
  Engine& engine_;
  Tables const& tables_;
  Families const& families_;
  Counters& counters_;
  CachedReads cached_;
  HotEntries* const hot_;
};

}  // namespace perdure::lsm
