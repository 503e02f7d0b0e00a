// The host's calls of perdure/gpm_common.h: over a GPU where this is compiled as CUDA (builds with
// CUDA), else over the host's threads.
#include "gpm/gpm_calls.hpp"

#include "perdure/gpm_dialect/change-ddio.h"
#include "pm/flush.hpp"

#if defined(__CUDACC__)
#include "exec/cuda/grid_cuda.cuh"
#else
#include "exec/cpu/grid_cpu.hpp"
#endif

namespace {

#if defined(__CUDACC__)
using Calls = perdure::gpm::GpmCalls<perdure::exec::CudaGrid>;
#else
using Calls = perdure::gpm::GpmCalls<perdure::exec::CpuGrid>;
#endif
using perdure::gpm::GpmLogKind;

Calls& calls() { return Calls::instance(); }

}  // namespace

char const* gpm_error() { return perdure::gpm::gpm_last_error.c_str(); }

void gpm_as_published(char const* directory) { perdure::gpm::gpm_published() = {true, directory}; }
char const* gpm_path_of(char const* path) {
  thread_local std::string name;
  name = perdure::gpm::gpm_file_name(path);
  return name.c_str();
}

void* gpm_map(char const* path, std::size_t size, bool create) {
  return calls().files.map(path, size, create);
}
std::size_t gpm_mapped_bytes(void const* address) { return calls().files.mapped_bytes(address); }
gpm_result gpm_unmap_address(void* address, gpm_stream stream) {
  return calls().files.unmap(address, stream);
}
void gpm_persist_on_host(void const* at, std::size_t size) {
  perdure::pm::start_flush(at, size);
  perdure::pm::order();
}
gpm_result gpm_write(void* to, void const* from, std::size_t size, gpm_stream stream) {
  return calls().files.write(to, from, size, stream);
}
gpm_result gpm_fill(void* to, int byte, std::size_t size, gpm_stream stream) {
  return calls().files.fill(to, byte, size, stream);
}
char const* gpm_persist_begin() { return calls().persist_begin(); }
gpm_result gpm_persist_end() { return calls().persist_end(); }
char const* gpm_survives(void const* address) { return calls().files.survives_what(address); }

// The published switch of DDIO, for C and C++ (perdure/gpm_dialect/change-ddio.h): off is where
// persisting begins.
extern "C" void perdure_ddio_off() {
  static bool const told = std::fprintf(stderr, "libGPM: %s\n", gpm_persist_begin()) > 0;
  static_cast<void>(told);
}
extern "C" void perdure_ddio_on() {}

gpmlog* gpmlog_create_conv(char const* path, std::size_t size, std::uint32_t partitions) {
  return calls().logs.create(path, size, {GpmLogKind::conventional, 0, 0, partitions});
}
gpmlog* gpmlog_create_hcl(char const* path, std::size_t size, std::uint32_t blocks,
                          std::uint32_t threads) {
  return calls().logs.create(path, size, {GpmLogKind::hcl, blocks, threads, 0});
}
gpmlog* gpmlog_open(char const* path) { return calls().logs.open(path); }
gpm_result gpmlog_close(gpmlog* log, gpm_stream stream) { return calls().logs.close(log, stream); }
gpm_result gpmlog_clear_on_host(gpmlog* log, int partition, gpm_stream stream) {
  return calls().logs.clear(log, partition, stream);
}
long long gpmlog_size_on_host(gpmlog* log, int partition, gpm_stream stream) {
  return calls().logs.size(log, partition, stream);
}
long long gpmlog_partitions_on_host(gpmlog* log) { return calls().logs.partitions(log); }
long long gpmlog_overflows(gpmlog* log, gpm_stream stream) {
  return calls().logs.overflows(log, stream);
}

gpmcp* gpmcp_create_spare(char const* path, std::size_t size, std::uint32_t elements,
                          std::uint32_t groups, std::uint32_t spare) {
  return calls().checkpoints.create(path, size, elements, groups, spare);
}
gpmcp* gpmcp_open(char const* path) { return calls().checkpoints.open(path); }
gpm_result gpmcp_close(gpmcp* checkpoint) { return calls().checkpoints.close(checkpoint); }
gpm_result gpmcp_register(gpmcp* checkpoint, void* address, std::size_t size, std::uint32_t group) {
  return calls().checkpoints.on(checkpoint, "gpmcp_register", nullptr,
                                [&](auto& open) { return open.add(address, size, group); });
}
gpm_result gpmcp_checkpoint(gpmcp* checkpoint, std::uint32_t group, std::uint64_t word,
                            gpm_stream stream) {
  return calls().checkpoints.on(checkpoint, "gpmcp_checkpoint", stream,
                                [&](auto& open) { return open.checkpoint(group, word); });
}
gpm_result gpmcp_restore(gpmcp* checkpoint, std::uint32_t group, std::uint64_t* word,
                         gpm_stream stream) {
  return calls().checkpoints.on(checkpoint, "gpmcp_restore", stream, [&](auto& open) {
    auto const found = open.restore(group);
    if (found.ok() && word != nullptr) *word = found.value();
    return found.status();
  });
}
