// Calls that write, on databases whose memtables hold a batch of 20,000 operations, against plain
// RocksDB given the same calls.
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/wide_columns.h>
#include <rocksdb/write_batch.h>

#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

using RocksWrites = PopulatedDatabases;

TEST_F(RocksWrites, TheLargeBatchIsInMemtables) {
  EXPECT_TRUE(ours().has_memtables()) << "nothing here is tested if RocksDB itself has it";
}

TEST_F(RocksWrites, SingleCallsGoOnTopOfMemtables) {
  alike("Put, Delete, SingleDelete, Merge", [](One& one, Transcript& said) {
    said.status(one.db->Put({}, both_key(1), "of the default family"));
    said.status(one.db->Put({}, one.counts(), both_key(1), number_text(7)));
    said.status(one.db->Delete({}, both_key(2)));
    said.status(one.db->Delete({}, one.appends(), both_key(2)));
    said.status(one.db->Put({}, "single", "1"));
    said.status(one.db->SingleDelete({}, "single"));
    said.status(one.db->Put({}, one.appends(), "single", "1"));
    said.status(one.db->SingleDelete({}, one.appends(), "single"));
    said.status(one.db->Merge({}, one.counts(), both_key(3), number_text(5)));
    said.status(one.db->Merge({}, one.appends(), both_key(2), "after the Delete"));
    said.status(one.db->Merge({}, "default", "has no operator"));
  });
  contents_alike("after them");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksWrites, EveryWriteOptionIsTaken) {
  alike("options", [](One& one, Transcript& said) {
    auto const put = [&](char const* key, auto change) {
      WriteOptions write;
      change(write);
      said.status(one.db->Put(write, key, key));
      WriteBatch batch;
      batch.Put(one.counts(), key, number_text(1));
      batch.Merge(one.counts(), key, number_text(1));
      said.status(one.db->Write(write, &batch));
    };
    put("sync", [](WriteOptions& w) { w.sync = true; });
    put("no log", [](WriteOptions& w) { w.disableWAL = true; });
    put("no slowdown", [](WriteOptions& w) { w.no_slowdown = true; });
    put("low priority", [](WriteOptions& w) { w.low_pri = true; });
    put("hint", [](WriteOptions& w) { w.memtable_insert_hint_per_batch = true; });
    put("rate", [](WriteOptions& w) { w.rate_limiter_priority = rocksdb::Env::IO_USER; });
    put("protected", [](WriteOptions& w) { w.protection_bytes_per_key = 8; });
    put("sync without log", [](WriteOptions& w) { w.sync = w.disableWAL = true; });
    put("rate low", [](WriteOptions& w) { w.rate_limiter_priority = rocksdb::Env::IO_LOW; });
  });
  contents_alike("after them");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksWrites, LargeBatchesWithEveryWriteOption) {
  alike("options", [](One& one, Transcript& said) {
    int first = 0;
    auto const put = [&](auto change) {
      WriteOptions write;
      change(write);
      WriteBatch batch;
      for (int i = first; i < first + 1500; ++i) batch.Put(both_key(i), std::to_string(first));
      said.status(one.db->Write(write, &batch));
      first += 700;
    };
    put([](WriteOptions& w) { w.sync = true; });
    put([](WriteOptions& w) { w.disableWAL = true; });
    put([](WriteOptions& w) { w.no_slowdown = true; });
    put([](WriteOptions& w) { w.low_pri = true; });
    put([](WriteOptions& w) { w.protection_bytes_per_key = 8; });
    put([](WriteOptions& w) { w.sync = w.disableWAL = true; });
  });
  contents_alike("after them");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksWrites, OddBatches) {
  alike("batches", [](One& one, Transcript& said) {
    WriteBatch empty, log_alone, saved;
    said.status(one.db->Write({}, nullptr)).status(one.db->Write({}, &empty));
    log_alone.PutLogData("for whoever reads the log");
    said.status(one.db->Write({}, &log_alone));
    for (int i = 0; i < 3000; ++i) {
      saved.Put(both_key(i), "kept");
      saved.SetSavePoint();
      saved.Delete(both_key(i));
      saved.Put(one.counts(), both_key(i), "gone");
      said.status(saved.RollbackToSavePoint());
    }
    said.number(saved.Count()).status(one.db->Write({}, &saved));
    WriteBatch const again(saved.Data());
    WriteBatch from_bytes(again.Data());
    said.status(one.db->Write({}, &from_bytes));
  });
  contents_alike("after them");
}

