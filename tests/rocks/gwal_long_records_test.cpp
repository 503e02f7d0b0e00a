// Records of several chunks in the G-WAL: their checksums are those of the whole, whoever sums
// them, and whichever part is missing, damaged or in another's place is noticed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.hpp"
#include "gwal_folder.hpp"
#include "lsm/gwal/gwal_sum.hpp"

namespace perdure::test {
namespace {

using lsm::kGwalChunk;
constexpr std::uint64_t kPayload = lsm::kGwalRecords + sizeof(lsm::GwalRecordHeader);

std::string random_text(std::uint64_t bytes, std::uint64_t seed = 1) {
  std::string text(bytes, '\0');
  std::uint64_t state = seed;
  for (std::uint64_t at = 0; at < bytes; ++at) {
    if (at % 8 == 0) state = nth_hash(state, 1);
    text[at] = static_cast<char>(state >> at % 8 * 8);
  }
  return text;
}

std::span<std::byte const> bytes_of(std::string const& text) {
  return std::as_bytes(std::span(text));
}

/// A log with a long record, and behind it, where `more`, another one.
void make_long(GwalFolder const& folder, std::string const& text, bool more = false,
               exec::Workers* workers = nullptr) {
  lsm::GwalOptions options = folder.options();
  options.workers = workers;
  auto open = open_gwal(options);
  ASSERT_TRUE(open.ok()) << open.status().message();
  auto segment = open->log->begin(text.size() + 1000);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  ASSERT_TRUE(write_record(**segment, 1, text).ok());
  if (!more) return;
  ASSERT_TRUE(write_record(**segment, 2, "more").ok());
}

/// What comes back, where something does.
std::vector<std::string> read_back(GwalFolder const& folder) {
  auto open = open_gwal(folder.options());
  if (!open.ok()) return {open.status().message()};
  return texts_of(open->found.at(0).records);
}

TEST(GwalLongRecords, ChecksumsAreThoseOfAllBytesWhoeverSumsThem) {
  exec::Workers workers(2);
  for (std::uint64_t const bytes :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{1000}, kGwalChunk - 1,
        kGwalChunk, kGwalChunk + 1, 2 * kGwalChunk, 3 * kGwalChunk + 17}) {
    std::string const text = random_text(bytes);
    lsm::GwalPayloadSum alone(bytes_of(text)), together(bytes_of(text));
    alone.sum_all(nullptr);
    together.sum_all(&workers);
    EXPECT_EQ(alone.crc(77), crc32c(77, text.data(), text.size())) << bytes;
    EXPECT_EQ(together.crc(77), alone.crc(77)) << bytes;
    EXPECT_EQ(together.hash(), alone.hash()) << bytes;
  }
}

TEST(GwalLongRecords, WorkersWriteWhatIsReadWithoutThem) {
  exec::Workers workers(2);
  GwalFolder const folder;
  std::string const text = random_text(5 * kGwalChunk + 100);
  make_long(folder, text, true, &workers);
  EXPECT_EQ(read_back(folder), (std::vector<std::string>{text, "more"}));
}

TEST(GwalLongRecords, ARecordThatLacksAnyChunkEndsTheLog) {
  GwalFolder const folder;
  std::string const text = random_text(4 * kGwalChunk + 100);
  make_long(folder, text);
  std::string const whole = contents(folder.segment(1));
  for (std::uint64_t from = 0; from < text.size(); from += kGwalChunk) {
    for (bool const all_behind : {false, true}) {
      std::string bytes = whole;
      std::uint64_t const end = all_behind ? text.size() : std::min(from + kGwalChunk, text.size());
      bytes.replace(kPayload + from, end - from, end - from, '\0');
      put_contents(folder.segment(1), bytes);
      auto open = open_gwal(folder.options());
      ASSERT_TRUE(open.ok()) << open.status().message();
      EXPECT_TRUE(open->found.at(0).records.empty()) << from << " to " << end;
      EXPECT_TRUE(open->found[0].found.torn);
    }
  }
  put_contents(folder.segment(1), whole);
  EXPECT_EQ(read_back(folder), std::vector<std::string>{text});
}

TEST(GwalLongRecords, ABitInAnyChunkIsDamageWhereARecordStandsBehind) {
  GwalFolder const folder;
  std::string const text = random_text(4 * kGwalChunk + 1);
  make_long(folder, text, true);
  std::string const whole = contents(folder.segment(1));
  for (std::uint64_t at = kGwalChunk / 2; at < text.size() + kGwalChunk / 2; at += kGwalChunk) {
    std::string bytes = whole;
    bytes[kPayload + std::min(at, text.size() - 1)] ^= 4;
    put_contents(folder.segment(1), bytes);
    auto const open = open_gwal(folder.options());
    EXPECT_EQ(open.status().code(), Code::corrupt) << at;
    EXPECT_NE(open.status().message().find("offset 4096"), std::string::npos)
        << open.status().message();
  }
}

TEST(GwalLongRecords, ChunksInEachOthersPlaceAreNoticed) {
  GwalFolder const folder;
  std::string const text = random_text(4 * kGwalChunk);
  make_long(folder, text);
  std::string bytes = contents(folder.segment(1));
  bytes.replace(kPayload + kGwalChunk, kGwalChunk, text, 2 * kGwalChunk, kGwalChunk);
  bytes.replace(kPayload + 2 * kGwalChunk, kGwalChunk, text, kGwalChunk, kGwalChunk);
  put_contents(folder.segment(1), bytes);
  EXPECT_EQ(read_back(folder), std::vector<std::string>{});
}

TEST(GwalLongRecords, AChunkThatEndsWithItsOwnChecksumInPlaceOfAnotherIsNoticed) {
  auto const with_checksum = [](std::string text) {
    std::uint32_t const crc = crc32c(0, text.data(), text.size());
    return text.append(reinterpret_cast<char const*>(&crc), sizeof crc);
  };
  std::string const text = random_text(kGwalChunk) + with_checksum(random_text(kGwalChunk - 4, 2)) +
                           random_text(kGwalChunk);
  std::string const stale = with_checksum(random_text(kGwalChunk - 4, 3));
  GwalFolder const folder;
  make_long(folder, text);
  std::string bytes = contents(folder.segment(1));
  bytes.replace(kPayload + kGwalChunk, kGwalChunk, stale);
  put_contents(folder.segment(1), bytes);
  EXPECT_EQ(read_back(folder), std::vector<std::string>{});
}

}  // namespace
}  // namespace perdure::test
