// A log of entries that is damaged under its readers: what they answer is what a key had, or
// nothing, and where acknowledged entries are lost they say so.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "lifetime/lifetime_store.hpp"
#include "perdure/pool_reader.h"
#include "pm/followed_file.hpp"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "pm/root.hpp"
#include "wal/entry_cells.hpp"
#include "wal/entry_log.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeysLogged = 200;
constexpr std::uint64_t kTimes = 12;  // that each is put

/// Values say the key, and how often it had been put.
Words values_of(Words const& keys, std::uint64_t times) {
  Words values;
  for (std::uint64_t const key : keys) values.push_back(times << 32 | key);
  return values;
}

/// Keys' numbers, in as many bytes as keys have.
struct WidePoolKeys {
  WidePoolKeys(Words const& keys, std::uint32_t width)
      : bytes(keys.size() * width), column{bytes.data(), nullptr, width, keys.size()} {
    for (std::size_t i = 0; i < keys.size(); ++i)
      std::memcpy(&bytes[i * width], &keys[i], sizeof keys[i]);
  }
  std::vector<std::byte> bytes;
  Column column;
};

Status put_times(Store& store, Words const& keys, std::uint64_t times) {
  return store.put(WidePoolKeys(keys, store.stats().key_bytes).column,
                   column(values_of(keys, times)));
}

/// A closed pool of several segments, whose log is in use up to some cell of the last.
Status make_logged(std::string const& path, std::uint32_t key_bytes, std::uint64_t extra) {
  CreateOptions o;
  o.key_bytes = key_bytes;
  o.layout = Layout::log;
  o.value_bytes = 8;
  o.expected_records = 64;
  o.file.overwrite = true;
  auto store = Store::create(path, o, {.threads = 1});
  if (!store.ok()) return store.status();
  if (Status s = put_times(*store, words(1000, extra), 1); !s.ok()) return s;
  for (std::uint64_t times = 1; times <= kTimes; ++times)
    if (Status s = put_times(*store, words(1, kKeysLogged), times); !s.ok()) return s;
  return store->close();
}

/// Where a pool's extents are, in its file.
struct LoggedFile {
  explicit LoggedFile(std::string const& path) {
    auto file = pm::FollowedFile::open(path);
    if (!file.ok()) throw std::runtime_error(file.status().message());
    auto const header = pm::Pool::header_in(path, file->data());
    auto const root = pm::newest_root(file->data());
    cells = wal::EntryCells(header.value());
    cells.base = file->data();
    std::uint64_t const first = root->find(wal::kEntrySegments)->offset;
    cells.id = cells.header_at(first).log_id;
    cells.first_number = cells.header_at(first).number;
    for (std::uint64_t at = first; at != 0; at = cells.header_at(at).next)
      cells.segments.push_back(at);
    std::uint64_t position = root->find(wal::kEntrySegments)->value, number = 0;
    while (auto const extent = cells.head_at(position, number)) {
      extents.push_back(*extent);
      position = extent->end(), number = extent->number;
    }
    bytes = file->size();
    cells.base = nullptr;  // it is mapped no more
  }
  [[nodiscard]] std::uint64_t head(std::size_t i) const {
    return cells.offset(extents[i].first - cells.head_cells()).bytes;
  }

  wal::EntryCells cells;
  std::vector<wal::EntryExtent> extents;
  std::uint64_t bytes = 0;
};

void flip(std::string const& path, std::uint64_t at, unsigned bit) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  std::byte byte{};
  ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(at)), 1);
  byte ^= std::byte{1} << bit;
  ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  ::close(fd);
}

struct Answered {
  Status status;
  std::uint64_t newest = 0, older = 0, missing = 0, damaged = 0;
};

/// Each value that is found must be one that its key had.
Answered ask(Result<PoolReader>& reader) {
  Answered all{reader.status()};
  if (!reader.ok()) return all;
  Words const keys = words(1, kKeysLogged);
  Words values(keys.size());
  std::vector<PoolReader::Target> targets;
  for (auto& value : values) targets.push_back({reinterpret_cast<std::byte*>(&value), 8});
  std::vector<KeyStatus> statuses(keys.size());
  all.status = reader->get(WidePoolKeys(keys, reader->key_bytes()).column, targets, statuses);
  if (!all.status.ok()) return all;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    all.missing += statuses[i] == KeyStatus::not_found;
    all.damaged += statuses[i] == KeyStatus::corrupt;
    if (statuses[i] != KeyStatus::ok) continue;
    std::uint64_t const times = values[i] >> 32;
    EXPECT_EQ(values[i] & 0xffffffff, keys[i]);
    EXPECT_TRUE(times >= 1 && times <= kTimes) << times;
    ++(times == kTimes ? all.newest : all.older);
  }
  return all;
}

/// By the bytes of keys: those that entries have, and those that they have hashes of.
class LogReadersOfDamage : public testing::TestWithParam<std::uint32_t> {
 protected:
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  ScratchDir scratch_;
};

INSTANTIATE_TEST_SUITE_P(KeyBytes, LogReadersOfDamage, testing::Values(8u, 40u));

