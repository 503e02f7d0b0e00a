// Calls that read keys, snapshots and properties, on databases whose memtables hold a batch of
// 20,000 operations, against plain RocksDB given the same calls.
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/wide_columns.h>

#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;

using RocksReads = PopulatedDatabases;

/// There, erased, merged, of no database.
std::vector<std::string> some_keys() {
  std::vector<std::string> keys{"absent", both_key(0), both_key(1), both_key(4), both_key(5), ""};
  for (int i = 0; i < 200; ++i) keys.push_back(both_key((i * 37) % (kBothKeys + 50)));
  return keys;
}

void tell_multi_get(One& one, ReadOptions const& options, Transcript& said) {
  auto const strings = some_keys();
  std::vector<Slice> const keys(strings.begin(), strings.end());
  for (auto* handle : one.handles) {
    std::vector<PinnableSlice> values(keys.size());
    std::vector<Status> all(keys.size());
    one.db->MultiGet(options, handle, keys.size(), keys.data(), values.data(), all.data());
    for (std::size_t i = 0; i < keys.size(); ++i) said.answer(all[i], values[i]);
  }
}

void tell_get(One& one, ReadOptions const& options, Transcript& said) {
  for (auto* handle : one.handles) {
    for (std::string const& key : some_keys()) {
      std::string value;
      said.answer(one.db->Get(options, handle, key, &value), value);
    }
  }
}

TEST_F(RocksReads, GetInAllItsForms) {
  alike("Get", [](One& one, Transcript& said) {
    for (std::string const& key : some_keys()) {
      std::string text = "before", buffer;
      PinnableSlice pinned, with_buffer(&buffer);
      said.status(one.db->Get({}, key, &text)).bytes(text);
      said.status(one.db->Get({}, one.appends(), key, &pinned)).bytes(pinned);
      said.status(one.db->Get({}, one.counts(), key, &with_buffer)).bytes(with_buffer);
      said.number(with_buffer.IsPinned() || with_buffer.data() == buffer.data());
      std::string timestamp;
      said.status(one.db->Get({}, one.plain(), key, &text, &timestamp)).bytes(text);
    }
  });
}

TEST_F(RocksReads, MultiGetInAllItsForms) {
  alike("MultiGet", [](One& one, Transcript& said) {
    auto const strings = some_keys();
    std::vector<Slice> const keys(strings.begin(), strings.end());
    std::vector<std::string> values, timestamps;
    auto const tell = [&](std::vector<Status> const& all) {
      said.number(all.size()).number(values.size());
      for (std::size_t i = 0; i < all.size(); ++i) said.answer(all[i], values[i]);
    };
    tell(one.db->MultiGet({}, keys, &values));
    tell(one.db->MultiGet({}, Handles(keys.size(), one.appends()), keys, &values));
    tell(one.db->MultiGet({}, std::vector<Slice>{}, &values));
    tell(one.db->MultiGet({}, Handles(keys.size(), one.plain()), keys, &values, &timestamps));
    tell_multi_get(one, {}, said);
    Handles mixed;
    for (std::size_t i = 0; i < keys.size(); ++i) mixed.push_back(one.handles[i % 3]);
    std::vector<PinnableSlice> pinned(keys.size());
    std::vector<Status> all(keys.size());
    one.db->MultiGet({}, keys.size(), mixed.data(), keys.data(), pinned.data(), all.data());
    for (std::size_t i = 0; i < keys.size(); ++i) said.answer(all[i], pinned[i]);
    one.db->MultiGet({}, one.plain(), 0, nullptr, nullptr, nullptr);
  });
}

TEST_F(RocksReads, OptionsThatChangeHowNotWhat) {
  alike("options", [](One& one, Transcript& said) {
    ReadOptions options;
    options.verify_checksums = options.fill_cache = false;
    tell_get(one, options, said);
    options.async_io = options.optimize_multiget_for_io = true;
    tell_multi_get(one, options, said);
    options.io_timeout = std::chrono::seconds(10);
    options.deadline = std::chrono::microseconds(one.db->GetEnv()->NowMicros() + 60'000'000);
    tell_get(one, options, said);
    tell_multi_get(one, options, said);
  });
}

TEST_F(RocksReads, ADeadlineThatHasPassed) {
  alike("MultiGet", [](One& one, Transcript& said) {
    ReadOptions options;
    options.deadline = std::chrono::microseconds(1);
    tell_multi_get(one, options, said);
    tell_get(one, options, said);
  });
}

