// What lies between the log and the store while it is replayed: batches merged, and the queue.
#include "store/gphash/logged_queue.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/store_driver.hpp"

namespace perdure {
namespace {

using test::Bytes;
using test::Packed;

std::vector<std::byte> encoded(OpKind kind, std::vector<Bytes> const& keys,
                               std::vector<Bytes> const& values, std::uint32_t width) {
  Packed const packed_keys(keys, width), packed_values(values, width);
  wal::BatchOps ops;
  ops.kind = kind;
  ops.keys = packed_keys.column();
  if (!values.empty()) ops.values = packed_values.column();
  std::vector<std::byte> bytes;
  wal::EncodedBatch const batch(ops);
  for (auto const piece : batch.pieces()) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

std::vector<Bytes> items(Column const& c) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < c.count; ++i) {
    std::size_t const from =
        c.offsets == nullptr ? i * c.width : static_cast<std::size_t>(c.offsets[i]);
    std::size_t const to =
        c.offsets == nullptr ? from + c.width : static_cast<std::size_t>(c.offsets[i + 1]);
    all.emplace_back(reinterpret_cast<char const*>(c.data) + from, to - from);
  }
  return all;
}

struct Merging : testing::Test {
  exec::Workers workers{2};
  MergedBatches merged{workers};

  static wal::DecodedBatch decoded(std::vector<std::byte> const& bytes) {
    return *wal::DecodedBatch::decode(bytes);
  }
};

TEST_F(Merging, ColumnsOfFixedSizesAreOneBehindTheOther) {
  auto const a = encoded(OpKind::put, {"k1", "k2"}, {"v1", "v2"}, 2);
  auto const b = encoded(OpKind::put, {"k3"}, {"v3"}, 2);
  merged.add(7, decoded(a));
  ASSERT_TRUE(merged.takes(decoded(b)));
  merged.add(8, decoded(b));
  Call const call = merged.call();
  EXPECT_EQ(items(call.keys), (std::vector<Bytes>{"k1", "k2", "k3"}));
  EXPECT_EQ(items(call.values), (std::vector<Bytes>{"v1", "v2", "v3"}));
  EXPECT_EQ(items(merged.part(1).keys), (std::vector<Bytes>{"k3"}));
}

TEST_F(Merging, SoAreThoseOfVariableSizesEmptyOnesToo) {
  auto const a = encoded(OpKind::put, {"a", "key"}, {"", "value"}, 0);
  auto const b = encoded(OpKind::put, {"another"}, {""}, 0);
  auto const c = encoded(OpKind::put, {"x"}, {"y"}, 0);
  std::uint64_t number = 0;
  for (auto const* const bytes : {&a, &b, &c}) merged.add(++number, decoded(*bytes));
  Call const call = merged.call();
  EXPECT_EQ(items(call.keys), (std::vector<Bytes>{"a", "key", "another", "x"}));
  EXPECT_EQ(items(call.values), (std::vector<Bytes>{"", "value", "", "y"}));
}

TEST_F(Merging, OnlyLikeGoesWithLikeAndNotWithoutEnd) {
  auto const puts = encoded(OpKind::put, {"k1"}, {"v1"}, 2);
  merged.add(1, decoded(puts));
  EXPECT_FALSE(merged.takes(decoded(encoded(OpKind::erase, {"k1"}, {}, 2))));
  EXPECT_FALSE(merged.takes(decoded(encoded(OpKind::put, {"k1"}, {"v1"}, 0))));
  std::uint64_t number = 1;
  while (number < (1u << 20) && merged.takes(decoded(puts))) merged.add(++number, decoded(puts));
  EXPECT_LT(number, 1u << 20);
  merged.clear();
  EXPECT_TRUE(merged.takes(decoded(encoded(OpKind::erase, {"k1"}, {}, 2))));
}

TEST_F(Merging, ABatchThatDoesNotTakeEffectAgainIsNamed) {
  auto const two = encoded(OpKind::erase, {"k1", "k2"}, {}, 2);
  for (std::uint64_t const number : {40u, 41u, 43u}) merged.add(number, decoded(two));
  std::vector<KeyStatus> statuses(6, KeyStatus::ok);
  EXPECT_TRUE(merged.check(0, {}, statuses).ok());
  statuses[3] = KeyStatus::not_found;
  EXPECT_EQ(merged.check(0, {}, statuses).message(),
            "batch 41 of its log does not take effect again at operation 1");
  statuses = {KeyStatus::not_found, KeyStatus::ok};
  EXPECT_EQ(merged.check(2, {}, statuses).message(),
            "batch 43 of its log does not take effect again at operation 0");
  EXPECT_EQ(merged.check(1, {Code::io_error, "gone"}, statuses).message(),
            "from batch 41 of its log on: gone");
}

TEST(LoggedQueue, KeepsOrderAndGivesMemoryBack) {
  LoggedQueue queue;
  std::thread reader([&] {
    std::vector<std::byte> payload;
    for (std::uint64_t n = 0; n < 1000; ++n) {
      payload.assign(1u << 20, static_cast<std::byte>(n));  // far more than may be on its way
      ASSERT_TRUE(queue.give(n, payload));
    }
    queue.end();
  });
  std::uint64_t expected = 0;
  std::vector<Logged> held;
  while (auto logged = queue.take(true)) {
    EXPECT_EQ(logged->number, expected);
    EXPECT_EQ(logged->payload.back(), static_cast<std::byte>(expected++));
    held.push_back(std::move(*logged));
    queue.give_back(held, 1);
  }
  reader.join();
  EXPECT_EQ(expected, 1000u);
}

TEST(LoggedQueue, AReaderDoesNotWaitForOneThatHasStopped) {
  LoggedQueue queue;
  std::thread reader([&] {
    std::vector<std::byte> payload(48u << 20);
    while (queue.give(0, payload)) payload.resize(48u << 20);
  });
  queue.stop();
  reader.join();
}

}  // namespace
}  // namespace perdure
