// Steps: a transaction's batches, dense buffers and a step number, all or nothing. What a kill
// leaves is a copy of the pool's file, opened. Invariant checked throughout: table, buffers and
// number are of one step, whichever it is.
#include <gtest/gtest.h>

#include <thread>

#include "crash/pool_file.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

constexpr std::size_t kWeights = 1001;  // and three bytes: no copy ends with a line
constexpr std::uint64_t kKeys = 200;

/// A model in host memory: what it holds follows from the step that it was trained to.
struct Trained {
  std::vector<std::byte> weights = std::vector<std::byte>(kWeights * 4 + 3);
  std::array<double, 3> bias{};

  void train_to(std::uint64_t step) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<std::byte>(step * 31 + i * 7);
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(step * 10 + i);
  }
  [[nodiscard]] std::vector<DenseBuffer> buffers() {
    return {{"weights", weights.data(), weights.size(), Place::host},
            {"bias", reinterpret_cast<std::byte*>(bias.data()), sizeof bias, Place::host}};
  }
  friend bool operator==(Trained const&, Trained const&) = default;
};

Trained trained_to(std::uint64_t step) {
  Trained model;
  model.train_to(step);
  return model;
}

Contents table_of(std::uint64_t step) {
  Contents contents;
  for (std::uint64_t k = 0; k < kKeys; ++k)
    contents[u64_text(k)] =
        (std::to_string(k) + " of step " + std::to_string(step) + std::string(24, '.'))
            .substr(0, 24);
  return contents;
}

class Steps : public ::testing::TestWithParam<Residency> {
 protected:
  Steps() { store_.emplace(make({})); }

  Store make(CreateOptions create) const {
    create.value_bytes = 24;
    create.expected_records = std::min<std::uint64_t>(create.expected_records, 300);
    create.file.overwrite = true;
    auto store = Store::create(path_.str(), create, options());
    if (!store.ok()) throw std::runtime_error(store.status().message());
    return std::move(*store);
  }
  static OpenOptions options() {
    OpenOptions open;
    open.threads = 2;
    open.memory.residency = GetParam();
    return open;
  }
  static Store open(std::string const& path, OpenOptions const& how = options()) {
    auto store = Store::open(path, how);
    if (!store.ok()) throw std::runtime_error(store.status().message());
    return std::move(*store);
  }
  void reopen() {
    ASSERT_TRUE(store_->close().ok());
    store_.reset();
    store_.emplace(open(path_.str()));
  }
  /// Opens what a kill would leave now; the store here goes on.
  [[nodiscard]] Store as_killed() {
    write_file(killed_.str(), read_file(path_.str()));
    return open(killed_.str());
  }
  void register_model() {
    Status const s = store_->register_dense(model_.buffers());
    ASSERT_TRUE(s.ok()) << s.message();
  }
  static Status put(Store& store, Transaction& in, Contents const& contents) {
    Strings keys(8), values(24);
    for (auto const& [key, value] : contents) {
      keys.add(key);
      values.add(value);
    }
    CallOptions how;
    how.transaction = &in;
    return store.put(keys.column(), values.column(), {}, how);
  }
  Transaction begin(std::uint64_t operations = kKeys) {
    auto begun = store_->begin({operations});
    if (!begun.ok()) throw std::runtime_error(begun.status().message());
    return std::move(*begun);
  }
  /// Up to, and without, its commit.
  Transaction half_step(std::uint64_t number) {
    Transaction t = begin();
    if (Status s = put(*store_, t, table_of(number)); !s.ok())
      throw std::runtime_error(s.message());
    model_.train_to(number);
    if (Status s = t.write_step(number); !s.ok()) throw std::runtime_error(s.message());
    return t;
  }
  void write_step(std::uint64_t number) {
    Transaction t = half_step(number);
    Status const s = t.commit();
    ASSERT_TRUE(s.ok()) << s.message();
  }
  /// The store holds the table, the buffers and the number of that step.
  static void expect_step(Store& store, std::uint64_t number) {
    Trained found = trained_to(number + 1000);
    Status const s = store.register_dense(found.buffers());
    ASSERT_TRUE(s.ok()) << s.message();
    auto const restored = store.restore_step();
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    ASSERT_TRUE(restored.value().has_value());
    EXPECT_EQ(*restored.value(), number);
    EXPECT_TRUE(found == trained_to(number));
    EXPECT_EQ(scan_all(store), table_of(number));
    auto const verified = store.verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified.value().fault_count, 0u);
  }
  void refuse(std::vector<DenseBuffer> const& buffers, Code code, std::string const& says) {
    Status const s = store_->register_dense(buffers);
    EXPECT_EQ(s.code(), code) << s.message();
    EXPECT_NE(s.message().find(says), std::string::npos) << s.message();
  }

  PoolPath path_, killed_;
  Trained model_;
  std::optional<Store> store_;
};

