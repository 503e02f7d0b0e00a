// The log of entries by itself, with cells of each size, against a plain list of extents: what is
// read back after it was reopened, what a torn or damaged extent does, how segments are used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "memfd_pool.hpp"
#include "pm/host_verbs.hpp"
#include "wal/entry_log.hpp"

namespace perdure::wal {
namespace {

using Cell = std::vector<std::byte>;
using Entries = std::vector<Cell>;

struct Written {
  std::uint64_t number;
  Entries entries;
};

/// By the size of its keys.
class EntryLogTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  pm::Pool pool_ = pm::make_pool(4, 64, GetParam());
  std::optional<EntryLog> log_{pool_};
  exec::Workers workers_{2};
  std::vector<Written> written_;
  std::uint64_t number_ = 0;
  std::mt19937_64 random_{1};

  void SetUp() override { ASSERT_TRUE(log_->create().ok()); }

  Entries some(std::uint64_t n) {
    Entries entries(n, Cell(log_->cell_bytes()));
    for (Cell& cell : entries)
      if (random_() % 4 != 0) write(cell, random_() & kEntryAddressMask);
    return entries;
  }

  Entries all_say_something(std::uint64_t n) {
    Entries entries(n, Cell(log_->cell_bytes()));
    for (Cell& cell : entries) write(cell, (random_() & kEntryAddressMask) | 16);
    return entries;
  }

  /// By a key that is zero nowhere.
  void write(Cell& cell, std::uint64_t what) {
    std::vector<std::byte> key(GetParam());
    std::uint64_t drawn = 0;  // eight bytes at once: most of the test would be drawing
    for (std::size_t i = 0; i < key.size(); ++i, drawn >>= 8) {
      if (i % sizeof drawn == 0) drawn = random_();
      key[i] = static_cast<std::byte>(1 + (drawn & 0xff) % 255);
    }
    NewEntry const entry{key.data(), GetParam(), what};
    LogEntry const first = entry.first();
    std::memcpy(cell.data(), &first, sizeof first);
    for (std::uint32_t at = sizeof first; at < cell.size(); at += sizeof(KeyPart)) {
      KeyPart const part = entry.part(at);
      std::memcpy(&cell[at], &part, sizeof part);
    }
    ASSERT_EQ(sum_of(entry, log_->cell_bytes()), sum_of(cell.data(), log_->cell_bytes()));
  }

  /// As a batch does: entries, then the head. Where they lie.
  std::vector<std::byte*> append(Entries const& entries, bool seals = true) {
    EXPECT_TRUE(log_->reserve(entries.size()).ok());
    EntryRegion region = log_->next();
    auto const segments = log_->segments_for(entries.size());
    region.segments = segments.data();
    std::vector<std::byte*> cells;
    std::uint64_t sum = 0;
    for (std::uint64_t j = 0; j < entries.size(); ++j) {
      cells.push_back(pool_.base() + region.cell(j).bytes);
      pm::write_bytes(cells.back(), entries[j].data(), entries[j].size());
      sum += sum_of(entries[j].data(), log_->cell_bytes());
    }
    if (!seals) return cells;
    log_->seal(++number_, entries.size(), ExtentKind::batch, sum);
    pm::order();
    written_.push_back({number_, entries});
    return cells;
  }

  /// As kernels do: cells of a session, of which every third stays empty, over what stood there.
  std::vector<std::byte*> run_session(std::uint64_t cells) {
    EXPECT_TRUE(log_->reserve(cells + log_->head_cells()).ok());
    EntryRegion region = log_->next();
    auto const segments = log_->segments_for(cells);
    region.segments = segments.data();
    std::vector<std::byte*> places;
    for (std::uint64_t j = 0; j < cells; ++j) {
      places.push_back(pool_.base() + region.cell(j).bytes);
      std::memset(places.back(), 7, log_->cell_bytes());  // of another life of the segment
    }
    log_->begin_session(++number_, cells, workers_);
    written_.push_back({number_, Entries(cells, Cell(log_->cell_bytes()))});
    for (std::uint64_t j = 0; j < cells; ++j) {
      if (j % 3 == 1) continue;
      Cell& cell = written_.back().entries[j];
      write(cell, (random_() & kEntryAddressMask) | 16);
      pm::write_bytes(places[j], cell.data(), cell.size());
    }
    return places;
  }
  void end_session() {
    log_->end_session(++number_, workers_);
    written_.push_back({number_, {}});
  }

  /// As the next process finds it.
  Status reopen(std::vector<Written>& found) {
    for (std::uint64_t at = pool_.superblock_bytes(); at < pool_.bytes();
         at += pool_.superblock_bytes())
      if (!pool_.is_free(Offset{at})) pool_.give_run(Offset{at}, 1);
    log_.emplace(pool_);
    if (Status s = log_->attach(); !s.ok()) return s;
    Status const read = log_->read(workers_, [&](EntryLog::Extent const& extent) {
      std::size_t const each = log_->cell_bytes();
      std::vector<std::byte> cells(extent.entries * each);
      log_->copy(extent, 0, cells);
      Written one{extent.number, {}};
      for (auto at = cells.begin(); at != cells.end(); at += static_cast<std::ptrdiff_t>(each))
        one.entries.emplace_back(at, at + static_cast<std::ptrdiff_t>(each));
      found.push_back(one);
      return Status{};
    });
    if (read.ok()) log_->finish_reading();
    return read;
  }