TEST_F(RocksReads, ASoftLimitOfValues) {
  alike("MultiGet", [](One& one, Transcript& said) {
    ReadOptions options;
    options.value_size_soft_limit = 400;
    std::vector<std::string> strings;
    for (int i = 0; i < 100; ++i) strings.push_back(both_key(5 * i + 1));
    std::vector<Slice> const keys(strings.begin(), strings.end());
    std::vector<PinnableSlice> values(keys.size());
    std::vector<Status> all(keys.size());
    one.db->MultiGet(options, one.plain(), keys.size(), keys.data(), values.data(), all.data(),
                     true);
    for (std::size_t i = 0; i < keys.size(); ++i) said.answer(all[i], values[i]);
    std::vector<std::string> texts;
    for (Status const& s : one.db->MultiGet(options, keys, &texts)) said.status(s);
  });
}

TEST_F(RocksReads, FromMemoryAlone) {
  alike_on_memtables("tiers", [](One& one, Transcript& said) {
    for (auto const tier : {rocksdb::kBlockCacheTier, rocksdb::kPersistedTier,
                            rocksdb::kMemtableTier, rocksdb::kReadAllTier}) {
      ReadOptions options;
      options.read_tier = tier;
      tell_get(one, options, said);
      tell_multi_get(one, options, said);
    }
    ReadOptions memory;
    memory.read_tier = rocksdb::kBlockCacheTier;
    std::unique_ptr<rocksdb::Iterator> const it(one.db->NewIterator(memory));
    for (it->SeekToFirst(); it->Valid(); it->Next()) said.bytes(it->key());
    said.status(it->status());
  });
}

/// What a file has and the cache lacks is incomplete, and never said to be absent.
TEST_F(RocksReads, FromMemoryAloneWithFilesBelow) {
  alike("flush", [](One& one, Transcript& said) { said.status(one.db->Flush({}, one.handles)); });
  reopen();
  ReadOptions memory;
  memory.read_tier = rocksdb::kBlockCacheTier;
  rocksdb::WriteBatch batch;
  for (int i = 0; i < 1500; ++i) batch.Put(both_key(i), "in memory");
  ASSERT_TRUE(ours().db->Write({}, &batch).ok());
  std::string value;
  EXPECT_TRUE(ours().db->Get(memory, both_key(3), &value).ok());
  EXPECT_EQ(value, "in memory");
  Status const s = ours().db->Get(memory, both_key(3001), &value);
  EXPECT_TRUE(s.ok() || s.IsIncomplete()) << s.ToString();
}

TEST_F(RocksReads, KeysMayExistWhereTheyDo) {
  for (std::string const& key : some_keys()) {
    for (auto* handle : ours().handles) {
      std::string value, seen;
      bool has_value = false;
      Status const s = ours().db->Get({}, handle, key, &value);
      bool const may = ours().db->KeyMayExist({}, handle, key, &seen, &has_value);
      EXPECT_TRUE(may || s.IsNotFound()) << key;
      EXPECT_EQ(may && has_value ? seen : value, value) << key;
      EXPECT_TRUE(ours().db->KeyMayExist({}, handle, key, &seen) || s.IsNotFound()) << key;
    }
  }
}

TEST_F(RocksReads, PlainValuesAreEntitiesOfOneColumn) {
  alike("GetEntity", [](One& one, Transcript& said) {
    for (std::string const& key : some_keys()) {
      rocksdb::PinnableWideColumns columns;
      said.status(one.db->GetEntity({}, one.plain(), key, &columns));
      for (auto const& column : columns.columns()) said.entry(column.name(), column.value());
    }
  });
}

TEST_F(RocksReads, OperandsMakeUpTheValue) {
  for (int const i : {1, 2, 3, 500, 999}) {
    std::array<PinnableSlice, 16> operands;
    rocksdb::GetMergeOperandsOptions options;
    options.expected_max_number_of_operands = 16;
    int count = 0;
    Status const s = ours().db->GetMergeOperands({}, ours().appends(), both_key(i), operands.data(),
                                                 &options, &count);
    ASSERT_TRUE(s.ok()) << s.ToString();
    std::string joined, value;
    for (int n = 0; n < count; ++n)
      joined += (n == 0 ? "" : ",") + operands[static_cast<std::size_t>(n)].ToString();
    ASSERT_TRUE(ours().db->Get({}, ours().appends(), both_key(i), &value).ok());
    EXPECT_EQ(joined, value);
  }
}