TEST_P(Steps, ThereIsNoneBeforeTheFirst) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  model_.train_to(5);
  auto const step = store_->restore_step();
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_FALSE(step.value().has_value());
  EXPECT_TRUE(model_ == trained_to(5)) << "the buffers stay as they were";
}

TEST_P(Steps, WhatCommittedIsThereAfterReopening) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(0));
  ASSERT_NO_FATAL_FAILURE(write_step(41));
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(store_->recovery().clean);
  expect_step(*store_, 41);
}

TEST_P(Steps, AKillLeavesAllOfOneOrNothingOfIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  for (std::uint64_t number = 2; number < 6; ++number) {
    Transaction t = half_step(number);
    {
      Store killed = as_killed();
      EXPECT_EQ(killed.recovery().undone, kKeys + 1) << "every slot, and the step's word";
      expect_step(killed, number - 1);
    }
    ASSERT_TRUE(t.commit().ok());
    Store killed = as_killed();
    EXPECT_EQ(killed.recovery().undone, 0u);
    expect_step(killed, number);
  }
}

TEST_P(Steps, WhatAKillLeftGoesOn) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  Transaction t = half_step(2);
  write_file(killed_.str(), read_file(path_.str()));
  store_.emplace(open(killed_.str()));
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  ASSERT_NO_FATAL_FAILURE(write_step(3));
  expect_step(*store_, 3);
}

TEST_P(Steps, AnAbortLeavesTheOneBefore) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(7));
  for (int end = 0; end < 3; ++end) {
    {
      Transaction t = half_step(8);
      if (end == 0) {
        ASSERT_TRUE(t.abort().ok());
      } else if (end == 1) {
        ASSERT_NO_FATAL_FAILURE(reopen());  // closing aborts
      }
    }  // as does destroying
    expect_step(*store_, 7);
    ASSERT_NO_FATAL_FAILURE(register_model());
  }
  ASSERT_NO_FATAL_FAILURE(write_step(8));
  expect_step(*store_, 8);
}

TEST_P(Steps, TheTwoCopiesTakeTurns) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  for (std::uint64_t number = 0; number < 9; ++number) {
    ASSERT_NO_FATAL_FAILURE(write_step(number));
    Image const image(read_file(path_.str()));
    std::uint64_t const room = image.root().dense_first * image.header().superblock_bytes;
    auto const word = image.at<std::uint64_t>(room + 128);
    EXPECT_EQ(word & ~(std::uint64_t{1} << 63), number + 1);
    EXPECT_EQ(word >> 63, (number + 1) % 2);
  }
  expect_step(*store_, 8);
}

TEST_P(Steps, TransactionsAndBatchesWithoutOneLeaveItAlone) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(3));
  ASSERT_TRUE(put_all(*store_, table_of(4)).ok());
  Transaction t = begin();
  ASSERT_TRUE(put(*store_, t, table_of(5)).ok());
  model_.train_to(5);
  ASSERT_TRUE(t.commit().ok());
  auto const step = store_->restore_step();
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step.value(), 3u);
  EXPECT_TRUE(model_ == trained_to(3));
  EXPECT_EQ(scan_all(*store_), table_of(5));
}

TEST_P(Steps, OneNeedsNoBatchAndBatchesMayFollowIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  {
    Transaction t = begin(1);
    model_.train_to(1);
    ASSERT_TRUE(t.write_step(1).ok());
    ASSERT_TRUE(t.commit().ok());
  }
  Transaction t = begin();
  model_.train_to(2);
  ASSERT_TRUE(t.write_step(2).ok());
  ASSERT_TRUE(put(*store_, t, table_of(2)).ok());
  EXPECT_EQ(store_->restore_step().value(), 2u) << "a transaction's own thread sees what it wrote";
  ASSERT_TRUE(t.commit().ok());
  Store killed = as_killed();
  expect_step(killed, 2);
}

