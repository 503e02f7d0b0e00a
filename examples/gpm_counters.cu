// libGPM by its own names: a kernel that adds to counters in a file, logging what stood there
// before, and is killed by an error in the middle of its work; another process, or the next run,
// undoes what it did not finish. Here both happen in one run: the first batch is committed, the
// second is cut short, and recovery brings back what the first had left.
//
//   gpm_counters [NAME]  files NAME.counters and NAME.log in /dev/shm; default /dev/shm/perdure-
//                        counters
#include <perdure/gpm.h>

#include <cstdio>
#include <string>

namespace {

constexpr std::uint32_t kBlocks = 64, kThreads = 256;
constexpr std::size_t kCounters = kBlocks * kThreads;

struct Entry {
  std::uint64_t old;
};

/// Every thread adds to its own counter; those from `stop` on never get to it.
__global__ void add(gpmlog* log, std::uint64_t* counters, std::uint64_t more, std::size_t stop,
                    unsigned* refused) {
  std::size_t const me = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (me >= stop) return;
  Entry const entry{counters[me]};
  if (gpmlog_insert(log, &entry, sizeof entry) != GPM_OK) {  // durable before the counter changes
    atomicAdd(refused, 1);
    return;
  }
  counters[me] += more;
  gpm_persist();
}

/// What an unfinished batch changed goes back to what it was.
__global__ void undo(gpmlog* log, std::uint64_t* counters) {
  std::size_t const me = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  Entry entry;
  if (gpmlog_read(log, &entry, sizeof entry) != GPM_OK) return;  // this thread had logged nothing
  counters[me] = entry.old;
  gpm_persist();
  gpmlog_remove(log, sizeof entry);
}

bool good(cudaError_t error) {
  if (error != cudaSuccess) std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  return error == cudaSuccess;
}
bool good(gpm_result result) {
  if (result != GPM_OK) std::fprintf(stderr, "libGPM: %s\n", gpm_error());
  return result == GPM_OK;
}

std::size_t other_than(std::uint64_t const* counters, std::uint64_t expected) {
  std::size_t other = 0;
  for (std::size_t i = 0; i < kCounters; ++i) other += counters[i] != expected;
  return other;
}

int run(std::string const& name) {
  auto* const counters = static_cast<std::uint64_t*>(
      gpm_map((name + ".counters").c_str(), kCounters * sizeof(std::uint64_t), true));
  gpmlog* log = gpmlog_create_hcl((name + ".log").c_str(), kCounters * 64, kBlocks, kThreads);
  unsigned* refused = nullptr;
  if (counters == nullptr || log == nullptr) return good(GPM_FAILED) ? 0 : 1;
  if (!good(cudaMallocHost(&refused, sizeof *refused))) return 1;
  *refused = 0;

  std::printf("%s\n", gpm_persist_begin());  // what it came to on this computer
  add<<<kBlocks, kThreads>>>(log, counters, 7, kCounters, refused);
  if (!good(cudaDeviceSynchronize()) || !good(gpmlog_clear(log)))
    return 1;  // the batch is committed
  add<<<kBlocks, kThreads>>>(log, counters, 1000, kCounters / 3, refused);
  if (!good(cudaDeviceSynchronize())) return 1;
  if (!good(gpm_persist_end()) || !good(gpmlog_close(log)))
    return 1;  // as a crash would: the batch was never committed

  log = gpmlog_open((name + ".log").c_str());
  if (log == nullptr) return good(GPM_FAILED) ? 0 : 1;
  std::size_t const torn = other_than(counters, 7);
  undo<<<kBlocks, kThreads>>>(log, counters);
  if (!good(cudaDeviceSynchronize()) || !good(gpmlog_clear(log)) || !good(gpmlog_close(log)))
    return 1;
  std::size_t const wrong = other_than(counters, 7) + *refused;
  std::printf(
      "%zu counters; the second batch had changed %zu of them, %zu are wrong after recovery; they "
      "outlive: %s\n",
      kCounters, torn, wrong, gpm_survives(counters));
  cudaFreeHost(refused);
  return good(gpm_unmap((name + ".counters").c_str(), counters, 0)) && wrong == 0 &&
                 torn == kCounters / 3
             ? 0
             : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "no GPU here\n");
    return 77;
  }
  std::string const name = argc > 1 ? argv[1] : "/dev/shm/perdure-counters";
  int const status = run(name);
  for (char const* file : {".counters", ".log"}) std::remove((name + file).c_str());
  return status;
}
