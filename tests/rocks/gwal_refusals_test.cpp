// What a G-WAL refuses, and what it says: files of others, damage, directories that are in use,
// calls that have no sense; and what it tells apart from damage: a record that was being written,
// and what the end of the system took.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gwal_folder.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

using Texts = std::vector<std::string>;
using lsm::GwalSegmentHeader;

/// Segments of records that are named after their requests: 1, 2, ...
void make_log(GwalFolder const& folder, std::vector<int> const& records_of_segments,
              bool sync = false) {
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  lsm::RequestId next = 1;
  for (int const records : records_of_segments) {
    auto segment = open->log->begin(0);
    ASSERT_TRUE(segment.ok()) << segment.status().message();
    for (int i = 0; i < records; ++i, ++next)
      ASSERT_TRUE(write_record(**segment, next, "record " + std::to_string(next), 1, sync).ok());
  }
}

Texts all_texts(std::vector<lsm::GwalRecovered> const& found) {
  Texts all;
  for (auto const& segment : found)
    for (lsm::GwalRecord const& record : segment.records) all.push_back(text_of(record));
  return all;
}

/// Where record i of a segment that make_log() made lies: one line of header, one of payload.
std::uint64_t place(std::uint64_t i) { return lsm::kGwalRecords + i * 128; }

void flip(std::string const& path, std::uint64_t offset) {
  std::string bytes = contents(path);
  ASSERT_LT(offset, bytes.size());
  bytes[offset] ^= 4;
  put_contents(path, bytes);
}

void expect_refused(GwalFolder const& folder, std::vector<std::string> const& words,
                    std::uint64_t sequence = 0) {
  std::vector<std::string> const before = folder.names();
  auto open = open_gwal(folder.options(), sequence);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.status().code(), Code::corrupt) << open.status().message();
  for (std::string const& word : words)
    EXPECT_NE(open.status().message().find(word), std::string::npos)
        << "no '" << word << "' in: " << open.status().message();
  EXPECT_EQ(folder.names(), before) << "an opening that fails changes nothing";
}

TEST(GwalRefusals, ARecordThatWasBeingWrittenIsSaidAndAllBeforeItIsKept) {
  for (std::uint64_t const torn : {std::uint64_t{60}, std::uint64_t{64}}) {  // checksum, payload
    GwalFolder const folder;
    make_log(folder, {3});
    flip(folder.segment(1), place(2) + torn);
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_EQ(all_texts(open->found), (Texts{"record 1", "record 2"}));
    EXPECT_TRUE(open->found[0].found.torn);
  }
}

TEST(GwalRefusals, AValueWithItsOwnChecksumInPlaceOfAnotherIsNoticed) {
  auto const with_checksum = [](std::string value) {
    std::uint32_t const crc = crc32c(0, value.data(), value.size());
    return value.append(reinterpret_cast<char const*>(&crc), sizeof crc);
  };
  std::string const fresh = with_checksum("a block that is new.");
  std::string const stale = with_checksum("one that was before.");
  ASSERT_EQ(fresh.size(), stale.size());
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    auto segment = open->log->begin(0);
    ASSERT_TRUE(write_record(**segment, 1, fresh).ok());
  }
  std::string bytes = contents(folder.segment(1));
  bytes.replace(place(0) + 64, stale.size(), stale);
  put_contents(folder.segment(1), bytes);
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(all_texts(open->found), Texts{});
}

TEST(GwalRefusals, DamageBeforeTheEndNamesSegmentOffsetAndWayOut) {
  GwalFolder const folder;
  make_log(folder, {4});
  flip(folder.segment(1), place(1) + 64);
  expect_refused(folder, {folder.segment(1), "offset " + std::to_string(place(1)),
                          "one does at " + std::to_string(place(2)), "restore", "move the log"});
}

TEST(GwalRefusals, ALostEndOfASealedSegmentIsDamage) {
  GwalFolder const folder;
  make_log(folder, {2, 1});
  flip(folder.segment(1), place(1) + 64);
  expect_refused(folder, {folder.segment(1), "offset " + std::to_string(place(1)),
                          "went on to " + std::to_string(place(2))});
}

TEST(GwalRefusals, AMissingSegmentBetweenTwoIsDamage) {
  GwalFolder const folder;
  make_log(folder, {1, 1, 1});
  std::filesystem::remove(folder.segment(2));
  expect_refused(folder, {folder.path, "lacks segment 2", "restore"});
}

TEST(GwalRefusals, ASegmentUnderAnothersNameIsDamage) {
  GwalFolder const folder;
  make_log(folder, {1});
  std::filesystem::rename(folder.segment(1), folder.segment(2));
  expect_refused(folder, {folder.segment(2), "segment 1 under another's name"});
}

