// What transactions do, one story a test. Each is told to RocksDB's own database too, which says
// what is right, but for those where ours does better.
#include <rocksdb/comparator.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <chrono>
#include <thread>

#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/write_history.hpp"
#include "rocks/transaction_databases.hpp"

namespace perdure::test {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

class Transactions : public ::testing::TestWithParam<Maker> {
 protected:
  static TransactionDatabase database(rocksdb::TransactionDBOptions options = {}) {
    options.default_lock_timeout = 0;
    return {GetParam(), Locking::pessimistic, options};
  }
  static TransactionDatabase optimistic() { return {GetParam(), Locking::optimistic}; }
};

std::string read(rocksdb::Transaction& one, rocksdb::ColumnFamilyHandle* family, Slice const& key) {
  std::string value;
  Status const status = one.Get({}, family, key, &value);
  return status.ok() ? value : status.IsNotFound() ? "-" : status.ToString();
}

std::string scan(rocksdb::Transaction& one, rocksdb::ColumnFamilyHandle* family) {
  std::unique_ptr<rocksdb::Iterator> const at(one.GetIterator({}, family));
  std::string all;
  for (at->SeekToFirst(); at->Valid(); at->Next())
    all += at->key().ToString() + "=" + at->value().ToString() + ";";
  return all;
}

TEST_P(Transactions, ReadTheirOwnWritesInFamiliesOfAnyOrder) {
  TransactionDatabase const d = database();
  rocksdb::ColumnFamilyOptions backwards;
  backwards.comparator = rocksdb::ReverseBytewiseComparator();
  backwards.merge_operator = std::make_shared<Appending>();
  rocksdb::ColumnFamilyHandle* family = nullptr;
  must(d.db().CreateColumnFamily(backwards, "backwards", &family));
  must(d.db().Put({}, family, "b", "base"));
  TransactionPtr one = d.begin();
  must(one->Put("a", "default"));  // not indexed yet
  must(one->Put(family, "a", "1"));
  must(one->Put(family, "c", "3"));
  must(one->Merge(family, "b", "operand"));
  must(one->Delete(family, "a"));
  EXPECT_EQ(read(*one, family, "a"), "-");
  EXPECT_EQ(read(*one, family, "b"), "base,operand");
  EXPECT_EQ(scan(*one, family), "c=3;b=base,operand;");
  EXPECT_EQ(scan(*one, nullptr == family ? family : d.db().DefaultColumnFamily()), "a=default;");
  must(one->Commit());
  std::string value;
  must(d.db().Get({}, family, "b", &value));
  EXPECT_EQ(value, "base,operand");
  one.reset();
  must(d.db().DestroyColumnFamilyHandle(family));
}

TEST_P(Transactions, IteratorsSeeWritesThatComeLater) {
  TransactionDatabase const d = database();
  must(d.db().Put({}, "b", "2"));
  TransactionPtr const one = d.begin();
  must(one->Put("a", "1"));
  std::unique_ptr<rocksdb::Iterator> const at(one->GetIterator({}));
  at->SeekToFirst();
  must(one->Put("c", "3"));
  std::string all;
  for (; at->Valid(); at->Next()) all += at->key().ToString();
  EXPECT_EQ(all, "abc");
}

TEST_P(Transactions, TakePartsOfKeysAndWholeBatches) {
  TransactionDatabase const d = database();
  TransactionPtr const one = d.begin();
  std::array<Slice, 2> const key{"k", "ey"}, value{"val", "ue"};
  must(one->Put(rocksdb::SliceParts(key.data(), 2), rocksdb::SliceParts(value.data(), 2)));
  EXPECT_EQ(read(*one, d.db().DefaultColumnFamily(), "key"), "value");
  rocksdb::WriteBatch batch;
  must(batch.Put("other", "1"));
  must(batch.SingleDelete("key"));
  must(batch.PutLogData("log"));
  must(one->RebuildFromWriteBatch(&batch));
  EXPECT_EQ(one->GetNumKeys(), 2U) << "rebuilding locks";
  EXPECT_EQ(told(d.db().Put({}, "other", "2")), "9/2");
  must(one->Commit());
  EXPECT_EQ(d.get("key"), "-");
  EXPECT_EQ(d.get("other"), "1");
}

TEST_P(Transactions, OfNobodysInterestAreOneBatch) {
  TransactionDatabase const d = database();
  rocksdb::TransactionOptions options;
  options.skip_concurrency_control = true;
  TransactionPtr const one = d.begin(options);
  one->DisableIndexing();
  for (int i = 0; i < 1000; ++i) must(one->Put("key" + std::to_string(i), "value"));
  EXPECT_EQ(one->GetNumKeys(), 0U);
  EXPECT_EQ(one->GetNumPuts(), 1000U);
  must(one->Commit());
  EXPECT_EQ(d.get("key999"), "value");
}

TEST_P(Transactions, WaitForNobodyWhenTheyMayNot) {
  TransactionDatabase const d = database();
  TransactionPtr const one = d.begin(), two = d.begin(impatient());
  std::string value;
  must(d.db().Put({}, "shared", "s"));
  must(one->GetForUpdate({}, "shared", &value, false));
  must(two->GetForUpdate({}, "shared", &value, false));
  EXPECT_EQ(value, "s");
  EXPECT_EQ(told(two->Put("shared", "x")), "9/2") << "one has it too";
  must(one->Put("mine", "1"));
  EXPECT_EQ(told(two->GetForUpdate({}, "mine", &value, false)), "9/2");
  std::vector<std::string> values;
  std::vector<Slice> const keys{"free", "mine"};
  EXPECT_EQ(told(two->MultiGetForUpdate({}, keys, &values)[0]), "9/2") << "all or nothing";
  EXPECT_EQ(told(d.db().Delete({}, "mine")), "9/2");
  must(one->Rollback());
  must(two->Put("shared", "x"));
  must(two->Commit());
  EXPECT_EQ(d.get("shared"), "x");
}

TEST_P(Transactions, TellWhoHasWhat) {
  TransactionDatabase const d = database();
  TransactionPtr const one = d.begin(), two = d.begin();
  std::string value;
  EXPECT_TRUE(one->GetForUpdate({}, "shared", &value, false).IsNotFound());
  EXPECT_TRUE(two->GetForUpdate({}, "shared", &value, false).IsNotFound());
  must(two->Put("alone", "1"));
  auto const locks = d.locking().GetLockStatusData();
  ASSERT_EQ(locks.size(), 2U);
  for (auto const& [family, lock] : locks) {
    EXPECT_EQ(family, 0U);
    EXPECT_EQ(lock.exclusive, lock.key == "alone");
    EXPECT_EQ(lock.ids.size(), lock.key == "alone" ? 1U : 2U);
    EXPECT_EQ(lock.ids.back(), two->GetID());
  }
}

TEST_P(Transactions, HaveNoMoreLocksThanAllowed) {
  rocksdb::TransactionDBOptions options;
  options.max_num_locks = 3;
  TransactionDatabase const d = database(options);
  TransactionPtr const one = d.begin(impatient()), two = d.begin(impatient());
  must(one->Put("a", ""));
  must(one->Put("b", ""));
  must(two->Put("c", ""));
  EXPECT_EQ(told(two->Put("d", "")), "11/3");
  must(two->Put("c", "again"));
  must(one->Rollback());
  must(two->Put("d", ""));
}

TEST_P(Transactions, HaveNamesAndStates) {
  TransactionDatabase const d = database();
  TransactionPtr const one = d.begin(), two = d.begin();
  EXPECT_EQ(one->GetState(), rocksdb::Transaction::STARTED);
  must(one->SetName("one"));
  EXPECT_TRUE(one->SetName("again").IsInvalidArgument());
  EXPECT_TRUE(two->SetName("one").IsInvalidArgument());
  EXPECT_TRUE(two->SetName("").IsInvalidArgument());
  EXPECT_EQ(d.locking().GetTransactionByName("one"), one.get());
  must(one->Commit());
  EXPECT_EQ(one->GetState(), rocksdb::Transaction::COMMITTED);
  EXPECT_TRUE(one->Commit().IsInvalidArgument());
  EXPECT_TRUE(one->Rollback().IsInvalidArgument());
  EXPECT_EQ(d.locking().GetTransactionByName("one"), nullptr);
  must(two->SetName("one"));
}

TEST_P(Transactions, RefuseWhatTheyCannotKeep) {
  TransactionDatabase const d = database();
  rocksdb::TransactionOptions options;
  options.max_write_batch_size = 40;
  TransactionPtr const small = d.begin(options);
  must(small->Put("a", "1"));
  EXPECT_TRUE(small->Put("b", std::string(40, 'x')).IsMemoryLimit());
  EXPECT_EQ(small->GetNumPuts(), 1U);
  EXPECT_TRUE(small->Put(d.db().DefaultColumnFamily(), "c", "1", true).IsInvalidArgument())
      << "it is not tracked";
  must(small->Put(d.db().DefaultColumnFamily(), "a", "2", true));
  must(small->GetCommitTimeWriteBatch()->Put("z", "1"));
  EXPECT_TRUE(small->Commit().IsInvalidArgument());
  rocksdb::WriteBatch ranges;
  must(ranges.DeleteRange("a", "z"));
  EXPECT_FALSE(d.db().Write({}, &ranges).ok());
  EXPECT_TRUE(d.db().DeleteRange({}, nullptr, "a", "z").IsNotSupported());
  options = {};
  options.skip_prepare = false;
  EXPECT_EQ(told(d.begin(options)->Commit()), told(Status::TxnNotPrepared()));
}

TEST_P(Transactions, OfNoLocksFailWhereAKeyWasWrittenMeanwhile) {
  TransactionDatabase const d = optimistic();
  must(d.db().Put({}, "k", "0"));
  TransactionPtr const one = d.begin(), two = d.begin();
  must(one->Put("k", "1"));
  must(two->Put("k", "2"));
  must(two->Commit());
  EXPECT_EQ(told(one->Commit()), "11/0");
  EXPECT_EQ(told(one->Commit()), "11/0") << "it is as it was";
  must(one->Rollback());
  must(one->PutUntracked("k", "3"));
  must(one->Commit());
  EXPECT_EQ(d.get("k"), "3");
  EXPECT_TRUE(one->Prepare().IsInvalidArgument());
  EXPECT_TRUE(one->SetName("one").IsInvalidArgument());
  EXPECT_TRUE(d.db().DeleteRange({}, nullptr, "a", "z").IsNotSupported());
}

std::string name_of(::testing::TestParamInfo<Maker> const& one) {
  return one.param == Maker::rocksdb ? "RocksDB" : "Perdure";
}
INSTANTIATE_TEST_SUITE_P(All, Transactions, ::testing::Values(Maker::rocksdb, Maker::perdure),
                         name_of);

// Ours alone.

TEST(TransactionsOfOurs, KnowConflictsAfterFlushesAndCompactions) {
  TransactionDatabase const d(Maker::perdure, Locking::optimistic);
  must(d.db().Put({}, "written", "0"));
  must(d.db().Put({}, "erased", "0"));
  must(d.db().Put({}, "left alone", "0"));
  TransactionPtr const writes = d.begin(), erases = d.begin(), alone = d.begin();
  must(writes->Put("written", "1"));
  must(erases->Put("erased", "1"));
  must(alone->Put("left alone", "1"));
  must(d.base().Put(rocksdb::WriteOptions(), "written", "2"));
  must(d.base().Delete(rocksdb::WriteOptions(), "erased"));
  must(d.base().Flush({}));
  rocksdb::CompactRangeOptions whole;
  whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  must(d.base().CompactRange(whole, nullptr, nullptr));
  EXPECT_TRUE(writes->Commit().IsBusy());
  EXPECT_TRUE(erases->Commit().IsBusy()) << "its tombstone must not be compacted away";
  must(alone->Commit());
}

TEST(TransactionsOfOurs, MustBeginAgainWhenTooManyMemtablesWereFlushed) {
  TransactionDatabase const d(Maker::memtables, Locking::optimistic);
  must(d.db().Put({}, "mine", "0"));
  TransactionPtr const one = d.begin(), two = d.begin();
  must(one->Put("mine", "1"));
  must(two->Put("written", "1"));
  for (int i = 0; i <= static_cast<int>(lsm::WriteHistory::kMostKept); ++i) {
    must(d.db().Put({}, "other", std::to_string(i)));
    must(d.db().Flush({}));
  }
  must(d.db().Put({}, "written", "2"));
  EXPECT_TRUE(one->Commit().IsTryAgain());
  EXPECT_TRUE(two->Commit().IsBusy()) << "that much is known";
  must(one->Rollback());
  must(one->Put("mine", "1"));
  must(one->Commit());
  EXPECT_EQ(d.get("mine"), "1");
}

TEST(TransactionsOfOurs, ReadMemtablesThroughHandlesOfTheDatabase) {
  TransactionDatabase const d(Maker::memtables, Locking::pessimistic);
  rocksdb::ColumnFamilyOptions options;
  options.merge_operator = std::make_shared<Appending>();
  rocksdb::ColumnFamilyHandle* family = nullptr;
  must(d.db().CreateColumnFamily(options, "family", &family));
  must(d.db().Put({}, family, "a", "1"));
  TransactionPtr one = d.begin();
  must(one->Merge(family, "a", "2"));
  must(one->Put(family, "b", "3"));
  EXPECT_EQ(read(*one, family, "a"), "1,2");
  EXPECT_EQ(scan(*one, family), "a=1,2;b=3;");
  EXPECT_EQ(d.locking().GetLockStatusData().begin()->first, family->GetID());
  must(one->Commit());
  std::string value;
  must(d.db().Get({}, family, "a", &value));
  EXPECT_EQ(value, "1,2");
  one.reset();
  must(d.db().DestroyColumnFamilyHandle(family));
}

TEST(TransactionsOfOurs, FindTheConflictWhenASharedLockBecomesExclusive) {
  TransactionDatabase const d(Maker::perdure, Locking::pessimistic);
  TransactionPtr const one = d.begin();
  one->SetSnapshot();
  must(d.db().Put({}, "k", "1"));
  std::string value;
  must(one->GetForUpdate({}, "k", &value, false, false));  // not looked at
  EXPECT_TRUE(one->Put("k", "2").IsBusy());
  TransactionPtr const two = d.begin(impatient());
  must(two->GetForUpdate({}, "k", &value, false));  // it is shared, as it was
}

/// Whether the time of a transaction that began after this was made is sure not to be over. A
/// thread that slept meanwhile cannot say what holds within it, and tries anew with more.
class InTime {
 public:
  explicit InTime(std::int64_t milliseconds) : most_(milliseconds) {}
  [[nodiscard]] bool still() const { return std::chrono::steady_clock::now() - began_ < most_; }
  void until_over() const { std::this_thread::sleep_for(most_ + std::chrono::milliseconds(5)); }

