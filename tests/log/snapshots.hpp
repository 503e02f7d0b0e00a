// What the tests of snapshots share: stores of every durability, operations drawn at random, and
// the fixture of those that make do with one store. Invariant: expect_refused() finds neither a
// pool nor a log where the restore was to make them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/folders.hpp"
#include "support/store_driver.hpp"
#include "support/whole_file.hpp"
#include "wal/checkpoint.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure::test::snapshots {

namespace fs = std::filesystem;

inline Config config_of(Layout layout, std::uint32_t key_bytes, std::uint32_t value_bytes) {
  Config c;
  c.name = "snapshot";
  c.layout = layout;
  c.key_bytes = key_bytes;
  c.value_bytes = value_bytes;
  return c;
}

inline Store create(Config const& config, std::string const& pool, Durability durability,
                    std::string const& log_dir) {
  CreateOptions options = config.create(64);
  options.durability = durability;
  if (durability == Durability::power) options.log.dir = log_dir;
  options.log.bytes = 1u << 20;
  auto store = Store::create(pool, options, config.open());
  if (!store.ok()) throw std::runtime_error(store.status().message());
  return std::move(*store);
}

inline RestoreOptions as(Durability durability, std::string const& log_dir) {
  RestoreOptions options;
  options.durability = durability;
  if (durability == Durability::power) options.log.dir = log_dir;
  options.log.bytes = 1u << 20;
  return options;
}

inline std::vector<Op> some_ops(Config const& config, std::mt19937_64& random) {
  std::vector<Op> ops(1 + random() % 200);
  for (Op& op : ops) {
    std::uint64_t const n = random() % 2000;
    op.kind = std::vector{OpKind::put, OpKind::put, OpKind::erase, OpKind::update}[random() % 4];
    op.key = config.key(n);
    op.value = config.value(n, random());
  }
  return ops;
}

inline void write_file(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class SnapshotOne : public testing::Test {
 protected:
  Config const config_ = config_of(Layout::word, 8, 16);
  ScratchDir const scratch_;
  DiskDir const log_{"log"}, other_log_{"other-log"};
  std::string const snapshot_ = scratch_.file("snapshot"), pool_ = scratch_.file("pool"),
                    target_ = scratch_.file("target");

  Driver with_records(std::uint64_t n, Durability durability = Durability::process) {
    Driver driver(config_, create(config_, pool_, durability, log_.path));
    std::vector<Bytes> keys, values;
    for (std::uint64_t i = 0; i < n; ++i)
      keys.push_back(config_.key(i)), values.push_back(config_.value(i));
    driver.run_put(keys, values);
    return driver;
  }

  Driver with_snapshot(std::uint64_t n, Durability durability = Durability::process) {
    Driver driver = with_records(n, durability);
    Status const s = driver.store().snapshot(snapshot_);
    EXPECT_TRUE(s.ok()) << s.message();
    return driver;
  }

  Status restore(RestoreOptions const& options = {}) {
    return Store::restore(snapshot_, target_, options, config_.open()).status();
  }

  /// Restoring is refused with this code and a message that holds these words, and leaves nothing.
  void expect_refused(Code code, std::string const& words, RestoreOptions const& options = {}) {
    Status const s = restore(options);
    EXPECT_EQ(s.code(), code) << s.message();
    EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
    EXPECT_FALSE(fs::exists(target_));
    EXPECT_FALSE(fs::exists(other_log_.file("redo.log")));
  }

  void edit_header(std::function<void(wal::ImageHeader&)> const& edit) {
    std::string bytes = whole_file(snapshot_);
    wal::ImageHeader h;
    std::memcpy(&h, bytes.data(), sizeof h);
    edit(h);
    h.crc = wal::checksum(h);
    std::memcpy(bytes.data(), &h, sizeof h);
    write_file(snapshot_, bytes);
  }
};

}  // namespace perdure::test::snapshots
