// What measurements need of a GPU, for builds with and without CUDA. Each answers seconds, by the
// GPU's own clock where nothing else is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "measure/random_reads.hpp"
#include "perdure/status.h"

namespace perdure::measure {

enum class GpuMemoryKind : std::uint8_t { device, managed };

/// Of one launch, by the host's clock.
struct LaunchTimes {
  double back_to_back = 0;  // of many that follow each other, each
  double begun = 0;  // until the host sees a word that the kernel stores
  double ended = 0;  // until the host has waited for its end
};

class GpuMeter {
 public:
  virtual ~GpuMeter() = default;
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] virtual std::size_t free_bytes() const = 0;
  virtual Result<void*> allocate(GpuMemoryKind kind, std::size_t bytes) = 0;
  virtual void free(void* data) = 0;

  /// By a copy engine, in any direction.
  virtual Result<double> copy(void* to, void const* from, std::size_t bytes) = 0;
  /// By a kernel: reads all words, or writes them.
  virtual Result<double> stream(std::uint64_t* words, std::size_t n, bool writes) = 0;
  virtual Result<double> read_randomly(RandomReads const& reads, std::size_t accesses) = 0;
  /// `spare` is as long; the sorted words end up in one of the two.
  virtual Result<double> sort(std::uint64_t* words, std::uint64_t* spare, std::size_t n) = 0;
  /// `word` is pinned.
  virtual Result<LaunchTimes> launch(std::uint32_t* word, std::uint32_t times) = 0;
};

/// Code::unsupported: there is no GPU, or this build has no CUDA; the message says which.
Result<std::unique_ptr<GpuMeter>> make_gpu_meter();

}  // namespace perdure::measure
