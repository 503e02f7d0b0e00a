// Several host threads on one store: writers that each own a range of keys, beside readers, scans
// and checks. A writer takes its keys from one version to the next, all of them in one batch, so a
// reader must find them all at one version: none older than the last acknowledged before it began,
// none newer than the last begun before it ended, and none older than what it saw before.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kOwners = 2;
constexpr std::uint64_t kKeys = 24;     // of each owner
constexpr std::uint64_t kStable = 150;  // put before, never touched
constexpr std::uint64_t kGarbage = 1'000'000'000;  // a version that no batch leaves behind

/// In every eighth version an owner's keys are absent.
bool absent_in(std::uint64_t version) { return version % 8 == 0; }

class Stage {
 public:
  explicit Stage(Config const& config) : config_(config) {
    auto store = Store::create(scratch_.file("pool"), config.create(), config.open());
    if (!store) throw std::runtime_error(store.status().message());
    driver_ = std::make_unique<Driver>(config, std::move(*store));
    std::vector<Bytes> keys, values;
    for (std::uint64_t n = 0; n < kStable; ++n) {
      keys.push_back(stable_key(n));
      values.push_back(value(n, 1));
    }
    driver_->run_put(keys, values);
  }

  void run(std::uint64_t versions) {
    std::vector<std::thread> threads;
    std::atomic<std::uint64_t> writing{kOwners};
    for (std::uint64_t o = 0; o < kOwners; ++o) {
      threads.emplace_back([this, o, versions, &writing] {
        for (std::uint64_t v = 1; v <= versions && calm(); ++v) advance(o, v);
        --writing;
      });
    }
    auto const meanwhile = [&](auto body) {
      threads.emplace_back([&writing, body]() mutable {
        do body();
        while (writing > 0);
      });
    };
    meanwhile([this, random = std::mt19937_64(1), seen = Seen{}]() mutable {
      read_owners(random, seen);
    });
    meanwhile([this, random = std::mt19937_64(2), seen = Seen{}]() mutable {
      read_owners(random, seen);
    });
    meanwhile([this, seen = Seen{}]() mutable { scan_at_once(seen); });
    meanwhile([this] {
      scan_in_pages();
      check();
    });
    for (std::thread& t : threads) t.join();
  }

