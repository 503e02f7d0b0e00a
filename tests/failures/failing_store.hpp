// What the tests of failures share: stores of every kind that has memory of its own, steps that a
// fault strikes, and what must hold after it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fault/planted_faults.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {

constexpr std::uint64_t kHeld = 400;  // keys 0 .. kHeld-1 are there before every step

struct Kind {
  Config config;
  std::uint64_t cache_bytes = 0;
};
inline void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.config.name; }

inline std::vector<Kind> kinds() {
  auto const kind = [](char const* name, Layout layout, std::uint32_t key, std::uint32_t value,
                       Residency residency, std::uint64_t cache_bytes,
                       Device device = Device::cpu) {
    return Kind{{name, device, layout, {2, 2, 8}, key, value, false, 2, residency, Gather::at_once},
                cache_bytes};
  };
  return {kind("word", Layout::word, 8, 64, Residency::pm, 0),
          kind("mirrored", Layout::word, 8, 64, Residency::mirrored, 20'000),
          kind("mirrored_variable", Layout::word, 0, 0, Residency::mirrored, 0),
          kind("in_place", Layout::in_place, 8, 64, Residency::pm, 4'000),
          kind("in_place_variable", Layout::in_place, 0, 0, Residency::pm, 4'000),
          kind("log", Layout::log, 8, 64, Residency::automatic, 0),
          kind("log_values", Layout::log, 8, 0, Residency::automatic, 0),
          kind("log_variable", Layout::log, 0, 0, Residency::automatic, 0),
          kind("log_cuda", Layout::log, 8, 64, Residency::automatic, 0, Device::cuda),
          kind("mirrored_cuda", Layout::word, 8, 64, Residency::mirrored, 20'000, Device::cuda),
          kind("in_place_cuda", Layout::in_place, 8, 64, Residency::pm, 4'000, Device::cuda)};
}

class FailingStore : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!available(config().device, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
  }
  ~FailingStore() override { no_faults(); }
  static void no_faults() {
    fault::failing_allocation.plant(0);
    fault::lost_device.plant(0);
  }

  /// The fault to plant after the n-th: the next one, or where each takes long one of the next few.
  [[nodiscard]] std::uint64_t next_fault(std::uint64_t n) const {
    bool const slow = volume(100) < 100 || config().device == Device::cuda;
    return n + (slow ? 5 : 1);
  }
  [[nodiscard]] Config const& config() const { return GetParam().config; }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  [[nodiscard]] OpenOptions options() const {
    OpenOptions o = config().open();
    o.memory.cache_bytes = GetParam().cache_bytes;
    return o;
  }
  [[nodiscard]] Result<Store> create() const {
    CreateOptions create = config().create(2 * kHeld);
    create.file.overwrite = true;
    return Store::create(path(), create, options());
  }
  void make() {
    driver_.reset();
    auto store = create();
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_ = std::make_unique<Driver>(config(), std::move(*store));
    driver_->run_put(keys(0, kHeld), values(0, kHeld));
    ASSERT_TRUE(driver_->store().close().ok());
    reopen(options());  // so that no memory of an earlier batch serves the next one
  }
  /// By the same device, or by a CPU that knows of no mirror.
  void reopen(OpenOptions const& how) {
    auto store = Store::open(path(), how);
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_->replace(std::move(*store));
  }
  [[nodiscard]] Store& store() { return driver_->store(); }

  [[nodiscard]] std::vector<Bytes> keys(std::uint64_t from, std::uint64_t to) const {
    std::vector<Bytes> out;
    for (std::uint64_t n = from; n < to; ++n) out.push_back(config().key(n));
    return out;
  }
  [[nodiscard]] std::vector<Bytes> values(std::uint64_t from, std::uint64_t to,
                                          std::uint64_t version = 0) const {
    std::vector<Bytes> out;
    for (std::uint64_t n = from; n < to; ++n) out.push_back(config().value(n, version));
    return out;
  }

  /// A put of which some operations may be refused: what took effect, by the statuses, the model
  /// has too.
  Status put(std::uint64_t from, std::uint64_t to, std::uint64_t version) {
    std::vector<KeyStatus> statuses;
    auto const chosen = keys(from, to);
    auto const fresh = values(from, to, version);
    Status const s = driver_->put(chosen, fresh, statuses);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (s.ok()) {
        EXPECT_EQ(statuses[i], KeyStatus::ok);
      }
      if (statuses[i] == KeyStatus::ok) driver_->model.held[chosen[i]] = fresh[i];
    }
    return s;
  }
  Status erase(std::uint64_t from, std::uint64_t to) {
    std::vector<KeyStatus> statuses;
    auto const chosen = keys(from, to);
    Status const s = driver_->erase(chosen, statuses);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (statuses[i] == KeyStatus::ok) driver_->model.held.erase(chosen[i]);
    return s;
  }
  Status get() {
    std::vector<Answer> answers;
    Status const s = driver_->get(keys(0, kHeld), answers);
    for (std::size_t i = 0; i < answers.size(); ++i)
      EXPECT_EQ(answers[i].value, config().value(i)) << i;
    return s;
  }

  struct Step {
    char const* name;
    std::function<Status()> run;
  };
  std::vector<Step> steps() {
    std::vector<Step> all{
        {"get", [this] { return get(); }},
        {"put", [this] { return put(kHeld / 2, kHeld * 5 / 4, 1); }},
        {"erase", [this] { return erase(0, kHeld / 4); }},
        {"put until it grows", [this] { return put(0, 12 * kHeld, 2); }},
        {"mixed batch", [this] { return mixed(); }},
    };
    if (config().layout != Layout::in_place) {
      all.push_back({"atomic batch", [this] {
                       driver_->how.atomic = true;
                       Status const s = put(kHeld / 2, kHeld * 5 / 4, 3);
                       driver_->how.atomic = false;
                       return s;
                     }});
      all.push_back({"training step", [this] { return training_step(); }});
    }
    if (GetParam().cache_bytes != 0) {
      all.push_back({"load of the cache", [this] { return store().load_cache().status(); }});
      all.push_back({"second load of the cache", [this] {
                       Status const first = store().load_cache().status();
                       Status const s = put(0, 50, 4);
                       if (!first.ok()) return first;
                       return s.ok() ? store().load_cache().status() : s;
                     }});
    }
    return all;
  }

  std::unique_ptr<Driver> driver_;

 private:
  /// A batch and a dense buffer as one transaction.
  Status training_step() {
    auto* const dense = reinterpret_cast<std::byte*>(dense_.data());
    if (Status s = store().register_dense({{"dense", dense, sizeof dense_, MemorySpace::host}});
        !s.ok())
      return s;
    auto transaction = store().begin({2 * kHeld});
    if (!transaction.ok()) return transaction.status();
    Model const before = driver_->model;
    driver_->how.transaction = &*transaction;
    Status s = put(kHeld / 2, kHeld * 5 / 4, 6);
    driver_->how = {};
    if (s.ok()) s = transaction->write_step(1);
    if (s.ok()) s = transaction->commit();
    if (!s.ok()) driver_->model = before;  // it aborts
    return s;
  }
  Status mixed() {
    std::vector<Op> ops;
    for (std::uint64_t n = 0; n < kHeld; ++n) {
      OpKind const kind = n % 3 == 0 ? OpKind::put : n % 3 == 1 ? OpKind::erase : OpKind::update;
      ops.push_back({kind, config().key(n), config().value(n, 5)});
    }
    std::vector<Answer> answers;
    Status const s = driver_->mixed(ops, Rmw::replace, Element::u8, answers);
    for (std::size_t i = 0; s.ok() && i < ops.size(); ++i)
      driver_->model.apply(ops[i], Rmw::replace, Element::u8);
    return s;
  }

  ScratchDir scratch_;
  std::array<double, 100> dense_{};
};

}  // namespace perdure::test
