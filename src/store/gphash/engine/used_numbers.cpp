// The numbers that stores decide by, for `perdure doctor` to show beside what it measures.
#include "perdure/measure.h"
#include "store/gphash/engine/gather_autotuner.hpp"

namespace perdure {

std::vector<UsedNumber> numbers_of_stores() {
  return {
      {"gets of fewer keys take values as they come", static_cast<double>(GatherAutotuner::kFewest),
       "keys", "launch", "until the host has waited for it"},
      {"a random access to the pool, over more than the GPU's translation reaches", 24, "ns",
       "random", "GPU reads host memory"}};
}

}  // namespace perdure