  /// All has come to rest: the store holds what the writers' models hold.
  void check_in_the_end() {
    ASSERT_TRUE(complaints_.empty())
        << complaints_.size() << " complaints; the first: " << complaints_[0];
    for (Owner const& o : owners_) driver_->model.held.insert(o.model.begin(), o.model.end());
    ASSERT_GT(driver_->model.held.size(), kStable);
    ASSERT_NO_FATAL_FAILURE(driver_->check_all());
    EXPECT_GT(driver_->store().stats().growths, 0u) << "no resize came between";
    ASSERT_TRUE(driver_->store().close().ok());
    auto store = Store::open(scratch_.file("pool"), config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_->replace(std::move(*store));
    driver_->check_all();
  }

 private:
  struct Owner {
    std::atomic<std::uint64_t> acknowledged{0};
    std::atomic<std::uint64_t> begun{0};
    std::map<Bytes, Bytes> model;  // touched by its writer alone
    std::mt19937_64 random{20261121};
  };
  // newest version this thread has seen of each owner
  using Seen = std::array<std::uint64_t, kOwners>;
  using Found = std::vector<std::optional<Bytes>>;  // by key of one owner

  [[nodiscard]] Bytes key(std::uint64_t owner, std::uint64_t i) const {
    return config_.key((owner + 1) * 1000 + i);
  }
  [[nodiscard]] Bytes stable_key(std::uint64_t n) const { return config_.key(500'000 + n); }
  [[nodiscard]] Bytes fresh_key(std::uint64_t owner, std::uint64_t n) const {
    return config_.key((owner + 1) * 1'000'000 + n);
  }

  /// The version, then which key it is for; in pools of variable values a tail that grows and
  /// shrinks.
  [[nodiscard]] Bytes value(std::uint64_t which, std::uint64_t version) const {
    Bytes bytes(16, '\0');
    std::memcpy(bytes.data(), &version, 8);
    std::memcpy(bytes.data() + 8, &which, 8);
    if (config_.value_bytes == 0)
      bytes.append(version * 7 % 40, static_cast<char>('a' + version % 26));
    return bytes;
  }
  [[nodiscard]] Bytes owned_value(std::uint64_t owner, std::uint64_t i,
                                  std::uint64_t version) const {
    return value((owner + 1) * 1000 + i, version);
  }

  void complain(std::string const& what) {
    std::lock_guard const lock(mutex_);
    complaints_.push_back(what);
  }
  [[nodiscard]] bool calm() {
    std::lock_guard const lock(mutex_);
    return complaints_.empty();
  }

  // ---------------------------------------------------------------------------------------------
  // Writers

  /// Takes all keys of `o` to `version` in one batch, by one of several ways.
  void advance(std::uint64_t o, std::uint64_t version) {
    Owner& owner = owners_[o];
    owner.begun.store(version);
    std::uint64_t const way = owner.random() % 5;
    bool const there = version > 1 && !absent_in(version - 1);
    if (absent_in(version)) {
      vanish(o, way % 2 == 0);
    } else if (way == 0 && there && config_.value_bytes != 0) {
      add_one(o);
    } else if (way == 1 && there) {
      replace(o, version);
    } else if (way == 2) {
      put_twice(o, version);
    } else {
      put(o, version);
    }
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      if (absent_in(version))
        owner.model.erase(key(o, i));
      else
        owner.model[key(o, i)] = owned_value(o, i, version);
    }
    owner.acknowledged.store(version);
    if (version % 10 == 0) grow(o, version);
  }

  void put(std::uint64_t o, std::uint64_t version) {
    done(driver_->put(keys(o), values(o, version), statuses(o)), o);
  }

  void replace(std::uint64_t o, std::uint64_t version) {
    done(driver_->update(keys(o), values(o, version), Rmw::replace, Element::u8, statuses(o)), o);
  }

  void add_one(std::uint64_t o) {
    Bytes one(16, '\0');
    one[0] = 1;
    done(driver_->update(keys(o), std::vector<Bytes>(kKeys, one), Rmw::add, Element::u64,
                         statuses(o)),
         o);
  }

  void vanish(std::uint64_t o, bool by_way_of_garbage) {
    if (!by_way_of_garbage) return done(driver_->erase(keys(o), statuses(o)), o);
    std::vector<Op> ops;
    for (std::uint64_t i = 0; i < kKeys; ++i)
      ops.push_back({OpKind::put, key(o, i), owned_value(o, i, kGarbage)});
    for (std::uint64_t i = 0; i < kKeys; ++i) ops.push_back({OpKind::erase, key(o, i), {}});
    mixed(o, ops);
  }

  /// Garbage, nothing, and then the version: none but this batch itself may ever see the first two.
  void put_twice(std::uint64_t o, std::uint64_t version) {
    std::vector<Op> ops;
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      ops.push_back({OpKind::put, key(o, i), owned_value(o, i, kGarbage)});
      if (config_.value_bytes != 0)
        ops.push_back({OpKind::get, key(o, i), owned_value(o, i, kGarbage)});
      ops.push_back({OpKind::erase, key(o, i), {}});
    }
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      ops.push_back({OpKind::put, key(o, i), owned_value(o, i, version)});
      if (config_.value_bytes != 0)
        ops.push_back({OpKind::get, key(o, i), owned_value(o, i, version)});
    }
    mixed(o, ops);
  }

