// Dash-EH without one of its parts each, and with other numbers of stash buckets: the paper's
// sections 6.5 to 6.7.
#include "dash_table.hpp"
#include "index/dash/extendible.hpp"
#include "table_on.hpp"

namespace perdure::cpu_baselines {
namespace {

struct NoFingerprints : dash::Knobs {
  static constexpr bool fingerprints = false;
};
struct NoHints : dash::Knobs {
  static constexpr bool overflow_hints = false;
};
struct NoFilter : dash::Knobs {
  static constexpr bool filter = false;
};
struct Pessimistic : dash::Knobs {
  static constexpr bool optimistic = false;
};

template <class Knobs, std::uint32_t kStash = 2>
Maker eh(char const* name) {
  return maker<DashTable<dash::Extendible<DashInline::Keys, Knobs>, DashInline, kStash>,
               DashTable<dash::Extendible<DashRecords::Keys, Knobs>, DashRecords, kStash>>(name);
}

}  // namespace

std::vector<Maker> dash_without_parts() {
  return {dash_eh_stash4(),
          eh<NoFingerprints>("dash-eh-no-fingerprints"),
          eh<NoHints>("dash-eh-no-hints"),
          eh<NoHints, 4>("dash-eh-no-hints-stash4"),
          eh<NoFilter>("dash-eh-no-filter"),
          eh<Pessimistic>("dash-eh-pessimistic")};
}

}  // namespace perdure::cpu_baselines
