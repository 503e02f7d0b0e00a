// All bytes of a file, in one read: a pool has millions of them, and a read of each by itself takes
// seconds where the compiler does not optimise.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

namespace perdure::test {

inline std::string whole_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::string bytes(file ? static_cast<std::size_t>(file.tellg()) : 0, '\0');
  file.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error(path + " cannot be read");
  return bytes;
}

}  // namespace perdure::test