TEST(GwalRefusals, ATruncatedSegmentIsDamage) {
  GwalFolder const folder;
  make_log(folder, {1});
  std::filesystem::resize_file(folder.segment(1), 16 << 10);
  expect_refused(folder, {folder.segment(1), "truncated", "16384 of 65536"});
  std::filesystem::resize_file(folder.segment(1), 100);
  expect_refused(folder, {folder.segment(1), "truncated"});
}

TEST(GwalRefusals, ADamagedHeaderIsDamage) {
  GwalFolder const folder;
  make_log(folder, {1});
  flip(folder.segment(1), 100);
  expect_refused(folder, {folder.segment(1), "damaged header, at offset 0"});
}

TEST(GwalRefusals, SegmentsOfAnotherDatabaseAreRefusedByName) {
  GwalFolder const folder;
  make_log(folder, {1});
  auto open = open_gwal(folder.options("another one"));
  ASSERT_EQ(open.status().code(), Code::corrupt);
  for (char const* const word : {"'a database'", "'another one'", "directory of its own"})
    EXPECT_NE(open.status().message().find(word), std::string::npos) << open.status().message();
  // One file among others, too.
  change_header<GwalSegmentHeader>(folder.segment(1),
                                   [](auto& h) { std::memcpy(h.identity.data(), "b", 1); });
  expect_refused(folder, {folder.segment(1), "'b database'"});
}

TEST(GwalRefusals, AnEmptyLogIsAnybodys) {
  GwalFolder const folder;
  make_log(folder, {});
  EXPECT_TRUE(open_gwal(folder.options("another one")).ok());
  EXPECT_TRUE(open_gwal(folder.options("a third one")).ok());
}

TEST(GwalRefusals, NewerAndOlderFormatsAreRefusedByTheirNumber) {
  for (bool const is_newer : {true, false}) {
    GwalFolder const folder;
    make_log(folder, {1});
    std::uint32_t const version = is_newer ? lsm::kGwalVersion + 1 : 1;
    std::string const number = "format version " + std::to_string(version);
    char const* const way_out = is_newer ? "newer Perdure" : "with the older Perdure";
    change_header<GwalSegmentHeader>(folder.segment(1),
                                     [&](auto& h) { h.format_version = version; });
    expect_refused(folder, {folder.segment(1), number, way_out});
    change_header<lsm::GwalLockHeader>(folder.lock(), [&](auto& h) { h.format_version = version; });
    expect_refused(folder, {folder.lock(), number, way_out});
  }
}

TEST(GwalRefusals, AnEmptyLogOfAnOlderFormatIsTakenOver) {
  GwalFolder const folder;
  make_log(folder, {});
  change_header<lsm::GwalLockHeader>(folder.lock(), [](auto& h) { h.format_version = 1; });
  auto open = open_gwal(folder.options());
  EXPECT_TRUE(open.ok()) << open.status().message();
}

TEST(GwalRefusals, ADamagedLockIsMadeAnewWhereThereIsNothingToLose) {
  GwalFolder const folder;
  make_log(folder, {});
  flip(folder.lock(), 20);
  EXPECT_TRUE(open_gwal(folder.options()).ok());
  make_log(folder, {1});
  flip(folder.lock(), 20);
  expect_refused(folder, {folder.lock(), "damaged"});
}

TEST(GwalRefusals, OneCopyOfAnIntentIsEnoughAndNoneIsDamage) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    auto segment = open->log->begin(0);
    ASSERT_TRUE(write_record(**segment, 1, "handed over").ok());
    ASSERT_TRUE((*segment)->intend(10).ok());
  }
  std::string const whole = contents(folder.segment(1));
  for (std::uint64_t const copy : lsm::kGwalIntents) {
    put_contents(folder.segment(1), whole);
    flip(folder.segment(1), copy + 16);
    auto open = open_gwal(folder.options(), 10);
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_FALSE(open->found.at(0).found.discarded);
  }
  put_contents(folder.segment(1), whole);
  for (std::uint64_t const copy : lsm::kGwalIntents) flip(folder.segment(1), copy + 16);
  expect_refused(folder, {folder.segment(1), "no intent that passes"}, 11);
  // As a crash leaves the first of them: nothing was ingested yet.
  std::string bytes = whole;
  std::memset(bytes.data() + lsm::kGwalIntents[0] + 8, 0, 8);
  std::memset(bytes.data() + lsm::kGwalIntents[1], 0, 64);
  put_contents(folder.segment(1), bytes);
  auto open = open_gwal(folder.options(), 10);
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(all_texts(open->found), Texts{"handed over"});
}

