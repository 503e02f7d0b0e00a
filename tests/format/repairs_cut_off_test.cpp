// Repairs of layout `log` that a kill cuts off, and what one of them must not believe: what is
// damaged in a way that looks right, or that a later kill would make look like a torn end.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "support/store_driver.hpp"
#include "support/whole_file.hpp"
#include "wal/entry_cells.hpp"

namespace perdure::test {
namespace {

using Contents = std::map<Bytes, Bytes>;

class RepairsCutOff : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kKeys = 20;

  RepairsCutOff() {
    config_.layout = Layout::log;
    config_.key_bytes = 8;
    config_.value_bytes = 16;
    auto store = Store::create(path_, config_.create(kKeys), config_.open());
    must(store.status());
    for (std::uint64_t batch = 0; batch < 3; ++batch) put(*store, batch);
    copy_as_if_killed(path_, killed_);
    must(store->close());
  }

  static void must(Status const& s) {
    if (!s.ok()) throw std::runtime_error(s.message());
  }
  void put(Store& store, std::uint64_t version) {
    std::vector<Bytes> keys, values;
    for (std::uint64_t k = version % 2; k < kKeys; k += 1 + version % 2) {
      keys.push_back(config_.key(k));
      values.push_back(config_.value(k, version));
      held_[keys.back()] = values.back();
    }
    must(store.put(Packed(keys, 8).column(), Packed(values, 16).column()));
  }
  [[nodiscard]] OpenOptions repairing() const {
    OpenOptions options = config_.open();
    options.repair = true;
    return options;
  }
  static std::size_t superblock(std::string const& file, std::uint32_t magic) {
    for (std::size_t at = pm::kMinSuperblock; at < file.size(); at += pm::kMinSuperblock)
      if (std::memcmp(&file[at], &magic, sizeof magic) == 0) return at;
    throw std::runtime_error("no such superblock");
  }
  /// Where in the file the head of the log's last extent is.
  static std::size_t last_head(std::string const& file) {
    pm::PoolHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    wal::EntryCells cells(header);
    cells.base = reinterpret_cast<std::byte const*>(file.data());
    cells.segments = {superblock(file, wal::kSegmentMagic)};
    cells.id = cells.header_at(cells.segments[0]).log_id;
    for (std::uint64_t at = 0, last = 0;;) {
      auto const extent = cells.head_at(at, last);
      if (!cells.head_at(extent->end(), extent->number)) return cells.offset(at).bytes;
      at = extent->end();
      last = extent->number;
    }
  }
  static void write_whole(std::string const& path, std::string const& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      throw std::runtime_error(path + " cannot be written");
  }
  static void flip(std::string& file, std::size_t byte, unsigned bit) {
    file[byte] = static_cast<char>(file[byte] ^ (1 << bit));
  }
  void expect_held(Store& store, std::uint64_t faults) {
    EXPECT_EQ(scan_all(store, 1000), held_);
    auto found = store.verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->fault_count, faults) << (found->faults.empty() ? "" : found->faults[0]);
  }

  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool"), killed_ = scratch_.file("killed");
  Config config_;
  Contents held_;
};

/// Its entries are whole, so its check might be what changed; but no batch had such a number, and
/// none that is written later would be above it.
TEST_F(RepairsCutOff, DoNotBelieveANumberThatNoBatchHad) {
  std::string file = whole_file(path_);
  std::size_t const number = last_head(file);
  for (unsigned const byte : {0u, 1u, 5u}) flip(file, number + byte, 5);
  write_whole(path_, file);
  auto store = Store::open(path_, repairing());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->recovery().dropped, 0u);
  must(store->acknowledge_repair());
  expect_held(*store, 0);
  for (std::uint64_t batch = 3; batch < 6; ++batch) put(*store, batch);
  must(store->close());
  store = Store::open(path_, config_.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_held(*store, 0);
}

TEST_F(RepairsCutOff, OfAKilledPoolPutTheHeapsHeadersRight) {
  std::string file = whole_file(killed_);
  flip(file, superblock(file, pm::kSuperblockMagic) + 9, 3);
  write_whole(killed_, file);
  auto store = Store::open(killed_, repairing());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().repaired);
  must(store->acknowledge_repair());
  expect_held(*store, 0);
}

/// What a close left is whole, whatever a kill of the next process makes of its root.
TEST_F(RepairsCutOff, LeaveTheLastBatchOfAClosedPoolThoughAValueIsDamaged) {
  auto const& [key, value] = *held_.find(config_.key(0));
  std::string file = whole_file(path_);
  std::size_t const at = file.rfind(value);
  ASSERT_NE(at, std::string::npos);
  flip(file, at, 2);
  write_whole(path_, file);
  for (int kills = 0; kills < 2; ++kills) {
    auto store = Store::open(path_, config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->stats().records, kKeys);
    EXPECT_EQ(store->recovery().dropped, 0u);
    copy_as_if_killed(path_, killed_);
    path_ = killed_;
    killed_ += "-again";
  }
}

TEST_F(RepairsCutOff, AreRefusedWithoutARepairAndDoneByTheNext) {
  using enum pm::Unfinished;
  for (auto const& [path, unfinished] : {std::pair{path_, drops}, {killed_, doubts}}) {
    {
      auto pool = pm::Pool::open(path, {false, false, false});
      must(pool.status());
      std::string const line = "some entries were dropped";
      pm::Repairs repairs(*pool);
      repairs.add(std::span(&line, 1), unfinished);
      repairs.add(std::span(&line, 1));
      EXPECT_EQ(repairs.unfinished(), unfinished);
      EXPECT_EQ(repairs.waiting().size(), 2u);
      pool->close();
    }
    std::string const left = whole_file(path);
    auto store = Store::open(path, config_.open());
    ASSERT_EQ(store.status().code(), Code::corrupt);
    EXPECT_NE(store.status().message().find("cut off"), std::string::npos);
    EXPECT_EQ(whole_file(path), left) << "a refused pool was changed";
    store = Store::open(path, repairing());
    ASSERT_TRUE(store.ok()) << store.status().message();
    must(store->close());
    store = Store::open(path, config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    auto found = store->verify();
    ASSERT_TRUE(found.ok());
    EXPECT_GE(found->fault_count, 2u);
    must(store->acknowledge_repair());
    expect_held(*store, 0);
    must(store->close());
  }
}

}  // namespace
}  // namespace perdure::test
