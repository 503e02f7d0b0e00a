// Device sessions: finds, puts, updates and erases by single warps side by side, on each machine
// that is here, by the engine's inside entry (store/gphash/device_session.hpp). What a session
// leaves behind is then judged by batches.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <random>

#include "explore/history.hpp"
#include "fault/planted_faults.hpp"
#include "store/gphash/device_access.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

struct Ran {
  std::vector<KeyStatus> statuses;
  std::vector<Bytes> values;  // of gets
  std::vector<std::uint64_t> began, ended;
  [[nodiscard]] std::ptrdiff_t count(KeyStatus status) const {
    return std::count(statuses.begin(), statuses.end(), status);
  }
};

class DeviceStore : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!available(GetParam(), why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    config_.device = GetParam();
  }
  void make(std::uint32_t key_bytes, std::uint32_t value_bytes, OpenOptions const& more = {},
            Shape shape = {}, std::uint64_t expected_records = 1000) {
    config_.key_bytes = key_bytes;
    config_.value_bytes = value_bytes;
    config_.shape = shape;
    CreateOptions create = config_.create(expected_records);
    create.file.overwrite = true;
    driver_.reset();
    auto store = Store::create(path(), create, options(more));
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_ = std::make_unique<Driver>(config_, std::move(*store));
  }
  [[nodiscard]] OpenOptions options(OpenOptions const& more = {}) const {
    OpenOptions o = config_.open();
    o.grow = more.grow;
    o.memory.cache_bytes = more.memory.cache_bytes;
    o.memory.cache_policy = more.memory.cache_policy;
    return o;
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  [[nodiscard]] Store& store() const { return driver_->store(); }
  [[nodiscard]] DeviceSession begin(std::uint64_t records) const {
    auto session = DeviceAccess::open(store(), {records});
    if (!session) throw std::runtime_error(session.status().message());
    return std::move(*session);
  }

  [[nodiscard]] Ran run(DeviceSession& session, std::vector<Op> const& ops, std::uint64_t sequences,
                        bool updates_add = false) const {
    std::vector<Bytes> keys, values;
    std::vector<OpKind> kinds;
    for (Op const& op : ops) {
      keys.push_back(op.key);
      values.push_back(op.value);
      kinds.push_back(op.kind);
    }
    Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
    Ran ran;
    ran.statuses.resize(ops.size());
    ran.began.resize(ops.size());
    ran.ended.resize(ops.size());
    std::vector<std::byte> out(ops.size() * config_.value_bytes);
    DeviceOps const all{
        k.column(),   v.column(),  {out.data(), config_.value_bytes, ops.size(), Place::host},
        kinds,        updates_add, sequences,
        ran.statuses, ran.began,   ran.ended,
        nullptr};
    Status const s = DeviceAccess::run(session, all);
    EXPECT_TRUE(s.ok()) << s.message();
    ran.values = unpack(out, config_.value_bytes);
    return ran;
  }

  [[nodiscard]] std::vector<Op> drawn(std::mt19937_64& random, std::size_t n,
                                      std::uint64_t keys) const {
    static constexpr OpKind kKinds[] = {OpKind::get, OpKind::put, OpKind::put, OpKind::update,
                                        OpKind::erase};
    std::vector<Op> ops;
    for (std::size_t i = 0; i < n; ++i)
      ops.push_back({kKinds[random() % 5], config_.key(random() % keys),
                     config_.value(random() % 100, random())});
    return ops;
  }
  /// One after the other, in the session and in the model.
  void run_in_turn(DeviceSession& session, std::vector<Op> const& ops) {
    Ran const ran = run(session, ops, 1);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Answer const want = driver_->model.apply(ops[i], Rmw::replace, Element::u8);
      ASSERT_EQ(ran.statuses[i], want.status) << i;
      if (ops[i].kind == OpKind::get && want.status == KeyStatus::ok) {
        ASSERT_EQ(ran.values[i], want.value) << i;
      }
    }
  }

  Config config_{"device", Device::cpu, Layout::word,        {2, 2, 8},      8, 8,
                 false,    2,           Residency::mirrored, Gather::at_once};
  ScratchDir scratch_;
  std::unique_ptr<Driver> driver_;
};