TEST(GwalRefusals, WhatRocksDbHasOutOfOrderIsDamage) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    auto first = open->log->begin(0);
    ASSERT_TRUE(write_record(**first, 1, "older").ok());
    auto second = open->log->begin(0);
    ASSERT_TRUE(write_record(**second, 2, "newer").ok());
    ASSERT_TRUE((*second)->intend(10).ok());
  }
  expect_refused(folder, {folder.segment(1), "segment 2 was"}, 11);
}

TEST(GwalRefusals, ADirectoryIsOneProcesss) {
  GwalFolder const folder;
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open_gwal(folder.options()).status().code(), Code::busy) << "nor twice one's";
  ::pid_t const child = ::fork();
  if (child == 0) {
    auto const busy = open_gwal(folder.options()).status();
    bool const named = busy.message().find(folder.path) != std::string::npos;
    ::_exit(busy.code() == Code::busy && named ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  open = Status{Code::closed, ""};
  EXPECT_TRUE(open_gwal(folder.options()).ok());
}

TEST(GwalRefusals, AChildThatIsForkedHasNoPartInIt) {
  GwalFolder const folder;
  {
    auto open = open_gwal(folder.options());
    auto segment = open->log->begin(0);
    ASSERT_TRUE(write_record(**segment, 1, "by the parent").ok());
    open->log->prepare();
    ::pid_t const child = ::fork();
    if (child == 0) {
      bool const refused = (*segment)->reserve(8).status().code() == Code::closed &&
                           (*segment)->intend(1).code() == Code::closed &&
                           (*segment)->retire().code() == Code::closed &&
                           open->log->begin(0).status().code() == Code::closed;
      segment = Status{Code::closed, ""};
      open = Status{Code::closed, ""};
      ::_exit(refused ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(open_gwal(folder.options()).status().code(), Code::busy);
    ASSERT_TRUE(write_record(**segment, 2, "after the child").ok());
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(all_texts(open->found), (Texts{"by the parent", "after the child"}));
}

TEST(GwalRefusals, CallsWithoutSenseAreRefusedAndChangeNothing) {
  GwalFolder const folder;
  auto options = folder.options(std::string(65, 'i'));
  EXPECT_EQ(open_gwal(options).status().code(), Code::invalid_argument);
  auto log = lsm::Gwal::open(folder.options());
  ASSERT_TRUE(log.ok());
  EXPECT_EQ((*log)->begin(0).status().code(), Code::invalid_argument) << "recover() first";
  ASSERT_TRUE((*log)->recover(0).ok());
  EXPECT_EQ((*log)->recover(0).status().code(), Code::invalid_argument);
  auto segment = (*log)->begin(0);
  ASSERT_TRUE(segment.ok());
  EXPECT_EQ((*segment)->commit(1, 1, false).code(), Code::invalid_argument) << "no reserve()";
  ASSERT_TRUE(write_record(**segment, 5, "five to seven", 3).ok());
  EXPECT_EQ(write_record(**segment, 7, "again").code(), Code::invalid_argument);
  EXPECT_EQ(write_record(**segment, 8, "none", 0).code(), Code::invalid_argument);
  EXPECT_EQ((*segment)->reserve(~std::uint64_t{0}).status().code(), Code::no_space);
  ASSERT_TRUE((*segment)->intend(20).ok());
  EXPECT_TRUE((*segment)->intend(20).ok()) << "tried again";
  EXPECT_EQ((*segment)->intend(21).code(), Code::invalid_argument) << "withdraw it first";
  EXPECT_TRUE((*segment)->intend(15).ok()) << "RocksDB lost what it was not to log";
  EXPECT_TRUE((*segment)->intend(lsm::kNoGwalIntent).ok());
  EXPECT_TRUE((*segment)->intend(21).ok());
  ASSERT_TRUE((*segment)->retire().ok());
  EXPECT_EQ((*segment)->retire().code(), Code::closed);
  EXPECT_EQ(write_record(**segment, 9, "late").code(), Code::closed);
}

/// A MiB, which two segments of 400 KiB fill.
struct SmallMedium {
  GwalFolder scratch{"full"};
  SmallTmpfs small{made(scratch.path) + "/small", "1m"};

  static std::string made(std::string const& path) {
    std::filesystem::create_directories(path);
    return path;
  }
  [[nodiscard]] lsm::GwalOptions options() const {
    lsm::GwalOptions options = scratch.options();
    options.directory = small.file("log");
    options.segment_bytes = 400 << 10;
    return options;
  }
};

TEST(GwalRefusals, AFullMediumIsAnErrorAndNothingIsLost) {
  SmallMedium const medium;
  if (!medium.small.holds()) GTEST_SKIP() << "mounting a tmpfs is not allowed here";
  auto open = open_gwal(medium.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  auto first = open->log->begin(0);
  auto second = open->log->begin(0);
  ASSERT_TRUE(second.ok()) << second.status().message();
  ASSERT_TRUE(write_record(**second, 1, "kept").ok());
  EXPECT_EQ(open->log->begin(0).status().code(), Code::no_space);
  ASSERT_TRUE(write_record(**second, 2, "goes on").ok()) << "the segment is not sealed";
  ASSERT_TRUE((*first)->retire().ok());
  first = Status{Code::closed, ""};
  auto large = open->log->begin(500 << 10);
  ASSERT_TRUE(large.ok()) << "the spare file makes room: " << large.status().message();
}

TEST(GwalRefusals, WhereNothingCanBeMadeBeforehandWhoNeedsItHearsOfIt) {
  SmallMedium const medium;
  if (!medium.small.holds()) GTEST_SKIP() << "mounting a tmpfs is not allowed here";
  auto open = open_gwal(medium.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  auto first = open->log->begin(0);
  open->log->prepare();
  auto large = open->log->begin(500 << 10);
  ASSERT_TRUE(large.ok()) << "what was made beforehand makes room: " << large.status().message();
  ASSERT_TRUE(write_record(**large, 1, std::string(300 << 10, 'x')).ok())
      << "and no next one is made";
  EXPECT_EQ(open->log->begin(0).status().code(), Code::no_space);
  ASSERT_TRUE(write_record(**large, 2, "goes on").ok());
  ASSERT_TRUE((*first)->retire().ok());
  first = Status{Code::closed, ""};
  auto next = open->log->begin(0);
  EXPECT_TRUE(next.ok()) << next.status().message();
}

// ------------------------------------------------------------------------------------------------
// After the system went down

void as_of_another_boot(GwalFolder const& folder, std::uint64_t number) {
  change_header<GwalSegmentHeader>(folder.segment(number), [](auto& h) { h.boot ^= 1; });
}

TEST(GwalAfterTheSystemWentDown, WhatWasNotSyncedEndsWhereItsFirstPartIsMissing) {
  GwalFolder const folder;
  make_log(folder, {4, 2});
  flip(folder.segment(1), place(1) + 64);
  as_of_another_boot(folder, 1);
  as_of_another_boot(folder, 2);
  for (bool const again : {false, true}) {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    EXPECT_EQ(all_texts(open->found), Texts{"record 1"});
    EXPECT_EQ(open->found.at(0).found.torn, true);
    ASSERT_EQ(open->found.size(), 1u);
    if (!again) continue;
    auto segment = open->log->begin(0);  // what follows it then is not lost with it
    ASSERT_TRUE(write_record(**segment, 2, "after").ok());
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(all_texts(open->found), (Texts{"record 1", "after"}));
}

TEST(GwalAfterTheSystemWentDown, WhatIsWrittenInThatOpeningStaysToo) {
  GwalFolder const folder;
  make_log(folder, {4, 2});
  flip(folder.segment(1), place(1) + 64);
  as_of_another_boot(folder, 1);
  as_of_another_boot(folder, 2);
  {
    auto open = open_gwal(folder.options());
    ASSERT_TRUE(open.ok()) << open.status().message();
    auto segment = open->log->begin(0);
    ASSERT_TRUE(segment.ok()) << segment.status().message();
    EXPECT_EQ((*segment)->number(), 2u);
  }
  auto open = open_gwal(folder.options());
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_EQ(all_texts(open->found), Texts{"record 1"});
}

TEST(GwalAfterTheSystemWentDown, WhatWasSyncedMustBeThere) {
  GwalFolder const folder;
  make_log(folder, {4, 2}, true);
  flip(folder.segment(1), place(1) + 64);
  as_of_another_boot(folder, 1);
  as_of_another_boot(folder, 2);
  expect_refused(folder, {folder.segment(1), "offset " + std::to_string(place(1))});
}

TEST(GwalAfterTheSystemWentDown, WhatALaterStartFoundThereMustBeThere) {
  GwalFolder const folder;
  make_log(folder, {4, 2});
  flip(folder.segment(1), place(1) + 64);
  as_of_another_boot(folder, 1);
  expect_refused(folder, {folder.segment(1), "offset " + std::to_string(place(1))});
}

}  // namespace
}  // namespace perdure::test
