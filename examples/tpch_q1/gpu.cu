// The GPU's machine: a thread block has the groups' keys in its shared memory, and each thread sums
// of its own beside them; at a kernel's end blocks add theirs up in global memory. Invariant: a
// launch has at most kMostBlocks blocks of rows, so no sum of GroupSums overflows, and no thread
// more than kBlockRows rows.
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "machines.hpp"
#include "sums.hpp"

namespace perdure::q1 {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kBlocksOfAProcessor = 6;  // as many as its shared memory has room for
constexpr unsigned kParts = 4;  // of a block of rows, each a thread block's at a time
constexpr std::size_t kMostBlocks = kMostRowsOfAWord / kBlockRows;
// Of a launch while others take blocks, too: 0.1 ms on the link, much longer than a launch takes.
constexpr std::size_t kLeastShared = 32;
constexpr std::size_t kLaunches = 2;  // in flight

/// What a launch answers.
struct Answers {
  std::uint32_t keys[kSlots];
  GroupSums sums[kSlots + 1];
};

/// Keys that many threads claim, in shared or in global memory.
class Keys {
 public:
  __device__ explicit Keys(std::uint32_t* keys) : keys_(keys) {}
  __device__ std::uint32_t held(std::uint32_t slot) const {
    return *static_cast<std::uint32_t volatile*>(keys_ + slot);
  }
  __device__ std::uint32_t claim(std::uint32_t slot, std::uint32_t key) {
    std::uint32_t const before = atomicCAS(keys_ + slot, kFree, key);
    return before == kFree ? key : before;
  }

 private:
  std::uint32_t* keys_;
};

/// A thread's: the block's keys, and sums of its own.
class Groups : public Keys {
 public:
  static constexpr std::size_t kWords = sizeof(RowSums) / sizeof(std::uint64_t);
  static constexpr std::size_t kBytes = (kSlots + 1) * sizeof(RowSums) * kThreads;

  __device__ Groups(std::uint32_t* keys, std::uint64_t* sums) : Keys(keys), sums_(sums) {
    for (std::size_t i = 0; i < (kSlots + 1) * kWords; ++i) word(i) = 0;
  }
  __device__ void add(std::uint32_t slot, unsigned, RowSums const& row) {
    word(slot * kWords) += row.packed;
    word(slot * kWords + 1) += row.price;
    word(slot * kWords + 2) += row.disc_price;
    word(slot * kWords + 3) += row.charge;
  }
  __device__ RowSums sums(std::uint32_t slot) {
    return {word(slot * kWords), word(slot * kWords + 1), word(slot * kWords + 2),
            word(slot * kWords + 3)};
  }

 private:
  __device__ std::uint64_t& word(std::size_t i) { return sums_[i * kThreads + threadIdx.x]; }

