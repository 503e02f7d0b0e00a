// The G-WAL, story by story: what was written comes back, what RocksDB has does not, and what is
// damaged or another's is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gwal_folder.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

using Texts = std::vector<std::string>;

TEST(Gwal, WhatWasCommittedComesBackInOrder) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_TRUE(open->found.empty());
    auto segment = open->log->begin(0);
    ASSERT_TRUE(segment.ok()) << segment.status().message();
    EXPECT_TRUE(write_record(**segment, 7, "one", 2).ok());
    EXPECT_TRUE(write_record(**segment, 9, "", 1, true).ok());
    EXPECT_TRUE(write_record(**segment, 20, std::string(1000, 'x'), 5).ok());
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_EQ(open->found.size(), 1u);
  lsm::GwalRecovered const& segment = open->found[0];
  EXPECT_EQ(texts_of(segment.records), (Texts{"one", "", std::string(1000, 'x')}));
  EXPECT_EQ(segment.records[0].first_request, 7u);
  EXPECT_EQ(segment.records[0].requests, 2u);
  EXPECT_EQ(segment.records[2].first_request, 20u);
  EXPECT_EQ(segment.found.records, 3u);
  EXPECT_EQ(segment.found.bytes, 1003u);
  EXPECT_FALSE(segment.found.torn || segment.found.discarded);
}

TEST(Gwal, APayloadThatWasReservedAndNotCommittedIsNotThere) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto segment = open->log->begin(0);
    ASSERT_TRUE(segment.ok());
    ASSERT_TRUE(write_record(**segment, 1, "kept").ok());
    auto const room = (*segment)->reserve(100);
    ASSERT_TRUE(room.ok());
    std::fill(room.value().begin(), room.value().end(), std::byte{'?'});
    auto const again = (*segment)->reserve(8);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again.value().data(), room.value().data()) << "the room is used again";
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(texts_of(open->found.at(0).records), Texts{"kept"});
}

TEST(Gwal, AFullSegmentAsksForTheNextAndALongRecordHasOneOfItsSize) {
  GwalFolder const folder;
  std::string const large(200 << 10, 'L');
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto first = open->log->begin(0);
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(write_record(**first, 1, "small").ok());
    EXPECT_EQ((*first)->reserve(large.size()).status().code(), Code::no_space);
    auto second = open->log->begin(large.size());
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_EQ((*second)->number(), (*first)->number() + 1);
    EXPECT_TRUE(write_record(**second, 2, large).ok());
    EXPECT_EQ(write_record(**first, 3, "late").code(), Code::closed) << "the first is sealed";
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_EQ(open->found.size(), 2u);
  EXPECT_EQ(texts_of(open->found[0].records), Texts{"small"});
  EXPECT_EQ(texts_of(open->found[1].records), Texts{large});
}

TEST(Gwal, ARetiredSegmentIsGoneAndItsMemoryStays) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto first = open->log->begin(0);
    ASSERT_TRUE(first.ok());
    auto const room = (*first)->reserve(5);
    std::memcpy(room.value().data(), "value", 5);
    ASSERT_TRUE((*first)->commit(1, 1, false).ok());
    auto second = open->log->begin(0);
    ASSERT_TRUE(second.ok());
    ASSERT_TRUE(write_record(**second, 2, "newer").ok());
    EXPECT_EQ((*second)->retire().code(), Code::invalid_argument) << "the oldest goes first";
    ASSERT_TRUE((*first)->intend(10).ok());
    ASSERT_TRUE((*first)->retire().ok());
    EXPECT_EQ(std::memcmp(room.value().data(), "value", 5), 0);
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_EQ(open->found.size(), 1u);
  EXPECT_EQ(texts_of(open->found[0].records), Texts{"newer"});
}

