// The dense buffers that steps carry: how they are registered, which are refused, and how they lie
// in the pool's file. Invariant: a refusal leaves the pool and the step in it as they were.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "steps.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

TEST_P(Steps, BuffersOfManySuperblocksAreCountedAndKept) {
  Stats const before = store_->stats();
  std::vector<std::byte> large((5u << 20) + 77);
  std::vector<DenseBuffer> const buffers{{"large", large.data(), large.size(), MemorySpace::host}};
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
  refuse(with([](DenseBuffer& b) { b.space = MemorySpace::device; }), Code::invalid_argument,
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
  refuse({{"large", large.data(), large.size(), MemorySpace::host}}, Code::no_space,
         "no room for two copies");
  EXPECT_EQ(scan_all(*store_), table_of(1));
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(2));
  expect_step(*store_, 2);
}

TEST_P(Steps, ADamagedHeaderCostsTheStepsAndNotTheTable) {
  ASSERT_NO_FATAL_FAILURE(register_model());
  ASSERT_NO_FATAL_FAILURE(write_step(1));
  ASSERT_TRUE(store_->close().ok());
  Image image(read_file(path_.str()));
  image.flip(image.root().find(pm::kDenseRoom)->offset + 256);  // of the first name
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
  constexpr std::uint64_t kSuperblock = pm::kMinSuperblock;
  std::uint64_t const first = good.root().find(pm::kDenseRoom)->offset;
  auto const damaged = [&](std::uint64_t offset, std::uint64_t superblocks) {
    Image image = good;
    pm::Root root = image.root();
    root.set(pm::kDenseRoom, offset, superblocks);
    image.publish(root);
    write_file(killed_.str(), image.bytes);
    return Store::open(killed_.str(), options()).status();
  };
  for (Status const& s :
       {damaged(kSuperblock, 1), damaged(0, 1), damaged(first, 0), damaged(first, ~0ull),
        damaged(first, std::uint64_t{1} << 44), damaged(first + 4096, 1),
        damaged(good.bytes.size(), 1), damaged(~0ull / kSuperblock * kSuperblock, 1)}) {
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
  std::uint64_t entry = image.root_offset() + 32;
  while (image.text(entry, 6) != std::string("dense\0", 6)) entry += 32;
  auto const room = image.at<std::uint64_t>(entry + 16);
  EXPECT_EQ(image.at<std::uint64_t>(entry + 24), 1u);
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
  if (GetParam().residency == Residency::pm) {
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

}  // namespace
}  // namespace perdure::test
