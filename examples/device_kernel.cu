// Counts words inside a kernel of its own: every warp takes words from a text and adds one to the
// word's record, in a table that outlives the process; then a second kernel looks words up and
// removes the rare ones. Words are keys of 16 bytes, counts values of 8. The host counts too, and
// compares.
//
//   device_kernel [POOL]     a pool file in /dev/shm; default /dev/shm/perdure-words.pool, made
//                            anew
#include <perdure/store.h>
#include <perdure/device.cuh>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kRare = 3;  // words that occur less often are removed

struct Word {
  char text[16] = {};
};

__device__ unsigned warp_number() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
__device__ unsigned warps() { return gridDim.x * blockDim.x / 32; }

/// Sums of what operations did not answer as they should.
__global__ void count_words(__grid_constant__ perdure::DeviceTable const table, Word const* words,
                            std::size_t n, unsigned* failures) {
  __shared__ unsigned long long counts[kThreads / 32];
  unsigned long long* const count = &counts[threadIdx.x / 32];  // this warp's own
  for (std::size_t i = warp_number(); i < n; i += warps()) {
    auto const add_one = [&](bool known) {
      if (threadIdx.x % 32 == 0) *count = known ? *count + 1 : 1;
    };
    if (table.modify(&words[i], count, add_one) != perdure::KeyStatus::ok && threadIdx.x % 32 == 0)
      atomicAdd(failures, 1);
  }
}

/// The count of each distinct word (0: it has none), and away with those of rare ones.
__global__ void look_up(__grid_constant__ perdure::DeviceTable const table, Word const* words,
                        std::size_t n, unsigned long long* counts, unsigned* failures) {
  for (std::size_t i = warp_number(); i < n; i += warps()) {
    bool const found = table.find(&words[i], &counts[i]) == perdure::KeyStatus::ok;
    bool const rare = found && counts[i] < kRare;
    bool const removed = rare && table.erase(&words[i]) == perdure::KeyStatus::ok;
    if ((!found || rare != removed) && threadIdx.x % 32 == 0) atomicAdd(failures, 1);
  }
}

/// Some text of which a few words make up the most.
std::vector<Word> make_text(std::size_t n) {
  std::vector<Word> text(n);
  std::uint64_t random = 42;
  for (Word& word : text) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    auto const rank =
        static_cast<unsigned>(2000.0 / (1.0 + static_cast<double>(random >> 48) / 16.0));
    std::snprintf(word.text, sizeof word.text, "word-%u",
                  rank + static_cast<unsigned>(random >> 40) % 3);
  }
  return text;
}

bool good(cudaError_t error) {
  if (error != cudaSuccess) std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  return error == cudaSuccess;
}
bool good(perdure::Status const& status) {
  if (!status.ok()) std::fprintf(stderr, "perdure: %s\n", status.message().c_str());
  return status.ok();
}

template <class T>
T* to_device(std::vector<T> const& from) {
  void* at = nullptr;
  if (!good(cudaMalloc(&at, from.size() * sizeof(T)))) return nullptr;
  if (!good(cudaMemcpy(at, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice)))
    return nullptr;
  return static_cast<T*>(at);
}

int run(std::string const& path) {
  std::vector<Word> const text = make_text(200000);
  std::map<std::string, unsigned long long> expected;
  for (Word const& word : text) ++expected[word.text];
  std::vector<Word> distinct;
  for (auto const& [word, count] : expected)
    std::strcpy(distinct.emplace_back().text, word.c_str());

  perdure::CreateOptions create;
  create.key_bytes = sizeof(Word);
  create.value_bytes = 8;
  create.file.overwrite = true;
  perdure::OpenOptions open;
  open.device = perdure::Device::cuda;
  auto store = perdure::Store::create(path, create, open);
  if (!good(store.status())) return 1;

  Word* const words = to_device(text);
  Word* const each = to_device(distinct);
  auto* const counts = to_device(std::vector<unsigned long long>(distinct.size()));
  auto* const failures = to_device(std::vector<unsigned>(1));
  if (words == nullptr || each == nullptr || counts == nullptr || failures == nullptr) return 1;

  auto session = store->device_session({.records = text.size()});  // one for each modify
  if (!good(session.status())) return 1;
  count_words<<<256, kThreads>>>(session->table(), words, text.size(), failures);
  look_up<<<64, kThreads>>>(session->table(), each, distinct.size(), counts, failures);
  if (!good(cudaGetLastError()) || !good(session->end())) return 1;

  std::vector<unsigned long long> found(distinct.size());
  unsigned failed = 0;
  if (!good(
          cudaMemcpy(found.data(), counts, found.size() * sizeof found[0], cudaMemcpyDeviceToHost)))
    return 1;
  if (!good(cudaMemcpy(&failed, failures, sizeof failed, cudaMemcpyDeviceToHost))) return 1;
  std::size_t wrong = failed, kept = 0;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    unsigned long long const want = expected[distinct[i].text];
    wrong += found[i] != want;
    kept += want >= kRare;
  }
  wrong += store->stats().records != kept;
  auto const verified = store->verify();
  wrong += !verified.ok() || verified.value().records != kept || verified.value().fault_count != 0;
  std::printf("%zu words, %zu of them different, %zu kept; %zu wrong\n", text.size(),
              distinct.size(), kept, wrong);
  for (void* const at : {static_cast<void*>(words), static_cast<void*>(each),
                         static_cast<void*>(counts), static_cast<void*>(failures)})
    cudaFree(at);
  return good(store->close()) && wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  for (perdure::DeviceInfo const& device : perdure::devices()) {
    if (device.device != perdure::Device::cuda || device.available) continue;
    std::fprintf(stderr, "no GPU here: %s\n", device.why_not.c_str());
    return 77;
  }
  return run(argc > 1 ? argv[1] : "/dev/shm/perdure-words.pool");
}