TEST(Gwal, ASegmentWithoutRecordsIsRetiredAtAnyTimeAndGoesInItsTurn) {
  GwalFolder const folder;
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  auto first = open->log->begin(0);
  ASSERT_TRUE(write_record(**first, 1, "older").ok());
  auto second = open->log->begin(0);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE((*second)->retire().ok());
  EXPECT_EQ((*second)->reserve(8).status().code(), Code::closed);
  auto third = open->log->begin(0);
  ASSERT_TRUE(write_record(**third, 2, "newer").ok());
  ASSERT_TRUE((*first)->retire().ok());
  EXPECT_FALSE(std::filesystem::exists(folder.segment(1)));
  EXPECT_FALSE(std::filesystem::exists(folder.segment(2)));
  EXPECT_TRUE(std::filesystem::exists(folder.segment(3)));
}

TEST(Gwal, WithAnIntentRocksDbsNumberSaysWhetherASegmentComesBack) {
  for (std::uint64_t const sequence : {10u, 11u}) {
    GwalFolder const folder;
    {
      auto open = open_gwal(folder.options());
      ASSERT_TRUE(open.ok()) << open.status().message();
      auto segment = open->log->begin(0);
      ASSERT_TRUE(write_record(**segment, 1, "handed over").ok());
      ASSERT_TRUE((*segment)->intend(10).ok());
    }
    auto open = open_gwal(folder.options(), sequence);
    ASSERT_TRUE(open.ok()) << open.status().message();
    ASSERT_EQ(open->found.size(), 1u);
    bool const ingested = sequence > 10;
    EXPECT_EQ(open->found[0].found.discarded, ingested);
    EXPECT_EQ(open->found[0].records.size(), ingested ? 0u : 1u);
    EXPECT_EQ(std::filesystem::exists(folder.segment(1)), !ingested);
  }
}

TEST(Gwal, FilesOfRetiredSegmentsAreUsedAgainAndGoWhenTheLogIsClosed) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    std::byte const* first_at = nullptr;
    for (lsm::RequestId request = 1; request <= 5; ++request) {
      auto segment = open->log->begin(0);
      ASSERT_TRUE(segment.ok()) << segment.status().message();
      auto const room = (*segment)->reserve(8);
      ASSERT_TRUE(room.ok());
      if (request == 1) first_at = room.value().data();
      EXPECT_EQ(room.value().data(), first_at);
      std::memset(room.value().data(), 'x', 8);
      ASSERT_TRUE((*segment)->commit(request, 1, false).ok());
      EXPECT_EQ(folder.names().size(), 2u) << "the lock and the segment";
      if (request == 5) continue;
      ASSERT_TRUE((*segment)->retire().ok());
    }
  }
  EXPECT_EQ(folder.names(), (Texts{"000000000005.gwal", "gwal.lock"}));
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(texts_of(open->found.at(0).records), Texts{std::string(8, 'x')});
}

TEST(Gwal, SpareFilesAreAsManyAsAskedForAndGoWhenTheLogIsClosed) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    std::vector<std::unique_ptr<lsm::GwalSegment>> segments;
    for (int i = 0; i < 4; ++i) segments.push_back(std::move(*open->log->begin(0)));
    for (auto const& segment : segments) ASSERT_TRUE(segment->retire().ok());
    EXPECT_EQ(folder.names(),
              (Texts{"000000000001.gwal.spare", "000000000002.gwal.spare", "gwal.lock"}));
  }
  EXPECT_EQ(folder.names(), Texts{"gwal.lock"});
}

