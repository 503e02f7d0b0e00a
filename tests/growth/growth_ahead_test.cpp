// A store that is loaded while its pool is extended ahead of need, by several threads that each own
// a range of keys; readers look meanwhile. What was acknowledged is there, then and after a close.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <thread>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint32_t kValueBytes = 256;
constexpr std::uint64_t kBatch = 8192;
constexpr std::uint64_t kBatches = 32;  // of each thread; 4 MiB a batch with heads and slots

struct Rows {
  std::vector<std::uint64_t> keys;
  std::vector<std::uint64_t> values;
  Rows(std::uint64_t owner, std::uint64_t batch) : values(kBatch * kValueBytes / 8) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      keys.push_back(owner << 32 | (batch * kBatch + i));
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(i * kValueBytes / 8),
                  kValueBytes / 8, ~keys[i]);
    }
  }
  [[nodiscard]] Column key_column() const {
    return {reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, kBatch};
  }
  [[nodiscard]] Column value_column() const {
    return {reinterpret_cast<std::byte const*>(values.data()), nullptr, kValueBytes, kBatch};
  }
};

bool all_there(Store& store, Rows const& rows) {
  std::vector<std::uint64_t> got(rows.values.size());
  std::vector<KeyStatus> statuses(kBatch);
  Status const s = store.get(
      rows.key_column(), {reinterpret_cast<std::byte*>(got.data()), kValueBytes, kBatch}, statuses);
  return s.ok() && got == rows.values;
}

void load(Store& store, std::uint64_t owner, std::atomic<int>& lost) {
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    Rows const rows(owner, batch);
    if (!store.put(rows.key_column(), rows.value_column()).ok() || !all_there(store, rows)) ++lost;
  }
}

TEST(GrowthAhead, WhatTwoThreadsLoadMeanwhileIsThereThenAndAfterwards) {
  ScratchDir const dir;
  std::string const path = dir.file("pool");
  CreateOptions create;
  create.key_bytes = 8;
  create.value_bytes = kValueBytes;
  create.expected_records = 100'000;  // a sixth of what comes
  OpenOptions open;
  open.threads = 2;
  auto store = Store::create(path, create, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  std::uint64_t const begun = store->stats().space.pool_bytes;
  std::atomic<int> lost{0};
  {
    std::jthread const other([&] { load(*store, 1, lost); });
    load(*store, 2, lost);
  }
  EXPECT_EQ(lost, 0);
  std::uint64_t const grown = store->stats().space.pool_bytes;
  EXPECT_GT(grown, 2 * begun);
  ASSERT_TRUE(store->close().ok());
  EXPECT_EQ(std::filesystem::file_size(path), grown) << "what was prepared is given back";
  store = Store::open(path, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().clean);
  for (std::uint64_t owner : {1, 2})
    for (std::uint64_t batch = 0; batch < kBatches; ++batch)
      EXPECT_TRUE(all_there(*store, Rows(owner, batch))) << owner << ", batch " << batch;
}

}  // namespace
}  // namespace perdure::test
