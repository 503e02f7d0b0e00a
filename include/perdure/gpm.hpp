// libGPM for C++ programs (GPM, ASPLOS'22): kernels that persist, log and checkpoint by themselves,
// written once and run on a GPU or on the host's threads. The C names of the paper are in
// perdure/gpm.h. Compile with the target perdure::gpm, which brings the engine's headers that this
// one includes; for a GPU, with nvcc.
//
//   struct Add {  // a kernel: see exec/grid.hpp
//     static constexpr int kPhases = 1;
//     using Shared = perdure::gpm::NoShared;
//     using State = perdure::gpm::NoState;
//     perdure::gpm::LogView log;
//     std::uint64_t* counters;  // durable memory
//     template <int, class T> PERDURE_FN void run(T& thread, Shared&, State&) const {
//       std::uint64_t* const mine = &counters[thread.global()];
//       perdure::gpm::insert(thread, log, mine, sizeof *mine);  // what is there, before it goes
//       thread.store(mine, *mine + 1);
//       thread.persist();
//     }
//   };
//   perdure::gpm::Cpu grid;  // or *perdure::gpm::Cuda::open()
//   using Counters = perdure::gpm::Memory<perdure::gpm::Cpu>;
//   using Log = perdure::gpm::Log<perdure::gpm::Cpu>;
//   auto counters = Counters::open(grid, "/dev/shm/counters", 8 << 20, {});
//   auto log = Log::create(grid, "/dev/shm/counters.log", 64 << 20,
//                          {perdure::gpm::LogKind::hcl, 4096, 256});
//   grid.launch({4096, 256}, Add{log->view(), ...});
//   grid.order();
//   log->clear();  // committed
//
// What of it survives what: docs/survival.md.
#pragma once

#include "exec/cpu/grid_cpu.hpp"
#include "exec/grid.hpp"
#include "exec/grid_sort.hpp"
#include "gpm/gpm_checkpoint_on.hpp"
#include "gpm/gpm_ddio.hpp"
#include "gpm/gpm_log_on.hpp"
#include "gpm/gpm_memory_on.hpp"
#if defined(__CUDACC__)
#include "exec/cuda/grid_cuda.cuh"
#endif

namespace perdure::gpm {

using exec::grid_of;
using exec::GridShape;
using exec::GridTally;
using exec::NoShared;
using exec::NoState;
using exec::Persist;

/// Machines: the host's threads; a GPU.
using Cpu = exec::CpuGrid;
#if defined(__CUDACC__)
using Cuda = exec::CudaGrid;
#endif

/// Sorts words in a machine's memory. A batch in the order of its addresses reaches durable memory
/// several times as fast as one in random order, once that is larger than what a GPU translates
/// addresses of at a time.
template <class Grid>
using WordSort = exec::WordSort<Grid>;

/// Ways to durable results, and a file's bytes on one of them.
using Path = GpmPath;
template <class Grid>
using Memory = DurableMemory<Grid>;

/// What the paper's switch of DDIO comes to on this computer, in a sentence (perdure/gpm.h:
/// gpm_persist_begin).
[[nodiscard]] inline std::string ddio() { return describe_ddio(cpu_vendor()); }

/// Logs: hierarchical coalesced, or conventional. A partition is a stack of bytes; create() takes
/// how many bytes of entries all partitions have room for together, each entry counted in whole
/// words of 4 (checks come on top). insert(), read(), remove(), clear(), size() and empty() are for
/// kernels; partition -1 is the thread's own.
using LogKind = GpmLogKind;
using LogGeometry = GpmLogGeometry;
using LogView = GpmLogView;
using LogError = GpmLogError;
template <class Grid>
using Log = GpmLogOn<Grid>;

/// An entry of 1 to 256 bytes.
template <class T>
PERDURE_FN LogError insert(T& thread, LogView const& log, void const* entry, std::size_t size,
                           std::int64_t partition = -1) {
  return gpm_insert(thread, log, entry, size, partition);
}
/// The last `size` bytes, of one entry, a part of it, or several.
template <class T>
PERDURE_FN LogError read(T& thread, LogView const& log, void* entry, std::size_t size,
                         std::int64_t partition = -1) {
  return gpm_read(thread, log, entry, size, partition);
}
/// Takes them off; a crash meanwhile may leave it done in part, the last bytes first.
template <class T>
PERDURE_FN LogError remove(T& thread, LogView const& log, std::size_t size,
                           std::int64_t partition = -1) {
  return gpm_remove(thread, log, size, partition);
}
template <class T>
PERDURE_FN LogError clear(T& thread, LogView const& log, std::int64_t partition = -1) {
  return gpm_clear(thread, log, partition);
}
/// Bytes that the partition holds.
template <class T>
PERDURE_FN LogError size(T& thread, LogView const& log, std::uint64_t& bytes,
                         std::int64_t partition = -1) {
  return gpm_size(thread, log, bytes, partition);
}
template <class T>
PERDURE_FN LogError empty(T& thread, LogView const& log, bool& empty, std::int64_t partition = -1) {
  return gpm_empty(thread, log, empty, partition);
}

/// Groups of registered memory, checkpointed and restored together.
template <class Grid>
using Checkpoint = GpmCheckpointOn<Grid>;

}  // namespace perdure::gpm
