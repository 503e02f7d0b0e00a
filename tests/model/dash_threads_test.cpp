// Threads of the host beside each other on one Dash index: each operation by itself, none lost,
// none torn; while the table splits and merges, is scanned and verified, and, after an opening,
// swept.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "support/sanitized.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kWriters = 3;
constexpr std::uint64_t kKeys = 600;    // of each writer
constexpr std::uint64_t kCounters = 5;  // that all of them add to
constexpr std::uint64_t kFirstCounter = 9'000'000;

class Together {
 public:
  explicit Together(Config const& config, std::uint64_t expected_records = 1) : config_(config) {
    auto store = Store::create(path(), config_.create(expected_records), config_.open());
    if (!store) throw std::runtime_error(store.status().message());
    store_ = std::make_unique<Store>(std::move(*store));
    std::vector<Bytes> keys, values;
    for (std::uint64_t c = 0; c < kCounters; ++c) {
      keys.push_back(config_.key(kFirstCounter + c));
      values.push_back(value(0));
    }
    put(keys, values);
  }

  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  [[nodiscard]] Store& store() { return *store_; }

  /// A version, 8 bytes of it and, in larger values, the same all over: so that a torn one shows.
  [[nodiscard]] Bytes value(std::uint64_t version) const {
    std::size_t const bytes = config_.value_bytes != 0 ? config_.value_bytes : 8 + version % 5 * 8;
    Bytes out(bytes, '\0');
    for (std::size_t at = 0; at < bytes; ++at)
      out[at] = static_cast<char>(version >> (at % 8 * 8) & 0xff);
    return out;
  }
  static std::uint64_t version_of(Bytes const& value) {
    std::uint64_t version = 0;
    std::memcpy(&version, value.data(), std::min<std::size_t>(8, value.size()));
    return version;
  }

  void complain(std::string const& what) {
    std::lock_guard const lock(mutex_);
    complaints_.push_back(what);
  }
  void expect(Status const& s, char const* what) {
    if (!s.ok()) complain(std::string(what) + ": " + s.message());
  }

  void put(std::vector<Bytes> const& keys, std::vector<Bytes> const& values) {
    Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
    std::vector<KeyStatus> statuses(keys.size());
    expect(store_->put(k.column(), v.column(), statuses), "put");
  }

