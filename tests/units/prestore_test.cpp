// Pre-stores: whatever the range, they touch its lines and nothing else; skipping copies what
// memcpy does; what they are said to be is what the processor has.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/line_instructions.hpp"
#include "perdure/prestore.h"

namespace perdure {
namespace {

constexpr std::size_t kMost = 300;  // bytes: more than four lines

std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
LineInstruction const recorder{
    "recorder", [](std::uintptr_t begin, std::uintptr_t end) { ranges.emplace_back(begin, end); }};

std::vector<std::byte> counted_bytes(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

bool processor_says(std::string const& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word == flag) return true;
    return false;
  }
  return false;
}

TEST(Prestore, ARangeBeginsWithTheLineOfItsFirstByteAndEndsWithItself) {
  ranges.clear();
  auto const at = [](std::uintptr_t address) { return reinterpret_cast<void const*>(address); };
  std::uintptr_t const line = line_bytes();
  run_on_lines(recorder, at(10 * line), 0);
  run_on_lines(recorder, at(10 * line + 7), 0);
  EXPECT_TRUE(ranges.empty()) << "no bytes, no lines";
  run_on_lines(recorder, at(10 * line + 7), 1);
  run_on_lines(recorder, at(10 * line + line - 1), 2);
  run_on_lines(recorder, at(10 * line), line);
  using Ranges = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;
  EXPECT_EQ(
      ranges,
      (Ranges{{10 * line, 10 * line + 8}, {10 * line, 11 * line + 1}, {10 * line, 11 * line}}));
}

TEST(Prestore, NothingThatWasStoredChanges) {
  std::vector<std::byte> const before = counted_bytes(kMost);
  std::vector<std::byte> bytes = before;
  for (PrestoreOp const op : {PrestoreOp::demote, PrestoreOp::clean}) {
    for (std::size_t from = 0; from <= kMost; from += 13)
      for (std::size_t size = 0; from + size <= kMost; ++size)
        prestore(bytes.data() + from, size, op);
  }
  EXPECT_EQ(bytes, before);
}

TEST(Prestore, SkippingCopiesAllBytesAndNoMore) {
  std::vector<std::byte> const source = counted_bytes(kMost + 64);
  alignas(64) std::array<std::byte, kMost + 192> target{};
  for (std::size_t from = 0; from < 70; from += 3) {
    for (std::size_t to = 64; to < 128; to += 5) {
      for (std::size_t size = 0; size + from <= kMost; size += size < 140 ? 1 : 17) {
        target.fill(std::byte{0xee});
        store_skipping(target.data() + to, source.data() + from, size);
        order_skipped();
        ASSERT_TRUE(std::equal(source.begin() + static_cast<std::ptrdiff_t>(from),
                               source.begin() + static_cast<std::ptrdiff_t>(from + size),
                               target.begin() + to))
            << size << " bytes from " << from << " to " << to;
        ASSERT_EQ(target[to - 1], std::byte{0xee}) << "before " << to;
        ASSERT_EQ(target[to + size], std::byte{0xee}) << "after " << to << " + " << size;
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Prestore, WhatItMeansIsWhatTheProcessorHas) {
  EXPECT_EQ(prestore_means(PrestoreOp::clean) == "clwb", processor_says("clwb"));
  EXPECT_EQ(prestore_means(PrestoreOp::demote) == "cldemote", processor_says("cldemote"));
  for (PrestoreOp const op : {PrestoreOp::demote, PrestoreOp::clean}) {
    std::string_view const means = prestore_means(op);
    EXPECT_TRUE(means.starts_with("none: ") || means.starts_with("cl")) << means;
    EXPECT_EQ(means.find("flush"), means.starts_with("none: ") ? means.find("flush") : means.npos)
        << "a flush drops the line, and is no pre-store";
  }
  EXPECT_EQ(skipping_means(), "movntdq");
}

TEST(Flushing, OneLineTakesTheInstructionThatRangesTake) {
  constexpr std::array kNames{"clflush", "clflushopt", "clwb"};
  EXPECT_STREQ(kNames.at(static_cast<std::size_t>(chosen_flushing)), flushing_instruction().name);
}

TEST(Flushing, OneLineIsToldFromMore) {
  auto const in_one = [](std::uintptr_t at, std::size_t bytes) {
    return lies_in_one_line(reinterpret_cast<void const*>(at), bytes);
  };
  EXPECT_TRUE(in_one(10 * kFlushedLine, kFlushedLine));
  EXPECT_TRUE(in_one(10 * kFlushedLine + kFlushedLine - 1, 1));
  EXPECT_FALSE(in_one(10 * kFlushedLine + kFlushedLine - 1, 2));
  EXPECT_FALSE(in_one(10 * kFlushedLine, kFlushedLine + 1));
  EXPECT_FALSE(in_one(10 * kFlushedLine, 1 << 20));
  EXPECT_FALSE(in_one(10 * kFlushedLine, 0)) << "no bytes, no line";
}
#endif

}  // namespace
}  // namespace perdure
