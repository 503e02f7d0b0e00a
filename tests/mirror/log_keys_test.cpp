// Keys of layout `log` that fill more than the first part of an entry, and have their first bytes
// in common: whatever is done to a store, and however its process ends, it answers as a map does.
// Invariant: a pool is taken over from a copy that a kill would leave, from a snapshot, or from a
// process that SIGKILL ended.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <optional>
#include <random>

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

// Entries of 32 bytes, and of 48; then of 32 with hashes, for longer keys and those of any length.
constexpr std::uint32_t kKeyBytes[] = {9, 16, 24, 25, 32, 33, 100, 0};

class LogKeys : public MirroredStore {
 protected:
  void SetUp() override {
    MirroredStore::SetUp();
    config_.layout = Layout::log;
    config_.count_accesses = false;
    config_.value_bytes = 40;
  }

  /// The number stands in the last bytes: the first 8 and the last of keys of 9 tell them apart.
  [[nodiscard]] Bytes wide(std::uint64_t n) const {
    Bytes key(config_.key_bytes != 0 ? config_.key_bytes : 9 + n % 77, 'k');
    std::size_t const last = key.size() - 1;
    key[last] = static_cast<char>(n % 256);
    key[last - 1] = static_cast<char>(n / 256);
    return key;
  }

  /// Hashed as all others of these are: its first 8 bytes multiply by zero (base/hash.hpp).
  [[nodiscard]] Bytes alike(std::uint64_t n) const {
    Bytes key = wide(n);
    if (config_.key_bytes == 0)
      key = Bytes(50, 'k') + static_cast<char>(n / 256) + static_cast<char>(n % 256);
    std::uint64_t const k1 = 0x13198a2e03707344u;
    std::memcpy(key.data(), &k1, sizeof k1);
    if (key.size() > 16) std::swap_ranges(key.begin() + 8, key.begin() + 16, key.end() - 8);
    return key;
  }
  /// Where it is refused, nothing is there.
  void put_one(Bytes const& key) {
    std::vector<KeyStatus> statuses;
    Bytes const value = config_.value(++version_);
    Status const s = driver_->put({key}, {value}, statuses);
    ASSERT_TRUE(s.ok() || s.code() == Code::no_space) << s.message();
    if (s.ok()) driver_->model.held[key] = value;
  }

  /// Keys below 3000, and some that are alike where there are those; and a value for each.
  void draw(std::vector<Bytes>& some, std::vector<Bytes>& with) {
    some.clear();
    with.clear();
    std::uint64_t const n = 1 + random_() % 120, first = random_() % 3000,
                        step = 1 + random_() % 23;
    for (std::uint64_t i = 0; i < n; ++i) {
      bool const one_of_alike = alike_ != 0 && random_() % 4 == 0;
      some.push_back(one_of_alike ? alike(random_() % alike_) : wide((first + i * step) % 3000));
      with.push_back(config_.value(random_() % 1000, ++version_));
    }
  }

  void write_one_batch() {
    std::vector<Bytes> some, with;
    draw(some, with);
    std::vector<Op> ops;
    for (std::size_t i = 0; i < some.size(); ++i) {
      OpKind const kinds[] = {OpKind::put,   OpKind::put,    OpKind::put,
                              OpKind::erase, OpKind::update, OpKind::get};
      // Gets of values of any length are no part of a mixed batch.
      ops.push_back({kinds[random_() % (config_.value_bytes != 0 ? 6 : 5)], some[i], with[i]});
    }
    // One sum that does not fit refuses an atomic batch.
    driver_->run_mixed(ops, config_.value_bytes != 0 ? Rmw::add : Rmw::replace, Element::u8);
  }

  /// What it wrote counts, or not: with the step that it writes, in some.
  void run_a_transaction() {
    Model const before = driver_->model;
    auto begun = driver_->store().begin({400});
    ASSERT_TRUE(begun.ok()) << begun.status().message();
    driver_->how.transaction = &*begun;
    for (std::uint64_t batch = 1 + random_() % 3; batch > 0; --batch) write_one_batch();
    driver_->how = {};
    bool const commits = random_() % 3 != 0, steps = random_() % 2 == 0;
    std::vector<std::byte> const was = dense_;
    if (steps) {
      std::fill(dense_.begin(), dense_.end(), static_cast<std::byte>(step_ + 1));
      Status const written = begun->write_step(step_ + 1);
      ASSERT_TRUE(written.ok()) << written.message();
    }
    if (!commits) {
      ASSERT_TRUE(begun->abort().ok());
      driver_->model = before;
      dense_ = was;
      return;
    }
    Status const committed = begun->commit();
    ASSERT_TRUE(committed.ok()) << committed.message();
    step_ += steps;
  }

