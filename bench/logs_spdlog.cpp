#include "failure.hpp"
#include "logs.hpp"
#include "perdure/spdlog_sink.h"

namespace perdure::bench {

void log_as_asked() {
  Status const s = log_as_environment_says();
  if (!s.ok()) throw Failure(s.message());
}

}  // namespace perdure::bench
