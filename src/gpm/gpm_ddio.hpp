// What gpm_persist_begin() comes to on this computer. On the paper's platform it switches DDIO off
// (GPM section 5.1): the processor's putting what devices write into its caches, where a power loss
// finds it. Invariant: what is said here is what was looked up, and that nothing was switched.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perdure::gpm {

/// Whether devices' writes may stay in the processor's caches.
enum class Ddio : std::uint8_t {
  absent,  // no such feature by that name: the processor is not Intel's
  left_on,  // it may have it, and nothing here switches it: the register differs from processor to
            // processor, wants root
};

/// Of a processor's vendor, as cpuid names it.
[[nodiscard]] Ddio ddio_of(std::string_view vendor);
/// One sentence of it, and why what gpm_persist() waits for is kept all the same.
[[nodiscard]] std::string describe_ddio(std::string_view vendor);
/// Of this computer's processor.
[[nodiscard]] std::string const& cpu_vendor();

}  // namespace perdure::gpm
