// The ways to durable results that GPM is compared with (GPM sections 3 and 6.1), by name.
//
//   gpm       kernels store to the mapped file and persist there; the host waits for them
//   gpm-eadr  the same: what eADR spares is the switch of DDIO, which this platform has not
//             (gpm_persist_begin())
//   ndp       kernels store to the mapped file; the CPU flushes ("no direct persistence")
//   cap-mm    kernels write machine memory; the host copies to the mapped file, and the CPU flushes
//   cap-eadr  the same without the flush
//   cap-fs    kernels write machine memory; the host copies to a buffer, write() and fsync()
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "exec/grid.hpp"

namespace perdure::gpm {

enum class GpmPath : std::uint8_t { gpm, gpm_eadr, ndp, cap_mm, cap_eadr, cap_fs };
inline constexpr std::array<std::pair<GpmPath, std::string_view>, 6> kGpmPaths{
    {{GpmPath::gpm, "gpm"},
     {GpmPath::gpm_eadr, "gpm-eadr"},
     {GpmPath::ndp, "ndp"},
     {GpmPath::cap_mm, "cap-mm"},
     {GpmPath::cap_eadr, "cap-eadr"},
     {GpmPath::cap_fs, "cap-fs"}}};
[[nodiscard]] constexpr std::string_view name(GpmPath path) {
  for (auto const& [known, text] : kGpmPaths)
    if (known == path) return text;
  return "?";
}
[[nodiscard]] constexpr std::optional<GpmPath> gpm_path(std::string_view text) {
  for (auto const& [path, known] : kGpmPaths)
    if (known == text) return path;
  return std::nullopt;
}

/// Whether kernels write the durable memory itself.
[[nodiscard]] constexpr bool stores_directly(GpmPath path) {
  return path == GpmPath::gpm || path == GpmPath::gpm_eadr || path == GpmPath::ndp;
}
/// What persist() does in kernels on this path.
[[nodiscard]] constexpr exec::Persist persist_on(GpmPath path) {
  return path == GpmPath::gpm || path == GpmPath::gpm_eadr ? exec::Persist::here
                                                           : exec::Persist::later;
}

}  // namespace perdure::gpm
