// Opening, closing, families, options and what users hang onto a database, with memtables that
// hold a batch of 20,000 operations, against plain RocksDB given the same calls.
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/statistics.h>
#include <rocksdb/stats_history.h>
#include <rocksdb/trace_reader_writer.h>
#include <rocksdb/utilities/replayer.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

using RocksLife = PopulatedDatabases;

/// Closed and deleted, with the handles gone before; what plain RocksDB finds then.
void tell_closed(One& one, Families const& families, Transcript& said) {
  for (auto* handle : one.handles) said.status(one.db->DestroyColumnFamilyHandle(handle));
  one.handles.clear();
  said.status(one.db->Close());
  said.status(one.db->Close());
  delete one.db;
  one.db = nullptr;
  tell_directory(one.path, families, said);
}

TEST_F(RocksLife, ClosedDirectoriesAreRocksdbs) {
  alike("close", [this](One& one, Transcript& said) { tell_closed(one, families, said); });
}

TEST_F(RocksLife, DeletedWithoutCloseLosesNothing) {
  alike("delete", [this](One& one, Transcript& said) {
    for (auto* handle : one.handles) delete handle;  // RocksDB allows it
    one.handles.clear();
    delete one.db;
    one.db = nullptr;
    tell_directory(one.path, families, said);
  });
}

TEST_F(RocksLife, CloseWaitsForSnapshotsToBeReleased) {
  alike("close", [this](One& one, Transcript& said) {
    auto const* snapshot = one.db->GetSnapshot();
    said.status(one.db->Close());
    one.db->ReleaseSnapshot(snapshot);
    tell_closed(one, families, said);
  });
}

TEST_F(RocksLife, BackgroundWorkThatIsCancelledLosesNothing) {
  alike("cancel", [](One& one, Transcript& said) {
    rocksdb::CancelAllBackgroundWork(one.db, true);
    for (auto* handle : one.handles) said.status(one.db->DestroyColumnFamilyHandle(handle));
    one.handles.clear();
    said.status(one.db->Close());
    delete one.db;
    one.db = nullptr;
  });
  open();
  contents_alike("reopened");
}

TEST_F(RocksLife, FamiliesComeAndGo) {
  alike("families", [this](One& one, Transcript& said) {
    rocksdb::ColumnFamilyHandle* made = nullptr;
    said.status(one.db->CreateColumnFamily(small_family_options(), "made", &made));
    said.bytes(made->GetName()).number(made->GetID());
    said.number(made->GetComparator() == rocksdb::BytewiseComparator());
    rocksdb::ColumnFamilyDescriptor descriptor;
    said.status(made->GetDescriptor(&descriptor)).bytes(descriptor.name);
    Handles several, described;
    said.status(one.db->CreateColumnFamilies(small_family_options(), {"a", "b"}, &several));
    said.status(one.db->CreateColumnFamilies({{"c", small_family_options()}}, &described));
    said.number(several.size()).number(described.size());
    rocksdb::ColumnFamilyHandle* again = nullptr;
    said.status(one.db->CreateColumnFamily(small_family_options(), "made", &again));
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 1500; ++i) batch.Put(made, both_key(i), "value");
    said.status(one.db->Write({}, &batch));
    said.status(one.db->DropColumnFamily(made));
    said.status(one.db->DropColumnFamily(made));
    said.status(one.db->Put({}, made, "key", "of a dropped family"));
    std::string value;
    said.answer(one.db->Get({}, made, both_key(1), &value), value);
    said.status(one.db->CreateColumnFamily(small_family_options(), "made", &again));
    said.answer(one.db->Get({}, again, both_key(1), &value), value);
    said.status(one.db->DropColumnFamilies({again, several[0]}));
    said.status(one.db->DropColumnFamily(one.db->DefaultColumnFamily()));
    several.insert(several.end(), described.begin(), described.end());
    for (auto* handle : several) said.status(one.db->DestroyColumnFamilyHandle(handle));
    said.status(one.db->DestroyColumnFamilyHandle(made));
    said.status(one.db->DestroyColumnFamilyHandle(again));
    std::vector<std::string> names;
    said.status(rocksdb::DB::ListColumnFamilies(db_options, one.path, &names));
    for (std::string const& name : names) said.bytes(name);
  });
  contents_alike("afterwards");
}