Op put(Bytes key, Bytes value) { return {OpKind::put, std::move(key), std::move(value)}; }

Bytes number(std::uint64_t n) { return {reinterpret_cast<char const*>(&n), sizeof n}; }

TEST_P(DeviceStore, OneAtATimeItDoesWhatTheModelDoes) {
  struct Sizes {
    std::uint32_t key, value;
    Shape shape;
  };
  for (Sizes const& s : {Sizes{8, 8, {}}, Sizes{5, 10, {3, 1, 8}}, Sizes{32, 128, {}},
                         Sizes{40, 1500, {1, 2, 16}}}) {
    make(s.key, s.value, {}, s.shape, 50);
    std::mt19937_64 random(s.key);
    for (int round = 0; round < 6; ++round) {
      std::size_t const n = volume(1500);
      DeviceSession session = begin(n);
      run_in_turn(session, drawn(random, n, 40 << round));
      Status const ended = session.end();
      ASSERT_TRUE(ended.ok()) << ended.message();
      driver_->check_all();
      driver_->run_mixed(drawn(random, 300, 40 << round));  // batches and sessions in turn
    }
    driver_->check_all();
  }
}

/// By key: what came of it, and whether an order of its operations explains it.
TEST_P(DeviceStore, ManyWarpsOnTheSameKeysAreLinearizable) {
  make(8, 8, {}, {}, 100);
  std::mt19937_64 random(7);
  std::size_t const n = volume(6144);
  for (int round = 0; round < 4; ++round) {
    bool const adds = round % 2 == 1;
    std::uint64_t const keys = n / 4;
    std::vector<Op> ops = drawn(random, n, keys);
    for (Op& op : ops) op.value = number(random());
    auto const before = scan_all(store(), 1000);
    DeviceSession session = begin(n);
    Ran const ran = run(session, ops, n / 3, adds);
    ASSERT_TRUE(session.end().ok());
    auto const after = scan_all(store(), 1000);
    std::map<Bytes, std::vector<explore::Seen>> seen;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t operand = 0, value = 0;
      std::memcpy(&operand, ops[i].value.data(), 8);
      std::memcpy(&value, ran.values[i].data(), 8);
      seen[ops[i].key].push_back(
          {ops[i].kind, adds, operand, ran.statuses[i], value, ran.began[i], ran.ended[i], true});
    }
    auto const held = [](std::map<Bytes, Bytes> const& all,
                         Bytes const& key) -> std::optional<std::uint64_t> {
      auto const at = all.find(key);
      if (at == all.end()) return std::nullopt;
      std::uint64_t value = 0;
      std::memcpy(&value, at->second.data(), 8);
      return value;
    };
    for (auto const& [key, calls] : seen) {
      ASSERT_LE(calls.size(), 64u);
      ASSERT_TRUE(explore::explained(calls, held(before, key), held(after, key))) << to_hex(key);
    }
    EXPECT_EQ(ran.count(KeyStatus::no_space), 0);
    EXPECT_EQ(store().stats().records, after.size());
    driver_->model.held = after;
    driver_->check_all();
  }
}

TEST_P(DeviceStore, ModifyLosesNoSum) {
  make(8, 16);
  std::size_t const n = volume(20000), keys = 5;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < n; ++i)
    ops.push_back({OpKind::update, config_.key(i % keys), number(i) + Bytes(8, 'x')});
  DeviceSession session = begin(n);
  Ran const ran = run(session, ops, n, true);
  ASSERT_EQ(ran.count(KeyStatus::ok), static_cast<std::ptrdiff_t>(n));
  ASSERT_TRUE(session.end().ok());
  std::vector<std::uint64_t> sums(keys);
  for (std::size_t i = 0; i < n; ++i) sums[i % keys] += i;
  for (std::size_t k = 0; k < keys; ++k)
    driver_->model.held[config_.key(k)] = number(sums[k]) + Bytes(8, 'x');
  driver_->check_all();
}

