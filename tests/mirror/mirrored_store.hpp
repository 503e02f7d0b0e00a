// A mirrored store and its model, with fixed keys and values unless said otherwise.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/store_driver.hpp"
#include "support/whole_file.hpp"

namespace perdure::test {

inline constexpr Device kMachines[] = {Device::cpu, Device::cuda};
inline std::string machine_name(testing::TestParamInfo<Device> const& machine) {
  return machine.param == Device::cpu ? "cpu" : "cuda";
}

/// By whatever its tests are parameterised.
class MirroredStoreOfAny : public testing::Test {
 protected:
  /// Flips a bit of the value in the pool's file.
  void damage(Bytes const& value) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    std::string const whole = whole_file(path());
    auto const at = whole.find(value);
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at + 60));
    file.put(static_cast<char>(whole[at + 60] ^ 1));
  }

  void run_on(Device device) {
    std::string why_not;
    if (!available(device, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    config_.device = device;
  }
  void make(std::uint64_t expected_records, OpenOptions const& more = {}) {
    CreateOptions create = config_.create(expected_records);
    create.file.overwrite = true;
    driver_.reset();
    auto store = Store::create(path(), create, options(more));
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_ = std::make_unique<Driver>(config_, std::move(*store));
  }
  void reopen(OpenOptions const& more = {}) {
    Status const closed = driver_->store().close();
    ASSERT_TRUE(closed.ok()) << closed.message();
    auto store = Store::open(path(), options(more));
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_->replace(std::move(*store));
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }

  [[nodiscard]] std::vector<Bytes> keys(std::uint64_t from, std::uint64_t to) const {
    std::vector<Bytes> out;
    for (std::uint64_t n = from; n < to; ++n) out.push_back(config_.key(n));
    return out;
  }
  [[nodiscard]] std::vector<Bytes> values(std::uint64_t from, std::uint64_t to,
                                          std::uint64_t version = 0) const {
    std::vector<Bytes> out;
    for (std::uint64_t n = from; n < to; ++n) out.push_back(config_.value(n, version));
    return out;
  }
  void put(std::uint64_t from, std::uint64_t to, std::uint64_t version = 0) {
    driver_->run_put(keys(from, to), values(from, to, version));
  }
  /// Adds to each byte of their values.
  void add(std::uint64_t from, std::uint64_t to) {
    std::vector<Op> ops;
    for (std::uint64_t n = from; n < to; ++n)
      ops.push_back({OpKind::update, config_.key(n), config_.value(n, 5)});
    driver_->run_mixed(ops, Rmw::add, Element::u8);
  }
  /// Gets them, checks each answer against the model, and tells what it cost.
  AccessCounts get(std::vector<Bytes> const& keys) {
    driver_->store().reset_counts();
    std::vector<Answer> answers;
    Status const s = driver_->get(keys, answers);
    EXPECT_TRUE(s.ok()) << s.message();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto const held = driver_->model.held.find(keys[i]);
      bool const there = held != driver_->model.held.end();
      EXPECT_EQ(answers[i].status, there ? KeyStatus::ok : KeyStatus::not_found) << i;
      EXPECT_EQ(answers[i].value, there ? held->second : answers[i].value) << i;
    }
    return driver_->store().stats().accesses;
  }
  /// Runs it while threads get keys 0 to 999 and one puts keys 1000 to 1999, of 2000 that are
  /// there. What is got moves on, so that loads of a small cache evict.
  void use_while(std::function<void()> const& f) {
    constexpr std::uint64_t kWanted = 200, kPuts = 40;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        std::vector<std::byte> out(kWanted * config_.value_bytes);
        std::vector<KeyStatus> statuses(kWanted);
        for (std::uint64_t i = 0; (i < 300 || !stop) && i < 4000; ++i) {
          std::uint64_t const first = (i / 16 * 100 + t * 300) % (1000 - kWanted + 1);
          Packed const packed(keys(first, first + kWanted), 8);
          Status const s = driver_->store().get(
              packed.column(), {out.data(), config_.value_bytes, kWanted, MemorySpace::host},
              statuses);
          auto const got = unpack(out, config_.value_bytes);
          for (std::size_t k = 0; k < kWanted; ++k)
            wrong += !s.ok() || statuses[k] != KeyStatus::ok || got[k] != config_.value(first + k)
                         ? 1
                         : 0;
        }
      });
    }
    threads.emplace_back([&] {
      Packed const packed(keys(1000, 2000), 8);
      for (std::uint64_t version = 1; version <= kPuts; ++version) {
        Packed const operands(values(1000, 2000, version), config_.value_bytes);
        wrong += driver_->store().put(packed.column(), operands.column()).ok() ? 0 : 1;
      }
      stop = true;
    });
    f();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0u);
    for (std::uint64_t n = 1000; n < 2000; ++n)
      driver_->model.held[config_.key(n)] = config_.value(n, kPuts);
    driver_->check_all();
  }
  template <class F>
  AccessCounts cost(F f) {
    driver_->store().reset_counts();
    f();
    return driver_->store().stats().accesses;
  }

  Config config_{"mirrored", Device::cpu, Layout::word,        {2, 2, 8},      8, 128,
                 true,       2,           Residency::mirrored, Gather::at_once};

 private:
  /// The configuration's, with what `more` says of mirror and cache.
  [[nodiscard]] OpenOptions options(OpenOptions const& more) const {
    OpenOptions o = config_.open();
    o.memory.budget_bytes = more.memory.budget_bytes;
    o.memory.cache_bytes = more.memory.cache_bytes;
    o.memory.cache_policy = more.memory.cache_policy;
    o.grow = more.grow;
    return o;
  }

 protected:
  ScratchDir scratch_;
  std::unique_ptr<Driver> driver_;
};

/// By the machine.
class MirroredStore : public MirroredStoreOfAny, public testing::WithParamInterface<Device> {
 protected:
  void SetUp() override { run_on(GetParam()); }
};

}  // namespace perdure::test
