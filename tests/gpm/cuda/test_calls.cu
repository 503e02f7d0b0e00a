// The calls of perdure/gpm.h on a GPU, as a stranger's program makes them: kernels of its own, on
// streams of its own, in blocks and grids of up to three dimensions. Prints a line a check; exit
// status 0 when all are right, 77 without a GPU.
//   perdure_gpm_cuda [CHECK ...]      default: all
#include <perdure/gpm.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kWords = 1 << 20;

std::string file(char const* what) {
  return "/dev/shm/perdure-gpmcuda-" + std::to_string(::getpid()) + "." + what;
}

std::string fault;  // of the check that runs; empty: none
bool expect(bool right, std::string const& what) {
  if (!right && fault.empty()) fault = what;
  return right;
}
bool good(cudaError_t error) { return expect(error == cudaSuccess, cudaGetErrorString(error)); }
bool good(gpm_result result) { return expect(result == GPM_OK, gpm_error()); }

/// Takes a while before it writes, so that what does not wait for it shows.
__global__ void write_late(std::uint32_t* words, std::size_t n, std::uint32_t value) {
  long long const start = clock64();
  while (clock64() - start < 100'000'000) {
  }
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    words[i] = value;
}

/// GPU memory of words, and a checkpoint of it.
struct Checkpointed {
  std::uint32_t* words = nullptr;
  gpmcp* checkpoint = nullptr;
  Checkpointed() {
    good(cudaMalloc(&words, kWords * 4));
    good(cudaMemset(words, 0, kWords * 4));
    checkpoint = gpmcp_create(file("cp").c_str(), kWords * 4, 1, 1);
    if (expect(checkpoint != nullptr, gpm_error()))
      good(gpmcp_register(checkpoint, words, kWords * 4, 0));
  }
  ~Checkpointed() {
    if (checkpoint != nullptr) good(gpmcp_close(checkpoint));
    cudaFree(words);
    std::remove(file("cp").c_str());
  }
  void holds(std::uint32_t value) const {
    std::vector<std::uint32_t> is(kWords);
    good(cudaMemcpy(is.data(), words, kWords * 4, cudaMemcpyDeviceToHost));
    std::size_t other = 0;
    for (std::uint32_t const word : is) other += word != value;
    expect(other == 0, std::to_string(other) + " of " + std::to_string(kWords) + " are others");
  }
};

void checkpoint_after_a_kernel() {
  Checkpointed const memory;
  write_late<<<64, 256>>>(memory.words, kWords, 7);
  good(gpmcp_checkpoint(memory.checkpoint, 0));
  good(cudaMemset(memory.words, 0, kWords * 4));
  good(gpmcp_restore(memory.checkpoint, 0));
  memory.holds(7);
}

void restore_after_a_kernel() {
  Checkpointed const memory;
  good(gpmcp_checkpoint(memory.checkpoint, 0));
  write_late<<<64, 256>>>(memory.words, kWords, 9);
  good(gpmcp_restore(memory.checkpoint, 0));
  memory.holds(0);
}

void checkpoint_after_a_stream(unsigned flags, bool given) {
  Checkpointed const memory;
  cudaStream_t stream = nullptr;
  good(cudaStreamCreateWithFlags(&stream, flags));
  write_late<<<64, 256, 0, stream>>>(memory.words, kWords, 7);
  good(gpmcp_checkpoint(memory.checkpoint, 0, 0, given ? stream : nullptr));
  good(cudaMemset(memory.words, 0, kWords * 4));
  good(gpmcp_restore(memory.checkpoint, 0));
  memory.holds(7);
  good(cudaStreamDestroy(stream));
}

struct Log {
  gpmlog* log;
  explicit Log(gpmlog* made) : log(made) { expect(log != nullptr, gpm_error()); }
  Log(std::size_t bytes, std::uint32_t blocks, std::uint32_t threads)
      : Log(gpmlog_create_hcl(file("log").c_str(), bytes, blocks, threads)) {}
  void reopen() {
    if (log != nullptr) good(gpmlog_close(log));
    log = gpmlog_open(file("log").c_str());
    expect(log != nullptr, gpm_error());
  }
  ~Log() {
    if (log != nullptr) good(gpmlog_close(log));
    std::remove(file("log").c_str());
  }
};

__global__ void insert_late(gpmlog* log) {
  long long const start = clock64();
  while (clock64() - start < 100'000'000) {
  }
  std::uint32_t const entry = threadIdx.x;
  gpmlog_insert(log, &entry, sizeof entry);
}

