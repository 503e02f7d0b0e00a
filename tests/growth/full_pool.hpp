// Tables large enough to have several units, full to the point where the next keys make them grow,
// and the fixture of the tests that go on from there. Invariant: a full pool is made once for each
// configuration, and a test works on a copy of it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {

inline constexpr std::uint32_t kTop = 17;  // 2^17 buckets in windows of 2^15: four units
inline constexpr std::uint64_t kUnits = 4;

inline std::uint64_t slots_of(Config const& c, std::uint32_t top) {
  std::uint64_t slots = 0;
  for (std::uint32_t i = 0; i < c.shape.levels; ++i)
    slots += std::uint64_t{c.shape.slots} << (top - i);
  return slots;
}

inline std::vector<Bytes> keys(Config const& c, std::uint64_t from, std::uint64_t to) {
  std::vector<Bytes> all;
  for (std::uint64_t n = from; n < to; ++n) all.push_back(c.key(n));
  return all;
}
inline std::vector<Bytes> values(Config const& c, std::uint64_t from, std::uint64_t to,
                                 std::uint64_t version = 0) {
  std::vector<Bytes> all;
  for (std::uint64_t n = from; n < to; ++n) all.push_back(c.value(n, version));
  return all;
}

/// Puts what may find no room; the model takes what did.
inline Status put_what_fits(Driver& driver, std::vector<Bytes> const& k,
                            std::vector<Bytes> const& v) {
  std::vector<KeyStatus> statuses;
  Status const s = driver.put(k, v, statuses);
  for (std::size_t i = 0; i < k.size(); ++i)
    if (statuses[i] == KeyStatus::ok) driver.model.held[k[i]] = v[i];
  return s;
}

/// A pool whose table is full, closed in order; keys from `next` on are not there.
struct FullPool {
  std::map<Bytes, Bytes> held;
  std::uint64_t next = 0;

  FullPool(Config const& config, std::string const& path, std::uint32_t top,
           std::uint64_t max_bytes = 0) {
    CreateOptions create = config.create(slots_of(config, top) * 85 / 100);
    create.max_bytes = max_bytes;
    OpenOptions open = config.open();
    open.grow = false;
    auto store = Store::create(path, create, open);
    if (!store) throw std::runtime_error(store.status().message());
    Driver driver(config, std::move(*store));
    EXPECT_EQ(driver.store().stats().top_level, top);
    std::uint64_t batch = slots_of(config, top) / 16;
    while (batch > 100) {
      bool const full = !put_what_fits(driver, keys(config, next, next + batch),
                                       values(config, next, next + batch))
                             .ok();
      next += batch;
      if (full) batch /= 4;
    }
    held = driver.model.held;
    EXPECT_TRUE(driver.store().close().ok());
  }
};

class Growth : public testing::TestWithParam<Config> {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!available(GetParam().device, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    full_ = &full_pool(GetParam());
  }

  /// Made once for each configuration.
  static FullPool& full_pool(Config const& config) {
    static ScratchDir scratch;
    static std::map<std::string, std::unique_ptr<FullPool>> pools;
    auto& pool = pools[config.name];
    path_of_full_ = scratch.file(config.name);
    if (pool == nullptr) pool = std::make_unique<FullPool>(config, path_of_full_, kTop);
    return *pool;
  }

  /// A store over a copy of it.
  std::unique_ptr<Driver> open_full() {
    std::filesystem::copy_file(path_of_full_, path_,
                               std::filesystem::copy_options::overwrite_existing);
    auto store = Store::open(path_, GetParam().open());
    EXPECT_TRUE(store.ok()) << store.status().message();
    auto driver = std::make_unique<Driver>(GetParam(), std::move(*store));
    driver->model.held = full_->held;
    next_ = full_->next;
    return driver;
  }
  void put_new(Driver& driver, std::uint64_t n) {
    driver.run_put(keys(GetParam(), next_, next_ + n), values(GetParam(), next_, next_ + n));
    next_ += n;
  }
  /// Puts new keys, few at a time, until a growth has begun and is not over.
  void begin(Driver& driver) {
    for (int i = 0; i < 1000 && driver.store().stats().units_left == 0; ++i) put_new(driver, 4);
    ASSERT_GT(driver.store().stats().units_left, 0u);
    ASSERT_LT(driver.store().stats().units_left, kUnits)
        << "the unit that refused a key moves at once";
  }
  void reopen_killed(Driver& driver) {
    std::string const killed = scratch_.file("killed");
    copy_as_if_killed(path_, killed);
    auto store = Store::open(killed, GetParam().open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver.replace(std::move(*store));
    std::filesystem::rename(killed, path_);
  }

  static inline std::string path_of_full_;
  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  FullPool* full_ = nullptr;
  std::uint64_t next_ = 0;
};

}  // namespace perdure::test
