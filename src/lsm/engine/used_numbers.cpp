// The numbers that memtables decide by, for `perdure doctor` to show beside what it measures.
#include "lsm/engine/two_sided.hpp"
#include "perdure/measure.h"

namespace perdure::rocks {

std::vector<UsedNumber> numbers_of_memtables() {
  lsm::SideRules const rules;
  constexpr double kThousand = 1e3;  // nanoseconds of a microsecond
  return {
      {"a read by the GPU begins and ends in", rules.launch / kThousand, "us", "launch",
       "until the host has waited for it"},
      {"a run is copied to the other side at", 1 / rules.copy_byte, "GB/s", "link",
       "host to GPU, copy engine"},
      {"a key is found by the host in a run in", rules.key, "ns", "", ""},
      {"reads of fewer keys are the host's", static_cast<double>(rules.host_keys), "keys", "", ""},
      {"batches of fewer entries are sorted by the host", static_cast<double>(rules.host_build),
       "entries", "sort", "by the host"}};
}

}  // namespace perdure::rocks