 private:
  std::chrono::steady_clock::time_point const began_ = std::chrono::steady_clock::now();
  std::chrono::milliseconds const most_;
};

TEST(TransactionsOfOurs, RobNobodyWhoseTimeIsNotOver) {
  rocksdb::TransactionOptions brief = impatient();
  for (brief.expiration = 1;; brief.expiration *= 4) {
    TransactionDatabase const d(Maker::perdure, Locking::pessimistic);
    InTime const time(brief.expiration);
    TransactionPtr const over = d.begin(brief), forever = d.begin(), other = d.begin(impatient());
    std::string value;
    Status const of_over = over->GetForUpdate({}, "k", &value, false);
    Status const of_forever = forever->GetForUpdate({}, "k", &value, false);
    if (!time.still()) continue;
    EXPECT_TRUE(of_over.IsNotFound() && of_forever.IsNotFound());
    time.until_over();
    EXPECT_TRUE(other->Put("k", "1").IsTimedOut());
    must(forever->Rollback());
    EXPECT_TRUE(other->Put("k", "1").IsTimedOut()) << "the lock never ends, for it was shared so";
    return;
  }
}

TEST(TransactionsOfOurs, EndWithTheirTime) {
  rocksdb::TransactionOptions options = impatient();
  for (options.expiration = 40;; options.expiration *= 4) {
    TransactionDatabase const d(Maker::perdure, Locking::pessimistic);
    InTime const time(options.expiration);
    TransactionPtr const late = d.begin(options), robbed = d.begin(options);
    TransactionPtr const robber = d.begin(impatient());
    Status const of_late = late->Put("late", "1"), of_robbed = robbed->Put("robbed", "1");
    std::string const too_early = told(robber->Put("robbed", "2"));
    if (!time.still()) continue;
    must(of_late);
    must(of_robbed);
    EXPECT_EQ(too_early, "9/2") << "its time is not over";
    time.until_over();
    must(robber->Put("robbed", "3"));
    EXPECT_EQ(robbed->GetState(), rocksdb::Transaction::LOCKS_STOLEN);
    EXPECT_EQ(told(late->Commit()), told(Status::Expired()));
    EXPECT_EQ(told(robbed->Commit()), told(Status::Expired()));
    must(robber->Commit());
    EXPECT_EQ(d.get("robbed"), "3");
    EXPECT_EQ(d.get("late"), "-");
    return;
  }
}

TEST(TransactionsOfOurs, WaitForAnothersEnd) {
  rocksdb::TransactionOptions brief, patient;
  patient.lock_timeout = 60000;
  for (brief.expiration = 20;; brief.expiration *= 4) {
    TransactionDatabase const d(Maker::perdure, Locking::pessimistic);
    InTime const time(brief.expiration);
    TransactionPtr const robbed = d.begin(brief), robber = d.begin(patient);
    Status const of_robbed = robbed->Put("k", "1");
    if (!time.still()) continue;
    must(of_robbed);
    auto const began = std::chrono::steady_clock::now();
    must(robber->Put("k", "2"));
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
    EXPECT_TRUE(robbed->Commit().IsExpired());
    return;
  }
}

TEST(TransactionsOfOurs, PrepareNothing) {
  TransactionDatabase const d(Maker::perdure, Locking::pessimistic);
  TransactionPtr const one = d.begin();
  must(one->SetName("one"));
  must(one->Put("k", "1"));
  EXPECT_TRUE(one->Prepare().IsNotSupported());
  std::vector<rocksdb::Transaction*> prepared{nullptr};
  d.locking().GetAllPreparedTransactions(&prepared);
  EXPECT_TRUE(prepared.empty());
  must(one->Commit());
  EXPECT_EQ(d.get("k"), "1");
}

TEST(TransactionsOfOurs, RefuseOptionsThatTheyDoNotKeep) {
  std::unique_ptr<rocksdb::Env> const env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.env = env.get();
  rocksdb::DB* base = nullptr;
  must(lsm::open_rocksdb(&base, options, "/db"));
  std::unique_ptr<rocksdb::DB> const owned(base);
  rocksdb::TransactionDBOptions prepared;
  prepared.write_policy = rocksdb::WRITE_PREPARED;
  rocksdb::TransactionDB* db = nullptr;
  EXPECT_TRUE(rocks::wrap_transactions(base, prepared, {}, &db).IsNotSupported());
  EXPECT_EQ(db, nullptr);
  must(base->Put({}, "k", "1"));  // it is still the caller's
}

}  // namespace
}  // namespace perdure::test
