// The host's calls of perdure/gpm.h: over a GPU where this is compiled as CUDA (builds with CUDA), else over the host's
// threads.
#include "log/gpm_calls.hpp"

#if defined(__CUDACC__)
#include "exec/grid_cuda.cuh"
#else
#include "exec/grid_cpu.hpp"
#endif

namespace {

#if defined(__CUDACC__)
using Calls = perdure::log::GpmCalls<perdure::exec::CudaGrid>;
#else
using Calls = perdure::log::GpmCalls<perdure::exec::CpuGrid>;
#endif
using perdure::log::GpmLogKind;

Calls& calls() { return Calls::instance(); }

}  // namespace

char const* gpm_error() { return perdure::log::gpm_last_error.c_str(); }

void* gpm_map(char const* path, std::size_t size, bool create) { return calls().map(path, size, create); }
gpm_result gpm_unmap(char const*, void* address, std::size_t) { return calls().unmap(address); }
char const* gpm_persist_begin() { return calls().persist_begin(); }
gpm_result gpm_persist_end() { return calls().persist_end(); }
char const* gpm_survives(void const* address) { return calls().survives_what(address); }

gpmlog* gpmlog_create_conv(char const* path, std::size_t size, std::uint32_t partitions) {
  return calls().create_log(path, size, {GpmLogKind::conventional, 0, 0, partitions});
}
gpmlog* gpmlog_create_hcl(char const* path, std::size_t size, std::uint32_t blocks, std::uint32_t threads) {
  return calls().create_log(path, size, {GpmLogKind::hcl, blocks, threads, 0});
}
gpmlog* gpmlog_open(char const* path) { return calls().open_log(path); }
gpm_result gpmlog_close(gpmlog* log) { return calls().close_log(log); }
gpm_result gpmlog_clear_on_host(gpmlog* log, int partition) { return calls().clear_log(log, partition); }
std::uint64_t gpmlog_overflows(gpmlog* log) { return calls().overflows(log); }

gpmcp* gpmcp_create(char const* path, std::size_t size, std::uint32_t elements, std::uint32_t groups) {
  return calls().create_checkpoint(path, size, elements, groups);
}
gpmcp* gpmcp_open(char const* path) { return calls().open_checkpoint(path); }
gpm_result gpmcp_close(gpmcp* checkpoint) { return calls().close_checkpoint(checkpoint); }
gpm_result gpmcp_register(gpmcp* checkpoint, void* address, std::size_t size, std::uint32_t group) {
  return calls().on(checkpoint, "gpmcp_register", [&](auto& open) { return open.add(address, size, group); });
}
gpm_result gpmcp_checkpoint(gpmcp* checkpoint, std::uint32_t group, std::uint64_t word) {
  return calls().on(checkpoint, "gpmcp_checkpoint", [&](auto& open) { return open.checkpoint(group, word); });
}
gpm_result gpmcp_restore(gpmcp* checkpoint, std::uint32_t group, std::uint64_t* word) {
  return calls().on(checkpoint, "gpmcp_restore", [&](auto& open) {
    auto const found = open.restore(group);
    if (found.ok() && word != nullptr) *word = found.value();
    return found.status();
  });
}