TEST_P(DeviceStore, ASessionHasTheRecordsItWasOpenedFor) {
  make(8, 8);
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < 20; ++i) ops.push_back(put(config_.key(i), config_.value(i)));
  DeviceSession session = begin(10);
  Ran const ran = run(session, ops, 20);
  EXPECT_EQ(ran.count(KeyStatus::ok), 10);
  EXPECT_EQ(ran.count(KeyStatus::no_space), 10);
  std::vector<Op> erases;
  for (std::uint64_t i = 0; i < 20; ++i) {
    erases.push_back({OpKind::erase, config_.key(i), Bytes(8, 0)});
    if (ran.statuses[i] != KeyStatus::ok) continue;
    if (driver_->model.held.size() < 5) driver_->model.held[config_.key(i)] = config_.value(i);
  }
  std::erase_if(erases, [&](Op const& op) { return driver_->model.held.contains(op.key); });
  Ran const erased = run(session, erases, 1);
  EXPECT_EQ(erased.count(KeyStatus::ok), 5);
  EXPECT_EQ(erased.count(KeyStatus::not_found), 10);
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

TEST_P(DeviceStore, AFullTableAnswersNoSpace) {
  OpenOptions fixed;
  fixed.grow = false;
  make(8, 8, fixed, {1, 1, 1}, 8);
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < 200; ++i) ops.push_back(put(config_.key(i), config_.value(i)));
  DeviceSession session = begin(200);
  Ran const ran = run(session, ops, 200);
  ASSERT_TRUE(session.end().ok());
  EXPECT_EQ(ran.count(KeyStatus::ok) + ran.count(KeyStatus::no_space), 200);
  EXPECT_GT(ran.count(KeyStatus::no_space), 0);
  EXPECT_LE(ran.count(KeyStatus::ok), static_cast<std::ptrdiff_t>(store().stats().slots));
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ran.statuses[i] == KeyStatus::ok) driver_->model.held[ops[i].key] = ops[i].value;
  driver_->check_all();
}

TEST_P(DeviceStore, RecordsComeBackWhenASessionEnds) {
  make(8, 64);
  std::uint64_t used = 0;
  for (int round = 0; round < 30; ++round) {
    DeviceSession session = begin(2000);
    std::vector<Op> ops;
    for (std::uint64_t i = 0; i < 1000; ++i)
      ops.push_back(put(config_.key(i), config_.value(i, 1)));
    for (std::uint64_t i = 0; i < 500; ++i) ops.push_back(put(config_.key(i), config_.value(i, 2)));
    for (std::uint64_t i = 0; i < 1000; i += round % 2 == 0 ? 1 : 2)
      ops.push_back({OpKind::erase, config_.key(i), Bytes(64, 0)});
    run_in_turn(session, ops);
    ASSERT_TRUE(session.end().ok());
    if (round == 2) used = store().stats().space.used_bytes;
  }
  EXPECT_EQ(store().stats().space.used_bytes, used);
  driver_->check_all();
}

TEST_P(DeviceStore, ACrashInASessionLosesNothingAcknowledged) {
  make(8, 32);
  std::mt19937_64 random(3);
  {
    DeviceSession session = begin(4000);
    run_in_turn(session, drawn(random, 4000, 500));
    copy_as_if_killed(path(), scratch_.file("killed"));
  }
  std::map<Bytes, Bytes> const held = driver_->model.held;
  Status const closed = store().close();
  ASSERT_TRUE(closed.ok()) << closed.message();
  for (std::string const& file : {path(), scratch_.file("killed")}) {
    auto again = Store::open(file, options());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->recovery().clean, file == path());
    EXPECT_EQ(again->recovery().dropped, 0u);
    driver_->replace(std::move(*again));
    driver_->model.held = held;
    driver_->check_all();
    DeviceSession session = begin(100);
    run_in_turn(session, drawn(random, 100, 500));
    ASSERT_TRUE(session.end().ok());
    driver_->check_all();
  }
}

