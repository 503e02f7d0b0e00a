// What differs between the versions of RocksDB that we build with, 7.8 to 11.8. All of it stands
// here, but for calls that newer versions alone have: database.hpp declares them in one block, and
// database_newer.cpp has what they do.
//
// Invariant: nothing here does a thing of its own. It gives one form to what RocksDB has in two.
#pragma once

#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/stackable_db.h>
#include <rocksdb/version.h>
#include <rocksdb/wide_columns.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// 7.8 is 708. For #if, which a function cannot serve.
#define PERDURE_ROCKSDB (ROCKSDB_MAJOR * 100 + ROCKSDB_MINOR)

namespace perdure::lsm {

#if PERDURE_ROCKSDB >= 911
/// What the library's DB::Open() fills in. The form for a plain pointer stands in RocksDB's header
/// from then on, and nowhere from 11.0 on.
using OpenedDb = std::unique_ptr<rocksdb::DB>;
inline rocksdb::DB* taken(OpenedDb opened) { return opened.release(); }
#else
using OpenedDb = rocksdb::DB*;
inline rocksdb::DB* taken(OpenedDb opened) { return opened; }
#endif

/// Gives what `open(DB**)` opened as RocksDB's DB::Open() does.
template <class Open>
rocksdb::Status open_into(OpenedDb* db, Open const& open) {
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = open(&opened);
  *db = OpenedDb(opened);
  return status;
}

/// rocksdb::DB::Open(arguments..., db).
template <class... Arguments>
rocksdb::Status open_rocksdb(rocksdb::DB** db, Arguments&&... arguments) {
  OpenedDb opened{};
  rocksdb::Status status = rocksdb::DB::Open(std::forward<Arguments>(arguments)..., &opened);
  *db = taken(std::move(opened));
  return status;
}

/// rocksdb::DB::OpenForReadOnly(arguments..., db).
template <class... Arguments>
rocksdb::Status open_to_read(rocksdb::DB** db, Arguments&&... arguments) {
  OpenedDb opened{};
  rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(std::forward<Arguments>(arguments)..., &opened);
  *db = taken(std::move(opened));
  return status;
}

/// What counts the calls of DisableFileDeletions() down.
#if PERDURE_ROCKSDB >= 900
inline rocksdb::Status enable_file_deletions(rocksdb::DB& db) { return db.EnableFileDeletions(); }
#else
inline rocksdb::Status enable_file_deletions(rocksdb::DB& db) {
  return db.EnableFileDeletions(false);
}
#endif

/// A database as the constructor of rocksdb::OptimisticTransactionDB takes it.
#if PERDURE_ROCKSDB >= 1100
inline std::unique_ptr<rocksdb::DB> given(rocksdb::DB* db) {
  return std::unique_ptr<rocksdb::DB>(db);
}
#else
inline rocksdb::DB* given(rocksdb::DB* db) { return db; }
#endif

/// What RocksDB answers where a merge operator fails.
#if PERDURE_ROCKSDB >= 800
inline rocksdb::Status merge_failure() {
  return rocksdb::Status::Corruption(rocksdb::Status::SubCode::kMergeOperatorFailed);
}
inline bool is_merge_failure(rocksdb::Status const& status) {
  return status.IsCorruption() &&
         status.subcode() == rocksdb::Status::SubCode::kMergeOperatorFailed;
}
#else
inline constexpr char kMergeFailure[] = "Error: Could not perform merge.";
inline rocksdb::Status merge_failure() { return rocksdb::Status::Corruption(kMergeFailure); }
inline bool is_merge_failure(rocksdb::Status const& status) {
  return status.IsCorruption() && status.getState() != nullptr &&
         rocksdb::Slice(status.getState()).starts_with(kMergeFailure);
}
#endif

/// Whether operands may stand on a value of several columns. They then change the default one.
inline constexpr bool kEntitiesMerge = PERDURE_ROCKSDB >= 800;

/// Keys of one family that are values of several columns.
inline std::vector<bool> are_entities(rocksdb::DB& db, rocksdb::ReadOptions const& options,
                                      rocksdb::ColumnFamilyHandle* family,
                                      std::vector<rocksdb::Slice> const& keys) {
  std::vector<bool> are(keys.size());
#if PERDURE_ROCKSDB >= 800
  std::vector<rocksdb::PinnableWideColumns> found(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  db.MultiGetEntity(options, family, keys.size(), keys.data(), found.data(), statuses.data());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    rocksdb::WideColumns const& columns = found[i].columns();
    are[i] = statuses[i].ok() &&
             (columns.size() != 1 || columns.front().name() != rocksdb::kDefaultWideColumnName);
  }
#else
  static_cast<void>(db), static_cast<void>(options), static_cast<void>(family);
#endif
  return are;
}

/// What a merge operator made: in `owned`, or `operand`, which is one of the operands or the base.
struct FullMerge {
  enum class Result : std::uint8_t { failed, value, columns } result = Result::failed;
  rocksdb::Slice value;
};

/// `owned` may get the value. Operators of several columns (FullMergeV3) are called from 8.7 on;
/// what makes several columns has no value.
inline FullMerge full_merge(rocksdb::MergeOperator const& merge_operator, rocksdb::Logger* logger,
                            rocksdb::Slice const& key, rocksdb::Slice const* base,
                            std::vector<rocksdb::Slice> const& operands, std::string& owned) {
  using Result = FullMerge::Result;
  owned.clear();
#if PERDURE_ROCKSDB >= 807
  using Input = rocksdb::MergeOperator::MergeOperationInputV3;
  Input const in(key, base != nullptr ? Input::ExistingValue(*base) : Input::ExistingValue(),
                 operands, logger);
  rocksdb::MergeOperator::MergeOperationOutputV3 out;
  out.new_value = std::move(owned);
  if (!merge_operator.FullMergeV3(in, &out)) return {};
  if (auto const* const operand = std::get_if<rocksdb::Slice>(&out.new_value))
    return {Result::value, *operand};
  auto* const made = std::get_if<std::string>(&out.new_value);
  if (made == nullptr) return {Result::columns, {}};
  owned = std::move(*made);
  return {Result::value, owned};
#else
  rocksdb::Slice operand(nullptr, 0);
  rocksdb::MergeOperator::MergeOperationInput const in(key, base, operands, logger);
  rocksdb::MergeOperator::MergeOperationOutput out(owned, operand);
  if (!merge_operator.FullMergeV2(in, &out)) return {};
  return {Result::value, operand.data() != nullptr ? operand : rocksdb::Slice(owned)};
#endif
}

#if PERDURE_ROCKSDB >= 902
/// As rocksdb::NewErrorIterator() is for one family.
class RefusedGroups final : public rocksdb::AttributeGroupIterator {
 public:
  explicit RefusedGroups(rocksdb::Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(rocksdb::Slice const&) override {}
  void SeekForPrev(rocksdb::Slice const&) override {}
  void Next() override {}
  void Prev() override {}
  rocksdb::Slice key() const override { return {}; }
  rocksdb::Status status() const override { return status_; }
  rocksdb::IteratorAttributeGroups const& attribute_groups() const override { return none_; }

 private:
  rocksdb::Status status_;
  rocksdb::IteratorAttributeGroups none_;
};
#endif

#if PERDURE_ROCKSDB >= 1006
using ScanRanges = rocksdb::MultiScanArgs;
inline std::unique_ptr<rocksdb::MultiScan> scan_of(rocksdb::DB& db, rocksdb::ReadOptions const& o,
                                                   rocksdb::ColumnFamilyHandle* cf,
                                                   ScanRanges const& ranges) {
  return std::make_unique<rocksdb::MultiScan>(o, ranges, &db, cf);
}
#elif PERDURE_ROCKSDB >= 1002
using ScanRanges = std::vector<rocksdb::ScanOptions>;
inline std::unique_ptr<rocksdb::MultiScan> scan_of(rocksdb::DB& db, rocksdb::ReadOptions const& o,
                                                   rocksdb::ColumnFamilyHandle* cf,
                                                   ScanRanges const& ranges) {
  return std::make_unique<rocksdb::MultiScan>(
      ranges, std::unique_ptr<rocksdb::Iterator>(db.NewIterator(o, cf)));
}
#endif

/// Of the many forms of Get() and MultiGet() RocksDB leaves these two to override from 9.0 on; the
/// others come to them. `timestamp` and `timestamps` may be null.
class TwoReads : public rocksdb::StackableDB {
 public:
  using DB::Get;
  using DB::MultiGet;
  using StackableDB::StackableDB;
  rocksdb::Status Get(rocksdb::ReadOptions const& o, rocksdb::ColumnFamilyHandle* cf,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value,
                      std::string* timestamp) override = 0;
  void MultiGet(rocksdb::ReadOptions const& o, size_t n, rocksdb::ColumnFamilyHandle** cfs,
                rocksdb::Slice const* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                rocksdb::Status* statuses, bool sorted) override = 0;

#if PERDURE_ROCKSDB < 900
  rocksdb::Status Get(rocksdb::ReadOptions const& o, rocksdb::ColumnFamilyHandle* cf,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value) final {
    return Get(o, cf, key, value, nullptr);
  }
  std::vector<rocksdb::Status> MultiGet(rocksdb::ReadOptions const& o,
                                        std::vector<rocksdb::ColumnFamilyHandle*> const& cfs,
                                        std::vector<rocksdb::Slice> const& keys,
                                        std::vector<std::string>* values) final {
    return MultiGet(o, cfs, keys, values, nullptr);
  }
  std::vector<rocksdb::Status> MultiGet(rocksdb::ReadOptions const& o,
                                        std::vector<rocksdb::ColumnFamilyHandle*> const& cfs,
                                        std::vector<rocksdb::Slice> const& keys,
                                        std::vector<std::string>* values,
                                        std::vector<std::string>* timestamps) final {
    std::vector<rocksdb::PinnableSlice> found(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    std::vector<rocksdb::ColumnFamilyHandle*> families = cfs;
    if (timestamps != nullptr) timestamps->resize(keys.size());
    MultiGet(o, keys.size(), families.data(), keys.data(), found.data(),
             timestamps != nullptr ? timestamps->data() : nullptr, statuses.data(), false);
    values->resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok()) (*values)[i] = found[i].ToString();
    }
    return statuses;
  }
  void MultiGet(rocksdb::ReadOptions const& o, rocksdb::ColumnFamilyHandle* cf, size_t n,
                rocksdb::Slice const* keys, rocksdb::PinnableSlice* values,
                rocksdb::Status* statuses, bool sorted) final {
    MultiGet(o, cf, n, keys, values, nullptr, statuses, sorted);
  }
  void MultiGet(rocksdb::ReadOptions const& o, rocksdb::ColumnFamilyHandle* cf, size_t n,
                rocksdb::Slice const* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                rocksdb::Status* statuses, bool sorted) final {
    std::vector<rocksdb::ColumnFamilyHandle*> families(n, cf);
    MultiGet(o, n, families.data(), keys, values, timestamps, statuses, sorted);
  }
  void MultiGet(rocksdb::ReadOptions const& o, size_t n, rocksdb::ColumnFamilyHandle** cfs,
                rocksdb::Slice const* keys, rocksdb::PinnableSlice* values,
                rocksdb::Status* statuses, bool sorted) final {
    MultiGet(o, n, cfs, keys, values, nullptr, statuses, sorted);
  }
#endif
};

}  // namespace perdure::lsm
