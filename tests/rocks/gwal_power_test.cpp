// The G-WAL of durability `power`, on a disk that forgets, tears, fails and fills up: what comes
// back after the power failed, at any request; what is refused; and a log that runs full.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gwal_folder.hpp"
#include "gwal_power_checks.hpp"
#include "lsm/gwal/gwal_power_note.hpp"

namespace perdure::test {
namespace {

using wal::test::Mishap;
using Texts = std::vector<std::string>;

constexpr std::uint64_t kRing = 1 << 20;  // the least that there is

lsm::GwalOptions options(std::string identity = "a database") {
  return power_options(std::move(identity));
}

std::unique_ptr<lsm::GwalSegment> begin(lsm::Gwal& log) {
  auto segment = log.begin(0);
  EXPECT_EQ(segment.status().message(), "");
  return std::move(*segment);
}

Texts texts_found(std::vector<lsm::GwalRecovered> const& found) {
  Texts all;
  for (lsm::GwalRecovered const& one : found)
    for (std::string const& text : texts_of(one.records)) all.push_back(text);
  return all;
}

TEST(GwalPower, WhatWasCommittedSurvivesAPowerLossAndNothingElseComesBack) {
  PowerDisk disk;
  {
    auto opened = open_gwal(options());
    ASSERT_EQ(opened.status().message(), "");
    auto const first = begin(*opened->log);
    ASSERT_TRUE(write_record(*first, 1, "one").ok());
    ASSERT_TRUE(write_record(*first, 2, std::string(30'000, 'x'), 5).ok());
    auto const second = begin(*opened->log);
    ASSERT_TRUE(write_record(*second, 7, "three").ok());
    disk.cut_power();
    EXPECT_FALSE(write_record(*second, 8, "after the power failed").ok());
  }
  disk.restore();
  auto opened = open_gwal(options());
  ASSERT_EQ(opened.status().message(), "");
  ASSERT_EQ(opened->found.size(), 2u);
  EXPECT_EQ(texts_of(opened->found[0].records), (Texts{"one", std::string(30'000, 'x')}));
  EXPECT_EQ(opened->found[0].records[1].requests, 5u);
  EXPECT_EQ(opened->found[1].records[0].first_request, 7u);
  EXPECT_EQ(texts_of(opened->found[1].records), Texts{"three"});
  EXPECT_EQ(begin(*opened->log)->number(), 3u);
}

TEST(GwalPower, ARecordIsAcknowledgedWhenTheDiskHasIt) {
  EXPECT_EQ(a_record_waits_for_the_disk().value_or(""), "");
}

TEST(GwalPower, ASegmentIsDiscardedIfAndOnlyIfRocksDBWentOnFromItsIntent) {
  for (bool const ingested : {true, false}) {
    PowerDisk disk;
    {
      auto opened = open_gwal(options());
      auto const first = begin(*opened->log);
      ASSERT_TRUE(write_record(*first, 1, "first").ok());
      auto const second = begin(*opened->log);
      ASSERT_TRUE(write_record(*second, 2, "second").ok());
      EXPECT_FALSE(second->intend(10).ok());  // the oldest goes first
      ASSERT_EQ(first->intend(10).message(), "");
      disk.lose_power();
    }
    auto opened = open_gwal(options(), ingested ? 11 : 10);
    ASSERT_EQ(opened.status().message(), "");
    EXPECT_EQ(texts_found(opened->found), ingested ? Texts{"second"} : (Texts{"first", "second"}));
    EXPECT_EQ(opened->found[0].found.discarded, ingested);
  }
}

/// RocksDB forgets what it was told not to log, and its number falls.
TEST(GwalPower, AnIntentMayFallAndMayNotRise) {
  PowerDisk disk;
  {
    auto opened = open_gwal(options());
    auto const segment = begin(*opened->log);
    ASSERT_TRUE(write_record(*segment, 1, "one").ok());
    ASSERT_TRUE(segment->intend(100).ok());
    disk.lose_power();
  }
  auto opened = open_gwal(options(), 50);
  ASSERT_EQ(opened->found.size(), 1u);
  auto& segment = *opened->found[0].segment;
  EXPECT_EQ(segment.intend(101).code(), Code::invalid_argument);
  EXPECT_EQ(segment.intend(50).message(), "");
  EXPECT_EQ(segment.intend(lsm::kNoGwalIntent).message(), "");
  EXPECT_EQ(segment.intend(101).message(), "");
}

/// Whichever image is damaged, the other one says no less of what RocksDB has.
TEST(GwalPower, ADamagedImageDoesNotBringBackWhatRocksDBHas) {
  for (std::string const image : {"/power/image-a", "/power/image-b"}) {
    for (bool const retired : {false, true}) {
      PowerDisk disk;
      {
        auto opened = open_gwal(options());
        auto const first = begin(*opened->log);
        ASSERT_TRUE(write_record(*first, 1, "first").ok());
        auto const second = begin(*opened->log);
        ASSERT_TRUE(write_record(*second, 2, "second").ok());
        ASSERT_TRUE(first->intend(10).ok());
        if (retired) {
          ASSERT_TRUE(first->retire().ok());
        }
        disk.lose_power();
      }
      disk.flip(image, 4096 + 90);
      auto opened = open_gwal(options(), 11);
      ASSERT_EQ(opened.status().message(), "");
      EXPECT_EQ(texts_found(opened->found), Texts{"second"});
    }
  }
}

TEST(GwalPower, AFullLogHasRoomAgainOnceSegmentsAreRetired) {
  PowerDisk disk;
  auto opened = open_gwal(options());
  lsm::Gwal& log = *opened->log;
  std::string const text(60'000, 'r');
  EXPECT_EQ(log.make_room(kRing), lsm::GwalRoom::never);
  std::deque<std::unique_ptr<lsm::GwalSegment>> segments;
  std::uint64_t written = 0, sequence = 0;
  while (written < 60) {
    if (log.make_room(text.size()) == lsm::GwalRoom::after_retiring) {
      ASSERT_GT(segments.size(), 10u);  // most of the ring is of use
      EXPECT_EQ(write_record(*begin(log), written + 1, text).code(), Code::no_space);
      ASSERT_TRUE(segments.front()->intend(sequence++).ok());
      ASSERT_TRUE(segments.front()->retire().ok());
      segments.pop_front();
      continue;
    }
    segments.push_back(begin(log));
    ASSERT_EQ(write_record(*segments.back(), ++written, text).message(), "");
  }
  std::size_t const left = segments.size();
  segments.clear();
  opened = Status{Code::closed, "closed"};
  disk.lose_power();
  opened = open_gwal(options(), sequence);
  ASSERT_EQ(opened.status().message(), "");
  EXPECT_EQ(texts_found(opened->found), Texts(left, text));
}

TEST(GwalPower, AWriteThatTheDiskFailsIsNotAcknowledgedAndEndsWriting) {
  for (int const error : {EIO, ENOSPC}) {
    PowerDisk disk;
    {
      auto opened = open_gwal(options());
      auto const segment = begin(*opened->log);
      ASSERT_TRUE(write_record(*segment, 1, "one").ok());
      disk.plan(Mishap::error, 1, error);
      Status const failed = write_record(*segment, 2, "two");
      EXPECT_FALSE(failed.ok());
      EXPECT_NE(failed.message().find("open the database anew"), std::string::npos)
          << failed.message();
      Status const later = write_record(*segment, 3, "three");
      EXPECT_EQ(later.message(), failed.message());
      EXPECT_EQ(segment->intend(1).message(), failed.message());
      disk.lose_power();
    }
    auto opened = open_gwal(options());
    ASSERT_EQ(opened.status().message(), "");
    Texts const found = texts_found(opened->found);
    EXPECT_EQ(found.front(), "one");
    EXPECT_LE(found.size(), 2u);
  }
}

TEST(GwalPower, AnotherDatabasesLogIsRefusedByNameUnlessItHoldsNothing) {
  PowerDisk disk;
  {
    auto opened = open_gwal(options());
    ASSERT_TRUE(write_record(*begin(*opened->log), 1, "one").ok());
  }
  auto const refused = open_gwal(options("the other"));
  EXPECT_EQ(refused.status().code(), Code::corrupt);
  EXPECT_NE(refused.status().message().find("/power belongs to the database 'a database', and "
                                            "this is 'the other'"),
            std::string::npos)
      << refused.status().message();
  {
    auto opened = open_gwal(options());
    ASSERT_EQ(opened->found.size(), 1u);
    ASSERT_TRUE(opened->found[0].segment->intend(1).ok());
    ASSERT_TRUE(opened->found[0].segment->retire().ok());
  }
  EXPECT_EQ(open_gwal(options("the other")).status().message(), "");
}

TEST(GwalPower, DamageInTheBodyFailsClosedAndATornTailIsSaid) {
  auto const life = [](PowerDisk& disk) {
    auto opened = open_gwal(options());
    auto const segment = begin(*opened->log);
    for (lsm::RequestId i = 1; i <= 3; ++i)
      ASSERT_TRUE(write_record(*segment, i, std::string(5000, static_cast<char>('0' + i))).ok());
    disk.cut_power();
  };
  constexpr std::uint64_t kRecord = 8192, kRing0 = 8192;
  for (std::uint64_t const record : {0u, 1u, 2u}) {
    PowerDisk disk;
    life(disk);
    disk.restore();
    disk.flip("/power/redo.log", kRing0 + record * kRecord + 3000);
    auto opened = open_gwal(options());
    EXPECT_EQ(opened.status().code(), Code::corrupt) << record;
    EXPECT_NE(opened.status().message().find("/power lacks records that were acknowledged"),
              std::string::npos)
        << opened.status().message();
    disk.flip("/power/redo.log", kRing0 + record * kRecord + 3000);
    EXPECT_EQ(open_gwal(options())->found.at(0).records.size(), 3u);  // nothing was changed
  }
  PowerDisk disk;
  life(disk);
  disk.restore();
  auto const log = disk.file("/power/redo.log");
  for (std::uint64_t i = 0; i < 512; ++i)  // of the last record a sector is not there
    log->medium[kRing0 + 2 * kRecord + 4096 + i] = log->cache[kRing0 + 2 * kRecord + 4096 + i] =
        std::byte{0};
  auto opened = open_gwal(options());
  ASSERT_EQ(opened.status().message(), "");
  EXPECT_EQ(opened->found.at(0).records.size(), 2u);
  EXPECT_TRUE(opened->found.at(0).found.torn);
  EXPECT_NE(opened->log->report().find("torn"), std::string::npos) << opened->log->report();
}

TEST(GwalPower, AChildThatIsForkedHasNoPartInTheLog) {
  PowerDisk disk;
  {
    auto opened = open_gwal(options());
    auto segment = begin(*opened->log);
    ASSERT_TRUE(write_record(*segment, 1, "one").ok());
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool const refused = write_record(*segment, 2, "two").code() == Code::closed &&
                           segment->intend(1).code() == Code::closed &&
                           segment->retire().code() == Code::closed &&
                           opened->log->begin(0).status().code() == Code::closed;
      segment.reset();
      opened->log.reset();
      ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_TRUE(write_record(*segment, 2, "two").ok());
    disk.lose_power();
  }
  EXPECT_EQ(texts_found(open_gwal(options())->found), (Texts{"one", "two"}));
}

TEST(GwalPower, TheNoteIsThereWhileTheLogCounts) {
  PowerDisk disk;
  std::string const note = options().power->note;
  auto const noted = [&] {
    auto const read = lsm::read_gwal_power_note(note).value();
    return read ? read->identity + " in " + read->directory : "";
  };
  EXPECT_EQ(noted(), "");
  {
    auto opened = open_gwal(options());
    EXPECT_EQ(noted(), "a database in /power");
  }
  EXPECT_EQ(noted(), "");  // it was closed, and holds nothing
  {
    auto opened = open_gwal(options());
    ASSERT_TRUE(write_record(*begin(*opened->log), 1, "one").ok());
  }
  EXPECT_EQ(noted(), "a database in /power");
  auto elsewhere = options();
  elsewhere.power->directory = "/elsewhere";
  EXPECT_EQ(lsm::Gwal::open(elsewhere).status().message(),
            "the database's power log lies in /power, not in /elsewhere; open the database with "
            "that one, and close it, before it gets another");
  for (char const* const name : {"redo.log", "checkpoint", "image-a", "image-b"})
    ASSERT_TRUE(disk.remove(std::string("/power/") + name).ok());
  EXPECT_EQ(lsm::Gwal::open(options()).status().code(), Code::corrupt);
  ASSERT_TRUE(disk.remove(note).ok());
  EXPECT_EQ(lsm::Gwal::open(options()).status().message(), "");
}

TEST(GwalPower, RecordsThatTheDatabaseSaysAreNotLeftAreRefused) {
  PowerDisk disk;
  {
    auto opened = open_gwal(options());
    ASSERT_TRUE(write_record(*begin(*opened->log), 1, "one").ok());
  }
  ASSERT_TRUE(disk.remove(options().power->note).ok());
  EXPECT_EQ(open_gwal(options()).status().code(), Code::corrupt);
}

/// Generated lives, in which the power fails at some request, the disk fails one, or the process is
/// killed; against what was acknowledged, and a RocksDB whose ingest is durable when it returns.
class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed), disk_(seed) { open(); }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (pick(6) == 0 && !armed_) arm();
      std::size_t const dice = pick(16);
      if (dice < 9)
        write();
      else if (dice < 11)
        begin_one();
      else if (dice < 15)
        hand_over();
      else
        crash();
      if (disk_.happened()) crash();
    }
    crash();
  }

 private:
  struct Generation {
    std::unique_ptr<lsm::GwalSegment> segment;
    Texts texts;
  };
  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

  void arm() {
    armed_ = true;
    Mishap const mishaps[] = {Mishap::power, Mishap::power, Mishap::kill, Mishap::error};
    disk_.plan(mishaps[pick(4)], 1 + pick(12));
  }
  Texts expected() const {
    Texts all;
    for (Generation const& g : generations_) all.insert(all.end(), g.texts.begin(), g.texts.end());
    return all;
  }
  void crash() {
    if (!disk_.dead()) pick(3) == 0 ? disk_.kill() : disk_.cut_power();
    for (Generation& g : generations_) g.segment.reset();
    log_.reset();
    disk_.restore();
    armed_ = false;
    if (pick(4) == 0) {  // and once more, while it is opened
      disk_.plan(Mishap::power, 1 + pick(20));
      auto opened = open_gwal(options(), sequence_);
      opened = Status{Code::closed, ""};
      if (!disk_.dead()) disk_.cut_power();
      disk_.restore();
    }
    open();
  }
  void open() {
    auto opened = open_gwal(options(), sequence_);
    RC_ASSERT(opened.status().message() == "");
    Texts const found = texts_found(opened->found);
    Texts with_last = expected();
    if (in_flight_) with_last.push_back(*in_flight_);
    RC_ASSERT(found == expected() || found == with_last);
    if (found == with_last && in_flight_) ++next_;
    in_flight_.reset();
    log_ = std::move(opened->log);
    generations_.clear();
    writable_ = false;
    for (auto& one : opened->found) {
      if (one.found.discarded) continue;
      generations_.push_back({std::move(one.segment), texts_of(one.records)});
    }
  }
  void begin_one() {
    if (generations_.size() >= 6) return;
    auto segment = log_->begin(pick(4) == 0 ? pick(100'000) : 0);
    writable_ = segment.ok();
    if (segment.ok()) generations_.push_back({std::move(*segment), {}});
  }
  void write() {
    if (!writable_) begin_one();
    if (!writable_) return;
    std::string text = std::to_string(next_) + ":" + std::string(pick(60'000), 'v');
    if (log_->make_room(text.size()) != lsm::GwalRoom::there) return hand_over();
    Status const s = write_record(*generations_.back().segment, next_, text);
    if (s.code() == Code::no_space) {
      RC_ASSERT(!disk_.happened());
      writable_ = false;
      return;
    }
    if (!s.ok()) {
      RC_ASSERT(disk_.happened());
      if (!in_flight_) in_flight_ = text;
      return;
    }
    ++next_;
    generations_.back().texts.push_back(std::move(text));
  }
  void hand_over() {
    if (generations_.empty()) return;
    if (generations_.size() == 1) writable_ = false;
    Generation& oldest = generations_.front();
    if (!oldest.segment->intend(sequence_).ok()) return;
    if (disk_.dead() || pick(4) == 0) return crash();
    ++sequence_;
    oldest.texts.clear();  // RocksDB has them
    bool const retired = pick(4) != 0 && oldest.segment->retire().ok();
    if (!retired) return crash();
    generations_.pop_front();
  }

  std::mt19937_64 random_;
  PowerDisk disk_;
  std::unique_ptr<lsm::Gwal> log_;
  std::deque<Generation> generations_;
  std::optional<std::string> in_flight_;
  bool writable_ = false, armed_ = false;
  lsm::RequestId next_ = 1;
  std::uint64_t sequence_ = 5;
};

RC_GTEST_PROP(GwalPowerLives, WhatWasAcknowledgedComesBackOnce, (std::uint64_t seed)) {
  Life(seed).run(25);
}

}  // namespace
}  // namespace perdure::test
