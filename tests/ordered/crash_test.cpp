// What a store of index btree is after a kill, and after damage: half states that a crash leaves
// behind as a table (docs/format.md, "What each crash leaves behind"), made by editing a copy of an
// open pool; a child that is killed; bits that flip. Invariant checked everywhere: what was
// acknowledged is there with its value, or somebody says what is not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <thread>
#include <tuple>

#include "ordered_store.hpp"
#include "pm/sequenced_record.hpp"
#include "support/whole_file.hpp"

namespace perdure::test {
namespace {

constexpr Kind kKind{"variable", 0};
constexpr std::uint64_t kRecords = 40;

using Contents = std::map<Bytes, Bytes>;

Contents contents_of(Store& store) {
  auto const all = all_of(store, {});
  return {all.begin(), all.end()};
}

/// A pool's file, edited as a crash or a fault would have left it.
class Image {
 public:
  explicit Image(std::string const& path) : bytes_(whole_file(path)) {}
  void write(std::string const& path) const {
    std::ofstream(path, std::ios::binary)
        .write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }
  /// Where the valid record of a key begins.
  [[nodiscard]] std::size_t record(Bytes const& key) const {
    std::size_t found = 0;
    for_each([&](std::size_t at, pm::RecordHeader const& h) {
      if (h.sequence != 0 && bytes_.substr(at + sizeof h, h.key_bytes) == key) found = at;
    });
    if (found == 0) throw std::runtime_error("no record of " + key);
    return found;
  }
  /// A free record of the same stride.
  [[nodiscard]] std::size_t free_like(std::size_t record) const {
    std::size_t found = 0;
    std::size_t const superblock = record & ~(pm::kMinSuperblock - 1);
    for_each([&](std::size_t at, pm::RecordHeader const& h) {
      if (h.sequence == 0 && (at & ~(pm::kMinSuperblock - 1)) == superblock) found = at;
    });
    return found;
  }
  [[nodiscard]] pm::RecordHeader header(std::size_t at) const {
    pm::RecordHeader h;
    std::memcpy(&h, bytes_.data() + at, sizeof h);
    return h;
  }
  /// A whole record there, valid by its sequence; 0: all of it but that.
  void put(std::size_t at, Bytes const& key, Bytes const& value, std::uint64_t sequence,
           bool valid) {
    pm::RecordHeader h{0, static_cast<std::uint32_t>(value.size()),
                       static_cast<std::uint32_t>(key.size()), 0, sequence};
    h.crc = pm::sum_of(h, octets(key).data(), octets(value).data());
    if (!valid) h.sequence = 0;
    std::memcpy(bytes_.data() + at, &h, sizeof h);
    bytes_.replace(at + sizeof h, key.size(), key);
    bytes_.replace(at + sizeof h + key.size(), value.size(), value);
  }
  void set_sequence(std::size_t at, std::uint64_t sequence) {
    std::memcpy(bytes_.data() + at + offsetof(pm::RecordHeader, sequence), &sequence,
                sizeof sequence);
  }
  void flip(std::size_t at, unsigned bit = 0) {
    bytes_[at] = static_cast<char>(bytes_[at] ^ 1 << bit);
  }

