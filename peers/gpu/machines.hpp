// The factories of on_cpu.cpp (one an instruction set it is compiled for) and on_cuda.cu.
#pragma once

#include <cstdint>
#include <memory>

#include "arena.hpp"
#include "exec/workers.hpp"
#include "peer.hpp"

namespace perdure::peers {

/// A peer to be: over a new file, or over one as it was left.
struct Making {
  std::unique_ptr<Arena> arena;            // GPM peers
  std::unique_ptr<Peer> index;             // cpu_assisted
  std::shared_ptr<exec::Workers> workers;  // the host's threads
  PeerOptions options;
  bool fresh = true;
};

namespace on_cpu {
namespace N_AVX2 {
Result<std::unique_ptr<Peer>> make(Making making);
}
namespace N_AVX3 {
Result<std::unique_ptr<Peer>> make(Making making);
}
}  // namespace on_cpu

Result<std::unique_ptr<Peer>> make_on_cuda(Making making);

}  // namespace perdure::peers
