// A build that found no Abseil.
#include "ordered_makers.hpp"

namespace perdure::ordered_baselines {

bool has_absl() { return false; }
Made make_absl_map() { return Status{Code::unsupported, "this build has no Abseil"}; }

}  // namespace perdure::ordered_baselines