  void expect_all_read_back() {
    std::vector<Written> found;
    Status const s = reopen(found);
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_EQ(found.size(), written_.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].number, written_[i].number);
      EXPECT_EQ(found[i].entries, written_[i].entries);
    }
  }

  [[nodiscard]] std::uint64_t one_segment() const { return log_->cells_each(); }
};

TEST_P(EntryLogTest, ANewLogIsReadBackAsEmpty) { expect_all_read_back(); }

TEST_P(EntryLogTest, ExtentsOfAnySizeAreReadBackInTheirOrder) {
  for (int i = 0; i < 40; ++i) append(some(random_() % (one_segment() / 7)));
  EXPECT_GT(log_->segments(), 1u);
  expect_all_read_back();
  append(some(3 * one_segment()));
  append({});
  expect_all_read_back();
}

TEST_P(EntryLogTest, WhatFollowsAReopeningIsReadBackToo) {
  for (int i = 0; i < 20; ++i) {
    append(some(random_() % 1000));
    if (i % 3 == 0) expect_all_read_back();
  }
  expect_all_read_back();
}

TEST_P(EntryLogTest, SessionsAreReadBackAsTheyStandWithTheirEndsOrWithout) {
  append(some(100));
  for (std::uint64_t const cells : {0u, 1u, 700u}) {
    run_session(cells);
    end_session();
    append(some(10));
  }
  expect_all_read_back();
  EXPECT_FALSE(log_->in_session());
  run_session(one_segment() + 100);
  for (int opening = 0; opening < 2; ++opening) {
    expect_all_read_back();
    ASSERT_TRUE(log_->in_session());
  }
  end_session();
  append(some(20));
  expect_all_read_back();
}

TEST_P(EntryLogTest, WhatASessionsEndDoesNotBearOutIsDamage) {
  append(some(100));
  auto const cells = run_session(30);
  end_session();
  std::vector<Written> found;
  ASSERT_TRUE(reopen(found).ok());
  for (std::uint64_t const j : {0u, 1u, 29u}) {
    auto* const what = cells[j] + offsetof(LogEntry, what);
    *what ^= std::byte{1};
    Status const s = reopen(found);
    EXPECT_EQ(s.code(), Code::corrupt);
    EXPECT_NE(s.message().find("device session"), std::string::npos) << s.message();
    *what ^= std::byte{1};
    ASSERT_TRUE(reopen(found).ok());
  }
}

/// By a name of the root that they do not know, until no session is left.
TEST_P(EntryLogTest, BuildsWithoutSessionsAreToldByTheRoot) {
  auto const told = [&] { return pool_.root().find(kEntrySessions) != nullptr; };
  append(some(10));
  EXPECT_FALSE(told());
  run_session(5);
  EXPECT_TRUE(told());
  end_session();
  ASSERT_TRUE(log_->reserve(20).ok());
  EntryLog::Mark const mark = log_->mark();
  append(some(10));
  EXPECT_TRUE(told());
  log_->release_before(mark);
  EXPECT_FALSE(told());
}

TEST_P(EntryLogTest, AnExtentWithoutItsHeadWasNeverThere) {
  append(some(100));
  append(some(100), false);
  expect_all_read_back();
  append(some(50));
  expect_all_read_back();
}

TEST_P(EntryLogTest, AnExtentThatLacksAnyOneWordOfAnEntryDoesNotCount) {
  append(some(10));
  Entries const whole = all_say_something(40);
  std::vector<std::byte*> const cells = append(whole);
  written_.pop_back();
  for (std::byte* const cell : cells) {
    for (std::uint32_t at = 0; at < log_->cell_bytes(); at += 8) {
      std::uint64_t was = 0;
      std::memcpy(&was, cell + at, sizeof was);
      if (was == 0) continue;  // behind the key
      std::memset(cell + at, 0, sizeof was);
      std::vector<Written> found;
      ASSERT_TRUE(reopen(found).ok());
      EXPECT_EQ(found.size(), 1u) << at;
      std::memcpy(cell + at, &was, sizeof was);
    }
  }
}

/// Sums of extents add up those of entries, whatever their order.
TEST_P(EntryLogTest, AnExtentWhoseEntriesHaveSwappedPartsOfTheirKeysDoesNotCount) {
  append(some(10));
  std::vector<std::byte*> const cells = append(all_say_something(2));
  written_.pop_back();
  for (std::uint32_t at = sizeof(LogEntry); at < log_->cell_bytes(); at += sizeof(KeyPart)) {
    std::swap_ranges(cells[0] + at, cells[0] + at + sizeof(KeyPart), cells[1] + at);
    std::vector<Written> found;
    ASSERT_TRUE(reopen(found).ok());
    EXPECT_EQ(found.size(), 1u) << at;
    std::swap_ranges(cells[0] + at, cells[0] + at + sizeof(KeyPart), cells[1] + at);
  }
}