TEST_F(RocksWrites, OneKeyTwentyThousandTimesInOneBatch) {
  alike("batch", [](One& one, Transcript& said) {
    WriteBatch batch;
    for (int i = 0; i < 10000; ++i) {
      batch.Put(both_key(7), std::to_string(i));
      batch.Merge(one.counts(), both_key(7), number_text(1));
    }
    said.status(one.db->Write({}, &batch));
  });
  contents_alike("after it");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksWrites, EmptyAndLongKeysAndValues) {
  alike("batch", [](One& one, Transcript& said) {
    WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.Put(both_key(i), "");
    batch.Put("", "of the empty key");
    batch.Put(std::string(100'000, 'k'), "of a long key");
    batch.Put("long", std::string(10u << 20, 'v'));
    batch.Put(std::string("\0", 1), std::string(300, '\xff'));
    batch.Merge(one.appends(), "", "");
    batch.Merge(one.appends(), "", "");
    said.status(one.db->Write({}, &batch));
  });
  contents_alike("after it");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksWrites, ABatchForAFamilyThatIsNotThere) {
  alike("dropped family", [](One& one, Transcript& said) {
    rocksdb::ColumnFamilyHandle* gone = nullptr;
    said.status(one.db->CreateColumnFamily({}, "gone", &gone));
    said.status(one.db->DropColumnFamily(gone));
    for (bool const ignoring : {true, false}) {
      WriteBatch batch;
      for (int i = 0; i < 1500; ++i) batch.Put(both_key(i), ignoring ? "ignored" : "refused");
      batch.Put(gone, "key", "value");
      WriteOptions write;
      write.ignore_missing_column_families = ignoring;
      said.status(one.db->Write(write, &batch));
    }
    said.status(one.db->DestroyColumnFamilyHandle(gone));
  });
  contents_alike("after them");
}

TEST_F(RocksWrites, DeleteRange) {
  alike("ranges", [](One& one, Transcript& said) {
    said.status(one.db->DeleteRange({}, one.plain(), both_key(100), both_key(900)));
    said.status(one.db->DeleteRange({}, one.counts(), both_key(100), both_key(100)));
    said.status(one.db->Put({}, both_key(200), "after the range"));
    WriteBatch batch;
    for (int i = 0; i < 1500; ++i) {
      batch.Put(both_key(i + 1000), "before the batch's range");
      batch.Put(one.appends(), both_key(i), "another family's");
    }
    batch.DeleteRange(both_key(1100), both_key(1200));
    batch.Put(both_key(1150), "after the batch's range");
    said.status(one.db->Write({}, &batch));
  });
  contents_alike("after them");
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksWrites, Entities) {
  alike("entities", [](One& one, Transcript& said) {
    rocksdb::WideColumns const columns{{"a", "1"}, {"b", "2"}};
    rocksdb::WideColumns const with_default{{rocksdb::kDefaultWideColumnName, "v"}, {"b", "2"}};
    said.status(one.db->PutEntity({}, one.plain(), both_key(1), columns));
    said.status(one.db->PutEntity({}, one.plain(), both_key(2), with_default));
    WriteBatch batch;
    for (int i = 10; i < 1500; ++i) said.status(batch.PutEntity(one.plain(), both_key(i), columns));
    batch.Put(both_key(20), "a value again");
    said.status(one.db->Write({}, &batch));
    for (int const i : {1, 2, 3, 10, 20, 1499, 5}) {
      rocksdb::PinnableWideColumns found;
      said.status(one.db->GetEntity({}, one.plain(), both_key(i), &found));
      for (auto const& column : found.columns()) said.entry(column.name(), column.value());
    }
  });
  contents_alike("after them");
}

/// Refuses all merges with an operand "bad".
class Refusing final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(rocksdb::Slice const&, rocksdb::Slice const* existing, rocksdb::Slice const& value,
             std::string* result, rocksdb::Logger*) const override {
    if (value == "bad") return false;
    *result = (existing != nullptr ? existing->ToString() : "") + value.ToString();
    return true;
  }
  [[nodiscard]] char const* Name() const override { return "Refusing"; }
};

class RocksRefusedMerges : public BothDatabases {
 protected:
  void SetUp() override {
    families[2].options.merge_operator = std::make_shared<Refusing>();
    open();
    populate();
  }
  static void read(One& one, Transcript& said) {
    std::vector<rocksdb::Slice> const keys{"fine", "spoilt", "without base"};
    for (auto const& key : keys) {
      std::string value;
      auto const s = one.db->Get({}, one.appends(), key, &value);
      said.answer(s, value);
    }
    std::vector<std::string> values;
    auto const all = one.db->MultiGet({}, Handles(3, one.appends()), keys, &values);
    for (std::size_t i = 0; i < all.size(); ++i) said.answer(all[i], values[i]);
    std::unique_ptr<rocksdb::Iterator> const it(one.db->NewIterator({}, one.appends()));
    for (it->Seek("f"); it->Valid(); it->Next()) said.entry(it->key(), it->value());
    said.status(it->status());
  }
};

TEST_F(RocksRefusedMerges, AreErrorsOfTheirKeysAlone) {
  alike("merges", [](One& one, Transcript& said) {
    WriteBatch batch;
    for (int i = 0; i < 1500; ++i) batch.Merge(one.appends(), both_key(i), "good");
    batch.Put(one.appends(), "fine", "base");
    batch.Merge(one.appends(), "fine", "good");
    batch.Put(one.appends(), "spoilt", "base");
    batch.Merge(one.appends(), "spoilt", "good");
    batch.Merge(one.appends(), "spoilt", "bad");
    batch.Merge(one.appends(), "without base", "bad");
    said.status(one.db->Write({}, &batch));
  });
  alike("reads", read);
}

TEST_F(RocksRefusedMerges, StayErrorsWhenReopened) {
  alike("merge", [](One& one, Transcript& said) {
    WriteBatch batch;
    for (int i = 0; i < 1500; ++i) batch.Put(one.appends(), both_key(i), "base");
    batch.Merge(one.appends(), "spoilt", "bad");
    said.status(one.db->Write({}, &batch));
  });
  reopen();
  alike("reads", read);
}

TEST_F(RocksWrites, ReadersOfTheLogGetAllOrARefusal) {
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  auto const s = ours().db->GetUpdatesSince(0, &updates);
  if (s.ok()) {
    std::uint64_t count = 0;
    for (; updates->Valid(); updates->Next())
      count += static_cast<std::uint64_t>(updates->GetBatch().writeBatchPtr->Count());
    EXPECT_GE(count, 19'000u) << "an incomplete log, and nobody is told";
  } else {
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
  }
  rocksdb::VectorLogPtr files;
  if (ours().db->GetSortedWalFiles(files).ok()) {
    std::uint64_t bytes = 0;
    for (auto const& file : files) bytes += file->SizeFileBytes();
    EXPECT_GT(bytes, 100'000u) << "logs without what the memtables hold";
  }
}

}  // namespace
}  // namespace perdure::test
