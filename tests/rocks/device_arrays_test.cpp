// Arrays in a device's memory, in and out, whichever engine memtables have: over memory that kills
// the process where the host touches it.
#include <numeric>

#include "rocks/arrays_world.hpp"
#include "rocks/fake_device.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kUntouched = 77;

class DeviceArraysOfRocks : public RocksArrays {
 protected:
  DeviceArraysOfRocks() {
    parts().device->make = [this] { return device_.way(); };
  }
  ~DeviceArraysOfRocks() override { db_ = nullptr; }  // before the device

  template <class T>
  Column far(std::vector<T> const& elements) {
    return Column::of(device_.array_of(elements), MemorySpace::device);
  }
  static std::vector<std::uint64_t> numbers(std::size_t n, std::uint64_t first = 0) {
    std::vector<std::uint64_t> all(n);
    std::iota(all.begin(), all.end(), first);
    return all;
  }
  std::string value_of(std::uint64_t key) {
    std::string value;
    rocksdb::Slice const bytes(reinterpret_cast<char const*>(&key), sizeof key);
    auto const s = db_->Get(rocksdb::ReadOptions(), bytes, &value);
    return s.ok() ? value : s.ToString();
  }

  FakeDevice device_;
};

TEST_F(DeviceArraysOfRocks, WhatGoesInFromADeviceComesBackThere) {
  for (std::size_t n : {std::size_t{3}, 2 * kThreshold}) {  // RocksDB's, and memtables'
    SCOPED_TRACE(n);
    auto const keys = numbers(n, n * 1000), values = numbers(n, 5);
    ASSERT_TRUE(rocks::put(*db_, family(), far(keys), far(values)).ok());
    std::span const out = device_.array_of(std::vector<std::uint64_t>(n, kUntouched));
    std::span const far_statuses = device_.array_of(std::vector<KeyStatus>(n, KeyStatus::corrupt));
    std::vector<KeyStatus> statuses(n);
    rocks::ArrayOptions options;
    options.device_statuses = far_statuses.data();
    ASSERT_TRUE(rocks::get(*db_, family(), far(keys), MutableColumn::of(out, MemorySpace::device),
                           statuses, options)
                    .ok());
    EXPECT_EQ(device_.read(out), values);
    EXPECT_EQ(device_.read(far_statuses), std::vector(n, KeyStatus::ok));
    EXPECT_EQ(statuses, device_.read(far_statuses));
    VariableValues found;
    ASSERT_TRUE(rocks::get(*db_, family(), far(keys), found, statuses).ok());
    EXPECT_EQ(found.data.size(), n * sizeof(std::uint64_t));
    EXPECT_EQ(std::memcmp(found.data.data(), values.data(), found.data.size()), 0);

    ASSERT_TRUE(rocks::merge(*db_, family(), far(keys), far(std::vector<char>(n, 'x'))).ok());
    EXPECT_EQ(value_of(keys[1]).substr(8), ",x");
    ASSERT_TRUE(rocks::erase(*db_, family(), far(keys)).ok());
    EXPECT_EQ(value_of(keys[1]), "NotFound: ");
  }
  EXPECT_EQ(device_.ways(), 1u) << "calls one after the other use one way";
}

TEST_F(DeviceArraysOfRocks, ElementsWithoutAnAnswerStayAsTheDeviceHasThem) {
  std::size_t const n = 3 * kThreshold;
  auto keys = numbers(n);
  auto const values = numbers(n, 10);
  ASSERT_TRUE(rocks::put(*db_, family(), Column::of(keys), Column::of(values)).ok());
  ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(),
                       {reinterpret_cast<char const*>(&keys[7]), sizeof keys[7]}, "odd")
                  .ok());
  keys[2] = 1u << 20;  // never put
  std::span const out = device_.array_of(std::vector<std::uint64_t>(n, kUntouched));
  std::vector<KeyStatus> statuses(n);
  ASSERT_TRUE(rocks::get(*db_, family(), Column::of(keys),
                         MutableColumn::of(out, MemorySpace::device), statuses)
                  .ok());
  auto expected = values;
  expected[2] = expected[7] = kUntouched;
  EXPECT_EQ(device_.read(out), expected);
  EXPECT_EQ(statuses[2], KeyStatus::not_found);
  EXPECT_EQ(statuses[7], KeyStatus::size_mismatch);
  EXPECT_EQ(device_.sent(), n * sizeof(std::uint64_t)) << "one copy, and each element once";
}

