#include "rocks/fuzz/faults.hpp"

#include <rocksdb/write_batch.h>

#include <array>
#include <map>
#include <memory>
#include <set>

#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::test {
namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

struct Write {
  enum class What { put, erase, single_delete, merge, delete_range } what;
  std::uint32_t family;
  std::string key;
  std::string value;
};

/// A batch as a list.
class Writes final : public WriteBatch::Handler {
 public:
  explicit Writes(WriteBatch const& batch) { static_cast<void>(batch.Iterate(this)); }
  Status PutCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(Write::What::put, family, key, value);
  }
  Status DeleteCF(std::uint32_t family, Slice const& key) override {
    return add(Write::What::erase, family, key, {});
  }
  Status SingleDeleteCF(std::uint32_t family, Slice const& key) override {
    return add(Write::What::single_delete, family, key, {});
  }
  Status MergeCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(Write::What::merge, family, key, value);
  }
  Status DeleteRangeCF(std::uint32_t family, Slice const& begin, Slice const& end) override {
    return add(Write::What::delete_range, family, begin, end);
  }
  void LogData(Slice const&) override {}

  std::vector<Write> all;

 private:
  Status add(Write::What what, std::uint32_t family, Slice key, Slice value) {
    all.push_back({what, family, key.ToString(), value.ToString()});
    return Status::OK();
  }
};

/// Merges of each path's last batch, for the fault that applies them again.
std::map<std::string, std::vector<Write>>& last_merges() {
  static std::map<std::string, std::vector<Write>> all;
  return all;
}

class FaultyDb final : public lsm::TwoReads {
 public:
  FaultyDb(Fault fault, rocksdb::DB* db, Handles const& handles,
           std::shared_ptr<std::uint64_t> puts)
      : TwoReads(db), fault_(fault), puts_(std::move(puts)) {
    for (auto* handle : handles) families_.emplace(handle->GetID(), handle);
    if (fault == Fault::merges_twice) merge_again();
  }

