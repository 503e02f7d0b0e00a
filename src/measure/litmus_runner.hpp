// Runs litmus cases: memory for a pass, the host's threads and the GPU's warps through it, and what
// they saw, counted.
// Invariant: a pass ends, whatever becomes of its threads; none of them is left when run() returns.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "measure/litmus_cases.hpp"
#include "measure/litmus_gpu.hpp"
#include "measure/litmus_pass.hpp"
#include "measure/pages.hpp"
#include "perdure/litmus.h"
#include "perdure/status.h"

namespace perdure::measure {

struct Counted {
  std::uint64_t runs = 0;
  std::uint64_t seen = 0;
  double seconds = 0;
};

class LitmusRunner {
 public:
  /// `gpu` is null where there is none.
  static Result<std::unique_ptr<LitmusRunner>> make(LitmusGpu* gpu, LitmusMemory memory);
  ~LitmusRunner();

  /// At least so many runs, or as many as the seconds allow, and one pass in any case.
  Result<Counted> run(LitmusCase const& one, std::uint64_t runs, double seconds);
  /// Words that the host writes before a kernel and reads after it; `seen` are those that one side
  /// did not have from the other.
  Result<Counted> hand_over(std::uint64_t runs, double seconds);

 private:
  LitmusRunner(LitmusGpu* gpu, std::uint32_t cores) : gpu_(gpu), cores_(cores) {}
  Status allocate(LitmusMemory memory);
  [[nodiscard]] LitmusPass pass_of(LitmusCase const& one) const;
  Status run_pass(LitmusCase const& one, LitmusPass const& pass);
  Status join(std::vector<std::thread>& threads, LitmusPass const& pass, bool on_gpu);

  LitmusGpu* gpu_;
  std::uint32_t cores_;
  Pages notes_;  // what threads saw, and where they meet
  Pages cells_;
  std::uint32_t* x_ = nullptr;
  void* managed_ = nullptr;
  std::uint64_t passes_ = 0;
};

}  // namespace perdure::measure
