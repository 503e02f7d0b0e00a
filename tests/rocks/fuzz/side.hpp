// One of the two databases that are compared, with all that a user holds of it: handles, snapshots,
// open iterators. What operations do with a side depends on their seeds and the operations before,
// so two sides that behave alike write equal transcripts.
#pragma once

#include <rocksdb/db.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rocks/fuzz/keys.hpp"
#include "rocks/support/openers.hpp"
#include "rocks/support/transcript.hpp"

namespace perdure::test {

/// An iterator and what has to live as long.
struct OpenIterator {
  std::string lower;
  std::string upper;
  rocksdb::Slice lower_slice;
  rocksdb::Slice upper_slice;
  std::size_t family = 0;
  rocksdb::Snapshot const* snapshot = nullptr;
  bool can_refresh = false;  // it has no snapshot, and its family's handle is still there
  bool within_prefix = false;
  std::unique_ptr<rocksdb::Iterator> iterator;
};

class Side {
 public:
  Side(Opener opener, std::string path, Keys const& keys)
      : opener_(std::move(opener)), path_(std::move(path)), keys_(&keys) {}
  ~Side();
  Side(Side const&) = delete;
  Side& operator=(Side const&) = delete;

  rocksdb::Status open();
  /// Iterators, snapshots and handles first, as users have to.
  rocksdb::Status close(bool explicitly);

  /// Everything there is, by iterators and by MultiGet, and as the oldest snapshot has it.
  void dump(Transcript& said) const;

  [[nodiscard]] rocksdb::DB* db() const { return db_; }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* family(std::size_t place) const {
    return handles_[place];
  }
  [[nodiscard]] Handles const& handles() const { return handles_; }
  /// A place that has a family.
  [[nodiscard]] std::size_t draw_family(Draws& draws) const;
  [[nodiscard]] std::string draw_key(Draws& draws) const;
  void set_extra(rocksdb::ColumnFamilyHandle* handle) { handles_[kExtra] = handle; }
  [[nodiscard]] bool has_extra() const { return handles_[kExtra] != nullptr; }

  [[nodiscard]] Opener const& opener() const { return opener_; }
  [[nodiscard]] std::string const& path() const { return path_; }
  void move_to(std::string path) { path_ = std::move(path); }
  [[nodiscard]] Keys const& keys() const { return *keys_; }

  std::vector<rocksdb::Snapshot const*> snapshots;
  std::vector<std::unique_ptr<OpenIterator>> iterators;
  std::array<std::set<std::string>, kFamilies> singles;  // put, and not deleted since
  bool may_skip_log = false;
  bool may_single_delete = false;
  bool unlogged = false;  // there are writes that no log has, perhaps in RocksDB's memtable alone

 private:
  Opener opener_;
  std::string path_;
  Keys const* keys_;
  rocksdb::DB* db_ = nullptr;
  Handles handles_ = Handles(kFamilies, nullptr);
  bool extra_at_close_ = false;
};

/// The families' descriptors, with the extra one or without.
Families fuzz_families(bool extra);

/// What a closed directory has, in an opener's eyes.
rocksdb::Status dump_closed(Opener const& opener, std::string const& path, bool extra,
                            Transcript& said);
void dump_families(rocksdb::DB* db, Handles const& handles, rocksdb::Snapshot const* snapshot,
                   Transcript& said);

}  // namespace perdure::test
