#include <cstdlib>

#include "failure.hpp"
#include "logs.hpp"

namespace perdure::bench {

void log_as_asked() {
  char const* const said = std::getenv("PERDURE_LOG");
  if (said != nullptr && *said != '\0')
    throw Failure(
        "PERDURE_LOG: this build has no spdlog to log with: install libspdlog-dev and build it "
        "again, or leave PERDURE_LOG out");
}

}  // namespace perdure::bench
