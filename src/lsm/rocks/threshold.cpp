#include "lsm/rocks/threshold.hpp"

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::lsm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFew = 16, kMany = 4096, kRocks = 1024;
constexpr int kTimes = 3;

/// The least of some runs: what else the machine does only adds.
template <class F>
Result<double> seconds_of(F call) {
  double least = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    auto const began = Clock::now();
    if (Status s = call(); !s.ok()) return s;
    least = std::min(least, std::chrono::duration<double>(Clock::now() - began).count());
  }
  return least;
}

std::vector<std::uint64_t> random_keys() {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> keys(kMany);
  for (std::uint64_t& key : keys) key = random();
  return keys;
}

Result<double> build_seconds(Engine& engine, std::span<std::uint64_t const> keys) {
  std::vector<ValueRef> values;
  for (std::uint64_t const& key : keys)
    values.push_back({reinterpret_cast<std::byte const*>(&key), sizeof key});
  Entries entries;
  entries.keys = Column::of(keys);
  entries.values = values;
  return seconds_of([&] { return engine.build(entries).status(); });
}

Result<double> rocks_seconds(std::span<std::uint64_t const> keys) {
  std::unique_ptr<rocksdb::Env> const env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.env = env.get();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::DB* opened = nullptr;
  auto const to_status = [](rocksdb::Status const& s) {
    return s.ok() ? Status{} : Status{Code::io_error, "a database in memory: " + s.ToString()};
  };
  Status const s = to_status(open_rocksdb(&opened, options, "/perdure-threshold"));
  if (!s.ok()) return s;
  std::unique_ptr<rocksdb::DB> const db(opened);
  return seconds_of([&]() -> Status {
    rocksdb::WriteBatch batch;
    for (std::uint64_t const& key : keys) {
      rocksdb::Slice const bytes(reinterpret_cast<char const*>(&key), sizeof key);
      if (auto put = batch.Put(bytes, bytes); !put.ok()) return to_status(put);
    }
    return to_status(db->Write(rocksdb::WriteOptions(), &batch));
  });
}

}  // namespace

std::uint64_t threshold_of(ThresholdCosts const& costs) {
  double const gained = costs.rocks_operation - costs.table_operation;
  if (gained <= 0) return kMostThreshold;
  double const even = costs.table_batch / gained;
  if (even >= static_cast<double>(kMostThreshold)) return kMostThreshold;
  return std::max(kLeastThreshold, static_cast<std::uint64_t>(even));
}

Result<ThresholdCosts> measure_costs(Engine& engine) {
  std::vector<std::uint64_t> const keys = random_keys();
  auto few = build_seconds(engine, std::span(keys).first(kFew));
  if (!few) return few.status();
  auto many = build_seconds(engine, keys);
  if (!many) return many.status();
  auto rocks = rocks_seconds(std::span(keys).first(kRocks));
  if (!rocks) return rocks.status();
  ThresholdCosts costs;
  costs.table_operation =
      std::max(0.0, many.value() - few.value()) / static_cast<double>(kMany - kFew);
  costs.table_batch = few.value();
  costs.rocks_operation = rocks.value() / static_cast<double>(kRocks);
  return costs;
}

}  // namespace perdure::lsm