  void take_over(Result<Store> store) {
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_->replace(std::move(*store));
    if (!dense_.empty()) expect_the_step();
  }
  void take_over_after_a_kill() {
    std::string const copy = scratch_.file("killed-" + std::to_string(++copies_));
    copy_as_if_killed(driver_->store().path(), copy);
    take_over(Store::open(copy, config_.open()));
  }
  void take_over_from_a_snapshot() {
    std::string const copy = scratch_.file("restored-" + std::to_string(++copies_));
    Status const taken = driver_->store().snapshot(copy + ".snapshot");
    ASSERT_TRUE(taken.ok()) << taken.message();
    take_over(Store::restore(copy + ".snapshot", copy, {}, config_.open()));
  }

  void register_dense() {
    Status const named = driver_->store().register_dense(
        {{"dense", dense_.data(), dense_.size(), MemorySpace::host}});
    ASSERT_TRUE(named.ok()) << named.message();
  }
  void expect_the_step() {
    std::vector<std::byte> const was = dense_;
    ASSERT_NO_FATAL_FAILURE(register_dense());
    auto const found = driver_->store().restore_step();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found.value().value_or(0), step_);
    EXPECT_EQ(dense_, was);
  }

  void answer_as_a_map_does() {
    ASSERT_NO_FATAL_FAILURE(make(60));
    std::uint32_t const made = driver_->store().stats().top_level;
    dense_.assign(1000, std::byte{0});
    step_ = 0;
    ASSERT_NO_FATAL_FAILURE(register_dense());
    for (int turn = 0; turn < 80; ++turn) {
      driver_->how.atomic = random_() % 3 == 0;
      write_one_batch();
      driver_->how = {};
      if (turn % 3 == 0) {
        ASSERT_NO_FATAL_FAILURE(run_a_transaction());
      }
      if (turn % 10 == 9) {
        ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
      }
      if (turn % 40 == 5) {
        ASSERT_NO_FATAL_FAILURE(take_over_from_a_snapshot());
      }
      if (turn % 20 == 19) driver_->check_all();
    }
    EXPECT_GT(driver_->store().stats().top_level, made) << "the table has not grown";
    driver_->check_all();
  }

  /// A table of two units, one of which holds 32 keys of one hash: when it grows, the other one
  /// moves, and theirs finds no room for them.
  void leave_their_unit(std::uint32_t key_bytes) {
    constexpr std::uint64_t kBatch = 1u << 17, kAlike = 32;
    config_.key_bytes = key_bytes;
    config_.value_bytes = key_bytes;  // they are their values, too
    config_.threads = 1;  // on a CPU they move in the order of their slots
    ASSERT_NO_FATAL_FAILURE(make(1'400'000));
    Store& store = driver_->store();
    std::uint64_t held = 0;
    std::uint64_t last = 0;
    int after_growth = 0;
    for (std::uint64_t first = 0; first < 13 * kBatch && after_growth < 3; first = last) {
      last =
          first + (first < 11 * kBatch ? kBatch : kBatch / 8);  // small ones once it is nearly full
      std::vector<Bytes> some;
      for (std::uint64_t n = first; n < last; ++n)
        some.push_back(n < kAlike ? alike(n) : config_.key(n));
      std::vector<KeyStatus> statuses;
      Status const s = driver_->put(some, some, statuses);
      ASSERT_TRUE(s.ok() || s.code() == Code::no_space) << s.message();
      after_growth += store.stats().growths > 0;
      held += static_cast<std::uint64_t>(std::ranges::count(statuses, KeyStatus::ok));
      if (first < 11 * kBatch) continue;  // nothing has been refused
      std::vector<Answer> found;
      ASSERT_TRUE(driver_->get(some, found).ok());
      for (std::size_t i = 0; i < some.size(); ++i)
        ASSERT_EQ(found[i].status == KeyStatus::ok, statuses[i] == KeyStatus::ok);
    }
    // On a GPU, or planned by a warp each, they may be the first of their unit to reach the new
    // level, and find room there.
    bool const sure = GetParam() == Device::cpu && key_bytes <= 32;
    if (sure || store.stats().units_left != 0) {
      EXPECT_EQ(store.stats().units_left, 1u) << "the unit of the 32 has moved";
    }
    EXPECT_EQ(store.stats().records, held);
    auto report = store.verify();
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->records, held);
    EXPECT_EQ(report->fault_count, 0u);
    ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
    EXPECT_EQ(driver_->store().stats().records, held);
  }

  std::mt19937_64 random_{4};
  std::uint64_t alike_ = 0;  // keys of one hash
  std::uint64_t version_ = 0, copies_ = 0, step_ = 0;
  std::vector<std::byte> dense_;
};

