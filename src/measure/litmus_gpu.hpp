// What litmus tests need of a GPU, for builds with and without CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "exec/lanes.hpp"
#include "measure/litmus_pass.hpp"
#include "perdure/litmus.h"
#include "perdure/status.h"

namespace perdure::measure {

/// Those threads of each team that run on the GPU.
struct GpuThreads {
  std::array<std::uint32_t, kMostThreads> which{};
  std::uint32_t count = 0;
};

class LitmusGpu {
 public:
  virtual ~LitmusGpu() = default;
  /// Whether updates of one word of such memory by both sides are atomic, as CUDA defines it.
  [[nodiscard]] virtual bool shares_atomics(LitmusMemory memory) const = 0;
  /// Why both sides may not access such memory at the same time; null: they may.
  [[nodiscard]] virtual char const* why_not_shared(LitmusMemory memory) const = 0;
  virtual Result<void*> allocate_managed(std::size_t bytes) = 0;
  virtual void free_managed(void* data) = 0;

  /// Begins these threads of all teams.
  virtual Status start(LitmusPass const& pass, exec::Scope scope, GpuThreads const& threads) = 0;
  virtual Result<bool> ended() = 0;
  virtual Status wait() = 0;
  /// Of n words: right[i] = words[i] was `expected`; then words[i] = next. Ends before it returns.
  virtual Status hand_over(std::uint32_t* words, std::uint32_t* right, std::uint32_t n,
                           std::uint32_t expected, std::uint32_t next) = 0;
};

/// Code::unsupported: there is no GPU, or this build has no CUDA; the message says which.
Result<std::unique_ptr<LitmusGpu>> make_litmus_gpu();

}  // namespace perdure::measure