TEST_P(DeviceStore, CachedRecordsAreFoundAndReplaced) {
  OpenOptions cached;
  cached.memory.cache_bytes = 64 << 10;
  cached.memory.cache_policy = CachePolicy::random;
  make(8, 32, cached);
  std::vector<Bytes> keys, values;
  for (std::uint64_t i = 0; i < 800; ++i) {
    keys.push_back(config_.key(i));
    values.push_back(config_.value(i));
  }
  driver_->run_put(keys, values);
  auto report = store().load_cache();
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_GT(report->records, 700u);
  std::mt19937_64 random(5);
  DeviceSession session = begin(3000);
  run_in_turn(session, drawn(random, 3000, 900));
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

TEST_P(DeviceStore, ADamagedRecordIsReportedAndCanBeReplaced) {
  make(8, 32);
  Bytes const value(32, 'v');
  driver_->run_put({config_.key(1)}, {value});
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    std::string const bytes{std::istreambuf_iterator<char>(file), {}};
    auto const at = bytes.find(value);
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('w');
  }
  DeviceSession session = begin(10);
  Op const get{OpKind::get, config_.key(1), value};
  EXPECT_EQ(run(session, {get}, 1).statuses[0], KeyStatus::corrupt);
  EXPECT_EQ(run(session, {{OpKind::update, config_.key(1), value}}, 1, true).statuses[0],
            KeyStatus::corrupt);
  EXPECT_EQ(run(session, {put(config_.key(1), value)}, 1).statuses[0], KeyStatus::ok);
  EXPECT_EQ(run(session, {get}, 1).statuses[0], KeyStatus::ok);
  ASSERT_TRUE(session.end().ok());
  driver_->check_all();
}

