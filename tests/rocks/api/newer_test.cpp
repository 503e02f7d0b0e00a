// Calls that RocksDB has got since 7.8, on databases whose memtables hold a batch of 20,000
// operations, against plain RocksDB of the same version. What the version lacks is not tested.
#include <rocksdb/merge_operator.h>
#include <rocksdb/write_batch.h>

#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

using rocksdb::PinnableWideColumns;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;

using RocksNewer = PopulatedDatabases;

[[maybe_unused]] void tell_columns(rocksdb::WideColumns const& columns, Transcript& said) {
  said.number(columns.size());
  for (rocksdb::WideColumn const& column : columns) said.bytes(column.name()).bytes(column.value());
  said.line();
}

/// There, erased, merged, absent.
[[maybe_unused]] std::vector<std::string> some_keys() {
  std::vector<std::string> keys{"absent", both_key(0), both_key(1), both_key(4), both_key(5)};
  for (int i = 0; i < 100; ++i) keys.push_back(both_key((i * 37) % (kBothKeys + 50)));
  return keys;
}

#if PERDURE_ROCKSDB >= 800
void tell_entities(One& one, ReadOptions const& options, Transcript& said) {
  auto const strings = some_keys();
  std::vector<Slice> const keys(strings.begin(), strings.end());
  Handles mixed;
  for (std::size_t i = 0; i < keys.size(); ++i) mixed.push_back(one.handles[i % 3]);
  for (bool const by_family : {false, true}) {
    std::vector<PinnableWideColumns> found(keys.size());
    std::vector<Status> all(keys.size());
    if (by_family) {
      one.db->MultiGetEntity(options, keys.size(), mixed.data(), keys.data(), found.data(),
                             all.data());
    } else {
      one.db->MultiGetEntity(options, one.appends(), keys.size(), keys.data(), found.data(),
                             all.data());
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      said.status(all[i]);
      if (all[i].ok()) tell_columns(found[i].columns(), said);
    }
  }
}

TEST_F(RocksNewer, EntitiesOfManyKeys) {
  alike_on_memtables("MultiGetEntity", [](One& one, Transcript& said) {
    tell_entities(one, {}, said);
    ReadOptions options;
    options.snapshot = one.db->GetSnapshot();
    said.status(one.db->Put({}, both_key(37), "after the snapshot"));
    tell_entities(one, options, said);
    tell_entities(one, {}, said);
    one.db->ReleaseSnapshot(options.snapshot);
  });
}
#endif

#if PERDURE_ROCKSDB >= 800
/// Operands over several columns change the default one, in memtables and below them.
TEST_F(RocksNewer, MergesIntoEntities) {
  auto const tell = [](One& one, ReadOptions const& options, Transcript& said) {
    PinnableWideColumns columns;
    std::string value;
    said.status(one.db->GetEntity(options, one.appends(), "entity", &columns));
    tell_columns(columns.columns(), said);
    said.answer(one.db->Get(options, one.appends(), "entity", &value), value);
  };
  alike("before", [](One& one, Transcript& said) {
    said.status(one.db->PutEntity({}, one.appends(), "entity", {{"", "x"}, {"color", "red"}}));
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 1000; ++i) batch.Merge(one.appends(), both_key(i), "more");
    batch.Merge(one.appends(), "entity", "operand");
    said.status(one.db->Write({}, &batch));
  });
  ASSERT_TRUE(ours().has_memtables());
  contents_alike("in memtables");
  alike("read", [&](One& one, Transcript& said) { tell(one, {}, said); });
  alike("flushed", [&](One& one, Transcript& said) {
    said.status(one.db->Flush({}, one.appends()));
    tell(one, {}, said);
  });
  contents_alike("flushed");
}
#endif

#if PERDURE_ROCKSDB >= 807
/// FullMergeV3() that makes columns of a plain value is left to RocksDB.
class Painter final : public rocksdb::MergeOperator {
  bool FullMergeV3(MergeOperationInputV3 const& in, MergeOperationOutputV3* out) const override {
    MergeOperationOutputV3::NewColumns columns{{"color", in.operand_list.back().ToString()}};
    out->new_value = std::move(columns);
    return true;
  }
  char const* Name() const override { return "painter"; }
};
using RocksPainted = BothDatabases;
TEST_F(RocksPainted, OperandsThatMakeColumnsAreRocksDbsToMerge) {
  families[0].options.merge_operator = std::make_shared<Painter>();
  open();
  alike("write", [](One& one, Transcript& said) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 1000; ++i) batch.Merge(one.plain(), both_key(i), "red");
    said.status(one.db->Write({}, &batch));
    said.status(one.db->Flush({}, one.plain()));
    PinnableWideColumns columns;
    said.status(one.db->GetEntity({}, one.plain(), both_key(7), &columns));
    tell_columns(columns.columns(), said);
  });
  contents_alike("flushed");
}
#endif

