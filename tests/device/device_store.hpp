// What the tests of device sessions share: a store of layout word or log, a session of it that runs
// operations by warps, and the model that both are judged against. Invariant: run() gives each
// operation the answer, and the times it began and ended at, that the session gave it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "store/gphash/device_access.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {

struct Ran {
  std::vector<KeyStatus> statuses;
  std::vector<Bytes> values;  // of gets
  std::vector<std::uint64_t> began, ended;
  [[nodiscard]] std::ptrdiff_t count(KeyStatus status) const {
    return std::count(statuses.begin(), statuses.end(), status);
  }
};

struct MachineAndLayout {
  Device device;
  Layout layout;
  [[nodiscard]] std::string name() const {
    return std::string(device == Device::cpu ? "cpu" : "cuda") +
           (layout == Layout::word ? "" : "_log");
  }
};

class DeviceStore : public testing::TestWithParam<MachineAndLayout> {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!available(GetParam().device, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    config_.device = GetParam().device;
    config_.layout = GetParam().layout;
  }
  [[nodiscard]] bool logged() const { return config_.layout == Layout::log; }
  /// `shape`: of layout word; the other has one alone.
  void make(std::uint32_t key_bytes, std::uint32_t value_bytes, OpenOptions const& more = {},
            Shape shape = {}, std::uint64_t expected_records = 1000) {
    config_.key_bytes = key_bytes;
    config_.value_bytes = value_bytes;
    config_.shape = logged() ? Shape{} : shape;
    CreateOptions create = config_.create(expected_records);
    create.file.overwrite = true;
    driver_.reset();
    auto store = Store::create(path(), create, options(more));
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_ = std::make_unique<Driver>(config_, std::move(*store));
  }
  [[nodiscard]] OpenOptions options(OpenOptions const& more = {}) const {
    OpenOptions o = config_.open();
    o.grow = more.grow;
    o.memory.cache_bytes = more.memory.cache_bytes;
    o.memory.cache_policy = more.memory.cache_policy;
    return o;
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  [[nodiscard]] Store& store() const { return driver_->store(); }
  [[nodiscard]] DeviceSession begin(std::uint64_t records,
                                    std::optional<std::uint64_t> erases = std::nullopt) const {
    auto session = DeviceAccess::open(store(), {records, erases});
    if (!session) throw std::runtime_error(session.status().message());
    return std::move(*session);
  }

  [[nodiscard]] Ran run(DeviceSession& session, std::vector<Op> const& ops, std::uint64_t sequences,
                        bool updates_add = false) const {
    std::vector<Bytes> keys, values;
    std::vector<OpKind> kinds;
    for (Op const& op : ops) {
      keys.push_back(op.key);
      values.push_back(op.value);
      kinds.push_back(op.kind);
    }
    Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
    Ran ran;
    ran.statuses.resize(ops.size());
    ran.began.resize(ops.size());
    ran.ended.resize(ops.size());
    std::vector<std::byte> out(ops.size() * config_.value_bytes);
    DeviceOps const all{
        k.column(),   v.column(),  {out.data(), config_.value_bytes, ops.size(), MemorySpace::host},
        kinds,        updates_add, sequences,
        ran.statuses, ran.began,   ran.ended,
        nullptr};
    Status const s = DeviceAccess::run(session, all);
    EXPECT_TRUE(s.ok()) << s.message();
    ran.values = unpack(out, config_.value_bytes);
    return ran;
  }

  [[nodiscard]] std::vector<Op> drawn(std::mt19937_64& random, std::size_t n,
                                      std::uint64_t keys) const {
    static constexpr OpKind kKinds[] = {OpKind::get, OpKind::put, OpKind::put, OpKind::update,
                                        OpKind::erase};
    std::vector<Op> ops;
    for (std::size_t i = 0; i < n; ++i)
      ops.push_back({kKinds[random() % 5], config_.key(random() % keys),
                     config_.value(random() % 100, random())});
    return ops;
  }
  /// One after the other, in the session and in the model.
  void run_in_turn(DeviceSession& session, std::vector<Op> const& ops) {
    Ran const ran = run(session, ops, 1);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Answer const want = driver_->model.apply(ops[i], Rmw::replace, Element::u8);
      ASSERT_EQ(ran.statuses[i], want.status) << i;
      if (ops[i].kind == OpKind::get && want.status == KeyStatus::ok) {
        ASSERT_EQ(ran.values[i], want.value) << i;
      }
    }
  }

  Config config_{"device", Device::cpu, Layout::word,        {2, 2, 8},      8, 8,
                 false,    2,           Residency::mirrored, Gather::at_once};
  ScratchDir scratch_;
  std::unique_ptr<Driver> driver_;
};

inline Op put(Bytes key, Bytes value) { return {OpKind::put, std::move(key), std::move(value)}; }

inline Bytes number(std::uint64_t n) { return {reinterpret_cast<char const*>(&n), sizeof n}; }

}  // namespace perdure::test