  /// Every operation succeeds, and every get finds what stands beside it.
  void mixed(std::uint64_t o, std::vector<Op> const& ops) {
    std::vector<Answer> answers;
    Status const s = driver_->mixed(ops, Rmw::replace, Element::u8, answers);
    if (!s.ok()) return complain("a batch of owner " + std::to_string(o) + ": " + s.message());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      bool const right = ops[i].kind != OpKind::get || answers[i].value == ops[i].value;
      if (answers[i].status != KeyStatus::ok || !right)
        complain("operation " + std::to_string(i) + " of a mixed batch");
    }
  }

  /// New keys, so that the table grows under everyone's feet.
  void grow(std::uint64_t o, std::uint64_t version) {
    std::vector<Bytes> keys, values;
    for (std::uint64_t i = 0; i < 40; ++i) {
      keys.push_back(fresh_key(o, version * 100 + i));
      values.push_back(value(i, 1));
      owners_[o].model[keys.back()] = values.back();
    }
    std::vector<KeyStatus> all;
    Status const s = driver_->put(keys, values, all);
    if (!s.ok()) complain("new keys of owner " + std::to_string(o) + ": " + s.message());
  }

  [[nodiscard]] std::vector<Bytes> keys(std::uint64_t o) const {
    std::vector<Bytes> out;
    for (std::uint64_t i = 0; i < kKeys; ++i) out.push_back(key(o, i));
    return out;
  }
  [[nodiscard]] std::vector<Bytes> values(std::uint64_t o, std::uint64_t version) const {
    std::vector<Bytes> out;
    for (std::uint64_t i = 0; i < kKeys; ++i) out.push_back(owned_value(o, i, version));
    return out;
  }
  std::vector<KeyStatus>& statuses(std::uint64_t o) { return statuses_[o]; }
  void done(Status const& s, std::uint64_t o) {
    if (!s.ok()) return complain("a batch of owner " + std::to_string(o) + ": " + s.message());
    for (KeyStatus const status : statuses_[o]) {
      if (status != KeyStatus::ok)
        complain("owner " + std::to_string(o) + " does not find its own key");
    }
  }

  // ---------------------------------------------------------------------------------------------
  // Those who look

  /// One version for all, not older than `oldest` and what was seen before, not newer than
  /// `newest`.
  void judge(std::uint64_t o, Found const& found, std::uint64_t oldest, std::uint64_t newest,
             Seen& seen, std::string const& who) {
    std::string const whose = who + ", owner " + std::to_string(o) + ": ";
    oldest = std::max(oldest, seen[o]);
    if (!found[0]) {
      for (auto const& f : found) {
        if (f) return complain(whose + "some keys are there and some are not");
      }
      while (oldest <= newest && !absent_in(oldest)) ++oldest;
      if (oldest > newest)
        return complain(whose + "the keys are absent in no version of that time");
      seen[o] = oldest;
      return;
    }
    std::uint64_t version = 0;
    std::memcpy(&version, found[0]->data(), std::min<std::size_t>(8, found[0]->size()));
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      if (!found[i] || *found[i] != owned_value(o, i, version))
        return complain(whose + "key " + std::to_string(i) + " is not at version " +
                        std::to_string(version));
    }
    if (version < oldest || version > newest || absent_in(version)) {
      return complain(whose + "version " + std::to_string(version) + " is not among " +
                      std::to_string(oldest) + " to " + std::to_string(newest));
    }
    seen[o] = version;
  }

  /// One batch that gets every key of every owner, in any order.
  void read_owners(std::mt19937_64& random, Seen& seen) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> which;
    for (std::uint64_t o = 0; o < kOwners; ++o) {
      for (std::uint64_t i = 0; i < kKeys; ++i) which.emplace_back(o, i);
    }
    std::shuffle(which.begin(), which.end(), random);
    std::vector<Bytes> keys;
    for (auto const& [o, i] : which) keys.push_back(key(o, i));
    Seen oldest{}, newest{};
    for (std::uint64_t o = 0; o < kOwners; ++o) oldest[o] = owners_[o].acknowledged.load();
    std::vector<Answer> answers;
    Status const s = driver_->get(keys, answers);
    for (std::uint64_t o = 0; o < kOwners; ++o) newest[o] = owners_[o].begun.load();
    if (!s.ok()) return complain("a get: " + s.message());
    std::vector<Found> found(kOwners, Found(kKeys));
    for (std::size_t n = 0; n < which.size(); ++n) {
      if (answers[n].status == KeyStatus::ok)
        found[which[n].first][which[n].second] = answers[n].value;
    }
    for (std::uint64_t o = 0; o < kOwners; ++o)
      judge(o, found[o], oldest[o], newest[o], seen, "a reader");
  }

  /// A scan of a single page sees all at one time, as a batch does.
  void scan_at_once(Seen& seen) {
    Seen oldest{}, newest{};
    for (std::uint64_t o = 0; o < kOwners; ++o) oldest[o] = owners_[o].acknowledged.load();
    auto page = driver_->store().scan({}, 1'000'000);
    for (std::uint64_t o = 0; o < kOwners; ++o) newest[o] = owners_[o].begun.load();
    if (!page) return complain("a scan: " + page.status().message());
    std::map<Bytes, Bytes> all;
    auto const keys = unpack(page->keys), values = unpack(page->values);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!all.emplace(keys[i], values[i]).second) complain("a scan has a key twice");
    }
    for (std::uint64_t o = 0; o < kOwners; ++o) {
      Found found(kKeys);
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        if (auto const there = all.find(key(o, i)); there != all.end()) found[i] = there->second;
      }
      judge(o, found, oldest[o], newest[o], seen, "a scan");
    }
  }

  /// Between the pages of this one anything may happen; what was there all along must be found.
  void scan_in_pages() {
    std::set<Bytes> seen;
    ScanCursor cursor;
    while (!cursor.done) {
      auto page = driver_->store().scan(cursor, 100);
      if (page.status().code() == Code::busy) return;  // keys moved
      if (!page) return complain("a scan in pages: " + page.status().message());
      for (Bytes const& k : unpack(page->keys)) seen.insert(k);
      cursor = page->next;
    }
    for (std::uint64_t n = 0; n < kStable; ++n) {
      if (!seen.contains(stable_key(n)))
        return complain("a scan in pages misses a key that was there all along");
    }
  }

  void check() {
    auto report = driver_->store().verify();
    if (!report) return complain("verify: " + report.status().message());
    if (report->fault_count != 0) complain("verify: " + report->faults[0]);
    if (report->records < kStable)
      complain("verify counts fewer records than were there all along");
  }

  ScratchDir scratch_;
  Config config_;
  std::unique_ptr<Driver> driver_;
  std::array<Owner, kOwners> owners_;
  std::array<std::vector<KeyStatus>, kOwners> statuses_;  // each touched by its writer alone
  std::mutex mutex_;  // guards the rest
  std::vector<std::string> complaints_;
};