void clear_after_a_kernel() {
  Log const log(256, 1, 64);
  for (int const partition : {-1, 5}) {
    insert_late<<<1, 64>>>(log.log);
    good(gpmlog_clear(log.log, partition));
    expect(gpmlog_size(log.log, 5) == 0, "an entry outlived the host's clear");
    good(gpmlog_clear(log.log));
    expect(gpmlog_size(log.log) == 0, "entries outlived the host's clear");
  }
}

/// Each thread logs which it is, in all dimensions.
__global__ void log_place(gpmlog* log) {
  std::uint32_t const place[6] = {blockIdx.x,  blockIdx.y,  blockIdx.z,
                                  threadIdx.x, threadIdx.y, threadIdx.z};
  gpmlog_insert(log, place, sizeof place);
}
__global__ void places(gpmlog* log, std::uint32_t* read) {
  std::uint32_t const me = blockIdx.x * blockDim.x + threadIdx.x;
  if (me >= gpmlog_partitions(log)) return;
  if (gpmlog_size(log, me) != 24 || gpmlog_read(log, read + 6 * me, 24, me) != GPM_OK)
    read[6 * me] = ~0u;
}

void all_dimensions() {
  for (auto const& [grid, block] : {std::pair<dim3, dim3>{dim3(1), dim3(8, 8)},
                                    {dim3(1), dim3(4, 4, 4)},
                                    {dim3(2, 3, 2), dim3(4, 4, 4)},
                                    {dim3(3, 2), dim3(5, 7)}}) {
    std::uint32_t const blocks = grid.x * grid.y * grid.z, threads = block.x * block.y * block.z;
    Log log(std::size_t{24} * blocks * threads, blocks, threads);
    if (log.log == nullptr) return;
    log_place<<<grid, block>>>(log.log);
    expect(gpmlog_overflows(log.log) == 0, "entries found no room");
    log.reopen();
    std::uint32_t* read = nullptr;
    if (!good(cudaMallocHost(&read, std::size_t{24} * blocks * threads))) return;
    places<<<(blocks * threads + 63) / 64, 64>>>(log.log, read);
    good(cudaDeviceSynchronize());
    for (std::uint32_t i = 0; i < blocks * threads; ++i) {
      std::uint32_t const b = i / threads, t = i % threads;
      std::uint32_t const place[6] = {b % grid.x,  b / grid.x % grid.y,   b / grid.x / grid.y,
                                      t % block.x, t / block.x % block.y, t / block.x / block.y};
      expect(std::memcmp(read + 6 * i, place, 24) == 0,
             "partition " + std::to_string(i) + " is not its thread's");
    }
    cudaFreeHost(read);
  }
}

/// What kernels are answered: thread 0 writes them.
__global__ void in_parts(gpmlog* log, long long* answers, char* read) {
  int n = 0;
  char const entry[24] = "abcdefghijklmnopqrstuvw";
  answers[n++] = gpmlog_read(log, read, 4);
  answers[n++] = gpmlog_empty(log);
  answers[n++] = gpmlog_insert(log, entry, 24);
  answers[n++] = gpmlog_insert(log, entry, 24);
  answers[n++] = gpmlog_insert(log, entry, 257);
  answers[n++] = gpmlog_insert(log, entry, 0);
  answers[n++] = gpmlog_insert(log, entry, 4, 1);
  answers[n++] = gpmlog_insert(log, entry, 4, -2);
  answers[n++] = gpmlog_read(log, read, 20);
  answers[n++] = gpmlog_remove(log, 7);
  answers[n++] = gpmlog_size(log);
  answers[n++] = gpmlog_read(log, read + 20, 18);
  answers[n++] = gpmlog_read(log, read + 20, 1);
  answers[n++] = gpmlog_partitions(log);
  answers[n++] = gpmlog_empty(log);
}

