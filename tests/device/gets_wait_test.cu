// What a get puts into a GPU's memory is there when it returns, whatever its session did before.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kRecords = std::uint64_t{1} << 20;

/// Words in the GPU's memory, that many.
class OnGpu {
 public:
  explicit OnGpu(std::uint64_t words) : words_(words) {
    EXPECT_EQ(cudaMalloc(&data_, words * 8), cudaSuccess);
  }
  OnGpu(OnGpu const&) = delete;
  OnGpu& operator=(OnGpu const&) = delete;
  ~OnGpu() { cudaFree(data_); }
  [[nodiscard]] std::span<std::uint64_t> words() const {
    return {static_cast<std::uint64_t*>(data_), words_};
  }
  void clear() const {
    EXPECT_EQ(cudaMemset(data_, 0, words_ * 8), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  [[nodiscard]] std::vector<std::uint64_t> read() const {
    std::vector<std::uint64_t> here(words_);
    EXPECT_EQ(cudaMemcpy(here.data(), data_, words_ * 8, cudaMemcpyDefault), cudaSuccess);
    return here;
  }

 private:
  void* data_ = nullptr;
  std::uint64_t words_;
};

class GetsWait : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(All, GetsWait, testing::Values(Layout::word, Layout::log));

TEST_P(GetsWait, BehindASmallPut) {
  std::string why_not;
  if (!available(Device::cuda, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
  ScratchDir const scratch;
  Config config;
  config.layout = GetParam();
  config.device = Device::cuda;
  config.key_bytes = config.value_bytes = 8;
  OpenOptions open = config.open();
  open.memory.gather = Gather::at_once;  // nothing is measured, for which it would wait
  auto store = Store::create(scratch.file("pool"), config.create(kRecords), open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  std::vector<std::uint64_t> keys(kRecords);
  std::iota(keys.begin(), keys.end(), std::uint64_t{1});
  ASSERT_TRUE(store->put(Column::of(keys), Column::of(keys)).ok());
  OnGpu const there(kRecords), out(kRecords), statuses(kRecords / 8);
  ASSERT_EQ(cudaMemcpy(there.words().data(), keys.data(), kRecords * 8, cudaMemcpyDefault),
            cudaSuccess);
  Column const few = Column::of(std::span(keys).first(100));
  for (bool const tells : {false, true}) {
    SCOPED_TRACE(tells);
    out.clear();
    ASSERT_TRUE(store->put(few, few).ok());  // whose session the get takes
    CallOptions how;
    if (tells) how.device_statuses = reinterpret_cast<KeyStatus*>(statuses.words().data());
    ASSERT_TRUE(store
                    ->get(Column::of(there.words(), MemorySpace::device),
                          MutableColumn::of(out.words(), MemorySpace::device), {}, how)
                    .ok());
    EXPECT_TRUE(out.read() == keys);
  }
}

}  // namespace
}  // namespace perdure::test
