// The name of this computer's processor, as Linux has it.
#pragma once

#include <fstream>
#include <string>

namespace perdure::exec {

inline std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

}  // namespace perdure::exec
