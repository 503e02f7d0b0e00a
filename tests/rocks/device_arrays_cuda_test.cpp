// Arrays in a GPU's memory, in and out, while their stream is still writing them, and whichever
// engine memtables have. Skipped where there is no GPU.
#include <cuda_runtime.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "rocks/arrays_world.hpp"

namespace perdure::test {
namespace {

constexpr std::size_t kCount = std::size_t{1} << 20;
constexpr std::uint64_t kUntouched = 77;

/// Memory of the GPU.
class OnGpu {
 public:
  explicit OnGpu(std::size_t bytes) {
    EXPECT_EQ(cudaMalloc(&data_, bytes), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0xEE, bytes), cudaSuccess);
  }
  explicit OnGpu(std::vector<std::uint64_t> const& words) : OnGpu(words.size() * 8) {
    EXPECT_EQ(cudaMemcpy(data_, words.data(), words.size() * 8, cudaMemcpyDefault), cudaSuccess);
  }
  OnGpu(OnGpu const&) = delete;
  OnGpu& operator=(OnGpu const&) = delete;
  ~OnGpu() { cudaFree(data_); }

  [[nodiscard]] std::span<std::uint64_t> words(std::size_t n = kCount) const {
    return {static_cast<std::uint64_t*>(data_), n};
  }
  [[nodiscard]] Column column() const { return Column::of(words(), MemorySpace::device); }
  [[nodiscard]] std::vector<std::uint64_t> read() const {
    std::vector<std::uint64_t> here(kCount);
    EXPECT_EQ(cudaMemcpy(here.data(), data_, kCount * 8, cudaMemcpyDefault), cudaSuccess);
    return here;
  }

 private:
  void* data_ = nullptr;
};

std::vector<std::uint64_t> numbers(std::uint64_t first) {
  std::vector<std::uint64_t> all(kCount);
  std::iota(all.begin(), all.end(), first);
  return all;
}

class GpuArraysOfRocks : public ::testing::TestWithParam<rocks::Device> {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU here";
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;
    rocks::GpuOptions gpu;
    gpu.device = GetParam();
    gpu.threshold = 100;
    rocksdb::DB* db = nullptr;
    auto const s = rocks::open(options, gpu, directory_ / "db", &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    db_.reset(db);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  rocksdb::ColumnFamilyHandle* family() { return db_->DefaultColumnFamily(); }
  /// Has the stream write the array a good while from now. `pinned`, or the copy is done at once.
  void write_slowly(OnGpu const& array, std::uint64_t const* pinned) {
    auto const wait = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
    ASSERT_EQ(cudaLaunchHostFunc(stream_, wait, nullptr), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(array.words().data(), pinned, kCount * 8, cudaMemcpyDefault, stream_),
              cudaSuccess);
  }

  testing::TemporaryDirectory directory_;
  std::unique_ptr<rocksdb::DB> db_;
  cudaStream_t stream_ = nullptr;
};

TEST_P(GpuArraysOfRocks, WhatAStreamIsStillWritingGoesInAndComesBack) {
  auto const some_keys = numbers(5), some_values = numbers(900);
  std::uint64_t* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, kCount * 8), cudaSuccess);
  std::memcpy(pinned, some_values.data(), kCount * 8);
  OnGpu const keys(some_keys), values(kCount * 8), out(std::vector(kCount, kUntouched));
  OnGpu const far_statuses(kCount);
  rocks::ArrayOptions options;
  options.stream = stream_;
  write_slowly(values, pinned);
  ASSERT_TRUE(rocks::put(*db_, family(), keys.column(), values.column(), options).ok());

  std::vector<KeyStatus> statuses(kCount);
  options.device_statuses = reinterpret_cast<KeyStatus*>(far_statuses.words().data());
  OnGpu const asked(numbers(6));  // the last one was never put
  MutableColumn const to = MutableColumn::of(out.words(), MemorySpace::device);
  ASSERT_TRUE(rocks::get(*db_, family(), asked.column(), to, statuses, options).ok());
  auto expected = numbers(901);
  expected.back() = kUntouched;
  EXPECT_EQ(out.read(), expected);
  std::vector<KeyStatus> there(kCount);
  ASSERT_EQ(cudaMemcpy(there.data(), options.device_statuses, kCount, cudaMemcpyDefault),
            cudaSuccess);
  EXPECT_EQ(there, statuses);
  EXPECT_EQ(there.back(), KeyStatus::not_found);
  cudaFreeHost(pinned);
}

TEST_P(GpuArraysOfRocks, AMixedBatchReadsAndAnswersThere) {
  std::vector<std::uint64_t> keys(kCount), values = numbers(1), expected(kCount, kUntouched);
  std::vector<OpKind> kinds(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    keys[i] = i / 2;
    kinds[i] = i % 2 == 0 ? OpKind::put : OpKind::get;
    if (i % 2 == 1) expected[i] = values[i - 1];
  }
  OnGpu const far_keys(keys), far_values(values), out(std::vector(kCount, kUntouched));
  MixedBatch batch;
  batch.keys = far_keys.column();
  batch.kinds = kinds;
  batch.values = far_values.column();
  batch.out = MutableColumn::of(out.words(), MemorySpace::device);
  VariableValues none;
  std::vector<KeyStatus> statuses(kCount);
  ASSERT_TRUE(rocks::apply(*db_, family(), batch, none, statuses).ok());
  EXPECT_EQ(out.read(), expected);
}

/// Enough for the GPU to sort them, from where they lie: the first begins at an odd address.
TEST_P(GpuArraysOfRocks, SlicesOfByteStringsAreReadFromWhereTheyBegin) {
  constexpr std::size_t kStrings = 20'000;
  Strings keys, values;
  for (std::size_t i = 0; i < kStrings; ++i) {
    keys.add(std::string(2 + i % 9, 'k') + std::to_string(i));
    values.add(std::to_string(10'000'000 + i));  // eight bytes: memtables have them
  }
  auto const on_gpu = [](Strings const& strings, OnGpu const& memory) {
    auto* const there = reinterpret_cast<std::byte*>(memory.words().data());
    EXPECT_EQ(cudaMemcpy(there, strings.data.data(), strings.data.size(), cudaMemcpyDefault),
              cudaSuccess);
    Column column = strings.column();
    column.data = there;
    column.space = MemorySpace::device;
    return column;
  };
  OnGpu const key_memory(keys.data.size()), value_memory(values.data.size());
  Column const all = on_gpu(keys, key_memory);
  Column put_keys = all, put_values = on_gpu(values, value_memory);
  ++put_keys.offsets, ++put_values.offsets;
  put_keys.count = put_values.count = kStrings - 1;
  ASSERT_EQ(put_keys.offsets[0] % 2, 1);
  ASSERT_TRUE(rocks::put(*db_, family(), put_keys, put_values).ok());
  VariableValues found;
  std::vector<KeyStatus> statuses(kStrings);
  ASSERT_TRUE(rocks::get(*db_, family(), all, found, statuses).ok());
  EXPECT_EQ(statuses[0], KeyStatus::not_found);
  for (std::size_t i = 1; i < kStrings; ++i)
    ASSERT_EQ(at(found, i), std::to_string(10'000'000 + i)) << i;
}

INSTANTIATE_TEST_SUITE_P(Engines, GpuArraysOfRocks,
                         ::testing::Values(rocks::Device::cpu, rocks::Device::cuda),
                         [](auto const& one) {
                           return one.param == rocks::Device::cpu ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace perdure::test