class Threads : public testing::TestWithParam<Config> {};

TEST_P(Threads, SeeAllOrNothingOfEachOthersBatches) {
  Stage stage(GetParam());
  stage.run(volume(1500));
  stage.check_in_the_end();
}

std::vector<Config> configs() {
  std::vector<Config> all;
  for (Layout const layout : {Layout::word, Layout::in_place, Layout::log}) {
    for (bool const variable : {false, true}) {
      for (std::uint32_t const workers : {1u, 2u}) {
        std::string const name = std::string(layout == Layout::word  ? "word_"
                                             : layout == Layout::log ? "log_"
                                                                     : "in_place_") +
                                 (variable ? "variable" : "key8") + "_x" + std::to_string(workers);
        std::uint32_t const key_bytes = variable ? 0 : 8;
        std::uint32_t const value_bytes = variable ? 0 : 16;
        all.push_back(
            {name, Device::cpu, layout, {2, 2, 8}, key_bytes, value_bytes, false, workers});
      }
    }
  }
  // Gets beside the writers, some of which a second engine answers.
  Config shared{"shared_x2", Device::cpu, Layout::word, {2, 2, 8}, 8, 16, false, 2};
  shared.residency = Residency::mirrored;
  shared.gets_by = GetsBy::measured;
  all.push_back(shared);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Store, Threads, testing::ValuesIn(configs()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
