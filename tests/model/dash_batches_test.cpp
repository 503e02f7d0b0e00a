// Batches of a Dash index as a whole: large ones, which are split over workers, keep the order of
// operations on one key; records that a batch took and did not use serve the next one; a count that
// is wrong is told.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <fstream>

#include "index/dash/layout.hpp"
#include "index/dash/root.hpp"
#include "pm/pool_format.hpp"
#include "pm/root.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

class DashBatches : public ::testing::TestWithParam<Index> {
 protected:
  static Driver driver(std::uint32_t value_bytes, std::uint32_t threads) {
    Config config{"", Device::cpu, Layout::word, {}, 8, value_bytes, false, threads};
    config.index = GetParam();
    auto store = Store::create("memfd:dash_batches", config.create(), config.open());
    if (!store) throw std::runtime_error(store.status().message());
    return {config, std::move(*store)};
  }
};

TEST_P(DashBatches, OfManyOperationsOnFewKeysEndWithTheLastOfEach) {
  Driver d = driver(8, 4);
  constexpr std::uint64_t kKeys = 50, kOperations = 20000;
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < kOperations; ++i) {
    OpKind const kind = i % 7 == 3 ? OpKind::erase : i % 7 == 5 ? OpKind::get : OpKind::put;
    ops.push_back({kind, d.config().key(i * i % kKeys), d.config().value(i % kKeys, i)});
  }
  ASSERT_NO_FATAL_FAILURE(d.run_mixed(ops));
  d.check_all();
}

TEST_P(DashBatches, RecordsThatWereNotUsedServeTheNextBatch) {
  Driver d = driver(64, 1);
  std::vector<Bytes> absent, values;
  for (std::uint64_t n = 0; n < 300; ++n) {
    absent.push_back(d.config().key(n));
    values.push_back(d.config().value(n));
  }
  std::uint64_t used = 0;
  for (int batch = 0; batch < 200; ++batch) {
    std::vector<KeyStatus> statuses;
    ASSERT_TRUE(d.update(absent, values, Rmw::replace, Element::u8, statuses).ok());
    ASSERT_EQ(statuses[0], KeyStatus::not_found);
    if (batch == 0) used = d.store().stats().space.used_bytes;
  }
  EXPECT_EQ(d.store().stats().space.used_bytes, used) << "batches that wrote nothing took room";
}

/// Stores another number where the index has noted how many records there are.
void note_another_count(std::string const& path, std::uint64_t was, std::uint64_t count) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::vector<std::byte> head(pm::kHeadBytes);
  file.read(reinterpret_cast<char*>(head.data()), pm::kHeadBytes);
  pm::Root newest{};
  for (std::uint64_t const offset : pm::kRootOffset) {
    auto const root = pm::read_root(head.data() + offset);
    if (root && root->sequence > newest.sequence) newest = *root;
  }
  auto const at = static_cast<std::streamoff>(newest.find(dash::kIndexName)->offset +
                                              offsetof(dash::IndexRoot, counted));
  std::uint64_t found = 0;
  file.seekg(at).read(reinterpret_cast<char*>(&found), sizeof found);
  ASSERT_EQ(found, was);
  file.seekp(at).write(reinterpret_cast<char const*>(&count), sizeof count);
  ASSERT_TRUE(file.good());
}

TEST_P(DashBatches, VerifyCountsWhatAnOrderlyCloseHasNoted) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  Config config{"", Device::cpu, Layout::word, {}, 8, 8, false, 1};
  config.index = GetParam();
  {
    auto store = Store::create(path, config.create(), config.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    Driver d(config, std::move(*store));
    ASSERT_NO_FATAL_FAILURE(
        d.run_put({config.key(1), config.key(2)}, {config.value(1), config.value(2)}));
    ASSERT_TRUE(d.store().close().ok());
  }
  ASSERT_NO_FATAL_FAILURE(note_another_count(path, 2, 3));
  auto store = Store::open(path, config.open());
  if (!store.ok()) return;  // told at once
  auto report = store->verify();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->fault_count, 1u);
}

INSTANTIATE_TEST_SUITE_P(Store, DashBatches, ::testing::Values(Index::dash_eh, Index::dash_lh),
                         [](auto const& of) {
                           return of.param == Index::dash_eh ? "dash_eh" : "dash_lh";
                         });

}  // namespace
}  // namespace perdure::test