TEST_P(LogReadersOfDamage, SayThatAcknowledgedEntriesAreLost) {
  ASSERT_TRUE(make_logged(path(), GetParam(), 80'000).ok());  // more than a segment has cells
  LoggedFile const file(path());
  ASSERT_GT(file.cells.segments.size(), 1u);
  ASSERT_GT(file.extents.size(), kTimes);
  std::size_t const middle = file.extents.size() - 3;
  std::uint64_t const entry = file.cells.offset(file.extents[middle].first + 7).bytes;
  for (std::uint64_t const at :
       {file.head(0) + 3, file.head(middle) + 1, file.head(middle) + 17, entry, entry + 9,
        file.cells.segments[0] + 8, file.cells.segments[1], file.cells.segments[1] + 17}) {
    flip(path(), at, 2);
    auto reader = PoolReader::open(path(), {.threads = 1});
    EXPECT_EQ(reader.status().code(), Code::corrupt) << at << ": " << reader.status().message();
    flip(path(), at, 2);
    reader = PoolReader::open(path(), {.threads = 1});
    auto const all = ask(reader);
    ASSERT_TRUE(all.status.ok()) << all.status.message();
    ASSERT_EQ(all.newest, kKeysLogged);
  }
}

TEST_P(LogReadersOfDamage, TakeATornLastBatchForOneThatNeverWas) {
  ASSERT_TRUE(make_logged(path(), GetParam(), 10).ok());
  LoggedFile const file(path());
  flip(path(), file.cells.offset(file.extents.back().first + 7).bytes, 1);
  auto reader = PoolReader::open(path(), {.threads = 1});
  auto const all = ask(reader);
  ASSERT_TRUE(all.status.ok()) << all.status.message();
  EXPECT_EQ(all.newest, 0u);
  EXPECT_EQ(all.older + all.damaged, kKeysLogged);  // what it replaced may have been used again
}

TEST_P(LogReadersOfDamage, AnswerNothingThatNeverWasWhateverBitFlips) {
  ASSERT_TRUE(make_logged(path(), GetParam(), 3000).ok());
  LoggedFile const file(path());
  std::minstd_rand random(5);
  auto open_before = PoolReader::open(path(), {.threads = 1});
  ASSERT_TRUE(open_before.ok());
  std::uint64_t refused = 0, answered = 0;
  for (int n = 0; n < 600 && !HasFailure(); ++n) {
    std::uint64_t at = random() % file.bytes;
    if (n % 3 == 1) at = random() % pm::kHeadBytes;
    if (n % 3 == 2) {
      std::uint64_t const segment = file.cells.segments[random() % file.cells.segments.size()];
      at = segment + random() % (n % 2 == 0 ? 64 : 120'000);
    }
    unsigned const bit = random() % 8;
    flip(path(), at, bit);
    auto anew = PoolReader::open(path(), {.threads = 1});
    for (auto const& all : {ask(anew), ask(open_before)}) {
      answered += all.status.ok();
      refused += !all.status.ok();
    }
    flip(path(), at, bit);
  }
  EXPECT_GT(refused, 10u);
  EXPECT_GT(answered, 600u);
  auto const all = ask(open_before);
  ASSERT_TRUE(all.status.ok()) << all.status.message();
  EXPECT_EQ(all.newest, kKeysLogged);
}

TEST_P(LogReadersOfDamage, SayInTimeThatEntriesAreLostWhichTheyHaveNotReadYet) {
  ASSERT_TRUE(make_logged(path(), GetParam(), 10).ok());
  std::size_t const before = LoggedFile(path()).extents.size();
  auto reader = PoolReader::open(path(), {.threads = 1});
  ASSERT_TRUE(ask(reader).status.ok());
  {
    auto store = Store::open(path(), {.threads = 1});
    ASSERT_TRUE(store.ok()) << store.status().message();
    for (int n = 0; n < 3; ++n) ASSERT_TRUE(put_times(*store, words(1, kKeysLogged), kTimes).ok());
  }
  std::uint64_t const head = LoggedFile(path()).head(before);
  flip(path(), head + 2, 3);
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  Status status;
  while (status.ok() && std::chrono::steady_clock::now() < end) status = ask(reader).status;
  EXPECT_EQ(status.code(), Code::corrupt) << status.message();
  flip(path(), head + 2, 3);
  EXPECT_EQ(ask(reader).newest, kKeysLogged);
}

TEST_P(LogReadersOfDamage, WaitUntilARepairThatWasCutOffIsMadeAgain) {
  ASSERT_TRUE(make_logged(path(), GetParam(), 10).ok());
  {
    auto pool = pm::Pool::open(path(), {});
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    pm::Repairs(*pool).add(std::vector<std::string>{"what it has found"}, pm::Unfinished::doubts);
  }
  auto const refused = [&](Status const& status) {
    EXPECT_EQ(status.code(), Code::corrupt);
    EXPECT_NE(status.message().find("was cut off"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("verify --repair"), std::string::npos) << status.message();
  };
  refused(PoolReader::open(path(), {.threads = 1}).status());
  refused(Store::open(path(), {.threads = 1}).status());
  {
    OpenOptions repairing;
    repairing.repair = true;
    auto store = Store::open(path(), repairing);
    ASSERT_TRUE(store.ok()) << store.status().message();
    ASSERT_TRUE(store->close().ok());
  }
  auto reader = PoolReader::open(path(), {.threads = 1});
  EXPECT_EQ(ask(reader).newest, kKeysLogged);
}

}  // namespace
}  // namespace perdure::test
