// Several threads at once: a batch is there whole or not at all to every reader, however it reads,
// and what a thread has read does not go back. Two writers put a round's number to all keys of a
// group in two families; a third thread flushes and compacts; readers find one number in a group.
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

constexpr std::size_t kGroups = 2;
constexpr int kOfGroup = 40;
constexpr auto kTime = std::chrono::milliseconds(1200);

std::string group_key(std::size_t group, int i) {
  return "group" + std::to_string(group) + both_key(i);
}

class RocksThreads : public BothDatabases, public ::testing::WithParamInterface<char const*> {
 protected:
  void SetUp() override {
    open();
    for (std::size_t group = 0; group < kGroups; ++group) write(group, 0);
  }

  One& one() { return GetParam() == std::string("plain") ? plain() : ours(); }

  /// Sizes differ, so that memtables take some and RocksDB others.
  void write(std::size_t group, std::uint64_t round) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < kOfGroup; ++i) {
      batch.Put(one().plain(), group_key(group, i), number_text(round));
      batch.Put(one().appends(), group_key(group, i), number_text(round));
    }
    for (int i = 0; i < (round % 4 == 0 ? 1500 : 0); ++i) {
      batch.Put(one().counts(), both_key(i), number_text(round));
      batch.Merge(one().counts(), both_key(i), number_text(1));
    }
    auto const s = one().db->Write({}, &batch);
    if (!s.ok()) fail("writing: " + s.ToString());
  }

  void fail(std::string const& what) {
    if (!stop_.exchange(true)) failure_ = what;
  }

  /// All that a reader found of a group has to be one number, and not below the one before.
  void check(std::vector<std::string> const& values, std::string const& how, std::string& last) {
    for (std::string const& value : values)
      if (value != values.front())
        return fail(how + ": " + printable(value) + " beside " + printable(values.front()));
    if (values.size() != 2 * kOfGroup) return fail(how + ": some are missing");
    std::string const now(values.front().rbegin(), values.front().rend());  // orders as numbers do
    if (now < last) return fail(how + ": went back to " + printable(now));
    last = now;
  }

  std::vector<std::string> by_multi_get(std::size_t group) {
    std::vector<std::string> keys, values;
    Handles of;
    for (int i = 0; i < kOfGroup; ++i) {
      for (auto* family : {one().plain(), one().appends()}) {
        keys.push_back(group_key(group, i));
        of.push_back(family);
      }
    }
    std::vector<rocksdb::Slice> const slices(keys.begin(), keys.end());
    static_cast<void>(one().db->MultiGet({}, of, slices, &values));
    return values;
  }

  std::vector<std::string> by_gets(std::size_t group) {
    rocksdb::ReadOptions options;
    options.snapshot = one().db->GetSnapshot();
    std::vector<std::string> values;
    for (int i = 0; i < kOfGroup; ++i)
      for (auto* family : {one().plain(), one().appends()})
        static_cast<void>(
            one().db->Get(options, family, group_key(group, i), &values.emplace_back()));
    one().db->ReleaseSnapshot(options.snapshot);
    return values;
  }

  /// Plain RocksDB is given a snapshot: without one it reads a sequence number and then each
  /// family's files, and a flush in between drops the versions that the number stands for.
  std::vector<std::string> by_iterators(std::size_t group) {
    rocksdb::ReadOptions options;
    bool const given = &one() == &plain();
    if (given) options.snapshot = one().db->GetSnapshot();
    std::vector<rocksdb::Iterator*> iterators;
    std::vector<std::string> values;
    auto const s = one().db->NewIterators(options, {one().plain(), one().appends()}, &iterators);
    if (!s.ok()) fail("NewIterators: " + s.ToString());
    std::string const first = group_key(group, 0);
    for (rocksdb::Iterator* it : iterators) {
      std::unique_ptr<rocksdb::Iterator> const owned(it);
      for (it->Seek(first); it->Valid() && it->key().starts_with(first.substr(0, 6)); it->Next())
        values.push_back(it->value().ToString());
    }
    if (given) one().db->ReleaseSnapshot(options.snapshot);
    return values;
  }

  void read_on(std::size_t reader) {
    std::array<std::string, kGroups> last;
    for (std::size_t round = reader; !stop_; ++round) {
      std::size_t const group = round % kGroups;
      switch (round / kGroups % 3) {
        case 0: check(by_multi_get(group), "MultiGet", last[group]); break;
        case 1: check(by_gets(group), "Get at a snapshot", last[group]); break;
        default: check(by_iterators(group), "iterators", last[group]);
      }
    }
  }

  void flush_on() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      auto s = one().db->Flush({}, one().handles);
      if (s.ok()) s = one().db->CompactRange({}, one().appends(), nullptr, nullptr);
      if (!s.ok()) fail("flushing: " + s.ToString());
    }
  }

  std::atomic<bool> stop_ = false;
  std::string failure_;
};

TEST_P(RocksThreads, ReadersSeeBatchesWhole) {
  std::vector<std::thread> threads;
  for (std::size_t group = 0; group < kGroups; ++group)
    threads.emplace_back([this, group] {
      for (std::uint64_t round = 1; !stop_; ++round) write(group, round);
    });
  for (std::size_t reader = 0; reader < 2; ++reader)
    threads.emplace_back([this, reader] { read_on(reader); });
  threads.emplace_back([this] { flush_on(); });
  for (auto const end = std::chrono::steady_clock::now() + kTime;
       !stop_ && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failure_, "");
}

INSTANTIATE_TEST_SUITE_P(Of, RocksThreads, ::testing::Values("plain", "perdure"),
                         [](auto const& one) { return std::string(one.param); });

}  // namespace
}  // namespace perdure::test