  std::uint64_t* sums_;
};

__device__ void add_up(GroupSums& to, GroupSums const& mine) {
  std::uint64_t words[kSums];
  memcpy(words, &mine, sizeof words);
  auto* const out = reinterpret_cast<unsigned long long*>(&to);
  for (std::uint32_t i = 0; i < kSums; ++i) {
    for (unsigned step = 16; step > 0; step /= 2)
      words[i] += __shfl_down_sync(0xFFFFFFFFu, words[i], step);
    if (threadIdx.x % 32 == 0 && words[i] != 0) atomicAdd(out + i, words[i]);
  }
}

/// The quads of a part: f(rows, i) for each that is this thread's.
template <class Rows, class F>
__device__ void for_quads(Block const* blocks, std::uint32_t count, F f) {
  for (std::uint32_t part = blockIdx.x; part < count * kParts; part += gridDim.x) {
    Rows const rows(blocks[part / kParts]);
    std::uint32_t const first = part % kParts * (kBlockRows / 4 / kParts);
    std::uint32_t const end = min(first + kBlockRows / 4 / kParts, rows.quads());
    for (std::uint32_t i = first + threadIdx.x; i < end; i += kThreads) f(rows, i);
  }
}

template <class Rows>
__global__ void __launch_bounds__(kThreads)
    aggregate(Block const* blocks, std::uint32_t count, Query query, Answers* answers) {
  __shared__ std::uint32_t keys[kSlots];
  __shared__ std::uint64_t sums[Groups::kBytes / sizeof(std::uint64_t)];
  if (threadIdx.x < kSlots) keys[threadIdx.x] = kFree;
  Groups groups(keys, sums);
  __syncthreads();
  for_quads<Rows>(blocks, count,
                  [&](Rows const& rows, std::uint32_t i) { add_quad(groups, rows, i, query); });
  __syncthreads();
  Keys all(answers->keys);
  for (std::uint32_t slot = 0; slot <= kSlots; ++slot) {
    bool const lost = slot == kNoSlot;
    if (!lost && keys[slot] == kFree) continue;
    std::uint32_t const to = lost ? kNoSlot : slot_of(all, keys[slot]);
    add_up(answers->sums[to], unpack(groups.sums(slot)));
  }
}

template <class Rows>
__global__ void __launch_bounds__(kThreads)
    filter(Block const* blocks, std::uint32_t count, Query query, Answers* answers) {
  GroupSums passed{};
  for_quads<Rows>(blocks, count, [&](Rows const& rows, std::uint32_t i) {
    passed.count += count_quad(rows, i, query);
  });
  Keys all(answers->keys);
  add_up(answers->sums[slot_of(all, key_of('*', '*'))], passed);
}

Status failed(cudaError_t error, char const* what) {
  return {Code::device_error, std::string("the GPU cannot ") + what + ": " +
                                  cudaGetErrorString(error) + "; use mode cpu"};
}

/// One launch in flight.
class Launch {
 public:
  Launch() = default;
  Launch(Launch const&) = delete;
  Launch& operator=(Launch const&) = delete;
  ~Launch() {
    cudaFree(device_);
    cudaFreeHost(host_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  cudaError_t open() {
    cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaMalloc(&device_, sizeof(Answers));
    if (error == cudaSuccess) error = cudaMallocHost(&host_, sizeof(Answers));
    return error;
  }

  cudaError_t begin(Work const& work, Block const* blocks, std::size_t count, unsigned processors) {
    cudaError_t error = cudaMemsetAsync(device_, 0, sizeof(Answers), stream_);
    if (error != cudaSuccess) return error;
    auto const blocks_of_rows = static_cast<std::uint32_t>(count);
    unsigned const grid = std::min(blocks_of_rows * kParts, processors * kBlocksOfAProcessor);
    bool const rows = work.form == Form::rows;
    auto const kernel = work.stage == Stage::filter
                            ? (rows ? filter<RowBlock> : filter<ColumnBlock>)
                            : (rows ? aggregate<RowBlock> : aggregate<ColumnBlock>);
    kernel<<<grid, kThreads, 0, stream_>>>(blocks, blocks_of_rows, work.query, device_);
    error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    flying_ = true;
    return cudaMemcpyAsync(host_, device_, sizeof(Answers), cudaMemcpyDeviceToHost, stream_);
  }

  cudaError_t end(Totals& to) {
    if (!std::exchange(flying_, false)) return cudaSuccess;
    cudaError_t const error = cudaStreamSynchronize(stream_);
    if (error != cudaSuccess) return error;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      to.add(host_->keys[slot], host_->sums[slot]);
    to.add_lost(host_->sums[kNoSlot].count);
    return cudaSuccess;
  }

 private:
  cudaStream_t stream_ = nullptr;
  Answers* device_ = nullptr;
  Answers* host_ = nullptr;
  bool flying_ = false;
};

/// What a kernel sees of a table: its blocks, with the GPU's addresses.
class Seen {
 public:
  Seen() = default;
  Seen(Seen const&) = delete;
  Seen& operator=(Seen const&) = delete;
  ~Seen() {
    cudaFree(blocks_);
    for (void* const one : copies_) cudaFree(one);
    for (void* const one : pinned_) cudaHostUnregister(one);
  }

  [[nodiscard]] Block const* blocks() const { return blocks_; }

  cudaError_t pin(Table const& table) {
    return see(table, [this](std::span<std::byte const> memory, void** at) {
      auto* const data = const_cast<std::byte*>(memory.data());
      cudaError_t error = cudaHostRegister(data, memory.size(), cudaHostRegisterMapped);
      if (error != cudaSuccess) return error;
      pinned_.push_back(data);
      return cudaHostGetDevicePointer(at, data, 0);
    });
  }

  cudaError_t copy(Table const& table) {
    return see(table, [this](std::span<std::byte const> memory, void** at) {
      cudaError_t error = cudaMalloc(at, memory.size());
      if (error != cudaSuccess) return error;
      copies_.push_back(*at);
      return cudaMemcpy(*at, memory.data(), memory.size(), cudaMemcpyHostToDevice);
    });
  }

 private:
  /// address(memory, &at): where the GPU finds it.
  template <class F>
  cudaError_t see(Table const& table, F address) {
    std::vector<Block> blocks = table.blocks;
    void* at = nullptr;
    cudaError_t error = address(table.memory, &at);
    if (error != cudaSuccess) return error;
    for (Block& block : blocks)
      for (std::byte const*& data : block.data)
        if (data != nullptr) data = static_cast<std::byte*>(at) + (data - table.memory.data());
    std::size_t const bytes = blocks.size() * sizeof(Block);
    error = cudaMalloc(&blocks_, bytes);
    if (error == cudaSuccess) error = cudaMemcpy(blocks_, blocks.data(), bytes, cudaMemcpyDefault);
    return error;
  }

  Block* blocks_ = nullptr;
  std::vector<void*> copies_, pinned_;
};

class CudaGpu final : public Gpu {
 public:
  Status begin() {
    cudaDeviceProp properties{};
    if (cudaError_t const error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess)
      return {Code::unsupported,
              std::string("no GPU here (") + cudaGetErrorString(error) + "): use mode cpu"};
    name_ = properties.name;
    processors_ = static_cast<unsigned>(properties.multiProcessorCount);
    for (Launch& launch : launches_)
      if (cudaError_t const error = launch.open(); error != cudaSuccess)
        return failed(error, "make a stream");
    return {};
  }

  [[nodiscard]] std::string name() const override { return name_; }

  Status pin(Table& table) override {
    if (pinned_.blocks() != nullptr) return {};
    cudaError_t const error = pinned_.pin(table);
    return error == cudaSuccess ? Status{} : failed(error, "pin the rows in host memory");
  }

  Status copy(Table const& table) override {
    if (copied_.blocks() != nullptr) return {};
    cudaError_t const error = copied_.copy(table);
    return error == cudaSuccess ? Status{} : failed(error, "hold a copy of the rows");
  }

  Status run(Work const& work, bool copied, BlockQueue& queue, Totals& to) override {
    Block const* const all = copied ? copied_.blocks() : pinned_.blocks();
    cudaError_t error = cudaSuccess;
    for (std::size_t i = 0; error == cudaSuccess; i = (i + 1) % kLaunches) {
      error = launches_[i].end(to);
      if (error != cudaSuccess) break;
      auto const next = queue.take(work.shared ? kLeastShared : kMostBlocks, kMostBlocks);
      if (next.count == 0) break;
      error = launches_[i].begin(work, all + next.first, next.count, processors_);
    }
    for (Launch& launch : launches_)
      if (error == cudaSuccess) error = launch.end(to);
    return error == cudaSuccess ? Status{} : failed(error, "run the query");
  }

 private:
  std::string name_;
  unsigned processors_ = 0;
  Seen pinned_, copied_;
  std::array<Launch, kLaunches> launches_;
};

}  // namespace

Result<std::unique_ptr<Gpu>> Gpu::open() {
  auto gpu = std::make_unique<CudaGpu>();
  if (Status s = gpu->begin(); !s.ok()) return s;
  return std::unique_ptr<Gpu>(std::move(gpu));
}

}  // namespace perdure::q1
