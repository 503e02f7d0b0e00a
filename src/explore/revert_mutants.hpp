// The mutants of commits that can be taken back, a part of mutant_runs.cpp's list. Invariant: each
// names kinds whose steps are revertible alone.
#pragma once

#include "explore/mutant_runs.hpp"

namespace perdure::explore {

inline constexpr MutantInfo kRevertMutants[] = {
    {"revertible_releases_replaced", "reverts",
     "what a commit replaced may be used again though it can be taken back"},
    {"written_over_what_can_be_taken_back", "reverts",
     "a commit can still be taken back when something else is written"},
    {"no_order_after_keeping", "reverts",
     "what a commit replaced is used again before it is durable that nothing takes it back"},
    {"no_order_after_reopening", "reverts",
     "slots are put back before it is durable that their transaction is open again"},
    {"reopening_forgets_replaced", "reverts",
     "an opening takes what the last commit replaced for free"},
    {"reopening_forgets_replaced", "log-reverts",
     "an opening takes what the last commit replaced for free"},
    {"commit_voided_before_its_epoch",
     "log-reverts",
     "the log has no commit any more while the epoch says that it has ended",
     nullptr,
     {6, 1, 0, 3000}},
};

}  // namespace perdure::explore