/// Of the file that has the name; 0: there is none, for as long as it might take to come.
ino_t comes_to_be(std::string const& path) {
  struct stat st{};
  for (int i = 0; i < 5000 && ::stat(path.c_str(), &st) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return st.st_ino;
}

TEST(Gwal, TheNextFileIsMadeBeforehandOnceAPartIsUsed) {
  GwalFolder const folder;
  std::string const made = folder.segment(0) + ".spare";
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto first = open->log->begin(0);
    ASSERT_TRUE(write_record(**first, 1, "little").ok());
    EXPECT_EQ(folder.names().size(), 2u) << "the lock and the segment";
    ASSERT_TRUE(write_record(**first, 2, std::string(10'000, 'x')).ok());
    ino_t const file = comes_to_be(made);
    ASSERT_NE(file, 0u);
    auto second = open->log->begin(folder.options().segment_bytes);  // as for a memtable
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_EQ(comes_to_be(folder.segment(2)), file) << "and is used";
    EXPECT_FALSE(std::filesystem::exists(made));
    ASSERT_TRUE(write_record(**second, 3, std::string(10'000, 'y')).ok());
    ASSERT_NE(comes_to_be(made), 0u);
  }
  EXPECT_EQ(folder.names(), (Texts{"000000000001.gwal", "000000000002.gwal", "gwal.lock"}));
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(texts_of(open->found.at(1).records), Texts{std::string(10'000, 'y')});
}

TEST(Gwal, AFileIsMadeBeforehandOnceAndNotBesideAFreeOne) {
  GwalFolder const folder;
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  // As for a memtable: what is made beforehand has no less.
  ASSERT_TRUE((*open->log->begin(folder.options().segment_bytes))->retire().ok());
  open->log->prepare();
  EXPECT_EQ(folder.names(), (Texts{"000000000001.gwal.spare", "gwal.lock"}));
  auto segment = open->log->begin(0);  // made of that one
  open->log->prepare();
  open->log->prepare();
  ASSERT_NE(comes_to_be(folder.segment(0) + ".spare"), 0u);
  auto large = open->log->begin(100'000);
  ASSERT_TRUE(large.ok()) << large.status().message();
  EXPECT_EQ(folder.names().size(), 4u) << "it is too small for this one, and kept";
  lsm::GwalOptions none = folder.options();
  open = Status{Code::closed, ""};
  segment = Status{Code::closed, ""};
  large = Status{Code::closed, ""};
  none.spare_segments = 0;
  auto without = open_gwal(none);
  ASSERT_TRUE(without.ok()) << without.status().message();
  without->log->prepare();
  auto third = without->log->begin(0);
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(folder.names(),
            (Texts{"000000000002.gwal", "000000000003.gwal", "000000000004.gwal", "gwal.lock"}));
}

TEST(Gwal, OneIsMadeBeforehandWhileAllSparesAreInUseAndSomeGoWhenTheLogRests) {
  GwalFolder const folder;
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  std::vector<std::unique_ptr<lsm::GwalSegment>> in_use;
  for (int i = 0; i < 2; ++i) in_use.push_back(std::move(*open->log->begin(0)));
  for (auto const& segment : in_use) ASSERT_TRUE(segment->retire().ok());
  open->log->prepare();
  EXPECT_NE(comes_to_be(folder.segment(0) + ".spare"), 0u);
  in_use.clear();
  open->log->trim(1);
  EXPECT_EQ(folder.names(),
            (Texts{"000000000000.gwal.spare", "000000000001.gwal.spare", "gwal.lock"}));
}

TEST(Gwal, ASpareFileThatIsTooSmallIsNotUsed) {
  GwalFolder const folder;
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_TRUE((*open->log->begin(0))->retire().ok());
  auto segment = open->log->begin(100'000);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  EXPECT_TRUE(write_record(**segment, 1, std::string(100'000, 'x')).ok());
}

TEST(Gwal, AFileThatIsUsedAgainShowsNothingOfWhatItHeld) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto first = open->log->begin(0);
    for (lsm::RequestId request = 1; request <= 9; ++request)
      ASSERT_TRUE(write_record(**first, request, "older").ok());
    ASSERT_TRUE((*first)->intend(3).ok());
    ASSERT_TRUE((*first)->retire().ok());
    first = Status{Code::closed, ""};
    auto second = open->log->begin(0);
    ASSERT_TRUE(write_record(**second, 10, "newer").ok());
  }
  auto open = open_gwal(folder.options(), 4);
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_EQ(open->found.size(), 1u);
  EXPECT_EQ(texts_of(open->found[0].records), Texts{"newer"});
  EXPECT_FALSE(open->found[0].found.torn || open->found[0].found.discarded);
}

TEST(Gwal, WhatACrashLeftOfSpareAndUnfinishedFilesIsRemoved) {
  GwalFolder const folder;
  ASSERT_TRUE(open_gwal(folder.options()).ok());
  put_contents(folder.segment(3) + ".spare", "spare");
  put_contents(folder.segment(4) + ".perdure-partial", "unfinished");
  put_contents(folder.segment(0) + ".spare", "made beforehand");
  put_contents(folder.segment(0) + ".spare.perdure-partial", "being made");
  put_contents(folder.path + "/notes.txt", "a user's");
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(folder.names(), (Texts{"gwal.lock", "notes.txt"}));
}

TEST(Gwal, RecoveredSegmentsAreHandedOverLikeOthersAndAreWrittenToNoMore) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    auto segment = open->log->begin(0);
    ASSERT_TRUE(write_record(**segment, 1, "left").ok());
  }
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    lsm::GwalSegment& left = *open->found.at(0).segment;
    EXPECT_EQ(left.reserve(8).status().code(), Code::closed);
    auto segment = open->log->begin(0);
    ASSERT_TRUE(segment.ok());
    EXPECT_EQ((*segment)->number(), left.number() + 1);
    EXPECT_EQ(write_record(**segment, 1, "the same request").code(), Code::invalid_argument);
    ASSERT_TRUE(write_record(**segment, 2, "new").ok());
    ASSERT_TRUE(left.intend(7).ok());
    ASSERT_TRUE(left.retire().ok());
    EXPECT_EQ(texts_of(open->found[0].records), Texts{"left"}) << "its memory stays";
  }
  auto open = open_gwal(folder.options(), 8);
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_EQ(open->found.size(), 1u);
  EXPECT_EQ(texts_of(open->found[0].records), Texts{"new"});
}

TEST(Gwal, OnADiskACommitThatIsSyncedTakesWhatIsBeforeItAlong) {
  DiskDir const disk("gwal");
  lsm::GwalOptions const options{
      .directory = disk.path, .identity = "on a disk", .segment_bytes = 64 << 10};
  {
    auto open = open_gwal(options);
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto first = open->log->begin(0);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE(write_record(**first, 1, "not synced").ok());
    auto second = open->log->begin(0);
    ASSERT_TRUE(second.ok());
    ASSERT_TRUE(write_record(**second, 2, "synced", 1, true).ok());
    ASSERT_TRUE((*first)->intend(5).ok());
    ASSERT_TRUE((*first)->retire().ok());
  }
  auto open = open_gwal(options, 6);
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(texts_of(open->found.at(0).records), Texts{"synced"});
}

TEST(Gwal, OneThreadWritesWhileAnotherHandsOver) {
  GwalFolder const folder;
  constexpr lsm::RequestId kRequests = 2000;
  std::uint64_t last_retired = 0;
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    std::mutex mutex;
    std::deque<std::pair<std::unique_ptr<lsm::GwalSegment>, lsm::RequestId>> sealed;
    bool done = false;
    std::jthread flusher([&] {
      for (std::uint64_t sequence = 1;; std::this_thread::yield()) {
        std::unique_lock lock(mutex);
        if (sealed.size() < 2) {
          if (done) return;
          continue;
        }
        auto [segment, last] = std::move(sealed.front());
        sealed.pop_front();
        lock.unlock();
        EXPECT_TRUE(segment->intend(sequence++).ok());
        EXPECT_TRUE(segment->retire().ok());
        last_retired = last;
      }
    });
    lsm::RequestId request = 1;
    while (request <= kRequests) {
      auto segment = open->log->begin(0);
      EXPECT_TRUE(segment.ok()) << segment.status().message();
      if (!segment.ok()) break;
      for (int i = 0; i < 50; ++i, ++request)
        EXPECT_TRUE(write_record(**segment, request, std::to_string(request), 1, i == 7).ok());
      std::lock_guard const lock(mutex);
      sealed.emplace_back(std::move(*segment), request - 1);
    }
    std::lock_guard const lock(mutex);
    done = true;
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  lsm::RequestId next = last_retired + 1;
  for (auto const& segment : open->found)
    for (lsm::GwalRecord const& record : segment.records)
      EXPECT_EQ(text_of(record), std::to_string(next++));
  EXPECT_EQ(next, kRequests + 1);
}

}  // namespace
}  // namespace perdure::test