TEST_F(DeviceArraysOfRocks, AMixedBatchReadsAndAnswersOnTheDevice) {
  for (std::size_t n : {std::size_t{5}, 2 * kThreshold}) {
    SCOPED_TRACE(n);
    std::uint64_t const base = n << 32;
    std::vector<std::uint64_t> keys(n), values = numbers(n, 500), expected(n, kUntouched);
    std::vector<OpKind> kinds(n);
    for (std::size_t i = 0; i < n; ++i) {  // a put, a get of it, a get of nothing
      keys[i] = i % 3 == 2 ? base + n + i : base + i / 3;
      kinds[i] = i % 3 == 0 ? OpKind::put : OpKind::get;
      if (i % 3 == 1) expected[i] = values[i - 1];
    }
    std::span const out = device_.array_of(std::vector<std::uint64_t>(n, kUntouched));
    MixedBatch batch;
    batch.keys = far(keys);
    batch.kinds = kinds;
    batch.values = far(values);
    batch.out = MutableColumn::of(out, MemorySpace::device);
    VariableValues none;
    std::vector<KeyStatus> statuses(n);
    ASSERT_TRUE(rocks::apply(*db_, family(), batch, none, statuses).ok());
    EXPECT_EQ(device_.read(out), expected);
    EXPECT_EQ(statuses[2], KeyStatus::not_found);
  }
}

TEST_F(DeviceArraysOfRocks, RangesBeginAndEndWhereTheDeviceSays) {
  std::vector<std::uint64_t> keys = numbers(2 * kThreshold);
  for (std::uint64_t& key : keys) key = __builtin_bswap64(key);
  ASSERT_TRUE(rocks::put(*db_, family(), far(keys), far(keys)).ok());
  std::vector<std::uint64_t> const begins = {keys[10], keys[20]}, ends = {keys[12], keys[25]};
  rocks::Ranges found;
  ASSERT_TRUE(rocks::range(*db_, family(), far(begins), far(ends), 100, found).ok());
  EXPECT_EQ(found.offsets, (std::vector<std::int64_t>{0, 2, 7}));
  EXPECT_EQ(std::memcmp(found.keys.data.data() + 16, &keys[20], 8), 0);
}

TEST_F(DeviceArraysOfRocks, ByteStringsOfADeviceHaveTheirOffsetsOnTheHost) {
  for (std::size_t n : {std::size_t{2}, 2 * kThreshold}) {
    SCOPED_TRACE(n);
    Strings keys, values;
    for (std::size_t i = 0; i < n; ++i) {
      keys.add("key " + std::to_string(n) + " " + std::to_string(i));
      values.add(std::string(i % 5, 'v'));
    }
    auto const on_device = [&](Strings const& strings) {
      Column column = strings.column();
      column.data = device_.array_of(strings.data).data();
      column.space = MemorySpace::device;
      return column;
    };
    Column far_keys = on_device(keys), far_values = on_device(values);
    far_keys.count = far_values.count = n - 1;  // a slice, which begins at its second element
    ++far_keys.offsets;
    ++far_values.offsets;
    ASSERT_TRUE(rocks::put(*db_, family(), far_keys, far_values).ok());
    VariableValues found;
    std::vector<KeyStatus> statuses(n);
    ASSERT_TRUE(rocks::get(*db_, family(), on_device(keys), found, statuses).ok());
    EXPECT_EQ(statuses[0], KeyStatus::not_found);
    for (std::size_t i = 1; i < n; ++i) ASSERT_EQ(at(found, i), std::string(i % 5, 'v')) << i;
  }
}

