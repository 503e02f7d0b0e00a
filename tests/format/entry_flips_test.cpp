// Pools of layout `log` that were closed in order, and one bit of them flipped: opening refuses
// them as damaged and leaves them as they were, or every answer is right. With keys that entries
// have, and with longer ones, of which they have hashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "base/crc32c.hpp"
#include "support/store_driver.hpp"
#include "support/whole_file.hpp"
#include "wal/entries.hpp"

namespace perdure::test {
namespace {

class EntryFlips : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  /// Its first 8 bytes tell it from others.
  [[nodiscard]] static std::vector<std::byte> bytes_of(std::vector<std::uint64_t> const& keys) {
    std::vector<std::byte> bytes(keys.size() * GetParam());
    for (std::size_t i = 0; i < keys.size(); ++i)
      std::memcpy(&bytes[i * GetParam()], &keys[i], sizeof keys[i]);
    return bytes;
  }
  [[nodiscard]] static Column column(std::vector<std::byte> const& bytes) {
    return {bytes.data(), nullptr, GetParam(), bytes.size() / GetParam(), MemorySpace::host};
  }
  using Contents = std::map<std::uint64_t, std::array<std::uint64_t, 2>>;

  void SetUp() override {
    CreateOptions create;
    create.key_bytes = GetParam();
    create.value_bytes = 16;
    create.layout = Layout::log;
    create.expected_records = 40;
    auto store = Store::create(path_, create, open_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    std::mt19937_64 random(1);
    for (int batch = 0; batch < 4; ++batch) {
      std::vector<std::uint64_t> keys;
      std::vector<std::array<std::uint64_t, 2>> values;
      for (std::uint64_t k = 0; k < 40; k += static_cast<std::uint64_t>(batch) + 1) {
        keys.push_back(k * 7919);
        values.push_back({random(), random()});
        contents_[keys.back()] = values.back();
      }
      ASSERT_TRUE(store->put(column(bytes_of(keys)), Column::of(values)).ok());
    }
    std::vector<std::uint64_t> const gone{0, 7919};
    ASSERT_TRUE(store->erase(column(bytes_of(gone))).ok());
    for (std::uint64_t const key : gone) contents_.erase(key);
    ASSERT_TRUE(store->close().ok());
    whole_ = read();
  }
  [[nodiscard]] std::vector<char> read() const {
    std::string const bytes = whole_file(path_);
    return {bytes.begin(), bytes.end()};
  }
  void write(std::vector<char> const& bytes) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// Where the first segment begins.
  [[nodiscard]] std::size_t segment() const {
    for (std::size_t at = 0; at < whole_.size(); at += pm::kMinSuperblock)
      if (std::memcmp(&whole_[at], &wal::kSegmentMagic, sizeof wal::kSegmentMagic) == 0) return at;
    return 0;
  }
  /// Everything a stranger can ask.
  void expect_told_or_right(std::size_t byte) {
    SCOPED_TRACE("byte " + std::to_string(byte));
    auto store = Store::open(path_, open_);
    if (!store) {
      EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
      EXPECT_NE(store.status().message().find("restore"), std::string::npos);
      ++refused_;
      return;
    }
    auto report = store->verify();
    ASSERT_TRUE(report.ok());
    if (report->fault_count != 0) return;
    EXPECT_EQ(report->records, contents_.size());
    std::vector<std::uint64_t> keys;
    for (std::uint64_t k = 0; k < 41; ++k) keys.push_back(k * 7919);
    std::vector<std::array<std::uint64_t, 2>> out(keys.size());
    std::vector<KeyStatus> statuses(keys.size());
    ASSERT_TRUE(
        store
            ->get(column(bytes_of(keys)),
                  {reinterpret_cast<std::byte*>(out.data()), 16, out.size(), MemorySpace::host},
                  statuses)
            .ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto const at = contents_.find(keys[i]);
      ASSERT_EQ(statuses[i], at == contents_.end() ? KeyStatus::not_found : KeyStatus::ok);
      if (at != contents_.end()) {
        ASSERT_EQ(out[i], at->second);
      }
    }
  }

  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  OpenOptions open_ = [] {
    OpenOptions open;
    open.threads = 1;
    return open;
  }();
  Contents contents_;
  std::vector<char> whole_;
  int refused_ = 0;
};

TEST_P(EntryFlips, OfOneBitInEveryWordOfTheLogAreRefusedOrChangeNothing) {
  std::size_t const from = segment();
  ASSERT_NE(from, 0u);
  int flipped = 0;
  for (std::size_t at = from; at < from + 4096; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, &whole_[at], sizeof word);
    if (word == 0 && at > from + sizeof(wal::SegmentHeader)) continue;
    std::vector<char> damaged = whole_;
    std::size_t const byte = at + at / 8 % 8;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << at / 64 % 8));
    write(damaged);
    expect_told_or_right(byte);
    write(whole_);
    ++flipped;
  }
  EXPECT_GT(flipped, 150);
  EXPECT_GE(refused_, flipped - 1);
}