 private:
  template <class F>
  void for_each(F f) const {
    for (std::size_t s = pm::kMinSuperblock; s < bytes_.size(); s += pm::kMinSuperblock) {
      pm::SuperblockHeader front;
      std::memcpy(&front, bytes_.data() + s, sizeof front);
      if (front.magic != pm::kSuperblockMagic) continue;
      for (std::size_t at = pm::kFirstRecord; at + front.record_bytes <= pm::kMinSuperblock;
           at += front.record_bytes)
        f(s + at, header(s + at));
    }
  }
  std::string bytes_;
};

class HalfStates : public testing::Test {
 protected:
  HalfStates() : store_(opened(Store::create(path(), kKind.create()))) {
    for (std::uint64_t n = 0; n < kRecords; ++n) {
      put(store_, {{kKind.key(n), "old " + std::to_string(n)}});
      acknowledged_[kKind.key(n)] = "old " + std::to_string(n);
    }
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  [[nodiscard]] std::string copy() const { return scratch_.file("copy"); }
  /// The pool as a kill leaves it now, edited.
  Result<Store> open_edited(std::function<void(Image&)> const& edit, OpenOptions const& o = {}) {
    Image image(path());
    edit(image);
    image.write(copy());
    return Store::open(copy(), o);
  }
  void expect_acknowledged(Store& store, std::uint64_t duplicates = 0) {
    EXPECT_EQ(contents_of(store), acknowledged_);
    EXPECT_EQ(store.recovery().records, acknowledged_.size());
    EXPECT_EQ(store.recovery().duplicates, duplicates);
    auto report = store.verify();
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->fault_count, 0u) << report->faults.front();
    ASSERT_TRUE(store.close().ok());
    Store again = opened(Store::open(copy()));
    EXPECT_TRUE(again.recovery().clean);
    EXPECT_EQ(contents_of(again), acknowledged_);
    EXPECT_EQ(again.recovery().duplicates, 0u);
  }
  ScratchDir scratch_;
  Store store_;
  Contents acknowledged_;
};

TEST_F(HalfStates, AnUpdateWhoseOldRecordWasNotFreedYetIsTheNewOne) {
  Bytes const key = kKind.key(7);
  acknowledged_[key] = "new 7";  // was durable, so it may count
  auto store = open_edited([&](Image& image) {
    std::size_t const old = image.record(key);
    image.put(image.free_like(old), key, "new 7", image.header(old).sequence + 1000, true);
  });
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_acknowledged(*store, 1);
}

TEST_F(HalfStates, TheHigherSequenceCountsWhereverItLies) {
  Bytes const key = kKind.key(7);
  auto store = open_edited([&](Image& image) {
    std::size_t const now = image.record(key);
    image.set_sequence(now, 0);
    image.put(now, key, "old 7", 500, true);
    image.put(image.free_like(now), key, "stale", 400, true);
  });
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_acknowledged(*store, 1);
}

TEST_F(HalfStates, ARecordThatIsNotValidYetIsNotThere) {
  auto store = open_edited([&](Image& image) {
    std::size_t const like = image.record(kKind.key(7));
    image.put(image.free_like(like), "another key", "its value", 999, false);
  });
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_acknowledged(*store);
}

TEST_F(HalfStates, AnErasureThatFreedItsRecordIsDone) {
  Bytes const key = kKind.key(7);
  acknowledged_.erase(key);
  auto store = open_edited([&](Image& image) { image.set_sequence(image.record(key), 0); });
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_acknowledged(*store);
}

TEST_F(HalfStates, RecordsOfErasedKeysDoNotComeBackInASuperblockOfAnotherStride) {
  // Values that are full of records, which a superblock cut otherwise would show.
  Bytes forged(20000, '\0');
  Bytes const ghost = "a ghost", value = "its value";
  pm::RecordHeader h{0, static_cast<std::uint32_t>(value.size()),
                     static_cast<std::uint32_t>(ghost.size()), 0, 1u << 30};
  h.crc = pm::sum_of(h, octets(ghost).data(), octets(value).data());
  Bytes const record = Bytes(reinterpret_cast<char const*>(&h), sizeof h) + ghost + value;
  for (std::size_t at = 0; at + record.size() <= forged.size(); at += 48)
    forged.replace(at, record.size(), record);
  std::vector<Bytes> keys;
  for (std::uint64_t n = 0; n < 60; ++n) {
    keys.push_back("large " + std::to_string(n));
    put(store_, {{keys.back(), forged}});
  }
  erase(store_, keys);
  // of the stride that those have, and so many that they need the superblocks that became empty
  for (std::uint64_t n = 0; n < 200; ++n) {
    Bytes const key = "small " + std::to_string(n);
    acknowledged_[key] = Bytes(n % 7 * 100, 's');
    put(store_, {{key, acknowledged_[key]}});
  }
  auto store = open_edited([](Image&) {});
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_acknowledged(*store);
}

TEST_F(HalfStates, ADamagedRecordIsNeverPassedOverInSilence) {
  Bytes const key = kKind.key(7);
  auto const damage = [&](Image& image) {
    std::size_t const at = image.record(key);
    image.flip(at + sizeof(pm::RecordHeader) + key.size(), 3);
  };
  Status const refused = open_edited(damage).status();
  EXPECT_EQ(refused.code(), Code::corrupt);
  EXPECT_NE(refused.message().find("nothing was changed"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("repair"), std::string::npos) << refused.message();
  OpenOptions repair;
  repair.repair = true;
  auto store = open_edited(damage, repair);
  ASSERT_TRUE(store.ok()) << store.status().message();
  acknowledged_.erase(key);
  EXPECT_EQ(contents_of(*store), acknowledged_);
  EXPECT_TRUE(store->recovery().repaired);
  EXPECT_EQ(store->recovery().dropped, 1u);
  EXPECT_FALSE(store->recovery().why_dropped.empty());
  auto report = store->verify();
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report->fault_count, 0u) << "until somebody acknowledges it";
  ASSERT_TRUE(store->acknowledge_repair().ok());
  EXPECT_EQ(store->verify()->fault_count, 0u);
  ASSERT_TRUE(store->close().ok());
  EXPECT_TRUE(Store::open(copy()).ok());
}

TEST_F(HalfStates, ADamagedHeaderOfASuperblockLosesNothing) {
  auto const damage = [&](Image& image) {
    image.flip((image.record(kKind.key(7)) & ~(pm::kMinSuperblock - 1)) + 5, 2);
  };
  EXPECT_EQ(open_edited(damage).status().code(), Code::corrupt);
  OpenOptions repair;
  repair.repair = true;
  auto store = open_edited(damage, repair);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(contents_of(*store), acknowledged_);
  EXPECT_TRUE(store->recovery().repaired);
  EXPECT_EQ(store->recovery().dropped, 0u);
}

/// Of a pool that was closed in order each single bit of its records counts.
TEST(ClosedInOrder, EveryFlippedBitOfARecordIsFound) {
  ScratchDir scratch;
  std::string const path = scratch.file("pool");
  {
    Store store = opened(Store::create(path, kKind.create()));
    for (std::uint64_t n = 0; n < 8; ++n) put(store, {{kKind.key(n), "v"}});
    erase(store, {kKind.key(3)});
    ASSERT_TRUE(store.close().ok());
  }
  Image const whole(path);
  Bytes const key = kKind.key(5);
  std::size_t const at = whole.record(key);
  std::size_t const bytes = sizeof(pm::RecordHeader) + key.size() + 1;
  for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
    Image image = whole;
    image.flip(at + bit / 8, bit % 8);
    image.write(path);
    Status const s = Store::open(path).status();
    ASSERT_EQ(s.code(), Code::corrupt) << "bit " << bit << " of the record: " << s.message();
  }
  Image image = whole;  // freed, though nobody erased it
  image.set_sequence(at, 0);
  image.write(path);
  EXPECT_EQ(Store::open(path).status().code(), Code::corrupt);
  whole.write(path);
  EXPECT_TRUE(Store::open(path).ok());
}

// ------------------------------------------------------------------------------------------------
// A child that writes until it is killed.

struct Progress {
  static constexpr std::uint64_t kKeys = 64;
  std::atomic<std::uint64_t> begun{0}, acknowledged{0};  // rounds
};

constexpr std::uint64_t kErasedEach = 5;  // in round r the keys n with (n + r) % kErasedEach == 0

void write_until_killed(std::string const& path, Progress& progress) {
  Store store = opened(Store::open(path));
  for (std::uint64_t round = progress.begun + 1;; ++round) {
    progress.begun = round;
    std::vector<Bytes> keys, values;
    std::vector<OpKind> kinds;
    for (std::uint64_t n = 0; n < Progress::kKeys; ++n) {
      keys.push_back(kKind.key(n));
      values.push_back(std::to_string(round) + Bytes(n, 'x'));
      kinds.push_back((n + round) % kErasedEach == 0 ? OpKind::erase : OpKind::put);
    }
    Packed const k(keys, 0), v(values, 0);
    MixedBatch batch;
    batch.keys = k.column();
    batch.values = v.column();
    batch.kinds = kinds;
    if (!store.apply(batch).ok()) ::_exit(1);
    progress.acknowledged = round;
  }
}

class Kills : public testing::TestWithParam<std::pair<Persist, Values>> {};

TEST_P(Kills, LeaveWhatWasAcknowledged) {
  ScratchDir scratch;
  std::string const path = scratch.file("pool");
  CreateOptions create = kKind.create();
  std::tie(create.persist, create.values) = GetParam();
  ASSERT_TRUE(opened(Store::create(path, create)).close().ok());
  void* const shared =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const progress = new (shared) Progress;
  for (int life = 0; life < 12; ++life) {
    pid_t const child = ::fork();
    if (child == 0) write_until_killed(path, *progress);
    std::uint64_t const before = progress->acknowledged;
    while (progress->acknowledged < before + 3) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(life * 130));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ::waitpid(child, nullptr, 0);
    Store store = opened(Store::open(path));
    EXPECT_FALSE(store.recovery().clean);
    EXPECT_EQ(store.verify().value().fault_count, 0u);
    auto const held = contents_of(store);
    std::uint64_t const sure = progress->acknowledged, begun = progress->begun;
    for (std::uint64_t n = 0; n < Progress::kKeys; ++n) {
      auto const found = held.find(kKind.key(n));
      auto const fits = [&](std::uint64_t round) {
        bool const gone = (n + round) % kErasedEach == 0;
        if (found == held.end()) return gone;
        return !gone && found->second == std::to_string(round) + Bytes(n, 'x');
      };
      EXPECT_TRUE(fits(sure) || fits(begun)) << "key " << n << " of round " << sure;
    }
    ASSERT_TRUE(store.close().ok());
  }
  ::munmap(shared, sizeof(Progress));
}

INSTANTIATE_TEST_SUITE_P(Persistence, Kills,
                         testing::Values(std::pair(Persist::minimal, Values::heap),
                                         std::pair(Persist::index, Values::heap),
                                         std::pair(Persist::index, Values::log)),
                         [](auto const& one) {
                           bool const index = one.param.first == Persist::index;
                           return std::string(index ? "index" : "minimal") +
                                  (one.param.second == Values::log ? "_log" : "");
                         });

}  // namespace
}  // namespace perdure::test
