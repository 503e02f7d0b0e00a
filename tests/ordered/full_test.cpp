// A store whose tree is durable as a whole (Persist::full): a batch is there after a crash, or
// nothing of it, wherever the crash comes; one that finds no room is undone at once; openings look
// at no record.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "cut_batches.hpp"

namespace perdure::test {
namespace {

TEST(WholeBatches, AreThereOrNotWhereverAKillComes) { EXPECT_EQ(cut_everywhere(5), ""); }

// ------------------------------------------------------------------------------------------------
// A child that writes until it is killed, by two threads.

struct Rounds {
  std::atomic<std::uint64_t> begun{0}, called{0}, acknowledged{0};
};
constexpr Kind kWords{"words", 8, KeyOrder::unsigned_integer, Persist::full};
constexpr std::uint64_t kKeys = 5000;  // more than a thread takes by itself
constexpr std::uint64_t kErasedEach = 5;  // in round r the keys n with (n + r) % kErasedEach == 0

void write_rounds(std::string const& path, Rounds& rounds) {
  Store store = opened(Store::open(path, {.threads = 2}));
  for (std::uint64_t round = rounds.begun + 1;; ++round) {
    rounds.begun = round;
    std::vector<Bytes> keys, values;
    std::vector<OpKind> kinds;
    for (std::uint64_t n = 0; n < kKeys; ++n) {
      keys.push_back(kWords.key(n));
      values.push_back(std::to_string(round));
      kinds.push_back((n + round) % kErasedEach == 0 ? OpKind::erase : OpKind::put);
    }
    Packed const k(keys, kWords.key_bytes), v(values, 0);
    MixedBatch batch;
    batch.keys = k.column();
    batch.values = v.column();
    batch.kinds = kinds;
    rounds.called = round;
    if (!store.apply(batch).ok()) ::_exit(1);
    rounds.acknowledged = round;
  }
}

/// Of which round everything is; 0: of none, or of several.
std::uint64_t round_of(Store& store) {
  auto const all = all_of(store, {});
  if (all.empty()) return 0;
  std::uint64_t const round = std::stoull(all.front().second);
  for (auto const& [key, value] : all)
    if (std::stoull(value) != round) return 0;
  return all.size() == kKeys - kKeys / kErasedEach ? round : 0;
}

TEST(WholeBatches, OfSeveralThreadsSurviveKillsAsAWhole) {
  ScratchDir scratch;
  std::string const path = scratch.file("pool");
  ASSERT_TRUE(opened(Store::create(path, kWords.create())).close().ok());
  void* const shared =
      ::mmap(nullptr, sizeof(Rounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const rounds = new (shared) Rounds;
  std::uint64_t undone = 0;
  // Ten lives, and more until a kill came in the midst of a batch: when it comes is up to the
  // system.
  for (int life = 0; life < 10 || (undone == 0 && life < 200); ++life) {
    pid_t const child = ::fork();
    if (child == 0) write_rounds(path, *rounds);
    std::uint64_t const before = rounds->acknowledged;
    while (rounds->acknowledged < before + 2) std::this_thread::yield();
    while (rounds->called == rounds->acknowledged) std::this_thread::yield();  // it prepares one
    std::this_thread::sleep_for(std::chrono::microseconds(life % 10 * 700));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ::waitpid(child, nullptr, 0);
    Store store = opened(Store::open(path));
    EXPECT_FALSE(store.recovery().clean);
    undone += store.recovery().undone;
    std::uint64_t const round = round_of(store);
    EXPECT_TRUE(round == rounds->acknowledged || round == rounds->begun)
        << round << " of " << rounds->acknowledged << " and " << rounds->begun;
    auto const report = store.verify().value();
    EXPECT_EQ(report.fault_count, 0u) << report.faults.front();
    ASSERT_TRUE(store.close().ok());
  }
  EXPECT_GT(undone, 0u) << "no kill came in the midst of a batch";
  ::munmap(shared, sizeof(Rounds));
}

// ------------------------------------------------------------------------------------------------

std::vector<std::pair<Bytes, Bytes>> many(std::uint64_t from, std::uint64_t to, Bytes value) {
  std::vector<std::pair<Bytes, Bytes>> records;
  for (std::uint64_t n = from; n < to; ++n) records.emplace_back(kWords.key(n), value);
  return records;
}

Status put_all(Store& store, std::vector<std::pair<Bytes, Bytes>> const& records) {
  std::vector<Bytes> keys, values;
  for (auto const& [key, value] : records) {
    keys.push_back(key);
    values.push_back(value);
  }
  Packed const k(keys, kWords.key_bytes), v(values, 0);
  return store.put(k.column(), v.column());
}

/// A pool that has free slots for all records anew, and no superblock for the log to grow by.
std::vector<std::pair<Bytes, Bytes>> fill(Store& store) {
  constexpr std::uint64_t kMany = 80'000;
  std::vector<std::pair<Bytes, Bytes>> all = many(0, kMany, "a"), stay;
  std::vector<Bytes> gone;
  for (std::uint64_t at = 0; at < kMany; at += 4000)
    put(store, {all.begin() + static_cast<std::ptrdiff_t>(at),
                all.begin() + static_cast<std::ptrdiff_t>(at + 4000)});
  for (std::uint64_t n = 0; n < kMany; ++n)
    n % 2 == 0 ? gone.push_back(all[n].first) : stay.push_back({all[n].first, "b"});
  for (auto at = gone.begin(); at != gone.end(); at += 4000)  // else the log would keep much room
    erase(store, {at, at + 4000});
  for (std::uint64_t n = kMany; put_all(store, many(n, n + 1, Bytes(200'000, 'l'))).ok(); ++n) {
  }
  return stay;
}

TEST(WholeBatches, ThatFindNoRoomForTheirLogTakeNoEffect) {
  ScratchDir scratch;
  std::string const path = scratch.file("pool");
  CreateOptions create = kWords.create();
  create.max_bytes = 16u << 20;
  Store store = opened(Store::create(path, create, {.threads = 8}));
  auto const all = fill(store);
  auto const before = all_of(store, {});
  Status const refused = put_all(store, all);  // their leaves have more lines than the log
  EXPECT_EQ(refused.code(), Code::no_space);
  EXPECT_NE(refused.message().find("nothing of this batch"), std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("undo log"), std::string::npos) << refused.message();
  EXPECT_EQ(store.stats().records, before.size());
  EXPECT_TRUE(all_of(store, {}) == before);
  EXPECT_EQ(store.verify().value().fault_count, 0u);
  put(store, {all[7]});
  ASSERT_TRUE(store.close().ok());
  Store again = opened(Store::open(path));
  EXPECT_EQ(again.stats().records, before.size());
  EXPECT_EQ(all_of(again, {.start = octets(all[7].first), .limit = 1}).front().second, "b");
}

TEST(WholeBatches, ThatAreAtomicTakeNoEffectWhereOneOperationIsRefused) {
  Store store = opened(Store::create("memfd:atomic", kWords.create()));
  put(store, many(0, 20, "12345678"));
  auto const before = all_of(store, {});
  std::vector<Bytes> keys, operands(20, "11111111");
  for (std::uint64_t n = 0; n < 20; ++n) keys.push_back(kWords.key(n));
  operands[7] = "too long for it";
  Packed const k(keys, kWords.key_bytes), v(operands, 0);
  std::vector<KeyStatus> statuses(20);
  Status const s =
      store.update(k.column(), v.column(), Rmw::add, Element::u8, statuses, {.atomic = true});
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("for operation 7"), std::string::npos) << s.message();
  EXPECT_EQ(statuses[7], KeyStatus::size_mismatch);
  EXPECT_EQ(statuses[8], KeyStatus::not_tried);
  EXPECT_TRUE(all_of(store, {}) == before);
  EXPECT_EQ(store.verify().value().fault_count, 0u);
}

TEST(WholeBatches, AreSeenByNoReaderBeforeTheyCommitted) {
  Store store = opened(Store::create("memfd:isolated", kWords.create(), {.threads = 2}));
  put(store, many(0, kKeys, "0"));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int version = 1; !stop; ++version) put(store, many(0, kKeys, std::to_string(version)));
  });
  for (int look = 0; look < 30; ++look) {
    std::vector<Bytes> const keys{kWords.key(1), kWords.key(kKeys / 2), kWords.key(kKeys - 1)};
    Packed const k(keys, kWords.key_bytes);
    auto const values = unpack(store.get_variable(k.column(), {}).value());
    EXPECT_EQ(values[0], values[1]) << "of two batches";
    EXPECT_EQ(values[0], values[2]) << "of two batches";
  }
  stop = true;
  writer.join();
}

TEST(Options, OfALogAreRefusedWhereValuesLieInTheHeap) {
  ScratchDir scratch;
  std::string const path = scratch.file("pool");
  for (Index const index : {Index::gphash, Index::dash_eh, Index::btree}) {
    CreateOptions create;
    create.index = index;
    create.file.overwrite = true;
    OpenOptions open;
    open.value_log.collectors = 2;
    EXPECT_NE(Store::create(path, create, open).status().message().find("collectors"),
              std::string::npos);
    ASSERT_TRUE(opened(Store::create(path, create)).close().ok());
    Status const refused = Store::open(path, open).status();
    EXPECT_EQ(refused.code(), Code::unsupported);
    EXPECT_NE(refused.message().find("values log"), std::string::npos) << refused.message();
  }
}

TEST(WholeBatches, WithALogForValuesAreRefused) {
  CreateOptions create = kWords.create();
  create.values = Values::log;
  Status const s = Store::create("memfd:refused", create).status();
  EXPECT_EQ(s.code(), Code::unsupported);
  EXPECT_NE(s.message().find("values in the heap"), std::string::npos) << s.message();
}

}  // namespace
}  // namespace perdure::test