/// Whose entries are none of such keys.
TEST_P(EntryFlips, AHeaderOfOtherKeysThanTheLogHasIsRefused) {
  std::vector<char> strange = whole_;
  pm::PoolHeader header{};
  std::memcpy(&header, strange.data(), sizeof header);
  header.key_bytes = header.max_key_bytes = GetParam() == 8 ? 40 : 8;
  header.crc = crc32c(0, &header, offsetof(pm::PoolHeader, crc));
  std::memcpy(strange.data(), &header, sizeof header);
  write(strange);
  auto const store = Store::open(path_, open_);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
  EXPECT_EQ(read(), strange) << "a refused pool was changed";
}

/// Of short keys there is nothing in the pool but the value, and 24 bits of checksum in its entry.
TEST_P(EntryFlips, OfOneBitOfEveryValueAreFoundByGetsScansAndVerify) {
  for (auto const& [key, value] : contents_) {
    SCOPED_TRACE("key " + std::to_string(key));
    std::vector<char> damaged = whole_;
    auto const* const bytes = reinterpret_cast<char const*>(value.data());
    auto* const at =
        static_cast<char*>(::memmem(damaged.data(), damaged.size(), bytes, sizeof value));
    ASSERT_NE(at, nullptr);
    auto const bit = static_cast<std::size_t>(key / 7919) * 3 % (8 * sizeof value);
    at[bit / 8] ^= static_cast<char>(1 << bit % 8);
    write(damaged);
    auto store = Store::open(path_, open_);
    ASSERT_TRUE(store.ok()) << store.status().message();  // it looks at no value
    auto report = store->verify();
    ASSERT_TRUE(report.ok());
    ASSERT_EQ(report->fault_count, 1u);
    EXPECT_NE(report->faults[0].find("checksum"), std::string::npos) << report->faults[0];
    std::vector<std::uint64_t> const keys{key};
    std::array<std::uint64_t, 2> out{};
    std::vector<KeyStatus> statuses(1);
    ASSERT_TRUE(store
                    ->get(column(bytes_of(keys)),
                          {reinterpret_cast<std::byte*>(out.data()), 16, 1, MemorySpace::host},
                          statuses)
                    .ok());
    EXPECT_EQ(statuses[0], KeyStatus::corrupt);
    ASSERT_TRUE(store->close().ok());
    write(whole_);
  }
}

/// What CRC-32C says of single bits, its low 24 bits must say too.
TEST(ShortSums, SeeEachSingleBitOfAValue) {
  std::vector<std::byte> value(1024);
  std::uint32_t const whole = pm::short_sum(crc32c(0, value.data(), value.size()));
  for (std::size_t bit = 0; bit < 8 * value.size(); ++bit) {
    value[bit / 8] ^= std::byte{1} << bit % 8;
    ASSERT_NE(pm::short_sum(crc32c(0, value.data(), value.size())), whole) << bit;
    value[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

INSTANTIATE_TEST_SUITE_P(KeyBytes, EntryFlips, ::testing::Values(8u, 40u));

}  // namespace
}  // namespace perdure::test
