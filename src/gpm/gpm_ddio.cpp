#include "gpm/gpm_ddio.hpp"

#include <cpuid.h>

#include <cstring>

namespace perdure::gpm {

Ddio ddio_of(std::string_view vendor) {
  return vendor == "GenuineIntel" ? Ddio::left_on : Ddio::absent;
}

std::string describe_ddio(std::string_view vendor) {
  std::string text = "DDIO: ";
  if (ddio_of(vendor) == Ddio::absent) {
    text.append("none to switch, the processor is ").append(vendor);
  } else {
    text +=
        "left as it is, nothing here switches it (the processor is GenuineIntel, and may have it)";
  }
  return text + "; it matters to a power loss alone, which no mapped file claims to outlive";
}

std::string const& cpu_vendor() {
  static std::string const vendor = [] {
    unsigned most = 0, b = 0, c = 0, d = 0;
    char name[12] = {};
    if (__get_cpuid(0, &most, &b, &c, &d) == 0) return std::string("unknown");
    std::memcpy(name, &b, 4);
    std::memcpy(name + 4, &d, 4);
    std::memcpy(name + 8, &c, 4);
    return std::string(name, sizeof name);
  }();
  return vendor;
}

}  // namespace perdure::gpm