TEST_P(Steps, ABatchThatFailsInOneLeavesTheStepInIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  Transaction t = half_step(1);
  Contents many;
  for (std::uint64_t k = 0; k < 5000; ++k) many[u64_text(k)] = std::string(24, 'x');
  EXPECT_EQ(put(*store_, t, many).code(), Code::no_space);
  ASSERT_TRUE(t.commit().ok());
  expect_step(*store_, 1);
}

TEST_P(Steps, ATransactionHasRoomForItsOperationsAndTheStep) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  Transaction t = begin(256);
  Contents all;
  for (std::uint64_t k = 0; k < 256; ++k) all[u64_text(k)] = std::string(24, 'x');
  ASSERT_TRUE(put(*store_, t, all).ok());
  Status const s = t.write_step(1);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST_P(Steps, OneThatItsTransactionHasNoRoomForIsRefusedAndTheTransactionGoesOn) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  constexpr std::uint64_t kRoom = 32;  // entries that an undo log has at least
  Transaction t = begin(kRoom - 1);
  Contents all;
  for (std::uint64_t k = 0; k < kRoom; ++k) all[u64_text(k)] = std::string(24, 'x');
  ASSERT_TRUE(put(*store_, t, all).ok());
  Status const s = t.write_step(1);
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  ASSERT_TRUE(t.commit().ok());
  Store killed = as_killed();
  EXPECT_EQ(scan_all(killed), all);
}

TEST_P(Steps, TheTableGrowsBetweenThem) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  Contents many;
  for (std::uint64_t k = 0; k < 50000; ++k) many[u64_text(1000 + k)] = std::string(24, 'x');
  ASSERT_TRUE(put_all(*store_, many).ok());
  EXPECT_GT(store_->stats().growths, 0u);
  Strings keys(8);
  for (auto const& [key, value] : many) keys.add(key);
  ASSERT_TRUE(store_->erase(keys.column()).ok());
  expect_step(*store_, 1);
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  Store killed = as_killed();
  expect_step(killed, 2);
}

TEST_P(Steps, BuffersOfManySuperblocksAreCountedAndKept) {
  Stats const before = store_->stats();
  std::vector<std::byte> large((5u << 20) + 77);
  std::vector<DenseBuffer> const buffers{{"large", large.data(), large.size(), Place::host}};
  ASSERT_TRUE(store_->register_dense(buffers).ok());
  Stats const after = store_->stats();
  EXPECT_GE(after.space.dense_bytes, 2 * large.size());
  EXPECT_LE(after.space.dense_bytes, 2 * large.size() + (4u << 20));
  EXPECT_EQ(after.space.used_bytes, before.space.used_bytes + after.space.dense_bytes);
  EXPECT_LE(after.space.used_bytes, after.space.pool_bytes);
  for (std::uint64_t step = 1; step < 4; ++step) {
    for (std::size_t i = 0; i < large.size(); ++i)
      large[i] = static_cast<std::byte>(step + i * 13 + i / 4096);
    Transaction t = begin(1);
    ASSERT_TRUE(t.write_step(step).ok());
    ASSERT_TRUE(t.commit().ok());
  }
  std::vector<std::byte> const written = large;
  std::fill(large.begin(), large.end(), std::byte{0});
  EXPECT_EQ(store_->restore_step().value(), 3u);
  EXPECT_TRUE(large == written);
}

TEST_P(Steps, ASnapshotHoldsTheOneBeforeIt) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  DiskDir const disk("steps");
  std::filesystem::create_directory(disk.path);
  ASSERT_TRUE(store_->snapshot(disk.file("snapshot")).ok());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  auto restored = Store::restore(disk.file("snapshot"), killed_.str(), {}, options());
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  expect_step(*restored, 1);
  expect_step(*store_, 2);
}

TEST_P(Steps, AReadOnlyStoreRestores) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(6));
  ASSERT_TRUE(store_->close().ok());
  OpenOptions how = options();
  how.read_only = true;
  store_.emplace(open(path_.str(), how));
  expect_step(*store_, 6);
}

TEST_P(Steps, AReadOnlyPoolWithoutBuffersGetsNone) {
  ASSERT_TRUE(store_->close().ok());
  OpenOptions how = options();
  how.read_only = true;
  store_.emplace(open(path_.str(), how));
  refuse(model_.buffers(), Code::invalid_argument, "read-only");
}

TEST_P(Steps, BuffersMayMoveAndComeInAnyOrder) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  Trained other = trained_to(2);
  auto buffers = other.buffers();
  std::swap(buffers[0], buffers[1]);
  ASSERT_TRUE(store_->register_dense(buffers).ok());
  Transaction t = begin();
  ASSERT_TRUE(put(*store_, t, table_of(2)).ok());
  ASSERT_TRUE(t.write_step(2).ok());
  ASSERT_TRUE(t.commit().ok());
  expect_step(*store_, 2);
}

