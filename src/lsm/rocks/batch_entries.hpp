// WriteBatches taken apart: the entries of each family, whose values lie in a copy of the batch
// (the G-WAL's record), and what has to be RocksDB's own business.
//
// One batch is taken apart by the thread that has it, beside others. Of those that are written
// together only arrays are put one behind the other then, by the workers.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lsm/entry.hpp"
#include "lsm/rocks/room.hpp"

namespace perdure::lsm {

/// The entries of one family in a batch, in order of arrival. What goes without saying is not
/// written down: most batches are puts to one family, with keys of one width.
struct FamilyEntries {
  /// Of a value: where it is in the batch. Of an erase, nothing.
  struct Place {
    std::uint64_t at = 0;
    std::uint64_t size = 0;
  };
  std::uint32_t family = 0;
  std::uint64_t width = 0;  // of the first key
  std::vector<std::byte> keys;
  std::vector<std::int64_t> offsets;  // empty: all keys have that width
  std::vector<Kind> kinds;  // empty: all `put`
  std::vector<RequestId> requests;  // counted from the batch's first; empty: 0, 1, ...
  std::vector<Place> values;
  // The values' bytes, filled up with zeros, one a key, where all have one size of at most eight.
  std::vector<std::uint64_t> words;
  bool has_words = true;
  std::uint64_t word_bytes = 0;  // that size; 0: there are erases alone
  bool merges = false;

  [[nodiscard]] std::size_t size() const { return values.size(); }
};

struct BatchEntries {
  std::vector<FamilyEntries> families;
  RequestId requests = 0;  // of all families

  /// Takes a batch apart. False: there is something else in it, which memtables do not hold
  /// (DeleteRange, wide columns, marks of two-phase commit).
  [[nodiscard]] bool read(rocksdb::WriteBatch const& batch);
  /// The same of one as RocksDB writes it down.
  [[nodiscard]] bool read(std::span<std::byte const> bytes);

 private:
  bool read_known(rocksdb::Slice const& batch);
  bool read_by_rocksdb(rocksdb::WriteBatch const& batch);
};

/// A family's part of what is appended together.
struct FamilyBatch {
  std::uint32_t family = 0;
  Entries entries;
  bool merges = false;  // there are operands among them
};

/// Batches one behind the other. The memory for them is used again.
class GroupEntries {
 public:
  /// There are none.
  void clear();
  [[nodiscard]] std::size_t bytes() const;
  /// The next batch, which stays as it is until it was put; `copy`: where its bytes will be for as
  /// long as the memtable.
  void add(BatchEntries const& batch, std::byte const* copy);
  [[nodiscard]] RequestId requests() const { return requests_; }

  /// After the last add(): room for all of them.
  void make_room();
  /// Puts the entries of batch i there. Each batch once, by any threads.
  void put(std::size_t i);
  /// Valid while this stays; the group's requests begin with `first`.
  [[nodiscard]] std::vector<FamilyBatch> batches(RequestId first) const;

 private:
  /// What comes of a family, and what is the same of all of it.
  struct Family {
    std::uint32_t family = 0;
    std::uint64_t count = 0;
    std::uint64_t key_bytes = 0;
    std::uint64_t width = 0;
    bool one_width = true;
    bool only_puts = true;
    bool merges = false;
    bool has_words = true;
    std::uint64_t word_bytes = 0;
    Room<std::byte> keys;
    Room<std::int64_t> offsets;  // where there is no width
    Room<Kind> kinds;  // where not all are puts
    Room<RequestId> requests;  // where there are several families
    Room<ValueRef> values;
    Room<std::uint64_t> words;  // where all have values' bytes

    [[nodiscard]] bool has_width() const { return one_width && width > 0; }
  };
  /// A batch's entries of a family, and where they go.
  struct Part {
    FamilyEntries const* from;
    std::byte const* copy;
    std::size_t family;
    std::uint64_t entry;
    std::uint64_t key_at;
    RequestId first;  // counted from the group's
  };
  std::size_t plan(FamilyEntries const& from);
  void put(Part const& part) const;
  [[nodiscard]] Entries entries(Family const& of, RequestId first) const;

  std::vector<Family> families_;
  std::size_t used_ = 0;  // of these
  std::vector<Part> parts_;
  std::vector<std::size_t> parts_of_ = {0};  // batch i's begin there
  RequestId requests_ = 0;
};

}  // namespace perdure::lsm
