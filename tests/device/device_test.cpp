// Device sessions: finds, puts, updates and erases by single warps side by side, on each machine
// that is here, by the engine's inside entry (store/gphash/device_session.hpp). What a session
// leaves behind is then judged by batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "device_store.hpp"
#include "explore/history.hpp"
#include "support/whole_file.hpp"

namespace perdure::test {
namespace {

TEST_P(DeviceStore, OneAtATimeItDoesWhatTheModelDoes) {
  struct Sizes {
    std::uint32_t key, value;
    Shape shape;
  };
  for (Sizes const& s : {Sizes{8, 8, {}}, Sizes{5, 10, {3, 1, 8}}, Sizes{24, 16, {}},
                         Sizes{32, 128, {}}, Sizes{40, 1500, {1, 2, 16}}}) {
    make(s.key, s.value, {}, s.shape, 50);
    std::mt19937_64 random(s.key);
    for (int round = 0; round < 6; ++round) {
      std::size_t const n = volume(1500);
      DeviceSession session = begin(n);
      run_in_turn(session, drawn(random, n, 40 << round));
      Status const ended = session.end();
      ASSERT_TRUE(ended.ok()) << ended.message();
      driver_->check_all();
      driver_->run_mixed(drawn(random, 300, 40 << round));  // batches and sessions in turn
    }
    driver_->check_all();
  }
}

/// By key: what came of it, and whether an order of its operations explains it.
class ManyWarps : public DeviceStore {
 protected:
  void expect_linearizable(std::uint32_t key_bytes);
};

void ManyWarps::expect_linearizable(std::uint32_t key_bytes) {
  make(key_bytes, 8, {}, {}, 100);
  std::mt19937_64 random(7);
  std::size_t const n = volume(6144);
  for (int round = 0; round < 4; ++round) {
    bool const adds = round % 2 == 1;
    std::uint64_t const keys = n / 4;
    std::vector<Op> ops = drawn(random, n, keys);
    for (Op& op : ops) op.value = number(random());
    auto const before = scan_all(store(), 1000);
    DeviceSession session = begin(n);
    Ran const ran = run(session, ops, n / 3, adds);
    ASSERT_TRUE(session.end().ok());
    auto const after = scan_all(store(), 1000);
    std::map<Bytes, std::vector<explore::Seen>> seen;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t operand = 0, value = 0;
      std::memcpy(&operand, ops[i].value.data(), 8);
      std::memcpy(&value, ran.values[i].data(), 8);
      seen[ops[i].key].push_back(
          {ops[i].kind, adds, operand, ran.statuses[i], value, ran.began[i], ran.ended[i], true});
    }
    auto const held = [](std::map<Bytes, Bytes> const& all,
                         Bytes const& key) -> std::optional<std::uint64_t> {
      auto const at = all.find(key);
      if (at == all.end()) return std::nullopt;
      std::uint64_t value = 0;
      std::memcpy(&value, at->second.data(), 8);
      return value;
    };
    for (auto const& [key, calls] : seen) {
      ASSERT_LE(calls.size(), 64u);
      ASSERT_TRUE(explore::explained(calls, held(before, key), held(after, key))) << to_hex(key);
    }
    EXPECT_EQ(ran.count(KeyStatus::no_space), 0);
    EXPECT_EQ(store().stats().records, after.size());
    driver_->model.held = after;
    driver_->check_all();
  }
}

TEST_P(ManyWarps, OnTheSameKeysAreLinearizable) {
  ASSERT_NO_FATAL_FAILURE(expect_linearizable(8));
  if (!logged()) return;
  for (std::uint32_t const key_bytes : {24u, 40u})  // of two parts; by their hashes
    ASSERT_NO_FATAL_FAILURE(expect_linearizable(key_bytes));
}

TEST_P(DeviceStore, ModifyLosesNoSum) {
  make(8, 16);
  std::size_t const n = volume(20000), keys = 5;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < n; ++i) {
    Bytes value = number(i);
    value.append(8, 'x');
    ops.push_back({OpKind::update, config_.key(i % keys), value});
  }
  DeviceSession session = begin(n);
  Ran const ran = run(session, ops, n, true);
  ASSERT_EQ(ran.count(KeyStatus::ok), static_cast<std::ptrdiff_t>(n));
  ASSERT_TRUE(session.end().ok());
  std::vector<std::uint64_t> sums(keys);
  for (std::size_t i = 0; i < n; ++i) sums[i % keys] += i;
  for (std::size_t k = 0; k < keys; ++k)
    driver_->model.held[config_.key(k)] = number(sums[k]) + Bytes(8, 'x');
  driver_->check_all();
}