TEST_P(LogKeys, AnswerAsAMapDoesThroughGrowthTransactionsStepsSnapshotsAndKills) {
  for (std::uint32_t const key_bytes : kKeyBytes) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    ASSERT_NO_FATAL_FAILURE(answer_as_a_map_does());
  }
}

TEST_P(LogKeys, WithValuesOfAnyLengthDoSo) {
  for (std::uint32_t const key_bytes : kKeyBytes) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    config_.value_bytes = 0;
    ASSERT_NO_FATAL_FAILURE(answer_as_a_map_does());
  }
}

/// Entries with hashes say which of these keys they are of by their records alone.
TEST_P(LogKeys, SomeOfThemOfEqualHashesDoSo) {
  alike_ = 12;
  for (std::uint32_t const key_bytes : {16u, 33u, 100u, 0u}) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    config_.value_bytes = 40;
    ASSERT_NO_FATAL_FAILURE(answer_as_a_map_does());
    config_.value_bytes = 0;
    ASSERT_NO_FATAL_FAILURE(answer_as_a_map_does());
  }
}

/// Its log has many entries of one hash, and of few records, which come and go.
TEST_P(LogKeys, OneOfThemIsWrittenAndErasedAgainAndAgain) {
  config_.key_bytes = 0;
  for (std::uint32_t const value_bytes : {40u, 0u}) {
    config_.value_bytes = value_bytes;
    ASSERT_NO_FATAL_FAILURE(make(10));
    driver_->run_put({alike(1), alike(2)}, {config_.value(1), config_.value(2)});
    for (std::uint64_t n = 0; n < 3000; ++n) {
      Bytes const& key = alike(n % 5 == 0 ? 2 : 3);
      if (n % 3 == 2)
        driver_->run_erase({key});
      else
        driver_->run_put({key}, {config_.value(3, n)});
      if (n % 1000 == 999) {
        ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
        driver_->check_all();
      }
    }
  }
}

/// From none to the longest that a pool takes, the same key with each in turn.
TEST_P(LogKeys, HaveValuesOfEveryLengthOneAfterTheOther) {
  config_.key_bytes = 12;
  config_.value_bytes = 0;
  ASSERT_NO_FATAL_FAILURE(make(100));
  constexpr std::uint32_t kMost = (1u << 20) / 4 - 24 - 12;  // a quarter of a superblock
  std::vector<std::uint32_t> lengths{1000, 1023, 1024, 1025, 32'767, 32'768, kMost - 1, kMost};
  for (std::uint32_t bytes = 0; bytes < 100; ++bytes) lengths.push_back(bytes);
  for (std::uint32_t const bytes : lengths) {
    Bytes value(bytes, 'v');
    for (std::uint32_t at = 0; at < bytes; ++at) value[at] = static_cast<char>(at * 7 + bytes);
    driver_->run_put({wide(1), wide(2 + bytes % 3000)}, {value, value});
    if (bytes > 90) {
      ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
      driver_->check_all();
    }
  }
  driver_->check_all();
  std::vector<KeyStatus> statuses;
  ASSERT_TRUE(driver_->put({wide(1)}, {Bytes(kMost + 1, 'v')}, statuses).ok());
  EXPECT_EQ(statuses[0], KeyStatus::too_large);
  ASSERT_TRUE(driver_->store().close().ok());
  ASSERT_NO_FATAL_FAILURE(take_over(Store::open(driver_->store().path(), config_.open())));
  EXPECT_TRUE(driver_->store().recovery().clean);
  driver_->check_all();
}

/// The hash is no secret, and keys of more than 8 bytes that agree in it are easily made.
TEST_P(LogKeys, OfEqualHashesTakeTheSlotsOfOneAndHarmNobody) {
  for (std::uint32_t const key_bytes : {16u, 32u, 40u, 0u}) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    ASSERT_NO_FATAL_FAILURE(make(60));
    for (std::uint64_t n = 0; n < 400; ++n) {
      if (n % 10 == 0) put_one(alike(n / 10));
      put_one(wide(n));
    }
    EXPECT_GE(driver_->model.held.size(), 400 + 8) << "keys that others are not like were refused";
    EXPECT_LE(driver_->model.held.size(), 400 + 32) << "keys of equal hashes have no more slots";
    driver_->check_all();
    ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
    driver_->check_all();
  }
}

