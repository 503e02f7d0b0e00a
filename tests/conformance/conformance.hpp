// The conformance suite: what every store must do, whatever its layout, shape, sizes and machine. A
// test gets an empty store of its Config; the list of configurations is in configurations.cpp.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {

class Conformance : public testing::TestWithParam<Config> {
 protected:
  void SetUp() override;

  [[nodiscard]] std::string pool() const { return scratch_.file("pool"); }
  /// Makes the store anew; `open` and `create` default to the configuration's, which may have
  /// another width of values.
  void make(Config const& config, CreateOptions const& create, OpenOptions const& open);
  void make(CreateOptions const& create, OpenOptions const& open) {
    make(GetParam(), create, open);
  }
  void make(std::uint64_t expected_records = 1) {
    make(GetParam().create(expected_records), GetParam().open());
  }

  /// Closes the store and opens the pool again; the model stays.
  void reopen(OpenOptions const& open);
  void reopen() { reopen(GetParam().open()); }
  /// Opens a copy of the pool as a kill would leave it now; the first store goes away unclosed.
  void reopen_killed(OpenOptions const& open);

  [[nodiscard]] Bytes key(std::uint64_t n) const { return GetParam().key(n); }
  [[nodiscard]] Bytes value(std::uint64_t n, std::uint64_t version = 0) const {
    return GetParam().value(n, version);
  }
  [[nodiscard]] std::vector<Bytes> keys(std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] std::vector<Bytes> values(std::uint64_t from, std::uint64_t to,
                                          std::uint64_t version = 0) const;
  /// Puts records [from, to) in batches of `batch`.
  void fill(std::uint64_t from, std::uint64_t to, std::uint64_t version = 0,
            std::size_t batch = 1000);

  [[nodiscard]] bool fixed_keys() const { return GetParam().key_bytes != 0; }
  [[nodiscard]] bool fixed_values() const { return GetParam().value_bytes != 0; }

  ScratchDir scratch_;
  std::unique_ptr<Driver> driver_;
  std::mt19937_64 random_{20261121};

 private:
  int copies_ = 0;
};

/// A refusal names who refuses, and what to do instead.
inline void expect_refused(Status const& s, Code code, std::string const& who,
                           std::string const& says) {
  EXPECT_EQ(s.code(), code) << s.message();
  EXPECT_NE(s.message().find(who), std::string::npos) << s.message();
  EXPECT_NE(s.message().find(says), std::string::npos) << s.message();
}

/// Every configuration that the suite runs for.
[[nodiscard]] std::vector<Config> configurations();

}  // namespace perdure::test