  /// One writer: puts, erases and updates of its own keys in batches of any size, and one to some
  /// counter a round.
  void write(std::uint64_t writer, std::uint64_t rounds) {
    std::mt19937_64 random(writer);
    std::map<std::uint64_t, std::uint64_t> mine;  // key, version
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      std::uint64_t const n = 1 + random() % (round % 8 == 0 ? kKeys : 40);
      std::uint64_t const from = random() % kKeys;
      std::vector<Bytes> keys, values;
      std::vector<OpKind> kinds;
      std::vector<KeyStatus> expected;
      OpKind const kind =
          std::array{OpKind::put, OpKind::put, OpKind::erase, OpKind::update}[random() % 4];
      for (std::uint64_t i = 0; i < n; ++i) {
        std::uint64_t const k = (from + i) % kKeys;
        keys.push_back(config_.key(writer * kKeys + k));
        values.push_back(value(round));
        kinds.push_back(kind);
        bool const there = mine.contains(k);
        expected.push_back(kind == OpKind::put || there ? KeyStatus::ok : KeyStatus::not_found);
        if (kind == OpKind::erase) mine.erase(k);
        if (kind == OpKind::put || (kind == OpKind::update && there)) mine[k] = round;
      }
      Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
      std::vector<KeyStatus> statuses(keys.size());
      MixedBatch batch;
      batch.keys = k.column();
      batch.values = v.column();
      batch.kinds = kinds;
      expect(store_->apply(batch, statuses), "a batch");
      if (statuses != expected)
        complain("writer " + std::to_string(writer) + " does not find its own keys");
      add_one(random() % kCounters);
    }
    std::lock_guard const lock(mutex_);
    for (auto const& [k, version] : mine) held_[config_.key(writer * kKeys + k)] = value(version);
  }

  void add_one(std::uint64_t counter) {
    Packed const k({config_.key(kFirstCounter + counter)}, config_.key_bytes);
    Bytes one(config_.value_bytes != 0 ? config_.value_bytes : value(0).size(), '\0');
    one[0] = 1;
    Packed const v({one}, config_.value_bytes);
    std::vector<KeyStatus> statuses(1);
    expect(store_->update(k.column(), v.column(), Rmw::add, Element::u64, statuses), "an update");
    if (statuses[0] != KeyStatus::ok) complain("a counter is gone");
    ++added_;
  }

  /// Values are whole, and no key goes back to an older version.
  void read(std::mt19937_64& random, std::map<Bytes, std::uint64_t>& seen) {
    std::vector<Bytes> keys;
    for (int i = 0; i < 50; ++i) keys.push_back(config_.key(random() % (kWriters * kKeys)));
    Packed const k(keys, config_.key_bytes);
    std::vector<KeyStatus> statuses(keys.size());
    auto const got = store_->get_variable(k.column(), statuses);
    if (!got) return complain("a get: " + got.status().message());
    auto const values = unpack(got.value());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i] == KeyStatus::not_found) continue;
      if (statuses[i] != KeyStatus::ok) return complain("a get finds a damaged record");
      judge(keys[i], values[i], seen);
    }
  }
  void judge(Bytes const& key, Bytes const& found, std::map<Bytes, std::uint64_t>& seen) {
    std::uint64_t const version = version_of(found);
    if (found != value(version)) complain("a value is torn");
    if (version < seen[key]) complain("a key went back to an older version");
    seen[key] = version;
  }

  void scan() {
    std::map<Bytes, Bytes> all;
    ScanCursor cursor;
    while (!cursor.done) {
      auto const page = store_->scan(cursor, 200);
      if (!page) return complain("a scan: " + page.status().message());
      auto const keys = unpack(page.value().keys), values = unpack(page.value().values);
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (!all.emplace(keys[i], values[i]).second) complain("a scan has a key twice");
      cursor = page.value().next;
    }
    for (std::uint64_t c = 0; c < kCounters; ++c)
      if (!all.contains(config_.key(kFirstCounter + c)))
        complain("a scan misses a key that was there all along");
  }
  void verify() {
    auto const report = store_->verify();
    if (!report) return complain("verify: " + report.status().message());
    if (report.value().fault_count != 0) complain("verify: " + report.value().faults[0]);
  }

  void run(std::uint64_t rounds) {
    std::vector<std::thread> threads;
    std::atomic<std::uint64_t> writing{kWriters};
    for (std::uint64_t w = 0; w < kWriters; ++w) {
      threads.emplace_back([this, w, rounds, &writing] {
        write(w, rounds);
        --writing;
      });
    }
    for (std::uint64_t r = 0; r < 2; ++r) {
      threads.emplace_back([this, r, &writing] {
        std::mt19937_64 random(100 + r);
        std::map<Bytes, std::uint64_t> seen;
        do read(random, seen);
        while (writing > 0);
      });
    }
    threads.emplace_back([this, &writing] {
      do {
        scan();
        verify();
        static_cast<void>(store_->stats());
      } while (writing > 0);
    });
    for (std::thread& t : threads) t.join();
  }

  void check_in_the_end() {
    ASSERT_TRUE(complaints_.empty())
        << complaints_.size() << " complaints; the first: " << complaints_[0];
    std::uint64_t sum = 0;
    auto all = scan_all(*store_, 500);
    for (std::uint64_t c = 0; c < kCounters; ++c) {
      Bytes const key = config_.key(kFirstCounter + c);
      sum += version_of(all[key]);
      all.erase(key);
    }
    EXPECT_EQ(sum, added_.load()) << "an addition is lost";
    EXPECT_TRUE(all == held_);
    EXPECT_EQ(store_->stats().records, held_.size() + kCounters);
    verify();
    ASSERT_TRUE(complaints_.empty()) << complaints_[0];
  }

  void reopen(bool killed) {
    std::string const from = path(), copy = scratch_.file("killed");
    if (killed) {
      // A copy of a file is no moment of it while collectors write.
      while (store_->stats().value_log.queued_segments != 0) std::this_thread::yield();
      copy_as_if_killed(from, copy);
    } else {
      ASSERT_TRUE(store_->close().ok());
    }
    auto store = Store::open(killed ? copy : from, config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    store_ = std::make_unique<Store>(std::move(*store));
  }

 private:
  ScratchDir scratch_;
  Config config_;
  std::unique_ptr<Store> store_;
  std::atomic<std::uint64_t> added_{0};
  std::mutex mutex_;  // guards the rest
  std::map<Bytes, Bytes> held_;
  std::vector<std::string> complaints_;
};