  using StackableDB::Put;
  Status Put(WriteOptions const& options, ColumnFamilyHandle* family, Slice const& key,
             Slice const& value) override {
    if (fault_ == Fault::loses_puts && ++*puts_ % 1000 == 0) return Status::OK();
    if (fault_ == Fault::drops_empty_keys && key.empty()) return Status::OK();
    return StackableDB::Put(options, family, key, value);
  }
  using StackableDB::DeleteRange;
  Status DeleteRange(WriteOptions const& options, ColumnFamilyHandle* family, Slice const& begin,
                     Slice const& end) override {
    Status const s = StackableDB::DeleteRange(options, family, begin, end);
    if (fault_ == Fault::delete_range_too_far && s.ok())
      return StackableDB::Delete(options, family, end);
    return s;
  }
  Status Write(WriteOptions const& options, WriteBatch* batch) override {
    std::vector<test::Write> writes = Writes(*batch).all;
    if (!know_all(writes)) return StackableDB::Write(options, batch);
    spoil(writes);
    WriteBatch spoiled;
    for (test::Write const& write : writes) add(spoiled, write);
    return StackableDB::Write(options, &spoiled);
  }
  using StackableDB::Get;
  Status Get(ReadOptions const& options, ColumnFamilyHandle* family, Slice const& key,
             rocksdb::PinnableSlice* value, std::string* timestamp) override {
    Status const s = db_->Get(for_keys(options), family, key, value, timestamp);
    return fault_ == Fault::swallows_statuses && s.IsNotFound() ? Status::OK() : s;
  }
  using StackableDB::MultiGet;
  void MultiGet(ReadOptions const& options, std::size_t count, ColumnFamilyHandle** families,
                Slice const* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                Status* statuses, bool sorted) override {
    db_->MultiGet(for_keys(options), count, families, keys, values, timestamps, statuses, sorted);
    std::set<std::string> seen;
    if (fault_ != Fault::shifts_duplicates) return;
    for (std::size_t i = 0; i < count; ++i)
      if (!seen.insert(keys[i].ToString()).second) statuses[i] = Status::NotFound();
  }
  using StackableDB::NewIterator;
  rocksdb::Iterator* NewIterator(ReadOptions const& options, ColumnFamilyHandle* family) override {
    ReadOptions spoiled = options;
    if (fault_ == Fault::iterators_see_the_new) spoiled.snapshot = nullptr;
    if (fault_ == Fault::ignores_upper_bounds) spoiled.iterate_upper_bound = nullptr;
    return StackableDB::NewIterator(spoiled, family);
  }
  Status GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions const& options,
                                 std::vector<rocksdb::LiveFileStorageInfo>* files) override {
    auto spoiled = options;
    Status const s = StackableDB::GetLiveFilesStorageInfo(spoiled, files);
    if (fault_ == Fault::checkpoints_lack_writes)
      std::erase_if(*files, [](auto const& f) { return f.file_type == rocksdb::kWalFile; });
    return s;
  }
  using StackableDB::IngestExternalFile;
  Status IngestExternalFile(ColumnFamilyHandle* family, std::vector<std::string> const& files,
                            rocksdb::IngestExternalFileOptions const& options) override {
    auto* const it =
        fault_ == Fault::loses_on_ingest ? StackableDB::NewIterator({}, family) : nullptr;
    Status const s = StackableDB::IngestExternalFile(family, files, options);
    std::unique_ptr<rocksdb::Iterator> const old(it);
    if (it == nullptr || !s.ok()) return s;
    for (it->SeekToFirst(); it->Valid(); it->Next())
      static_cast<void>(StackableDB::Put({}, family, it->key(), it->value()));
    return s;
  }

 private:
  [[nodiscard]] ReadOptions for_keys(ReadOptions options) const {
    if (fault_ == Fault::ignores_snapshots) options.snapshot = nullptr;
    return options;
  }
  [[nodiscard]] bool know_all(std::vector<test::Write> const& writes) const {
    return std::all_of(writes.begin(), writes.end(),
                       [&](auto const& w) { return families_.contains(w.family); });
  }
  void spoil(std::vector<test::Write>& writes) const {
    if (fault_ == Fault::drops_tombstones)
      std::erase_if(writes, [](auto const& w) { return w.what == test::Write::What::erase; });
    if (fault_ == Fault::reverses_batches) reverse_last_pair(writes);
    if (fault_ == Fault::forgets_a_family && writes.size() > 500)
      std::erase_if(writes, [&](auto const& w) { return w.family == writes.back().family; });
    if (fault_ != Fault::merges_twice) return;
    auto& merges = last_merges()[GetName()];
    merges = writes;
    std::erase_if(merges, [](auto const& w) { return w.what != test::Write::What::merge; });
  }
  static void reverse_last_pair(std::vector<test::Write>& writes) {
    for (std::size_t i = writes.size(); i-- > 1;)
      for (std::size_t j = i; j-- > 0;)
        if (writes[i].family == writes[j].family && writes[i].key == writes[j].key)
          return std::swap(writes[i], writes[j]);
  }
  void merge_again() {
    WriteBatch again;
    for (test::Write const& write : last_merges()[GetName()])
      if (families_.contains(write.family)) add(again, write);
    static_cast<void>(StackableDB::Write({}, &again));
    last_merges().erase(GetName());
  }
  void add(WriteBatch& batch, test::Write const& write) const {
    auto* const family = families_.at(write.family);
    switch (write.what) {
      case test::Write::What::put: batch.Put(family, write.key, write.value); break;
      case test::Write::What::erase: batch.Delete(family, write.key); break;
      case test::Write::What::single_delete: batch.SingleDelete(family, write.key); break;
      case test::Write::What::merge: batch.Merge(family, write.key, write.value); break;
      case test::Write::What::delete_range:
        batch.DeleteRange(family, write.key, write.value);
        break;
    }
  }

  Fault fault_;
  std::shared_ptr<std::uint64_t> puts_;  // whatever is opened and closed
  std::map<std::uint32_t, ColumnFamilyHandle*> families_;  // those it was opened with
};

}  // namespace

std::span<NamedFault const> faults() {
  static constexpr std::array kAll = {
      NamedFault{Fault::drops_tombstones, "drops_tombstones"},
      NamedFault{Fault::reverses_batches, "reverses_batches"},
      NamedFault{Fault::loses_puts, "loses_puts"},
      NamedFault{Fault::merges_twice, "merges_twice"},
      NamedFault{Fault::ignores_snapshots, "ignores_snapshots"},
      NamedFault{Fault::iterators_see_the_new, "iterators_see_the_new"},
      NamedFault{Fault::ignores_upper_bounds, "ignores_upper_bounds"},
      NamedFault{Fault::shifts_duplicates, "shifts_duplicates"},
      NamedFault{Fault::forgets_a_family, "forgets_a_family"},
      NamedFault{Fault::delete_range_too_far, "delete_range_too_far"},
      NamedFault{Fault::swallows_statuses, "swallows_statuses"},
      NamedFault{Fault::checkpoints_lack_writes, "checkpoints_lack_writes"},
      NamedFault{Fault::drops_empty_keys, "drops_empty_keys"},
      NamedFault{Fault::loses_on_ingest, "loses_on_ingest"},
  };
  return kAll;
}

Opener faulty(NamedFault const& fault) {
  auto const puts = std::make_shared<std::uint64_t>(0);
  return {fault.name,
          [kind = fault.fault, puts](rocksdb::DBOptions const& options, std::string const& path,
                                     Families const& families, Handles* handles, rocksdb::DB** db) {
            rocksdb::DB* plain = nullptr;
            Status const s = lsm::open_rocksdb(&plain, options, path, families, handles);
            if (s.ok()) *db = new FaultyDb(kind, plain, *handles, puts);
            return s;
          }};
}

}  // namespace perdure::test
