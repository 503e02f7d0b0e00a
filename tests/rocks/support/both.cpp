#include "rocks/support/both.hpp"

#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>

#include <chrono>
#include <cstring>

namespace perdure::test {
namespace {

constexpr std::uint64_t kThreshold = 1000;
constexpr std::uint64_t kMemtableBytes = std::uint64_t{64} << 20;
constexpr std::chrono::hours kIdle{1};  // so that they stay until somebody flushes them

void tell_families(rocksdb::DB* db, Handles const& handles, Transcript& said) {
  for (auto* handle : handles) {
    std::unique_ptr<rocksdb::Iterator> const it(db->NewIterator({}, handle));
    said.word(handle->GetName()).line();
    for (it->SeekToFirst(); it->Valid(); it->Next()) said.entry(it->key(), it->value());
    said.status(it->status()).line();
  }
}

Families three_families() {
  Families families(3);
  families[0].name = rocksdb::kDefaultColumnFamilyName;
  families[1].name = "counts";
  families[2].name = "appends";
  for (auto& family : families) {
    family.options = small_family_options();
    family.options.write_buffer_size = 16u << 20;
  }
  auto counts = rocksdb::MergeOperator::CreateFromString({}, "uint64add",
                                                         &families[1].options.merge_operator);
  auto appends = rocksdb::MergeOperator::CreateFromString({}, "stringappend",
                                                          &families[2].options.merge_operator);
  if (!counts.ok() || !appends.ok()) std::abort();
  return families;
}

}  // namespace

std::string both_key(int i) {
  std::string const number = std::to_string(i);
  return "key" + std::string(6 - number.size(), '0') + number;
}

std::string number_text(std::uint64_t number) {
  std::string text(sizeof number, '\0');
  std::memcpy(text.data(), &number, sizeof number);
  return text;
}

BothDatabases::BothDatabases()
    : families(three_families()),
      ours_{perdure_rocks(kThreshold, kMemtableBytes, kIdle), fresh_path("ours"), nullptr, {}},
      plain_{plain_rocksdb(), fresh_path("plain"), nullptr, {}} {}

BothDatabases::~BothDatabases() {
  close();
  remove_database(ours_.path);
  remove_database(plain_.path);
}

void BothDatabases::open_one(One& one) {
  auto const s = one.opener.open(db_options, one.path, families, &one.handles, &one.db);
  ASSERT_TRUE(s.ok()) << one.opener.name << ": " << s.ToString();
}

void BothDatabases::close_one(One& one) {
  if (one.db == nullptr) return;
  for (auto* handle : one.handles) {
    auto const s = one.db->DestroyColumnFamilyHandle(handle);
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
  one.handles.clear();
  delete one.db;
  one.db = nullptr;
}

void BothDatabases::open() {
  ASSERT_NO_FATAL_FAILURE(open_one(plain_));
  ASSERT_NO_FATAL_FAILURE(open_one(ours_));
}

void BothDatabases::close() {
  close_one(ours_);
  close_one(plain_);
}

void BothDatabases::reopen() {
  close();
  open();
}

void BothDatabases::populate() {
  alike("a batch of 20,000 operations", [](One& one, Transcript& said) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < kBothKeys; ++i) {
      batch.Put(one.plain(), both_key(i), "value of " + std::to_string(i));
      batch.Put(one.counts(), both_key(i), number_text(static_cast<std::uint64_t>(i)));
      batch.Merge(one.counts(), both_key(i % 1000), number_text(1));
      batch.Merge(one.appends(), both_key(i / 4), std::to_string(i));
      if (i % 5 == 0)
        batch.Delete(one.plain(), both_key(i));
      else
        batch.Put(one.appends(), both_key(i + 1), "second " + std::to_string(i));
    }
    said.number(batch.Count()).status(one.db->Write({}, &batch));
  });
}

void BothDatabases::alike(char const* what, Calls const& calls) {
  if (HasFatalFailure()) return;
  Transcript of_ours, of_plain;
  calls(ours_, of_ours);
  calls(plain_, of_plain);
  EXPECT_EQ(difference(of_ours.text(), of_plain.text()), "") << what;
}

void BothDatabases::alike_on_memtables(char const* what, Calls const& calls) {
  alike(what, calls);
  EXPECT_TRUE(ours_.has_memtables()) << what << ": they were flushed meanwhile";
}

void BothDatabases::contents_alike(char const* when) { alike(when, tell_contents); }

void tell_contents(One& one, Transcript& said) { tell_families(one.db, one.handles, said); }

void tell_directory(std::string const& path, Families const& families, Transcript& said) {
  rocksdb::DB* db = nullptr;
  Handles handles;
  auto const s = plain_rocksdb().open(small_db_options(), path, families, &handles, &db);
  said.status(s);
  if (!s.ok()) return static_cast<void>(said.word(s.ToString()));
  tell_families(db, handles, said);
  for (auto* handle : handles) static_cast<void>(db->DestroyColumnFamilyHandle(handle));
  delete db;
}

}  // namespace perdure::test