class DashThreads : public testing::TestWithParam<Config> {};

TEST_P(DashThreads, EachOperationTakesEffectByItselfAndNoneIsLost) {
  Together together(GetParam());
  together.run(volume(400));
  ASSERT_NO_FATAL_FAILURE(together.check_in_the_end());
  for (bool const killed : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(together.reopen(killed));
    ASSERT_NO_FATAL_FAILURE(together.check_in_the_end());
  }
}

/// Large enough that what is free is found out beside the others' work.
TEST_P(DashThreads, AnOpenedTableIsUsedWhileItIsSwept) {
  if (GetParam().index == Index::btree)
    GTEST_SKIP() << "other tables are looked through by the opening";
  Config const& config = GetParam();
  for (bool const killed : {true, false}) {
    Together together(config, 900'000);  // above 16 MiB
    std::uint64_t const n = kSanitized ? 30'000 : 80'000;
    for (std::uint64_t at = 0; at < n; at += 10'000) {
      std::vector<Bytes> keys, values;
      for (std::uint64_t i = at; i < at + 10'000; ++i) {
        keys.push_back(config.key(10'000'000 + i));
        values.push_back(together.value(i));
      }
      together.put(keys, values);
    }
    ASSERT_GT(together.store().stats().space.pool_bytes, 16u << 20);
    ASSERT_NO_FATAL_FAILURE(together.reopen(killed));
    EXPECT_EQ(together.store().recovery().clean, !killed);
    EXPECT_EQ(together.store().recovery().counted, !killed);
    std::thread writer([&] {
      for (std::uint64_t at = 0; at < n; at += 7'000) {
        std::vector<Bytes> keys, values;
        for (std::uint64_t i = at; i < std::min(n, at + 500); ++i) {
          keys.push_back(config.key(10'000'000 + i));
          values.push_back(together.value(i + 5));
        }
        together.put(keys, values);
      }
    });
    writer.join();
    EXPECT_EQ(together.store().stats().records, n + kCounters);
    auto const report = together.store().verify();
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report.value().fault_count, 0u)
        << (report.value().faults.empty() ? "" : report.value().faults[0]);
    EXPECT_EQ(report.value().records, n + kCounters);
    std::uint64_t const settled = together.store().stats().space.used_bytes;
    for (int round = 0; round < 3; ++round) {  // what the sweep found free serves
      std::vector<Bytes> keys, values;
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        keys.push_back(config.key(10'000'000 + i));
        values.push_back(together.value(i + 5));
      }
      together.put(keys, values);
    }
    EXPECT_LE(together.store().stats().space.used_bytes, settled + (16u << 20));
  }
}

std::vector<Config> configs() {
  struct Sizes {
    char const* name;
    std::uint32_t key_bytes, value_bytes;
  };
  std::vector<Config> all;
  for (auto const& [index, values, table] : {std::tuple(Index::dash_eh, Values::heap, "dash_eh_"),
                                             std::tuple(Index::dash_lh, Values::heap, "dash_lh_"),
                                             std::tuple(Index::btree, Values::heap, "btree_"),
                                             std::tuple(Index::btree, Values::log, "btree_log_")}) {
    for (Sizes const& sizes :
         {Sizes{"inline", 8, 8}, Sizes{"key8", 8, 80}, Sizes{"variable", 0, 0}}) {
      Config config{table + std::string(sizes.name),
                    Device::cpu,
                    Layout::word,
                    {},
                    sizes.key_bytes,
                    sizes.value_bytes,
                    false,
                    2};
      config.index = index;
      config.values = values;
      all.push_back(config);
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Store, DashThreads, testing::ValuesIn(configs()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
