// The log of entries by itself, against a plain list of extents: what is read back after it was
// reopened, what a torn or damaged extent does, how segments are used again.
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

using Entries = std::vector<LogEntry>;

struct Written {
  std::uint64_t number;
  Entries entries;
};

class EntryLogTest : public ::testing::Test {
 protected:
  pm::Pool pool_ = pm::make_pool(4, 64);
  std::optional<EntryLog> log_{pool_};
  exec::Workers workers_{2};
  std::vector<Written> written_;
  std::uint64_t number_ = 0;
  std::mt19937_64 random_{1};

  void SetUp() override { ASSERT_TRUE(log_->create().ok()); }

  Entries some(std::uint64_t n) {
    Entries entries(n);
    for (LogEntry& e : entries)
      if (random_() % 4 != 0) e = {random_(), random_() & kEntryAddressMask};
    return entries;
  }

  Entries all_say_something(std::uint64_t n) {
    Entries entries = some(n);
    for (LogEntry& e : entries) e.what |= 16;
    return entries;
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
      pm::write_bytes(cells.back(), &entries[j], sizeof entries[j]);
      sum += sum_of(entries[j]);
    }
    if (!seals) return cells;
    log_->seal(++number_, entries.size(), ExtentKind::batch, sum);
    pm::order();
    written_.push_back({number_, entries});
    return cells;
  }

  /// As the next process finds it.
  Status reopen(std::vector<Written>& found) {
    for (std::uint64_t at = pool_.superblock_bytes(); at < pool_.bytes();
         at += pool_.superblock_bytes())
      if (!pool_.is_free(Offset{at})) pool_.give_run(Offset{at}, 1);
    log_.emplace(pool_);
    if (Status s = log_->attach(); !s.ok()) return s;
    Status const read = log_->read(workers_, [&](EntryLog::Extent const& extent) {
      Written one{extent.number, Entries(extent.entries)};
      log_->copy(extent, 0, one.entries);
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
      ASSERT_EQ(found[i].entries.size(), written_[i].entries.size());
      if (found[i].entries.empty()) continue;
      EXPECT_EQ(std::memcmp(found[i].entries.data(), written_[i].entries.data(),
                            found[i].entries.size() * sizeof(LogEntry)),
                0);
    }
  }

  [[nodiscard]] std::uint64_t one_segment() const { return log_->cells_each(); }
};

TEST_F(EntryLogTest, ANewLogIsReadBackAsEmpty) { expect_all_read_back(); }

TEST_F(EntryLogTest, ExtentsOfAnySizeAreReadBackInTheirOrder) {
  for (int i = 0; i < 40; ++i) append(some(random_() % (one_segment() / 7)));
  EXPECT_GT(log_->segments(), 1u);
  expect_all_read_back();
  append(some(3 * one_segment()));
  append({});
  expect_all_read_back();
}

TEST_F(EntryLogTest, WhatFollowsAReopeningIsReadBackToo) {
  for (int i = 0; i < 20; ++i) {
    append(some(random_() % 1000));
    if (i % 3 == 0) expect_all_read_back();
  }
  expect_all_read_back();
}

TEST_F(EntryLogTest, AnExtentWithoutItsHeadWasNeverThere) {
  append(some(100));
  append(some(100), false);
  expect_all_read_back();
  append(some(50));
  expect_all_read_back();
}

TEST_F(EntryLogTest, AnExtentThatLacksAnyOneEntryDoesNotCount) {
  append(some(10));
  Entries const whole = all_say_something(40);
  std::vector<std::byte*> const cells = append(whole);
  written_.pop_back();
  for (std::byte* const cell : cells) {
    std::byte was[sizeof(LogEntry)];
    std::memcpy(was, cell, sizeof was);
    std::memset(cell, 0, sizeof was);
    std::vector<Written> found;
    ASSERT_TRUE(reopen(found).ok());
    EXPECT_EQ(found.size(), 1u);
    std::memcpy(cell, was, sizeof was);
  }
}

TEST_F(EntryLogTest, ATornExtentDoesNotComeBackBehindAShorterOne) {
  Entries const torn = all_say_something(200);
  append(some(10));
  auto const cells = append(torn);
  written_.pop_back();
  LogEntry const gone{};
  std::memcpy(cells[150], &gone, sizeof gone);
  expect_all_read_back();
  append(some(5));
  std::memcpy(cells[150], &torn[150], sizeof gone);
  expect_all_read_back();
}

TEST_F(EntryLogTest, DamageBelowAnAcknowledgedExtentIsRefused) {
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

TEST_F(EntryLogTest, ADamagedChainIsRefused) {
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

TEST_F(EntryLogTest, ReleasedSegmentsAreUsedAgainAndTheirExtentsNeverComeBack) {
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

TEST_F(EntryLogTest, WhereThePoolHasNoRoomTheLogSaysSoAndStaysAsItWas) {
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

}  // namespace
}  // namespace perdure::wal