void parts_and_answers() {
  constexpr long long kAnswers[] = {GPM_EMPTY,
                                    1,
                                    GPM_OK,
                                    GPM_OVERFLOW,
                                    GPM_SIZE,
                                    GPM_SIZE,
                                    GPM_PARTITION,
                                    GPM_PARTITION,
                                    GPM_OK,
                                    GPM_OK,
                                    17,
                                    GPM_FEWER,
                                    GPM_OK,
                                    1,
                                    0};
  Log log(24, 1, 1);
  long long* answers = nullptr;
  char* read = nullptr;
  if (log.log == nullptr || !good(cudaMallocHost(&answers, sizeof kAnswers)) ||
      !good(cudaMallocHost(&read, 64)))
    return;
  in_parts<<<1, 1>>>(log.log, answers, read);
  good(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < std::size(kAnswers); ++i)
    expect(answers[i] == kAnswers[i],
           "answer " + std::to_string(i) + " is " + std::to_string(answers[i]));
  expect(std::memcmp(read, "efghijklmnopqrstuvw", 20) == 0 && read[20] == 'q',
         "other bytes were read");
  log.reopen();
  expect(gpmlog_size(log.log) == 17, "opened again, the log holds another number of bytes");
  cudaFreeHost(answers);
  cudaFreeHost(read);
}

/// gpKVS's log: an entry of 24 bytes a thread, undone by another kernel after the log was opened
/// again.
__global__ void log_words(gpmlog* log, std::uint64_t* words, unsigned* refused) {
  std::size_t const me = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::uint64_t const entry[3] = {me, words[me], ~me};
  if (gpmlog_insert(log, entry, sizeof entry) != GPM_OK) atomicAdd(refused, 1);
  words[me] = 1;
  gpm_persist();
}
__global__ void undo_words(gpmlog* log, std::uint64_t* words, unsigned* refused) {
  std::size_t const me = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::uint64_t entry[3] = {};
  if (gpmlog_read(log, entry, sizeof entry) != GPM_OK || entry[0] != me || entry[2] != ~me)
    atomicAdd(refused, 1);
  words[me] = entry[1];
  gpm_persist();
  if (gpmlog_remove(log, sizeof entry) != GPM_OK) atomicAdd(refused, 1);
}

void sized_as_the_paper_sizes() {
  constexpr std::uint32_t kBlocks = 4096, kThreads = 256, kAll = kBlocks * kThreads;
  Log log(std::size_t{24} * kAll, kBlocks, kThreads);
  auto* const words =
      static_cast<std::uint64_t*>(gpm_map(file("a").c_str(), std::size_t{8} * kAll, true));
  unsigned* refused = nullptr;
  if (!expect(words != nullptr && log.log != nullptr, gpm_error()) ||
      !good(cudaMallocHost(&refused, 4)))
    return;
  for (std::uint32_t i = 0; i < kAll; ++i) words[i] = i * 3;
  *refused = 0;
  log_words<<<kBlocks, kThreads>>>(log.log, words, refused);
  log.reopen();
  undo_words<<<kBlocks, kThreads>>>(log.log, words, refused);
  expect(gpmlog_size(log.log) == 0, "the log is not empty when all is undone");
  expect(*refused == 0, std::to_string(*refused) + " entries were refused, or not found");
  std::size_t wrong = 0;
  for (std::uint32_t i = 0; i < kAll; ++i) wrong += words[i] != i * std::uint64_t{3};
  expect(wrong == 0, std::to_string(wrong) + " words are wrong when all is undone");
  good(gpm_unmap(nullptr, words, 0));
  std::remove(file("a").c_str());
  cudaFreeHost(refused);
}

std::vector<std::pair<std::string, std::function<void()>>> const kChecks{
    {"checkpoint-after-a-kernel", checkpoint_after_a_kernel},
    {"restore-after-a-kernel", restore_after_a_kernel},
    {"checkpoint-after-a-blocking-stream",
     [] { checkpoint_after_a_stream(cudaStreamDefault, false); }},
    {"checkpoint-after-a-stream-of-its-own",
     [] { checkpoint_after_a_stream(cudaStreamNonBlocking, true); }},
    {"clear-after-a-kernel", clear_after_a_kernel},
    {"all-dimensions", all_dimensions},
    {"parts-and-answers", parts_and_answers},
    {"sized-as-the-paper-sizes", sized_as_the_paper_sizes},
};

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "no GPU here\n");
    return 77;
  }
  std::vector<std::string> const names(argv + 1, argv + argc);
  int ran = 0, wrong = 0;
  for (auto const& [name, check] : kChecks) {
    bool asked = names.empty();
    for (std::string const& one : names) asked |= one == name;
    if (!asked) continue;
    fault.clear();
    check();
    std::printf("%-40s %s\n", name.c_str(), fault.empty() ? "right" : fault.c_str());
    ++ran;
    wrong += fault.empty() ? 0 : 1;
  }
  if (ran == 0) std::fprintf(stderr, "no such check\n");
  return ran == 0 || wrong != 0 ? 1 : 0;
}