TEST_P(Steps, WhatIsRegisteredOtherwiseIsNamed) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  auto const good = model_.buffers();
  auto buffers = good;
  buffers.pop_back();
  refuse(buffers, Code::invalid_argument,
         "holds dense buffer \"bias\" of 24 bytes, which was left out");
  buffers = good;
  buffers[0].bytes -= 1;
  refuse(buffers, Code::invalid_argument, "dense buffer \"weights\" has 4006 bytes");
  buffers = good;
  buffers[1].name = "biases";
  refuse(buffers, Code::invalid_argument,
         "holds no dense buffer \"biases\"; it holds weights, bias");
  buffers = good;
  buffers.push_back(good[0]);
  refuse(buffers, Code::invalid_argument, "\"weights\" is given twice");
  ASSERT_NO_FATAL_FAILURE(reopen());
  buffers = good;
  buffers[0].bytes += 1;
  refuse(buffers, Code::invalid_argument, "dense buffer \"weights\" has 4008 bytes");
  expect_step(*store_, 1);
}

TEST_P(Steps, BuffersThatNoPoolTakesAreRefused) {
  refuse({}, Code::invalid_argument, "no dense buffers were given");
  auto const with = [&](auto change) {
    auto buffers = model_.buffers();
    change(buffers[1]);
    return buffers;
  };
  refuse(with([](DenseBuffer& b) { b.name = ""; }), Code::invalid_argument,
         "a name has 1 to 111 bytes");
  refuse(with([](DenseBuffer& b) { b.name = std::string(112, 'n'); }), Code::invalid_argument,
         "1 to 111 bytes");
  refuse(with([](DenseBuffer& b) { b.name = std::string("a\0b", 3); }), Code::invalid_argument,
         "none of them zero");
  refuse(with([](DenseBuffer& b) { b.bytes = 0; }), Code::invalid_argument, "has no bytes");
  refuse(with([](DenseBuffer& b) { b.data = nullptr; }), Code::invalid_argument, "is null");
  refuse(with([](DenseBuffer& b) { b.place = Place::device; }), Code::invalid_argument,
         "lies in device memory");
  refuse(with([](DenseBuffer& b) { b.bytes = ~std::uint64_t{0} - 3; }), Code::no_space,
         "more than a pool holds");
  ASSERT_NO_FATAL_FAILURE(register_model()) << "none of them left anything behind";
}

TEST_P(Steps, WithoutRoomForTheBuffersThePoolStaysAsItWas) {
  store_.reset();
  CreateOptions create;
  create.max_bytes = 8u << 20;
  store_.emplace(make(create));
  ASSERT_TRUE(put_all(*store_, table_of(1)).ok());
  std::vector<std::byte> large(4u << 20);
  refuse({{"large", large.data(), large.size(), Place::host}}, Code::no_space,
         "no room for two copies");
  EXPECT_EQ(scan_all(*store_), table_of(1));
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  expect_step(*store_, 2);
}

TEST_P(Steps, OneIsWrittenOnceByATransactionThatIsOpen) {
  {
    Transaction t = begin();
    EXPECT_NE(t.write_step(1).message().find("call register_dense before begin"),
              std::string::npos);
    EXPECT_EQ(store_->register_dense(model_.buffers()).code(), Code::busy);
  }
  EXPECT_EQ(store_->restore_step().status().code(), Code::invalid_argument);
  ASSERT_NO_FATAL_FAILURE(register_model());
  Transaction t = begin();
  EXPECT_EQ(t.write_step((std::uint64_t{1} << 63) - 1).code(), Code::invalid_argument);
  std::thread([&] {
    EXPECT_TRUE(t.write_step((std::uint64_t{1} << 63) - 2).ok());
  }).join();  // whoever has it
  Status const again = t.write_step(2);
  EXPECT_NE(again.message().find("has written step 9223372036854775806 already"), std::string::npos)
      << again.message();
  ASSERT_TRUE(t.commit().ok());
  EXPECT_EQ(t.write_step(3).code(), Code::closed);
  EXPECT_EQ(store_->restore_step().value(), (std::uint64_t{1} << 63) - 2);
}

