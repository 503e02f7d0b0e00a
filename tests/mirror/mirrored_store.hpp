// A mirrored store and its model, with fixed keys and values unless said otherwise.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {

class MirroredStore : public testing::Test {
 protected:
  void make(std::uint64_t expected_records, OpenOptions const& more = {}) {
    CreateOptions create = config_.create(expected_records);
    create.overwrite = true;
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
  [[nodiscard]] std::vector<Bytes> values(std::uint64_t from, std::uint64_t to, std::uint64_t version = 0) const {
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
    for (std::uint64_t n = from; n < to; ++n) ops.push_back({OpKind::update, config_.key(n), config_.value(n, 5)});
    driver_->run_mixed(ops, Rmw::add, Element::u8);
  }
  /// Gets them, checks each answer against the model, and tells what it cost.
  AccessCounts get(std::vector<Bytes> const& wanted) {
    driver_->store().reset_counts();
    std::vector<Answer> answers;
    Status const s = driver_->get(wanted, answers);
    EXPECT_TRUE(s.ok()) << s.message();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      auto const held = driver_->model.held.find(wanted[i]);
      bool const there = held != driver_->model.held.end();
      EXPECT_EQ(answers[i].status, there ? KeyStatus::ok : KeyStatus::not_found) << i;
      EXPECT_EQ(answers[i].value, there ? held->second : answers[i].value) << i;
    }
    return driver_->store().stats().accesses;
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
    o.memory_budget = more.memory_budget;
    o.cache_bytes = more.cache_bytes;
    o.cache_policy = more.cache_policy;
    o.grow = more.grow;
    return o;
  }

 protected:
  ScratchDir scratch_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace perdure::test