TEST_F(DeviceArraysOfRocks, WhatAStreamIsStillWritingIsWaitedFor) {
  std::size_t const n = kThreshold;
  std::span const keys = device_.array_of(std::vector<std::uint64_t>(n, 0));
  std::span const out = device_.array_of(std::vector<std::uint64_t>(n, 0));
  FakeDevice::Stream stream;
  rocks::ArrayOptions options;
  options.stream = stream.handle();
  stream.work = [&] { device_.write(keys, numbers(n, 300)); };
  Column const column = Column::of(keys, MemorySpace::device);
  ASSERT_TRUE(rocks::put(*db_, family(), column, far(numbers(n, 1)), options).ok());
  EXPECT_EQ(value_of(300 + n - 1).size(), 8u);
  EXPECT_EQ(value_of(0), "NotFound: ");
  stream.work = [&] { device_.write(out, std::vector<std::uint64_t>(n, kUntouched)); };
  std::vector<KeyStatus> statuses(n);
  auto const asked = numbers(n, 301);  // the last one was never put
  ASSERT_TRUE(rocks::get(*db_, family(), Column::of(asked),
                         MutableColumn::of(out, MemorySpace::device), statuses, options)
                  .ok());
  auto expected = numbers(n, 2);
  expected.back() = kUntouched;
  EXPECT_EQ(device_.read(out), expected);
}

TEST_F(DeviceArraysOfRocks, WithoutADeviceEachArrayIsRefusedByName) {
  device_.take_away("this build has no CUDA");
  auto const keys = numbers(kThreshold);
  Column const here = Column::of(keys), there = far(keys);
  std::vector<std::uint64_t> values(kThreshold);
  std::vector<KeyStatus> statuses(kThreshold);
  auto const refused = [](rocksdb::Status const& s, std::string const& what) {
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    EXPECT_NE(s.ToString().find(what + " are in device memory; copy them to the host first: this "
                                       "build has no CUDA"),
              std::string::npos)
        << s.ToString();
  };
  refused(rocks::put(*db_, family(), there, here), "keys");
  refused(rocks::put(*db_, family(), here, there), "values");
  refused(rocks::merge(*db_, family(), here, there), "values");
  refused(rocks::erase(*db_, family(), there), "keys");
  refused(rocks::get(*db_, family(), there, MutableColumn::of(values), statuses), "keys");
  MutableColumn const out = MutableColumn::of(device_.array_of(values), MemorySpace::device);
  refused(rocks::get(*db_, family(), here, out, statuses), "values");
  rocks::Ranges ranges;
  refused(rocks::range(*db_, family(), here, there, 1, ranges), "ends");
  rocks::ArrayOptions options;
  options.device_statuses = statuses.data();
  refused(rocks::get(*db_, family(), here, MutableColumn::of(values), statuses, options),
          "statuses");
  EXPECT_EQ(value_of(0), "NotFound: ");
}

TEST_F(DeviceArraysOfRocks, ACopyThatFailsWritesNothingAndTheNextCallGoesOn) {
  auto const keys = numbers(kThreshold), values = numbers(kThreshold, 9);
  for (std::size_t const copies : {0u, 1u}) {
    device_.fail_after(copies);
    auto const s = rocks::put(*db_, family(), far(keys), far(values));
    EXPECT_NE(s.ToString().find("planted failure"), std::string::npos) << s.ToString();
    EXPECT_EQ(value_of(1), "NotFound: ");
  }
  device_.fail_after(100);
  ASSERT_TRUE(rocks::put(*db_, family(), far(keys), far(values)).ok());
  std::vector<KeyStatus> statuses(kThreshold);
  std::span const out = device_.array_of(std::vector<std::uint64_t>(kThreshold, kUntouched));
  device_.fail_after(0);
  MutableColumn const to = MutableColumn::of(out, MemorySpace::device);
  EXPECT_FALSE(rocks::get(*db_, family(), Column::of(keys), to, statuses).ok());
  device_.fail_after(100);
  ASSERT_TRUE(rocks::get(*db_, family(), Column::of(keys), to, statuses).ok());
  EXPECT_EQ(device_.read(out), values);
}

}  // namespace
}  // namespace perdure::test