#if PERDURE_ROCKSDB >= 809
rocksdb::PinnableAttributeGroups groups_of(One& one) {
  rocksdb::PinnableAttributeGroups groups;
  groups.emplace_back(one.plain());
  groups.emplace_back(one.appends());
  return groups;
}

void tell_groups(rocksdb::PinnableAttributeGroups const& groups, Transcript& said) {
  for (rocksdb::PinnableAttributeGroup const& group : groups) {
    said.status(group.status());
    if (group.status().ok()) tell_columns(group.columns(), said);
  }
}

TEST_F(RocksNewer, GroupsOfColumns) {
  alike_on_memtables("GetEntity", [](One& one, Transcript& said) {
    auto const strings = some_keys();
    std::vector<Slice> const keys(strings.begin(), strings.end());
    std::vector<rocksdb::PinnableAttributeGroups> found(keys.size());
    for (auto& groups : found) groups = groups_of(one);
    one.db->MultiGetEntity({}, keys.size(), keys.data(), found.data());
    for (auto const& groups : found) tell_groups(groups, said);
    auto one_key = groups_of(one);
    said.status(one.db->GetEntity({}, keys[1], &one_key));
    tell_groups(one_key, said);
  });
  alike("PutEntity", [](One& one, Transcript& said) {
    rocksdb::WideColumns const columns{{"", "plain"}, {"a", "1"}};
    rocksdb::AttributeGroups groups;
    groups.emplace_back(one.plain(), columns);
    groups.emplace_back(one.appends(), columns);
    said.status(one.db->PutEntity({}, both_key(1), groups));
    auto found = groups_of(one);
    said.status(one.db->GetEntity({}, both_key(1), &found));
    tell_groups(found, said);
  });
  contents_alike("after PutEntity");
}

TEST_F(RocksNewer, AFamilyIsClipped) {
  alike("clip", [](One& one, Transcript& said) {
    said.status(one.db->ClipColumnFamily(one.appends(), both_key(1000), both_key(2000)));
  });
  contents_alike("after ClipColumnFamily");
}

TEST_F(RocksNewer, WaitingForCompactionsMayClose) {
  alike("wait", [](One& one, Transcript& said) {
    rocksdb::WaitForCompactOptions options;
    options.flush = true;
    said.status(one.db->WaitForCompact(options));
  });
  reopen();
  contents_alike("after waiting");
}
#endif

#if PERDURE_ROCKSDB >= 902
TEST_F(RocksNewer, SeveralFamiliesAsOne) {
  alike("iterators", [](One& one, Transcript& said) {
    auto const entries = one.db->NewCoalescingIterator({}, one.handles);
    for (entries->SeekToFirst(); entries->Valid(); entries->Next())
      said.bytes(entries->key()).bytes(entries->value()).line();
    said.status(entries->status());
    auto const groups = one.db->NewAttributeGroupIterator({}, one.handles);
    for (groups->Seek(both_key(2000)); groups->Valid(); groups->Next()) {
      said.bytes(groups->key());
      for (auto const& group : groups->attribute_groups()) tell_columns(group.columns(), said);
    }
    said.status(groups->status());
  });
}

TEST_F(RocksNewer, SeveralFamiliesAsOneAtASnapshotOfMemtablesAreRefused) {
  ReadOptions options;
  options.snapshot = ours().db->GetSnapshot();
  ASSERT_TRUE(ours().has_memtables());
  auto const entries = ours().db->NewCoalescingIterator(options, ours().handles);
  entries->SeekToFirst();
  EXPECT_FALSE(entries->Valid());
  EXPECT_TRUE(entries->status().IsNotSupported());
  auto const groups = ours().db->NewAttributeGroupIterator(options, ours().handles);
  groups->SeekToFirst();
  EXPECT_FALSE(groups->Valid());
  EXPECT_TRUE(groups->status().IsNotSupported());
  ours().db->ReleaseSnapshot(options.snapshot);
}
#endif

}  // namespace
}  // namespace perdure::test
