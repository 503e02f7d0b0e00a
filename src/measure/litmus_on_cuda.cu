// measure/litmus_gpu.hpp on a GPU: the passes that the host's threads run (litmus_pass.hpp), by
// warps.
#include "exec/cuda/cuda_work.cuh"
#include "measure/litmus_gpu.hpp"

namespace perdure::measure {
namespace {

struct PassBody {
  LitmusPass pass;
  GpuThreads threads;
  template <class Side>
  __device__ void operator()(Side const& side, std::uint32_t block) const {
    run_thread(side, pass, block / threads.count, threads.which[block % threads.count]);
  }
};

struct HandOverBody {
  std::uint32_t *words, *right;
  std::uint32_t n, expected, next;
  template <class Side>
  __device__ void operator()(Side const& side, std::uint32_t block) const {
    side.each(0, [&](std::uint32_t lane) {
      for (std::uint32_t i = block * exec::kLanes + lane; i < n; i += kBlocks * exec::kLanes) {
        right[i] = words[i] == expected ? 1 : 0;
        words[i] = next;
      }
    });
  }
  static constexpr std::uint32_t kBlocks = 512;
};

class CudaLitmus final : public LitmusGpu {
 public:
  Status open() { return work_.open(); }

  [[nodiscard]] bool shares_atomics(LitmusMemory memory) const override {
    if (memory == LitmusMemory::pinned)
      return exec::CudaWork::has(cudaDevAttrHostNativeAtomicSupported);
    return why_not_shared(memory) == nullptr;
  }
  [[nodiscard]] char const* why_not_shared(LitmusMemory memory) const override {
    bool const managed = memory == LitmusMemory::managed;
    if (memory == LitmusMemory::pinned) return nullptr;
    if (exec::CudaWork::has(managed ? cudaDevAttrConcurrentManagedAccess
                                    : cudaDevAttrPageableMemoryAccess))
      return nullptr;
    return managed ? "host and GPU may not access managed memory at the same time "
                     "(concurrentManagedAccess is 0)"
                   : "the GPU does not reach memory that is not registered (pageableMemoryAccess "
                     "is 0)";
  }
  Result<void*> allocate_managed(std::size_t bytes) override {
    return work_.allocate(exec::GpuMemory::managed, bytes);
  }
  void free_managed(void* data) override { work_.free(data); }

  Status start(LitmusPass const& pass, exec::Scope scope, GpuThreads const& threads) override {
    std::uint32_t const blocks = pass.teams * threads.count;
    PassBody const body{pass, threads};
    return exec::cuda_status(
        scope == exec::Scope::system
            ? exec::launch_lanes<exec::Scope::system>(blocks, body, work_.stream())
            : exec::launch_lanes<exec::Scope::device>(blocks, body, work_.stream()),
        "beginning a litmus test");
  }
  Result<bool> ended() override { return work_.ended(); }
  Status wait() override { return work_.wait(); }

  Status hand_over(std::uint32_t* words, std::uint32_t* right, std::uint32_t n,
                   std::uint32_t expected, std::uint32_t next) override {
    HandOverBody const body{words, right, n, expected, next};
    if (Status s = exec::cuda_status(
            exec::launch_lanes<exec::Scope::system>(HandOverBody::kBlocks, body, work_.stream()),
            "beginning a litmus test");
        !s.ok())
      return s;
    return work_.wait();
  }

 private:
  exec::CudaWork work_;
};

}  // namespace

Result<std::unique_ptr<LitmusGpu>> make_litmus_gpu() {
  auto made = std::make_unique<CudaLitmus>();
  if (Status s = made->open(); !s.ok()) return s;
  return std::unique_ptr<LitmusGpu>(std::move(made));
}

}  // namespace perdure::measure
