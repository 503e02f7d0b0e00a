// What the tests of steps share: a model whose bytes follow from its step, the table that goes with
// it, and a store in which each step commits both. Invariant: expect_step() finds table, buffers
// and number of that one step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "crash/pool_file.hpp"
#include "pm/dense.hpp"

namespace perdure::test {

inline constexpr std::size_t kWeights = 1001;  // and three bytes: no copy ends with a line
inline constexpr std::uint64_t kKeys = 200;

/// A model in host memory: what it holds follows from the step that it was trained to.
struct Trained {
  std::vector<std::byte> weights = std::vector<std::byte>(kWeights * 4 + 3);
  std::array<double, 3> bias{};

  void train_to(std::uint64_t step) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<std::byte>(step * 31 + i * 7);
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(step * 10 + i);
  }
  [[nodiscard]] std::vector<DenseBuffer> buffers() {
    return {{"weights", weights.data(), weights.size(), MemorySpace::host},
            {"bias", reinterpret_cast<std::byte*>(bias.data()), sizeof bias, MemorySpace::host}};
  }
  friend bool operator==(Trained const&, Trained const&) = default;
};

inline Trained trained_to(std::uint64_t step) {
  Trained model;
  model.train_to(step);
  return model;
}

inline Contents table_of(std::uint64_t step) {
  Contents contents;
  for (std::uint64_t k = 0; k < kKeys; ++k)
    contents[u64_text(k)] =
        (std::to_string(k) + " of step " + std::to_string(step) + std::string(24, '.'))
            .substr(0, 24);
  return contents;
}

struct Kind {
  Layout layout;
  Residency residency;
};

class Steps : public ::testing::TestWithParam<Kind> {
 protected:
  Steps() { store_.emplace(make({})); }

  Store make(CreateOptions create) const {
    if (create.layout == Layout::word) create.layout = GetParam().layout;
    create.value_bytes = 24;
    create.expected_records = std::min<std::uint64_t>(create.expected_records, 300);
    create.file.overwrite = true;
    auto store = Store::create(path_.str(), create, options());
    if (!store.ok()) throw std::runtime_error(store.status().message());
    return std::move(*store);
  }
  static OpenOptions options() {
    OpenOptions open;
    open.threads = 2;
    open.memory.residency = GetParam().residency;
    return open;
  }
  static Store open(std::string const& path, OpenOptions const& how = options()) {
    auto store = Store::open(path, how);
    if (!store.ok()) throw std::runtime_error(store.status().message());
    return std::move(*store);
  }
  void reopen() {
    ASSERT_TRUE(store_->close().ok());
    store_.reset();
    store_.emplace(open(path_.str()));
  }
  /// Opens what a kill would leave now; the store here goes on.
  [[nodiscard]] Store as_killed() {
    write_file(killed_.str(), read_file(path_.str()));
    return open(killed_.str());
  }
  void register_model() {
    Status const s = store_->register_dense(model_.buffers());
    ASSERT_TRUE(s.ok()) << s.message();
  }
  static Status put(Store& store, Transaction& in, Contents const& contents) {
    Strings keys(8), values(24);
    for (auto const& [key, value] : contents) {
      keys.add(key);
      values.add(value);
    }
    CallOptions how;
    how.transaction = &in;
    return store.put(keys.column(), values.column(), {}, how);
  }
  Transaction begin(std::uint64_t operations = kKeys) {
    auto begun = store_->begin({operations});
    if (!begun.ok()) throw std::runtime_error(begun.status().message());
    return std::move(*begun);
  }
  /// Up to, and without, its commit.
  Transaction half_step(std::uint64_t number) {
    Transaction t = begin();
    if (Status s = put(*store_, t, table_of(number)); !s.ok())
      throw std::runtime_error(s.message());
    model_.train_to(number);
    if (Status s = t.write_step(number); !s.ok()) throw std::runtime_error(s.message());
    return t;
  }
  void write_step(std::uint64_t number) {
    Transaction t = half_step(number);
    Status const s = t.commit();
    ASSERT_TRUE(s.ok()) << s.message();
  }
  /// The store holds the table, the buffers and the number of that step.
  static void expect_step(Store& store, std::uint64_t number) {
    Trained found = trained_to(number + 1000);
    Status const s = store.register_dense(found.buffers());
    ASSERT_TRUE(s.ok()) << s.message();
    auto const restored = store.restore_step();
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    ASSERT_TRUE(restored.value().has_value());
    EXPECT_EQ(*restored.value(), number);
    EXPECT_TRUE(found == trained_to(number));
    EXPECT_EQ(scan_all(store), table_of(number));
    auto const verified = store.verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified.value().fault_count, 0u);
  }
  void refuse(std::vector<DenseBuffer> const& buffers, Code code, std::string const& says) {
    Status const s = store_->register_dense(buffers);
    EXPECT_EQ(s.code(), code) << s.message();
    EXPECT_NE(s.message().find(says), std::string::npos) << s.message();
  }

  PoolPath path_, killed_;
  Trained model_;
  std::optional<Store> store_;
};

}  // namespace perdure::test