TEST_F(RocksLife, OptionsAreReadAndSet) {
  alike("options", [](One& one, Transcript& said) {
    said.status(one.db->SetOptions({{"write_buffer_size", "1234567"}}));
    said.status(one.db->SetOptions(one.counts(), {{"level0_file_num_compaction_trigger", "7"}}));
    said.status(one.db->SetOptions({{"no_such_option", "1"}}));
    said.status(one.db->SetDBOptions({{"max_background_jobs", "3"}}));
    said.status(one.db->SetDBOptions({{"no_such_option", "1"}}));
    said.number(one.db->GetOptions().write_buffer_size);
    auto const of_counts = one.db->GetOptions(one.counts());
    said.number(static_cast<std::uint64_t>(of_counts.level0_file_num_compaction_trigger));
    said.bytes(of_counts.merge_operator->Name());
    said.number(static_cast<std::uint64_t>(one.db->GetDBOptions().max_background_jobs));
    said.number(one.db->GetName() == one.path).number(one.db->GetEnv() == rocksdb::Env::Default());
    said.number(one.db->GetFileSystem() != nullptr);
    std::string identity, session;
    said.status(one.db->GetDbIdentity(identity)).number(identity.size());
    said.status(one.db->GetDbSessionId(session)).number(session.size());
    said.number(static_cast<std::uint64_t>(one.db->NumberLevels()));
#if PERDURE_ROCKSDB < 1100
    said.number(static_cast<std::uint64_t>(one.db->MaxMemCompactionLevel()));
#endif
    said.number(static_cast<std::uint64_t>(one.db->Level0StopWriteTrigger()));
  });
}

TEST_F(RocksLife, WhatIsSeldomCalledAnswersAsRocksdbDoes) {
  alike("calls", [](One& one, Transcript& said) {
    said.status(one.db->ResetStats()).status(one.db->Resume());
    std::unique_ptr<rocksdb::StatsHistoryIterator> history;
    said.status(one.db->GetStatsHistory(0, 1, &history)).number(history != nullptr);
    said.status(one.db->TryCatchUpWithPrimary());
    std::string const path = one.path + ".trace";
    std::unique_ptr<rocksdb::TraceWriter> writer, other;
    auto* const env = rocksdb::Env::Default();
    said.status(rocksdb::NewFileTraceWriter(env, {}, path, &writer));
    said.status(one.db->StartTrace({}, std::move(writer)));
    said.status(one.db->EndTrace()).status(one.db->EndTrace());
    said.status(rocksdb::NewFileTraceWriter(env, {}, path + "2", &other));
    said.status(one.db->StartIOTrace({}, std::move(other))).status(one.db->EndIOTrace());
    said.status(one.db->EndBlockCacheTrace());
    said.status(env->DeleteFile(path)).status(env->DeleteFile(path + "2"));
    rocksdb::FileChecksumList* const list = rocksdb::NewFileChecksumList();
    said.status(one.db->GetLiveFilesChecksumInfo(list));
    delete list;
  });
}

class RocksOpening : public BothDatabases {
 protected:
  /// One opening that may fail.
  void tell_open(One& one, rocksdb::DBOptions const& db, Families const& which, Transcript& said) {
    Handles handles;
    rocksdb::DB* opened = nullptr;
    auto const s = one.opener.open(db, one.path, which, &handles, &opened);
    said.status(s).number(handles.size()).number(opened != nullptr);
    if (!s.ok()) return;
    for (auto* handle : handles) said.status(opened->DestroyColumnFamilyHandle(handle));
    delete opened;
  }
};

TEST_F(RocksOpening, IsRefusedWhereRocksdbRefuses) {
  alike("open", [this](One& one, Transcript& said) {
    rocksdb::DBOptions strict = db_options;
    strict.create_if_missing = false;
    tell_open(one, strict, families, said);
    tell_open(one, db_options, families, said);
    tell_open(one, strict, families, said);
    tell_open(one, db_options, {families[0]}, said);  // two families short
    tell_open(one, db_options, {families[1]}, said);  // without the default one
    strict.error_if_exists = true;
    tell_open(one, strict, families, said);
    rocksdb::DBOptions few = db_options;
    few.create_missing_column_families = false;
    Families more = families;
    more.emplace_back("not there", rocksdb::ColumnFamilyOptions());
    tell_open(one, few, more, said);
    tell_open(one, db_options, more, said);
  });
}

TEST_F(RocksOpening, ASecondTimeIsRefusedWhileTheFirstLasts) {
  open();
  alike("open", [this](One& one, Transcript& said) { tell_open(one, db_options, families, said); });
  populate();
  contents_alike("the first goes on");
}

