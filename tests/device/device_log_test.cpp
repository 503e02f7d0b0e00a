// Device sessions over layout `log`: what they need of the log, and who reads it beside them or
// after them. Invariant: a session's operations count one by one for whoever opens the pool, and
// all at once, with its end, for readers beside the writer.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "device_store.hpp"
#include "perdure/pool_reader.h"

namespace perdure::test {
namespace {

class DeviceLog : public DeviceStore {
 protected:
  static constexpr std::uint64_t kKeys = 500;

  /// Whether a reader of that file finds just these, of all keys there may be.
  static void expect_seen(std::string const& file, Config const& config,
                          std::map<Bytes, Bytes> const& held) {
    auto reader = PoolReader::open(file);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    expect_seen(*reader, config, held);
  }
  static void expect_seen(PoolReader& reader, Config const& config,
                          std::map<Bytes, Bytes> const& held) {
    std::vector<Bytes> keys;
    for (std::uint64_t k = 0; k < kKeys; ++k) keys.push_back(config.key(k));
    Packed const packed(keys, config.key_bytes);
    std::vector<Bytes> values(kKeys, Bytes(config.value_bytes, 0));
    std::vector<PoolReader::Target> targets;
    for (Bytes& value : values)
      targets.push_back({reinterpret_cast<std::byte*>(value.data()), config.value_bytes});
    std::vector<KeyStatus> statuses(kKeys);
    Status const got = reader.get(packed.column(), targets, statuses);
    ASSERT_TRUE(got.ok()) << got.message();
    for (std::size_t k = 0; k < kKeys; ++k) {
      auto const at = held.find(keys[k]);
      ASSERT_EQ(statuses[k], at == held.end() ? KeyStatus::not_found : KeyStatus::ok) << k;
      if (at != held.end()) {
        ASSERT_EQ(values[k], at->second) << k;
      }
    }
  }
};

TEST_P(DeviceLog, ASessionHasTheErasesItWasOpenedFor) {
  make(8, 8);
  std::vector<Op> puts, erases;
  for (std::uint64_t i = 0; i < 20; ++i) {
    puts.push_back(put(config_.key(i), config_.value(i)));
    erases.push_back({OpKind::erase, config_.key(i), Bytes(8, 0)});
    driver_->model.held[config_.key(i)] = config_.value(i);
  }
  DeviceSession session = begin(30, 7);
  ASSERT_EQ(run(session, puts, 20).count(KeyStatus::ok), 20);
  Ran const ran = run(session, erases, 20);
  EXPECT_EQ(ran.count(KeyStatus::ok), 7);
  EXPECT_EQ(ran.count(KeyStatus::no_space), 13);
  for (std::size_t i = 0; i < erases.size(); ++i)
    if (ran.statuses[i] == KeyStatus::ok) driver_->model.held.erase(erases[i].key);
  std::vector<Op> const absent{{OpKind::erase, config_.key(100), Bytes(8, 0)}};
  EXPECT_EQ(run(session, absent, 1).count(KeyStatus::not_found), 1);
  puts.resize(10);  // erases that ran out leave puts their room
  for (Op& op : puts) driver_->model.held[op.key] = op.value = config_.value(1000, 3);
  EXPECT_EQ(run(session, puts, 10).count(KeyStatus::ok), 10);
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

TEST_P(DeviceLog, OneOfMoreThanAnExtentCountsIsRefused) {
  make(8, 8);
  for (DeviceSessionOptions const& how :
       {DeviceSessionOptions{std::uint64_t{1} << 32}, DeviceSessionOptions{1, ~std::uint64_t{0}}}) {
    Status const s = DeviceAccess::open(store(), how).status();
    EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
    EXPECT_NE(s.message().find("begin several"), std::string::npos) << s.message();
  }
  DeviceSession session = begin(1, 0);
  EXPECT_EQ(run(session, {put(config_.key(1), config_.value(1))}, 1).statuses[0], KeyStatus::ok);
  driver_->model.held[config_.key(1)] = config_.value(1);
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

/// Sessions until the log has been made short and the table has grown, with batches between; then
/// a snapshot, and what the pool and the snapshot are when they are opened.
TEST_P(DeviceLog, AnyNumberOfThemIsReplayed) {
  for (std::uint32_t const key_bytes : {8u, 24u, 40u}) {
    make(key_bytes, 16, {}, {}, 20);
    std::mt19937_64 random(key_bytes);
    for (std::uint64_t i = 0; i < 40; ++i) {
      DeviceSession session = begin(3000);
      run_in_turn(session, drawn(random, volume(600), 20 + 50 * i));
      ASSERT_TRUE(session.end().ok());
      if (i % 3 == 0) driver_->run_mixed(drawn(random, 100, 20 + 50 * i));
    }
    EXPECT_GT(store().stats().growths, 0u);
    driver_->check_all();
    std::string const file = scratch_.file("snapshot"), restored = scratch_.file("restored");
    Status const taken = store().snapshot(file);
    ASSERT_TRUE(taken.ok()) << taken.message();
    auto const held = driver_->model.held;
    RestoreOptions how;
    how.file.overwrite = true;
    auto again = Store::restore(file, restored, how, options());
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_TRUE(store().close().ok());
    driver_->replace(std::move(*again));
    driver_->model.held = held;
    driver_->check_all();
    ASSERT_TRUE(store().close().ok());
    auto reopened = Store::open(path(), options());
    ASSERT_TRUE(reopened.ok()) << reopened.status().message();
    driver_->replace(std::move(*reopened));
    driver_->model.held = held;
    driver_->check_all();
    std::remove(file.c_str());
  }
}

TEST_P(DeviceLog, AReaderBesideItSeesASessionOnceItHasEnded) {
  for (std::uint32_t const key_bytes : {8u, 24u}) {
    make(key_bytes, 32);
    std::mt19937_64 random(key_bytes);
    driver_->run_mixed(drawn(random, 300, kKeys));
    auto reader = PoolReader::open(path());
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    for (int sessions = 0; sessions < 5; ++sessions) {
      auto const before = driver_->model.held;
      DeviceSession session = begin(1000);
      ASSERT_NO_FATAL_FAILURE(expect_seen(*reader, config_, before));
      run_in_turn(session, drawn(random, 1000, kKeys));
      ASSERT_NO_FATAL_FAILURE(expect_seen(*reader, config_, before));
      ASSERT_NO_FATAL_FAILURE(expect_seen(path(), config_, before));
      ASSERT_TRUE(session.end().ok());
      ASSERT_NO_FATAL_FAILURE(expect_seen(*reader, config_, driver_->model.held));
      driver_->run_mixed(drawn(random, 200, kKeys));
      ASSERT_NO_FATAL_FAILURE(expect_seen(*reader, config_, driver_->model.held));
    }
  }
}

TEST_P(DeviceLog, AReaderSeesAKilledSessionOnceItHasBeenOpened) {
  make(8, 32);
  std::mt19937_64 random(2);
  driver_->run_mixed(drawn(random, 300, kKeys));
  auto const before = driver_->model.held;
  std::string const killed = scratch_.file("killed");
  {
    DeviceSession session = begin(1000);
    run_in_turn(session, drawn(random, 1000, kKeys));
    copy_as_if_killed(path(), killed);
  }
  ASSERT_NO_FATAL_FAILURE(expect_seen(killed, config_, before));
  {
    OpenOptions look = options();
    look.live = true;
    auto live = Store::open(killed, look);  // as a store that opens it would find it
    ASSERT_TRUE(live.ok()) << live.status().message();
    EXPECT_EQ(live->stats().records, driver_->model.held.size());
  }
  auto opened = Store::open(killed, options());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_NO_FATAL_FAILURE(expect_seen(killed, config_, driver_->model.held));
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceLog,
                         testing::Values(MachineAndLayout{Device::cpu, Layout::log},
                                         MachineAndLayout{Device::cuda, Layout::log}),
                         [](auto const& machine) { return machine.param.name(); });

}  // namespace
}  // namespace perdure::test
