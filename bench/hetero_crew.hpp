// What `perdure-bench hetero` measures with: keys to ask for, and a crew of threads each of which
// answers its own batches, itself or by the device (chapter 4 of the thesis on heterogeneous
// memory). Invariant: the last batch of every thread is compared with the model after each
// measurement, outside the time that is measured.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common.hpp"
#include "hetero.hpp"
#include "ycsb.hpp"

namespace perdure::bench::shared {

using Clock = std::chrono::steady_clock;

/// One to one, so records are distinct keys.
inline std::uint64_t key_of(std::uint64_t record) { return (record + 1) * 0x9e3779b97f4a7c15u; }
/// The low byte is the version, which checks leave out: puts of different threads meet.
inline std::uint64_t value_of(std::uint64_t key, std::uint64_t version) {
  return (key >> 9 << 8) | (version & 0xff);
}
inline bool right(std::uint64_t key, std::uint64_t value) {
  return value >> 8 == value_of(key, 0) >> 8;
}

/// Keys that batches take their parts from, and values to put to them.
class Pool {
 public:
  /// theta 0 is uniform. Of records first .. first + records - 1.
  Pool(std::shared_ptr<hetero::Sides> const& sides, std::size_t n, std::uint64_t records,
       double theta, std::uint64_t first = 0)
      : keys_(require(hetero::shared_words(sides, n), "keys")),
        values_(require(hetero::shared_words(sides, n), "values")) {
    constexpr std::size_t kPart = 1 << 14;
    Zipf const zipf(records, theta);
    Scramble const scramble(records);
    on_all_cores((n + kPart - 1) / kPart,
                 [&](std::size_t part) {
                   Random random(part + 1);
                   for (std::size_t i = part * kPart; i < std::min(n, (part + 1) * kPart); ++i) {
                     keys_->all()[i] = key_of(first + scramble(zipf(random)));
                     values_->all()[i] = value_of(keys_->all()[i], 1);
                   }
                 },
                 2);
  }
  [[nodiscard]] hetero::Keys keys() const { return keys_->all(); }
  [[nodiscard]] hetero::Keys values() const { return values_->all(); }

 private:
  std::unique_ptr<hetero::Words> keys_, values_;
};

/// Parts of a pool, one after the other.
class Walk {
 public:
  Walk(Pool const& pool, std::size_t first) : pool_(&pool), at_(first % pool.keys().size()) {}
  [[nodiscard]] std::size_t next(std::size_t n) {
    if (at_ + n > pool_->keys().size()) at_ = 0;
    std::size_t const begin = at_;
    at_ += n;
    return begin;
  }
  [[nodiscard]] hetero::Keys keys(std::size_t at, std::size_t n) const {
    return pool_->keys().subspan(at, n);
  }
  [[nodiscard]] hetero::Keys values(std::size_t at, std::size_t n) const {
    return pool_->values().subspan(at, n);
  }

 private:
  Pool const* pool_;
  std::size_t at_;
};

/// Who answers a thread's batches: the thread; the device, for which it waits (approach 1); or the
/// device, while the thread answers others (approach 2).
enum class Role : std::uint8_t { host, device, overlapped };

struct Member {
  Role role = Role::host;
  hetero::Table* table = nullptr;
  Pool const* pool = nullptr;
  std::size_t batch = 4096;
  hetero::Copy copy = hetero::Copy::device;  // that the device reads
  std::uint32_t ahead = 0;
  bool puts = false;
};

struct Rates {
  double host_mops = 0, device_mops = 0;
  double wait_us = 0;  // of a thread for the device's batch, on average
  std::uint64_t checked = 0, faults = 0;
  [[nodiscard]] double mops() const { return host_mops + device_mops; }
};

/// All of them side by side for so long. Throws Failure.
[[nodiscard]] Rates run_crew(std::shared_ptr<hetero::Sides> const& sides,
                             std::vector<Member> const& members, double seconds);

}  // namespace perdure::bench::shared