TEST_P(DeviceStore, ASessionHasTheRecordsItWasOpenedFor) {
  make(8, 8);
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < 20; ++i) ops.push_back(put(config_.key(i), config_.value(i)));
  DeviceSession session = begin(10);
  Ran const ran = run(session, ops, 20);
  EXPECT_EQ(ran.count(KeyStatus::ok), 10);
  EXPECT_EQ(ran.count(KeyStatus::no_space), 10);
  std::vector<Op> erases;
  for (std::uint64_t i = 0; i < 20; ++i) {
    erases.push_back({OpKind::erase, config_.key(i), Bytes(8, 0)});
    if (ran.statuses[i] != KeyStatus::ok) continue;
    if (driver_->model.held.size() < 5) driver_->model.held[config_.key(i)] = config_.value(i);
  }
  std::erase_if(erases, [&](Op const& op) { return driver_->model.held.contains(op.key); });
  Ran const erased = run(session, erases, 1);
  EXPECT_EQ(erased.count(KeyStatus::ok), 5);
  EXPECT_EQ(erased.count(KeyStatus::not_found), 10);
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

TEST_P(DeviceStore, AFullTableAnswersNoSpace) {
  OpenOptions fixed;
  fixed.grow = false;
  make(8, 8, fixed, {1, 1, 1}, 8);
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < 200; ++i) ops.push_back(put(config_.key(i), config_.value(i)));
  DeviceSession session = begin(200);
  Ran const ran = run(session, ops, 200);
  ASSERT_TRUE(session.end().ok());
  EXPECT_EQ(ran.count(KeyStatus::ok) + ran.count(KeyStatus::no_space), 200);
  EXPECT_GT(ran.count(KeyStatus::no_space), 0);
  EXPECT_LE(ran.count(KeyStatus::ok), static_cast<std::ptrdiff_t>(store().stats().slots));
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ran.statuses[i] == KeyStatus::ok) driver_->model.held[ops[i].key] = ops[i].value;
  driver_->check_all();
}

TEST_P(DeviceStore, RecordsComeBackWhenASessionEnds) {
  make(8, 64);
  // Layout log: its log is long, now and then, and then made short.
  int const rounds = 30, first = logged() ? 20 : 3;
  std::uint64_t used = 0;
  for (int round = 0; round < rounds; ++round) {
    DeviceSession session = begin(2000);
    std::vector<Op> ops;
    for (std::uint64_t i = 0; i < 1000; ++i)
      ops.push_back(put(config_.key(i), config_.value(i, 1)));
    for (std::uint64_t i = 0; i < 500; ++i) ops.push_back(put(config_.key(i), config_.value(i, 2)));
    for (std::uint64_t i = 0; i < 1000; i += round % 2 == 0 ? 1 : 2)
      ops.push_back({OpKind::erase, config_.key(i), Bytes(64, 0)});
    run_in_turn(session, ops);
    ASSERT_TRUE(session.end().ok());
    if (round < first) used = std::max(used, store().stats().space.used_bytes);
    ASSERT_LE(store().stats().space.used_bytes, used);
    auto records = DeviceAccess::records_in_use(store());
    ASSERT_TRUE(records.ok());
    ASSERT_EQ(*records, driver_->model.held.size());
  }
  driver_->check_all();
}

TEST_P(DeviceStore, CachedRecordsAreFoundAndReplaced) {
  OpenOptions cached;
  cached.memory.cache_bytes = 64 << 10;
  cached.memory.cache_policy = CachePolicy::random;
  make(8, 32, cached);
  std::vector<Bytes> keys, values;
  for (std::uint64_t i = 0; i < 800; ++i) {
    keys.push_back(config_.key(i));
    values.push_back(config_.value(i));
  }
  driver_->run_put(keys, values);
  auto report = store().load_cache();
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_GT(report->records, 700u);
  std::mt19937_64 random(5);
  DeviceSession session = begin(3000);
  run_in_turn(session, drawn(random, 3000, 900));
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

TEST_P(DeviceStore, ADamagedRecordIsReportedAndCanBeReplaced) {
  make(8, 32);
  Bytes const value(32, 'v');
  driver_->run_put({config_.key(1)}, {value});
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    std::string const bytes = whole_file(path());
    auto const at = bytes.find(value);
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('w');
  }
  DeviceSession session = begin(10);
  Op const get{OpKind::get, config_.key(1), value};
  EXPECT_EQ(run(session, {get}, 1).statuses[0], KeyStatus::corrupt);
  EXPECT_EQ(run(session, {{OpKind::update, config_.key(1), value}}, 1, true).statuses[0],
            KeyStatus::corrupt);
  EXPECT_EQ(run(session, {put(config_.key(1), value)}, 1).statuses[0], KeyStatus::ok);
  EXPECT_EQ(run(session, {get}, 1).statuses[0], KeyStatus::ok);
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceStore,
                         testing::Values(MachineAndLayout{Device::cpu, Layout::word},
                                         MachineAndLayout{Device::cpu, Layout::log},
                                         MachineAndLayout{Device::cuda, Layout::word},
                                         MachineAndLayout{Device::cuda, Layout::log}),
                         [](auto const& machine) { return machine.param.name(); });
INSTANTIATE_TEST_SUITE_P(Machines, ManyWarps,
                         testing::Values(MachineAndLayout{Device::cpu, Layout::word},
                                         MachineAndLayout{Device::cpu, Layout::log},
                                         MachineAndLayout{Device::cuda, Layout::word},
                                         MachineAndLayout{Device::cuda, Layout::log}),
                         [](auto const& machine) { return machine.param.name(); });

}  // namespace
}  // namespace perdure::test