TEST_P(DeviceStore, OnlyTheSessionUsesTheStoreWhileItIsOpen) {
  make(8, 8);
  auto session = std::make_unique<DeviceSession>(begin(100));
  Bytes const key = config_.key(1), value = config_.value(1);
  std::vector<KeyStatus> statuses;
  std::vector<Answer> answers;
  EXPECT_EQ(driver_->put({key}, {value}, statuses).code(), Code::busy);
  EXPECT_EQ(driver_->get({key}, answers).code(), Code::busy);
  EXPECT_EQ(store().scan({}, 10).status().code(), Code::busy);
  EXPECT_EQ(store().verify().status().code(), Code::busy);
  EXPECT_EQ(store().snapshot(scratch_.file("snapshot")).code(), Code::busy);
  EXPECT_EQ(store().begin().status().code(), Code::busy);
  EXPECT_EQ(DeviceAccess::open(store(), {1}).status().code(), Code::busy);
  EXPECT_EQ(store().stats().records, 0u);
  Packed const keys({key}, 8), values({value}, 8);
  auto other =
      std::async(std::launch::async, [&] { return store().put(keys.column(), values.column()); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  auto end_elsewhere = std::async(std::launch::async, [&] { return session->end(); });
  EXPECT_TRUE(end_elsewhere.get().ok());  // whoever has it
  Status const put_after = other.get();
  EXPECT_TRUE(put_after.ok()) << put_after.message();
  EXPECT_EQ(session->end().code(), Code::closed);
  driver_->model.held[key] = value;
  driver_->check_all();
  session = std::make_unique<DeviceSession>(begin(1));
  session.reset();  // ends it
  driver_->check_all();
  DeviceSession last = begin(1);
  ASSERT_TRUE(store().close().ok());  // ends it too
  EXPECT_EQ(last.end().code(), Code::closed);
}

/// What a machine holds does not survive a fork: in the child nothing asks it for anything,
/// whatever is called, and the parent goes on. Every allocation of machine memory and every launch
/// of the child would strike.
TEST_P(DeviceStore, AForkedChildAsksTheMachineForNothing) {
  make(8, 8);
  Bytes const key = config_.key(1), value = config_.value(1);
  driver_->run_put({key}, {value});
  auto ended = std::make_unique<DeviceSession>(begin(10));  // with memory of the machine still
  ASSERT_TRUE(ended->end().ok());
  for (bool const in_session : {false, true}) {
    auto session = in_session ? std::make_unique<DeviceSession>(begin(10)) : nullptr;
    ::pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(30);
      fault::failing_allocation.plant(1, true);
      fault::lost_device.plant(1, true);
      std::vector<KeyStatus> statuses;
      std::vector<Answer> answers;
      bool refused = driver_->get({key}, answers).code() == Code::closed &&
                     driver_->put({key}, {value}, statuses).code() == Code::closed &&
                     store().scan({}, 10).status().code() == Code::closed &&
                     store().verify().status().code() == Code::closed &&
                     store().load_cache().status().code() == Code::closed &&
                     store().device_session({10}).status().code() == Code::closed &&
                     store().close().code() == Code::closed;
      for (DeviceSession* const one : {ended.get(), session.get()}) {
        if (one == nullptr) continue;
        refused = refused && one->end().code() == Code::closed;
        refused = refused && DeviceAccess::run(*one, {}).code() == Code::closed;
      }
      session.reset();
      ended.reset();
      driver_.reset();
      bool const asked = fault::failing_allocation.struck() || fault::lost_device.struck();
      fault::failing_allocation.plant(0);
      fault::lost_device.plant(0);
      bool right = true;
      if (GetParam() == Device::cuda) {
        auto const own = Store::create(scratch_.file("own"), config_.create(10), options());
        right = own.status().message().find("forked") != std::string::npos;
      }
      ::_exit(!refused ? 1 : asked ? 2 : right ? 0 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    if (session) {
      EXPECT_EQ(run(*session, {put(config_.key(2), value)}, 1).statuses[0], KeyStatus::ok);
      driver_->model.held[config_.key(2)] = value;
      EXPECT_TRUE(session->end().ok());
    }
    driver_->check_all();
  }
}

TEST_P(DeviceStore, OnlyWhereItCan) {
  make(8, 8);
  {
    auto const transaction = store().begin();
    ASSERT_TRUE(transaction.ok());
    EXPECT_EQ(DeviceAccess::open(store(), {1}).status().code(), Code::busy);
  }
  Status const here = store().device_session({1}).status();
  EXPECT_EQ(here.code(), GetParam() == Device::cpu ? Code::unsupported : Code::ok)
      << here.message();
  ASSERT_TRUE(store().close().ok());
  OpenOptions on_pm = options();
  on_pm.memory.residency = Residency::pm;
  auto again = Store::open(path(), on_pm);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(DeviceAccess::open(*again, {1}).status().code(), Code::unsupported);
  ASSERT_TRUE(again->close().ok());
  on_pm.read_only = true;
  if (GetParam() == Device::cpu) {
    auto reader = Store::open(path(), on_pm);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(DeviceAccess::open(*reader, {1}).status().code(), Code::invalid_argument);
  }
  for (bool const variable : {false, true}) {
    CreateOptions create;
    create.value_bytes = variable ? 0 : 8;
    create.file.overwrite = true;
    create.layout = variable ? Layout::word : Layout::in_place;
    OpenOptions open;
    open.device = GetParam();
    auto other = Store::create(scratch_.file("other"), create, open);
    ASSERT_TRUE(other.ok()) << other.status().message();
    EXPECT_EQ(DeviceAccess::open(*other, {1}).status().code(), Code::unsupported);
  }
  CreateOptions logged;
  logged.value_bytes = 8;
  logged.durability = Durability::power;
  DiskDir const disk("device-log");
  logged.log.dir = disk.path;
  logged.log.bytes = 1 << 20;
  auto power = Store::create(scratch_.file("power"), logged, options());
  ASSERT_TRUE(power.ok()) << power.status().message();
  EXPECT_EQ(DeviceAccess::open(*power, {1}).status().code(), Code::unsupported);
}

/// What a killed child had been told was done is there, and nothing half done. It notes in shared
/// memory how many operations each warp has finished.
TEST(DeviceSessionKilled, LosesNothingAcknowledged) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  constexpr std::uint64_t kSequences = 2048, kEach = 64, kOps = kSequences * kEach;
  OpenOptions open;
  open.memory.residency = Residency::mirrored;
  open.threads = 2;
  auto* const done = static_cast<std::uint64_t*>(::mmap(nullptr, kSequences * sizeof(std::uint64_t),
                                                        PROT_READ | PROT_WRITE,
                                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(done), MAP_FAILED);
  // Warp s puts the keys s, s + kSequences, ...; every fourth of its operations erases the one
  // before.
  std::vector<std::uint64_t> keys(kOps), values(kOps), out(kOps);
  std::vector<OpKind> kinds(kOps);
  for (std::uint64_t i = 0; i < kOps; ++i) {
    bool const erases = i / kSequences % 4 == 3;
    keys[i] = erases ? i - kSequences : i;
    values[i] = i + 7;
    kinds[i] = erases ? OpKind::erase : OpKind::put;
  }
  auto const column = [](std::vector<std::uint64_t> const& v) {
    return Column{reinterpret_cast<std::byte const*>(v.data()), nullptr, 8, v.size(), Place::host};
  };
  for (int round = 0; round < 8; ++round) {
    std::fill(done, done + kSequences, 0);
    ::pid_t const child = ::fork();
    if (child == 0) {
      CreateOptions create;
      create.value_bytes = 8;
      create.file.overwrite = true;
      auto store = Store::create(path, create, open);
      auto session =
          store ? DeviceAccess::open(*store, {kOps}) : Result<DeviceSession>(store.status());
      if (!session) ::_exit(1);
      DeviceOps ops{column(keys),
                    column(values),
                    {reinterpret_cast<std::byte*>(out.data()), 8, kOps, Place::host},
                    kinds,
                    false,
                    kSequences,
                    {},
                    {},
                    {},
                    done};
      static_cast<void>(DeviceAccess::run(*session, ops));
      ::pause();
    }
    std::uint64_t const until = kOps * static_cast<std::uint64_t>(round + 1) / 10;
    auto const sum = [&] {
      std::uint64_t all = 0;
      for (std::uint64_t s = 0; s < kSequences; ++s)
        all += __atomic_load_n(done + s, __ATOMIC_ACQUIRE);
      return all;
    };
    int status = 0;
    while (sum() < until && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(100);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto store = Store::open(path, open);
    ASSERT_TRUE(store.ok()) << store.status().message();
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok() && verified->fault_count == 0);
    std::vector<KeyStatus> statuses(kOps);
    ASSERT_TRUE(store
                    ->get(column(keys),
                          {reinterpret_cast<std::byte*>(out.data()), 8, kOps, Place::host},
                          statuses)
                    .ok());
    for (std::uint64_t i = 0; i < kOps; ++i) {
      std::uint64_t const finished = done[i % kSequences], mine = i / kSequences;
      if (kinds[i] == OpKind::erase) continue;
      bool const erased_later = mine % 4 == 2;
      if (mine < finished && !(erased_later && finished > mine)) {
        ASSERT_EQ(statuses[i], KeyStatus::ok) << i;
      }
      if (erased_later && mine + 1 < finished) {
        ASSERT_EQ(statuses[i], KeyStatus::not_found) << i;
      }
      if (mine > finished) {
        ASSERT_EQ(statuses[i], KeyStatus::not_found) << i;
      }
      if (statuses[i] == KeyStatus::ok) {
        ASSERT_EQ(out[i], values[i]) << i;
      }
    }
  }
  ::munmap(done, kSequences * sizeof(std::uint64_t));
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceStore, testing::Values(Device::cpu, Device::cuda),
                         [](auto const& machine) {
                           return machine.param == Device::cpu ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace perdure::test