TEST_F(RocksReads, SnapshotsStayAsTheyWere) {
  std::vector<rocksdb::Snapshot const*> of_ours, of_plain;
  auto const round = [&](int n) {
    alike("write", [n](One& one, Transcript& said) {
      rocksdb::WriteBatch batch;
      for (int i = n; i < 2000; ++i) {
        batch.Put(both_key(i), "round " + std::to_string(n));
        batch.Merge(one.counts(), both_key(i), number_text(100));
        if (i % 7 == n) batch.Delete(one.appends(), both_key(i));
      }
      said.status(one.db->Write({}, &batch));
      if (n == 2) said.status(one.db->Flush({}, one.handles));
    });
    of_ours.push_back(ours().db->GetSnapshot());
    of_plain.push_back(plain().db->GetSnapshot());
  };
  for (int n = 0; n < 4; ++n) round(n);
  alike("snapshots", [&](One& one, Transcript& said) {
    auto& all = one.is_ours() ? of_ours : of_plain;
    rocksdb::SequenceNumber last = 0;
    for (auto const* snapshot : all) {
      ReadOptions options;
      options.snapshot = snapshot;
      tell_get(one, options, said);
      tell_multi_get(one, options, said);
      std::unique_ptr<rocksdb::Iterator> const it(one.db->NewIterator(options, one.counts()));
      for (it->SeekToFirst(); it->Valid(); it->Next()) said.entry(it->key(), it->value());
      said.number(snapshot->GetSequenceNumber() > last);
      last = snapshot->GetSequenceNumber();
    }
    said.number(one.db->GetLatestSequenceNumber() >= last);
    for (auto const* snapshot : all) one.db->ReleaseSnapshot(snapshot);
    one.db->ReleaseSnapshot(nullptr);
    rocksdb::ManagedSnapshot const managed(one.db);
  });
}

TEST_F(RocksReads, ASnapshotOfTheDatabaseBelowIsRefused) {
  rocksdb::DB* const below = ours().db->GetRootDB();
  rocksdb::Snapshot const* const foreign = below->GetSnapshot();
  ReadOptions options;
  options.snapshot = foreign;
  std::string value;
  EXPECT_TRUE(ours().db->Get(options, both_key(1), &value).IsInvalidArgument());
  std::unique_ptr<rocksdb::Iterator>(ours().db->NewIterator(options))->SeekToFirst();
  below->ReleaseSnapshot(foreign);
}

TEST_F(RocksReads, BatchesWithAnIndexSeeTheMemtables) {
  alike("indexed batch", [](One& one, Transcript& said) {
    rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, true);
    said.status(batch.Put(one.plain(), both_key(1), "of the batch"));
    said.status(batch.Delete(one.plain(), both_key(2)));
    said.status(batch.Merge(one.counts(), both_key(3), number_text(10)));
    said.status(batch.Merge(one.appends(), both_key(4), "of the batch"));
    for (auto* handle : one.handles) {
      for (int i = 0; i < 8; ++i) {
        std::string value;
        said.answer(batch.GetFromBatchAndDB(one.db, {}, handle, both_key(i), &value), value);
      }
      std::unique_ptr<rocksdb::Iterator> const it(
          batch.NewIteratorWithBase(handle, one.db->NewIterator({}, handle)));
      for (it->SeekToFirst(); it->Valid(); it->Next()) said.bytes(it->key());
      said.status(it->status());
    }
    said.status(one.db->Write({}, batch.GetWriteBatch()));
  });
  contents_alike("written");
}

/// It asks the database behind GetRootDB().
TEST_F(RocksReads, BatchesWithAnIndexSeeTheMemtablesInMultiGet) {
  alike("indexed batch", [](One& one, Transcript& said) {
    rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, true);
    said.status(batch.Put(one.plain(), both_key(1), "of the batch"));
    said.status(batch.Delete(one.plain(), both_key(2)));
    std::vector<Slice> const keys{"key000001", "key000002", "key000006"};
    std::vector<PinnableSlice> values(keys.size());
    std::vector<Status> all(keys.size());
    batch.MultiGetFromBatchAndDB(one.db, {}, one.plain(), keys.size(), keys.data(), values.data(),
                                 all.data(), true);
    for (std::size_t i = 0; i < keys.size(); ++i) said.answer(all[i], values[i]);
  });
}

