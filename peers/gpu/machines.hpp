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

/// C names, as those of store/cpu_engines.hpp.
extern "C" void perdure_cpu_peers_avx2(Making& making, Result<std::unique_ptr<Peer>>& made);
extern "C" void perdure_cpu_peers_avx512(Making& making, Result<std::unique_ptr<Peer>>& made);

Result<std::unique_ptr<Peer>> make_on_cuda(Making making);

}  // namespace perdure::peers
