#include "base/assert.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace perdure {

// Needs no memory, and no lock of standard error's: the process may lack either.
void assertion_failed(char const* condition, char const* file, int line) noexcept {
  char text[512];
  char const* const name = std::strrchr(file, '/');
  int const length = std::snprintf(
      text, sizeof text,
      "perdure: assertion failed, %s:%d: %s\nThis is a bug in Perdure. The process ends "
      "here; open the pool again, which recovers it as after a kill, and report this line.\n",
      name == nullptr ? file : name + 1, line, condition);
  auto const bytes =
      length < static_cast<int>(sizeof text) ? static_cast<std::size_t>(length) : sizeof text - 1;
  [[maybe_unused]] auto const written = ::write(STDERR_FILENO, text, bytes);
  std::abort();
}

}  // namespace perdure