class RocksTimestamps : public BothDatabases {};

TEST_F(RocksTimestamps, FamiliesWithThemBehaveAsRocksdbs) {
  families.emplace_back("stamped", small_family_options());
  ASSERT_TRUE(rocksdb::Comparator::CreateFromString({}, "leveldb.BytewiseComparator.u64ts",
                                                    &families[3].options.comparator)
                  .ok());
  open();
  populate();
  alike("timestamps", [](One& one, Transcript& said) {
    auto* const stamped = one.handles[3];
    std::string const early = number_text(10), late = number_text(20);
    said.status(one.db->Put({}, stamped, "key", early, "early"));
    said.status(one.db->Put({}, stamped, "key", late, "late"));
    said.status(one.db->Put({}, stamped, "key", "without"));
    said.status(one.db->Delete({}, stamped, "other", late));
    for (std::string const& at : {early, late}) {
      Slice const slice(at);
      ReadOptions options;
      options.timestamp = &slice;
      std::string value, stamp;
      said.answer(one.db->Get(options, stamped, "key", &value, &stamp), value).bytes(stamp);
      said.status(one.db->Get(options, one.plain(), both_key(1), &value));
      std::unique_ptr<rocksdb::Iterator> const it(one.db->NewIterator(options, stamped));
      for (it->SeekToFirst(); it->Valid(); it->Next()) said.entry(it->key(), it->value());
      said.status(it->status());
    }
    std::string low;
    said.status(one.db->IncreaseFullHistoryTsLow(stamped, early));
    said.status(one.db->GetFullHistoryTsLow(stamped, &low)).bytes(low);
    rocksdb::WriteBatch batch(0, 0, 0, 8);
    said.status(batch.Put(stamped, "batched", late, "value"));
    said.status(one.db->Write({}, &batch));
    said.status(one.db->Put({}, one.plain(), "key", early, "no timestamps here"));
  });
}

TEST_F(RocksReads, PropertiesCountWhatMemtablesHold) {
  alike("which there are", [](One& one, Transcript& said) {
    std::string text;
    std::uint64_t number = 0;
    std::map<std::string, std::string> map;
    for (char const* name : {"rocksdb.stats", "rocksdb.levelstats", "rocksdb.num-files-at-level0",
                             "rocksdb.no-such-property", "rocksdb.num-snapshots"}) {
      said.number(one.db->GetProperty(name, &text));
      said.number(one.db->GetProperty(one.counts(), name, &text));
      said.number(one.db->GetIntProperty(one.plain(), name, &number));
      said.number(one.db->GetAggregatedIntProperty(name, &number));
    }
    said.number(one.db->GetMapProperty("rocksdb.cfstats", &map));
  });
  std::uint64_t of_ours = 0, of_plain = 0;
  for (char const* name : {"rocksdb.estimate-num-keys"}) {
    ASSERT_TRUE(ours().db->GetIntProperty(name, &of_ours));
    ASSERT_TRUE(plain().db->GetIntProperty(name, &of_plain));
    EXPECT_GE(of_ours, of_plain / 2) << name;
    ASSERT_TRUE(ours().db->GetAggregatedIntProperty(name, &of_ours));
    ASSERT_TRUE(plain().db->GetAggregatedIntProperty(name, &of_plain));
    EXPECT_GE(of_ours, of_plain / 2) << name;
  }
}

TEST_F(RocksReads, SizesCountWhatMemtablesHold) {
  std::string const first = both_key(0), last = both_key(kBothKeys);
  rocksdb::Range const all(first, last);
  std::uint64_t of_ours = 0, of_plain = 0, count = 0, bytes = 0;
  auto const both = rocksdb::DB::SizeApproximationFlags{3};  // memtables and files
  ASSERT_TRUE(ours().db->GetApproximateSizes(&all, 1, &of_ours, both).ok());
  ASSERT_TRUE(plain().db->GetApproximateSizes(&all, 1, &of_plain, both).ok());
  EXPECT_GE(of_ours, of_plain / 4);
  ours().db->GetApproximateMemTableStats(all, &count, &bytes);
  EXPECT_GE(count, 2000u);
  alike("files alone, of which there are none", [&](One& one, Transcript& said) {
    std::uint64_t size = 1;
    said.status(one.db->GetApproximateSizes(&all, 1, &size)).number(size);
  });
}

}  // namespace
}  // namespace perdure::test