TEST_P(Steps, ADamagedHeaderCostsTheStepsAndNotTheTable) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  ASSERT_TRUE(store_->close().ok());
  Image image(read_file(path_.str()));
  image.flip(image.root().dense_first * image.header().superblock_bytes +
             256);  // of the first name
  write_file(killed_.str(), image.bytes);
  store_.emplace(open(killed_.str()));
  EXPECT_EQ(scan_all(*store_), table_of(1));
  refuse(model_.buffers(), Code::corrupt, "is damaged; the table is not");
  auto const verified = store_->verify();
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified.value().fault_count, 1u);
  EXPECT_NE(verified.value().faults.at(0).find("dense buffers"), std::string::npos);
}

TEST_P(Steps, ARootThatNamesNoSuchRoomIsRefused) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_TRUE(store_->close().ok());
  Image const good(read_file(path_.str()));
  auto const damaged = [&](auto change) {
    Image image = good;
    pm::Root root = image.root();
    change(root);
    image.publish(root);
    write_file(killed_.str(), image.bytes);
    return Store::open(killed_.str(), options()).status();
  };
  for (Status const& s : {damaged([](pm::Root& r) { r.dense_first = 1; }),
                          damaged([](pm::Root& r) { r.dense_first = 0; }),
                          damaged([](pm::Root& r) { r.dense_superblocks = 0; }),
                          damaged([](pm::Root& r) { r.dense_superblocks = 1u << 31; }),
                          damaged([](pm::Root& r) { r.dense_first = 1u << 31; })}) {
    EXPECT_EQ(s.code(), Code::corrupt);
    EXPECT_NE(s.message().find("room for dense buffers that cannot be there"), std::string::npos)
        << s.message();
  }
}

// The numbers here are the document's, not the structs'.
TEST_P(Steps, BytesStandWhereTheDocumentSays) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(4));
  ASSERT_NO_FATAL_FAILURE(write_step(5));
  Image const image(read_file(path_.str()));
  std::uint64_t const root = image.root_offset();
  std::uint64_t const room = std::uint64_t{image.at<std::uint32_t>(root + 572)} << 20;
  EXPECT_EQ(image.at<std::uint32_t>(root + 576), 1u);
  EXPECT_EQ(image.text(room, 4), "PRDN");
  EXPECT_EQ(image.at<std::uint32_t>(room + 4), 2u);
  std::uint32_t const front = crc32c(0, image.bytes.data() + room, 60);
  EXPECT_EQ(image.at<std::uint32_t>(room + 60),
            crc32c(front, image.bytes.data() + room + 256, 256));
  EXPECT_EQ(image.text(room + 256, 8), std::string("weights\0", 8));
  EXPECT_EQ(image.at<std::uint64_t>(room + 256 + 112), 4007u);
  EXPECT_EQ(image.text(room + 384, 5), std::string("bias\0", 5));
  EXPECT_EQ(image.at<std::uint64_t>(room + 384 + 112), 24u);
  EXPECT_EQ(image.at<std::uint64_t>(room + 128), 6u) << "copy 0, step 5";
  std::uint64_t const copy = 32 * 128 + 128;
  for (std::uint64_t which = 0; which < 2; ++which) {
    Trained const held = trained_to(5 - which);
    std::uint64_t const at = room + 512 + which * copy;
    EXPECT_EQ(std::memcmp(image.bytes.data() + at, held.weights.data(), 4007), 0);
    EXPECT_EQ(std::memcmp(image.bytes.data() + at + 32 * 128, held.bias.data(), 24), 0);
  }
}

TEST_P(Steps, LayoutInPlaceAndDurabilityPowerSayThatTheyCannot) {
  if (GetParam() == Residency::pm) {
    store_.reset();
    CreateOptions create;
    create.layout = Layout::in_place;
    store_.emplace(make(create));
    refuse(model_.buffers(), Code::unsupported, "layout word");
  }
  store_.reset();
  DiskDir const disk("steps-log");
  CreateOptions create;
  create.durability = Durability::power;
  create.log.dir = disk.path;
  create.log.bytes = 1u << 20;
  store_.emplace(make(create));
  refuse(model_.buffers(), Code::unsupported, "whose log does not carry dense buffers");
  store_.reset();
}

INSTANTIATE_TEST_SUITE_P(Store, Steps, ::testing::Values(Residency::pm, Residency::mirrored),
                         [](auto const& tested) {
                           return tested.param == Residency::pm ? "pm" : "mirrored";
                         });

}  // namespace
}  // namespace perdure::test