TEST_F(RocksOpening, WhatPlainRocksdbLeftInItsLog) {
  One left{plain_rocksdb(), ours().path, nullptr, {}};
  ASSERT_TRUE(left.opener.open(db_options, left.path, families, &left.handles, &left.db).ok());
  ASSERT_TRUE(left.db->Put({}, "key", "from the log").ok());
  ASSERT_TRUE(left.db->Merge({}, left.counts(), "key", number_text(3)).ok());
  for (auto* handle : left.handles) ASSERT_TRUE(left.db->DestroyColumnFamilyHandle(handle).ok());
  delete left.db;
  open();
  std::string value;
  EXPECT_TRUE(ours().db->Get({}, "key", &value).ok());
  EXPECT_EQ(value, "from the log");
  EXPECT_TRUE(ours().db->Get({}, ours().counts(), "key", &value).ok());
  EXPECT_EQ(value, number_text(3));
}

/// Drops keys that end in 3.
class Dropping final : public rocksdb::CompactionFilter {
 public:
  bool Filter(int, rocksdb::Slice const& key, rocksdb::Slice const&, std::string*,
              bool*) const override {
    return key.ends_with("3");
  }
  [[nodiscard]] char const* Name() const override { return "Dropping"; }
};

TEST_F(RocksOpening, CompactionFiltersFilterWhatCameFromMemtables) {
  Dropping const filter;
  families[0].options.compaction_filter = &filter;
  open();
  populate();
  alike("compact", [](One& one, Transcript& said) {
    said.status(one.db->Flush({}, one.handles));
    rocksdb::CompactRangeOptions whole;
    whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    said.status(one.db->CompactRange(whole, one.plain(), nullptr, nullptr));
    std::string value;
    said.status(one.db->Get({}, both_key(3), &value)).status(one.db->Get({}, both_key(4), &value));
  });
  contents_alike("filtered");
  close();  // before the filter goes
}

/// Counts what it is told of files that came.
class Listening final : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB*, rocksdb::FlushJobInfo const&) override { ++files; }
  void OnExternalFileIngested(rocksdb::DB*, rocksdb::ExternalFileIngestionInfo const&) override {
    ++files;
  }
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle*) override { ++handles; }
  std::atomic<int> files = 0;
  std::atomic<int> handles = 0;
};

TEST_F(RocksOpening, ListenersHearOfFlushes) {
  auto const listening = std::make_shared<Listening>();
  db_options.listeners.push_back(listening);
  db_options.statistics = rocksdb::CreateDBStatistics();
  open();
  populate();  // what idles is flushed before anybody asks
  ASSERT_TRUE(ours().db->Flush({}, ours().handles).ok());
  EXPECT_GE(listening->files, 3) << "one of each family";
  int const before = listening->handles;
  rocksdb::ColumnFamilyHandle* made = nullptr;
  ASSERT_TRUE(ours().db->CreateColumnFamily({}, "made", &made).ok());
  ASSERT_TRUE(ours().db->DestroyColumnFamilyHandle(made).ok());
  EXPECT_EQ(listening->handles, before + 1);
}

/// What a killed process left comes back at the next opening, and not before.
TEST_F(RocksOpening, AfterAProcessThatNeverClosed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without our threads
  char const* const given = std::getenv("PERDURE_TEST_LEFT");
  std::string const path = given != nullptr ? given : fresh_path("left");
  ::setenv("PERDURE_TEST_LEFT", path.c_str(), 1);
  One left{ours().opener, path, nullptr, {}};
  auto const write_and_exit = [&] {
    if (!left.opener.open(db_options, path, families, &left.handles, &left.db).ok()) ::_exit(1);
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 20'000; ++i) batch.Put(left.plain(), both_key(i), std::to_string(i));
    for (int i = 0; i < 20'000; ++i) batch.Merge(left.counts(), both_key(i % 5), number_text(1));
    ::_exit(left.db->Write({}, &batch).ok() ? 0 : 1);
  };
  EXPECT_EXIT(write_and_exit(), ::testing::ExitedWithCode(0), "");
  ::unsetenv("PERDURE_TEST_LEFT");
  rocksdb::DB* reader = nullptr;
  std::string value;
  auto const opened = left.opener.open(db_options, path, families, &left.handles, &left.db);
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_TRUE(left.db->Get({}, both_key(19'999), &value).ok());
  EXPECT_TRUE(left.db->Get({}, left.counts(), both_key(4), &value).ok());
  EXPECT_EQ(value, number_text(4000));
  for (auto* handle : left.handles) delete handle;
  delete left.db;
  ASSERT_TRUE(lsm::open_to_read(&reader, rocksdb::Options(), path).ok());
  EXPECT_TRUE(reader->Get({}, both_key(19'999), &value).ok());
  delete reader;
  remove_database(path);
}

}  // namespace
}  // namespace perdure::test
