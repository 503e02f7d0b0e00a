// The format of layout `log` on disk: committed pools, closed, or of writers that were killed, open
// and hold what they held; there is an extent of every kind in them, where docs/format.md says.
#include <gtest/gtest.h>

#include <set>

#include "golden_log.hpp"
#include "perdure/pool_reader.h"

namespace perdure::test {
namespace {

class LogFormat : public ::testing::TestWithParam<GoldenLog> {
 protected:
  LogFormat() { write_file(path_.str(), image_.bytes); }

  [[nodiscard]] static bool closed() {
    return GetParam().left == Left::closed || GetParam().left == Left::closed_to_revert;
  }
  static void expect(Store& store, Contents const& contents) {
    EXPECT_EQ(scan_all(store), contents);
    auto verified = store.verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified->fault_count, 0u);
    EXPECT_EQ(verified->records, contents.size());
  }

  Image const image_{from_sparse(
      read_file(std::string(PERDURE_GOLDEN_FOLDER) + "/" + GetParam().name + ".sparse"))};
  std::vector<GoldenWrites> const story_ = golden_log_story(GetParam());
  Contents const contents_ = golden_log_contents(GetParam(), story_);
  PoolPath path_;
};

TEST_P(LogFormat, GoldenPoolHoldsItsRecords) {
  for (bool const first : {true, false}) {
    auto store = Store::open(path_.str());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->recovery().clean, closed() || !first);
    EXPECT_EQ(store->recovery().records, contents_.size());
    EXPECT_EQ(store->recovery().dropped, 0u);
    expect(*store, contents_);
    ASSERT_TRUE(store->close().ok());
  }
}

TEST_P(LogFormat, GoldenPoolIsReadAsItIsOrRefused) {
  OpenOptions options;
  options.read_only = true;
  auto store = Store::open(path_.str(), options);
  EXPECT_EQ(store.ok(), closed()) << store.status().message();
  if (store.ok()) return expect(*store, contents_);
  EXPECT_NE(store.status().message().find("open it once for writing"), std::string::npos);
  EXPECT_EQ(read_file(path_.str()), image_.bytes);
}

TEST_P(LogFormat, GoldenPoolTakesBackARevertibleCommitThatNothingFollowed) {
  bool const last = GetParam().left == Left::closed_to_revert;
  auto store = Store::open(path_.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  auto can = store->can_revert();
  ASSERT_TRUE(can.ok()) << can.status().message();
  EXPECT_EQ(*can, last);
  EXPECT_EQ(store->revert().ok(), last);
  auto const before = std::vector(story_.begin(), story_.end() - (last ? 1 : 0));
  expect(*store, golden_log_contents(GetParam(), before));
}

TEST_P(LogFormat, GoldenPoolIsWrittenOn) {
  Contents more = contents_;
  {
    auto store = Store::open(path_.str());
    ASSERT_TRUE(store.ok()) << store.status().message();
    Contents fresh;
    for (std::uint64_t n = 90; n < 120; ++n)
      fresh[golden_log_key(GetParam(), n)] = golden_log_value(GetParam(), n, 40);
    ASSERT_TRUE(put_all(*store, fresh).ok());
    for (auto const& [key, value] : fresh) more[key] = value;
    ASSERT_TRUE(store->close().ok());
  }
  auto store = Store::open(path_.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(scan_all(*store), more);
}

TEST_P(LogFormat, AReaderBesideAWriterReadsTheGoldenPool) {
  if (GetParam().left == Left::killed_in_session) {  // it counts once a store has opened it
    auto store = Store::open(path_.str());
    ASSERT_TRUE(store.ok()) << store.status().message();
    ASSERT_TRUE(store->close().ok());
  }
  auto reader = PoolReader::open(path_.str());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  for (std::uint64_t n = 0; n < kGoldenRecords; ++n) {
    Strings key(GetParam().key_bytes);
    key.add(golden_log_key(GetParam(), n));
    std::byte value[64];
    PoolReader::Target const target{value, sizeof value};
    KeyStatus status = KeyStatus::corrupt;
    std::uint32_t bytes = 0;
    ASSERT_TRUE(reader->get(key.column(), {&target, 1}, {&status, 1}, {&bytes, 1}).ok());
    auto const held = contents_.find(golden_log_key(GetParam(), n));
    ASSERT_EQ(status == KeyStatus::ok, held != contents_.end()) << n;
    if (status == KeyStatus::ok) {
      EXPECT_EQ(std::string(reinterpret_cast<char const*>(value), bytes), held->second);
    }
  }
}

// The numbers here are the document's, not the structs'.
TEST_P(LogFormat, ExtentsOfEveryKindStandWhereTheDocumentSays) {
  std::uint32_t const key_bytes = GetParam().key_bytes;
  bool const hashes = key_bytes == 0 || key_bytes > 32;
  std::uint64_t const cell = hashes ? 32 : key_bytes <= 8 ? 16 : key_bytes <= 24 ? 32 : 48;
  pm::Root const root = image_.root();
  pm::RootEntry const* const first = root.find("entries");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(image_.text(first->offset, 4), "PRVL");
  std::set<std::uint32_t> kinds;
  std::uint64_t number = 0;
  std::uint64_t const end = first->offset + image_.header().superblock_bytes;
  for (std::uint64_t at = first->offset + 64 + first->value * cell; at + 32 <= end;) {
    auto const next = image_.at<std::uint64_t>(at);
    if (next <= number) break;
    number = next;
    kinds.insert(image_.at<std::uint32_t>(at + 12));
    at += (cell == 16 ? 32 : cell) + image_.at<std::uint32_t>(at + 8) * cell;
  }
  std::set<std::uint32_t> expected{0, 1, 2, 3, 4};
  if (!GetParam().any_length()) expected.insert({5, 6});
  EXPECT_EQ(kinds, expected);
}

INSTANTIATE_TEST_SUITE_P(Pools, LogFormat, ::testing::ValuesIn(kGoldenLogs),
                         [](auto const& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace perdure::test
