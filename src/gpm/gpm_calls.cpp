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
  return calls().map(path, size, create);
}
std::size_t gpm_mapped_bytes(void const* address) { return calls().mapped_bytes(address); }
gpm_result gpm_unmap_address(void* address, gpm_stream stream) {
  return calls().unmap(address, stream);
}
void gpm_persist_on_host(void const* at, std::size_t size) {
  perdure::pm::start_flush(at, size);
  perdure::pm::order();
}
gpm_result gpm_write(void* to, void const* from, std::size_t size, gpm_stream stream) {
  return calls().write(to, from, size, stream);
}
gpm_result gpm_fill(void* to, int byte, std::size_t size, gpm_stream stream) {
  return calls().fill(to, byte, size, stream);
}
char const* gpm_persist_begin() { return calls().persist_begin(); }
gpm_result gpm_persist_end() { return calls().persist_end(); }
char const* gpm_survives(void const* address) { return calls().survives_what(address); }

// The published switch of DDIO, for C and C++ (perdure/gpm_dialect/change-ddio.h): off is where
// persisting begins.
extern "C" void perdure_ddio_off() {
  static bool const told = std::fprintf(stderr, "libGPM: %s\n", gpm_persist_begin()) > 0;
  static_cast<void>(told);
}
extern "C" void perdure_ddio_on() {}

gpmlog* gpmlog_create_conv(char const* path, std::size_t size, std::uint32_t partitions) {
  return calls().create_log(path, size, {GpmLogKind::conventional, 0, 0, partitions});
}
gpmlog* gpmlog_create_hcl(char const* path, std::size_t size, std::uint32_t blocks,
                          std::uint32_t threads) {
  return calls().create_log(path, size, {GpmLogKind::hcl, blocks, threads, 0});
}
gpmlog* gpmlog_open(char const* path) { return calls().open_log(path); }
gpm_result gpmlog_close(gpmlog* log, gpm_stream stream) { return calls().close_log(log, stream); }
gpm_result gpmlog_clear_on_host(gpmlog* log, int partition, gpm_stream stream) {
  return calls().clear_log(log, partition, stream);
}
long long gpmlog_size_on_host(gpmlog* log, int partition, gpm_stream stream) {
  return calls().size_of_log(log, partition, stream);
}
long long gpmlog_partitions_on_host(gpmlog* log) { return calls().partitions(log); }
long long gpmlog_overflows(gpmlog* log, gpm_stream stream) {
  return calls().overflows(log, stream);
}

gpmcp* gpmcp_create_spare(char const* path, std::size_t size, std::uint32_t elements,
                          std::uint32_t groups, std::uint32_t spare) {
  return calls().create_checkpoint(path, size, elements, groups, spare);
}
gpmcp* gpmcp_open(char const* path) { return calls().open_checkpoint(path); }
gpm_result gpmcp_close(gpmcp* checkpoint) { return calls().close_checkpoint(checkpoint); }
gpm_result gpmcp_register(gpmcp* checkpoint, void* address, std::size_t size, std::uint32_t group) {
  return calls().on(checkpoint, "gpmcp_register", nullptr,
                    [&](auto& open) { return open.add(address, size, group); });
}
gpm_result gpmcp_checkpoint(gpmcp* checkpoint, std::uint32_t group, std::uint64_t word,
                            gpm_stream stream) {
  return calls().on(checkpoint, "gpmcp_checkpoint", stream,
                    [&](auto& open) { return open.checkpoint(group, word); });
}
gpm_result gpmcp_restore(gpmcp* checkpoint, std::uint32_t group, std::uint64_t* word,
                         gpm_stream stream) {
  return calls().on(checkpoint, "gpmcp_restore", stream, [&](auto& open) {
    auto const found = open.restore(group);
    if (found.ok() && word != nullptr) *word = found.value();
    return found.status();
  });
}
