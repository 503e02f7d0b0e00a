// What the store has to say of itself while a benchmark runs, on standard error.
#pragma once

namespace perdure::bench {

/// As the environment's PERDURE_LOG says (perdure/spdlog_sink.h). Throws Failure where that is none
/// of what it may be, or this build has no spdlog.
void log_as_asked();

}  // namespace perdure::bench
