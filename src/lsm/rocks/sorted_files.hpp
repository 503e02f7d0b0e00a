// A run, or a part of one, as sorted files that RocksDB ingests: of each key its newest version,
// operands folded.
//
// Invariants: a key is in one file, and once. A key that was erased and put again in the run has
// its tombstone in a file of its own, which is ingested first: a SingleDelete that comes later
// counts the Puts since the last tombstone. Where a merge operator fails, the key's operands go raw
// into files of their own, the oldest into the first, so that RocksDB keeps them as it keeps those
// that it was given itself.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/sst_file_writer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/families.hpp"

namespace perdure::lsm {

class SortedFiles {
 public:
  /// Files `prefix`-0.sst, -1, ... `snapshot`: RocksDB with all older generations in it;
  /// not needed of a run without operands. `hashes`: of the keys, for the block cache.
  SortedFiles(rocksdb::DB& base, FamilyPtr family, rocksdb::Snapshot const* snapshot,
              std::string prefix, bool hashes);
  /// Files that nobody ingested are deleted.
  ~SortedFiles();
  SortedFiles(SortedFiles const&) = delete;
  SortedFiles& operator=(SortedFiles const&) = delete;

  /// Where parts begin, and the last one ends: at most so many, of about `least` entries or more.
  /// No key is in two of them.
  static Result<std::vector<std::uint32_t>> parts_of(Engine& engine, Run const& run,
                                                     std::uint32_t least, std::size_t most);
  /// Entries [begin, end) of the run.
  rocksdb::Status write(Engine& engine, Run const& run, std::uint32_t begin, std::uint32_t end);
  /// In the order in which they are to be ingested.
  [[nodiscard]] std::vector<std::string> const& files() const { return files_; }
  [[nodiscard]] Family const& family() const { return *family_; }
  [[nodiscard]] std::uint64_t entries() const { return entries_; }
  /// cache_hash() of each key.
  [[nodiscard]] std::vector<std::uint64_t> const& hashes() const { return hashes_; }

 private:
  struct Group {  // the versions of a key in a block
    std::size_t first = 0, end = 0;
  };
  struct RawVersion {
    std::string key;
    Version version;
  };
  rocksdb::Status write_groups(EntryBlock const& block, std::vector<Group> const& groups);
  rocksdb::Status write_group(EntryBlock const& block, Group const& group,
                              rocksdb::Slice const* below);
  rocksdb::Status write_raw();
  rocksdb::Status write_erased();
  rocksdb::Status open(std::unique_ptr<rocksdb::SstFileWriter>& writer);
  void keep_raw(rocksdb::Slice const& key, std::span<Version const> chain);

  rocksdb::DB& base_;
  FamilyPtr family_;
  rocksdb::Snapshot const* const snapshot_;
  std::string const prefix_;
  bool const keeps_hashes_;
  rocksdb::Options const options_;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
  std::vector<std::string> erased_;  // keys, in order, whose tombstones go first
  std::vector<std::vector<RawVersion>> raw_;  // by depth, the oldest version of each key first
  std::vector<std::uint64_t> hashes_;
  std::vector<std::string> files_;
  std::uint64_t entries_ = 0;
};

}  // namespace perdure::lsm