/// More of them than a batch has passes, whose entries an opening puts into the table at once.
TEST_P(LogKeys, OfEqualHashesThatCameAndWentKeepNobodyFromOpeningThePool) {
  for (std::uint32_t const key_bytes : {16u, 24u, 32u, 40u, 0u}) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    ASSERT_NO_FATAL_FAILURE(make(60));
    for (std::uint64_t n = 0; n < 300; ++n) {
      put_one(alike(n));
      if (n >= 20) driver_->run_erase({alike(n - 20 + n % 20)});
      if (n % 7 == 0) put_one(wide(n));
    }
    ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
    driver_->check_all();
  }
}

/// All slots of their hash are taken. What undoes a batch has a key that comes back before the one
/// that it made room for.
TEST_P(LogKeys, OfEqualHashesInABatchThatIsUndoneLeaveAStoreThatGoesOn) {
  for (std::uint32_t const key_bytes : {16u, 32u, 40u}) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    ASSERT_NO_FATAL_FAILURE(make(60));
    for (std::uint64_t n = 0; n < 40; ++n) put_one(alike(n));
    std::vector<Op> ops{{OpKind::erase, alike(0), {}}};
    for (std::uint64_t n = 40; n < 42; ++n)
      ops.push_back({OpKind::put, alike(n), config_.value(n)});
    std::vector<Answer> answers;
    driver_->how.atomic = true;
    Status const s = driver_->mixed(ops, Rmw::replace, Element::u8, answers);
    driver_->how = {};
    EXPECT_EQ(s.code(), Code::no_space) << s.message();
    EXPECT_NE(s.message().find("nothing of this batch took effect"), std::string::npos)
        << s.message();
    driver_->check_all();
    ops.pop_back();  // there is room for one
    auto begun = driver_->store().begin({10, true});
    ASSERT_TRUE(begun.ok()) << begun.status().message();
    driver_->how.transaction = &*begun;
    ASSERT_TRUE(driver_->mixed(ops, Rmw::replace, Element::u8, answers).ok());
    driver_->how = {};
    ASSERT_TRUE(begun->commit().ok());
    Status const reverted = driver_->store().revert();
    ASSERT_TRUE(reverted.ok()) << reverted.message();
    driver_->check_all();
    ASSERT_NO_FATAL_FAILURE(take_over_after_a_kill());
    driver_->check_all();
  }
}

TEST_P(LogKeys, OfEqualHashesLeaveTheirUnitOfALargeTableWhereItIs) {
  ASSERT_NO_FATAL_FAILURE(leave_their_unit(16));
}
TEST_P(LogKeys, OfEqualHashesThatEntriesHaveLeaveTheirUnitWhereItIs) {
  ASSERT_NO_FATAL_FAILURE(leave_their_unit(40));
}

/// Each batch gives all keys a new value, of its number. How many were acknowledged is in memory
/// that outlives the process.
TEST_P(LogKeys, OutliveSigkillWithAllOfABatchOrNone) {
  if (GetParam() == Device::cuda)
    GTEST_SKIP() << "a forked child cannot use the GPU; soak kills stores there";
  constexpr std::uint64_t kKeys = 700;
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const acknowledged = new (shared) std::atomic<std::uint64_t>(0);
  for (std::uint32_t const key_bytes : kKeyBytes) {
    SCOPED_TRACE("keys of " + std::to_string(key_bytes) + " bytes");
    config_.key_bytes = key_bytes;
    acknowledged->store(0);
    ::pid_t const child = ::fork();
    ASSERT_NE(child, -1);
    if (child == 0) {
      make(kKeys);
      if (driver_ == nullptr) ::_exit(1);
      for (std::uint64_t batch = 1;; ++batch) {
        std::vector<Bytes> some, with;
        for (std::uint64_t n = 0; n < kKeys; ++n) {
          some.push_back(wide(n));
          with.push_back(config_.value(n, batch));
        }
        std::vector<KeyStatus> statuses;
        if (!driver_->put(some, with, statuses).ok()) ::_exit(2);
        acknowledged->store(batch);
      }
    }
    int status = 0;
    while (acknowledged->load() < 40 && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(200);
    ASSERT_EQ(::kill(child, SIGKILL), 0) << "the child ended by itself, with status " << status;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    auto store = Store::open(path(), config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    Driver found(config_, std::move(*store));
    std::uint64_t const sure = acknowledged->load();
    auto const held = scan_all(found.store(), 1000);
    auto const first = held.find(wide(0));
    ASSERT_NE(first, held.end());
    std::uint64_t const batch = first->second == config_.value(0, sure) ? sure : sure + 1;
    for (std::uint64_t n = 0; n < kKeys; ++n) found.model.held[wide(n)] = config_.value(n, batch);
    found.check_all();
  }
  ::munmap(shared, sizeof(std::atomic<std::uint64_t>));
}

INSTANTIATE_TEST_SUITE_P(Machines, LogKeys, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