TEST_P(EntryLogTest, ATornExtentDoesNotComeBackBehindAShorterOne) {
  Entries const torn = all_say_something(200);
  append(some(10));
  auto const cells = append(torn);
  written_.pop_back();
  std::memset(cells[150], 0, torn[150].size());
  expect_all_read_back();
  append(some(5));
  std::memcpy(cells[150], torn[150].data(), torn[150].size());
  expect_all_read_back();
}

TEST_P(EntryLogTest, DamageBelowAnAcknowledgedExtentIsRefused) {
  append(some(50));
  auto const cells = append(some(50));
  append(some(50));
  cells[20][9] ^= std::byte{1};
  std::vector<Written> found;
  Status const s = reopen(found);
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_NE(s.message().find("damaged behind the batch of number 1"), std::string::npos)
      << s.message();
}

TEST_P(EntryLogTest, ADamagedChainIsRefused) {
  append(some(3 * one_segment()));
  pm::RootEntry const* const first = pool_.root().find(kEntrySegments);
  ASSERT_NE(first, nullptr);
  std::byte* const header = pool_.base() + first->offset;
  for (std::size_t const at : {offsetof(SegmentHeader, log_id), offsetof(SegmentHeader, number),
                               offsetof(SegmentHeader, next) + 2}) {
    header[at] ^= std::byte{4};
    std::vector<Written> found;
    EXPECT_EQ(reopen(found).code(), Code::corrupt) << at;
    header[at] ^= std::byte{4};
  }
  expect_all_read_back();
}

TEST_P(EntryLogTest, ReleasedSegmentsAreUsedAgainAndTheirExtentsNeverComeBack) {
  std::uint64_t most = 0;
  for (int lap = 0; lap < 12; ++lap) {
    for (int i = 0; i < 10; ++i) append(some(one_segment() / 5));
    EntryLog::Mark const mark = log_->mark();
    written_.clear();
    append(some(100));
    log_->release_before(mark);
    if (lap % 4 == 0) expect_all_read_back();
    most = std::max(most, log_->segments());
  }
  expect_all_read_back();
  EXPECT_LE(most, 5u);
}

TEST_P(EntryLogTest, WhereThePoolHasNoRoomTheLogSaysSoAndStaysAsItWas) {
  append(some(10));
  std::uint64_t const segments = log_->segments();
  Status s;
  for (std::uint64_t n = one_segment(); s.ok(); n *= 2) {
    ASSERT_LT(n, std::uint64_t{1} << 40);
    s = log_->reserve(n);
  }
  EXPECT_EQ(s.code(), Code::no_space);
  EXPECT_GE(log_->segments(), segments);
  expect_all_read_back();
  append(some(10));
  expect_all_read_back();
}

/// Of keys of up to 8 bytes, as of builds before there were others.
TEST(EntryCells, AreAsLargeAsTheirKeysWant) {
  for (std::uint32_t const key_bytes : {1u, 8u}) EXPECT_EQ(cell_bytes_for(key_bytes), 16u);
  for (std::uint32_t const key_bytes : {9u, 24u}) EXPECT_EQ(cell_bytes_for(key_bytes), 32u);
  for (std::uint32_t const key_bytes : {25u, 32u}) EXPECT_EQ(cell_bytes_for(key_bytes), 48u);
  for (std::uint32_t const key_bytes : {0u, 33u}) EXPECT_EQ(cell_bytes_for(key_bytes), 32u);
  std::uint64_t const key = 0x1122334455667788u;
  NewEntry const entry = erase_entry(reinterpret_cast<std::byte const*>(&key), sizeof key);
  std::uint64_t const words[2] = {key, kErases};
  EXPECT_EQ(sum_of(entry, 16), hash_bytes(reinterpret_cast<std::byte const*>(words), 16));
}

TEST(EntryCells, OfHashesSumUpTheRecordThatWasThereToo) {
  NewHashEntry const entry{0x1122334455667788u, putting(Offset{4096}, 7), Offset{8192}};
  HashCell cell{entry.hash, entry.what, entry.old.bytes, 0};
  auto const* const bytes = reinterpret_cast<std::byte const*>(&cell);
  std::uint64_t const sum = sum_of(entry, sizeof cell);
  EXPECT_EQ(sum, sum_of(bytes, sizeof cell));
  for (std::uint64_t* const word : {&cell.hash, &cell.what, &cell.old, &cell.reserved}) {
    *word ^= 16;
    EXPECT_NE(sum, sum_of(bytes, sizeof cell));
    *word ^= 16;
  }
  EXPECT_EQ(sum_of(NewHashEntry{}, sizeof cell), 0u);
}

INSTANTIATE_TEST_SUITE_P(KeyBytes, EntryLogTest, ::testing::Values(8u, 20u, 32u));

}  // namespace
}  // namespace perdure::wal
