// measure/gpu_meter.hpp on a GPU.
#include <algorithm>
#include <chrono>
#include <vector>

#include "exec/cpu/cpu_lanes.hpp"
#include "exec/cuda/cuda_launch.cuh"
#include "exec/cuda/cuda_sort.cuh"
#include "exec/cuda/cuda_work.cuh"
#include "measure/gpu_meter.hpp"

namespace perdure::measure {
namespace {

constexpr std::size_t kMostBlocks = 1u << 14;

struct WordReads {
  std::uint64_t const* words;
  std::uint64_t* sink;
  __device__ void operator()(std::size_t i) const {
    if (words[i] == ~std::uint64_t{0}) *sink = i;
  }
};
struct WordWrites {
  std::uint64_t* words;
  __device__ void operator()(std::size_t i) const { words[i] = i; }
};
struct Nothing {
  template <class Side>
  __device__ void operator()(Side const&, std::uint32_t) const {}
};
/// One lane stores the word, for the host to see.
struct StoreWord {
  std::uint32_t* word;
  std::uint32_t value;
  template <class Side>
  __device__ void operator()(Side const& side, std::uint32_t) const {
    side.once([&] {
      Side::template store<exec::Order::relaxed>(word, value);
      return true;
    });
  }
};

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

double middle(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

class CudaMeter final : public GpuMeter {
 public:
  Status open() {
    if (Status s = work_.open(); !s.ok()) return s;
    auto sink = work_.allocate(exec::GpuMemory::device, sizeof(std::uint64_t));
    if (!sink.ok()) return sink.status();
    sink_ = static_cast<std::uint64_t*>(*sink);
    return {};
  }

  [[nodiscard]] std::string describe() const override { return exec::gpu_info().description; }
  [[nodiscard]] std::size_t free_bytes() const override { return exec::CudaWork::free_bytes(); }
  Result<void*> allocate(GpuMemoryKind kind, std::size_t bytes) override {
    return work_.allocate(
        kind == GpuMemoryKind::managed ? exec::GpuMemory::managed : exec::GpuMemory::device, bytes);
  }
  void free(void* data) override { work_.free(data); }

  Result<double> copy(void* to, void const* from, std::size_t bytes) override {
    return work_.timed(
        [&](cudaStream_t stream) { return exec::begin_copy(to, from, bytes, stream); },
        "copying over the link");
  }

  Result<double> stream(std::uint64_t* words, std::size_t n, bool writes) override {
    return work_.timed(
        [&](cudaStream_t stream) {
          return writes ? exec::launch_threads(n, WordWrites{words}, kMostBlocks, stream)
                        : exec::launch_threads(n, WordReads{words, sink_}, kMostBlocks, stream);
        },
        "reading or writing in order");
  }

  Result<double> read_randomly(RandomReads const& asked, std::size_t accesses) override {
    RandomReads reads = asked;
    reads.sink = sink_;
    return work_.timed(
        [&](cudaStream_t stream) {
          return exec::launch_threads(accesses * reads.threads_per_access, reads, kMostBlocks,
                                      stream);
        },
        "reading at random");
  }

  Result<double> sort(std::uint64_t* words, std::uint64_t* spare, std::size_t n) override {
    std::uint64_t* sorted = nullptr;
    std::size_t bytes = 0;
    cudaError_t const asked =
        exec::radix_sort_words(nullptr, bytes, words, spare, n, 0, 64, sorted, work_.stream());
    if (Status s = exec::cuda_status(asked, "asking what a sort needs"); !s.ok()) return s;
    auto room = work_.allocate(exec::GpuMemory::device, std::max<std::size_t>(bytes, 1));
    if (!room.ok()) return room.status();
    auto const took = work_.timed(
        [&](cudaStream_t stream) {
          return exec::radix_sort_words(*room, bytes, words, spare, n, 0, 64, sorted, stream);
        },
        "sorting");
    work_.free(*room);
    return took;
  }

  Result<LaunchTimes> launch(std::uint32_t* word, std::uint32_t times) override {
    LaunchTimes found;
    std::vector<double> begun, ended;
    for (std::uint32_t i = 1; i <= times; ++i) {
      auto const then = std::chrono::steady_clock::now();
      if (Status s = begin(StoreWord{word, i}); !s.ok()) return s;
      while (exec::CpuLanes::load<exec::Order::relaxed>(word) != i && seconds_since(then) < 1) {
      }
      begun.push_back(seconds_since(then));
      if (Status s = work_.wait(); !s.ok()) return s;
      ended.push_back(seconds_since(then));
    }
    auto const then = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < times; ++i)
      if (Status s = begin(Nothing{}); !s.ok()) return s;
    if (Status s = work_.wait(); !s.ok()) return s;
    found.back_to_back = seconds_since(then) / times;
    found.begun = middle(begun);
    found.ended = middle(ended);
    return found;
  }

 private:
  template <class F>
  Status begin(F const& body) {
    return exec::cuda_status(exec::launch_lanes<exec::Scope::system>(1, body, work_.stream()),
                             "launching a kernel");
  }

  exec::CudaWork work_;
  std::uint64_t* sink_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<GpuMeter>> make_gpu_meter() {
  auto made = std::make_unique<CudaMeter>();
  if (Status s = made->open(); !s.ok()) return s;
  return std::unique_ptr<GpuMeter>(std::move(made));
}

}  // namespace perdure::measure
