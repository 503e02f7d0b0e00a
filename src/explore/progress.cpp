#include "explore/progress.hpp"

#include <utility>

namespace perdure::explore {

void Progress::report(Finding finding) {
  std::lock_guard const lock(totals_->mutex);
  if (totals_->findings.size() < options_.findings) totals_->findings.push_back(std::move(finding));
  if (totals_->findings.size() >= options_.findings) totals_->stop = true;
}

bool Progress::count_state(std::uint64_t state, std::uint64_t logical) {
  ++totals_->explored.states;
  std::lock_guard const lock(totals_->mutex);
  bool const fresh = totals_->distinct.insert(state).second;
  fresh_ += fresh;
  totals_->logical.insert(logical);
  if (options_.states != 0 && totals_->distinct.size() >= options_.states) totals_->stop = true;
  return fresh;
}

bool Progress::enough() {
  if (totals_->stop) return true;
  if (options_.seconds > 0 && totals_->seconds() > options_.seconds) totals_->stop = true;
  return totals_->stop;
}

bool Progress::enough_here() {
  return !quiet && (enough() || (options_.per_scenario != 0 && fresh_ >= options_.per_scenario));
}

}  // namespace perdure::explore
