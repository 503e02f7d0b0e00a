// The mutants of repairs, a part of mutant_runs.cpp's list. Invariant: each names kinds whose pools
// are damaged and repaired alone.
#pragma once

#include "explore/mutant_runs.hpp"

namespace perdure::explore {

inline constexpr MutantInfo kRepairMutants[] = {
    {"repair_changes_before_note",
     "repairs",
     "a repair changes words before it is durable that lines wait",
     nullptr,
     {2, 1, 0, 300}},
    {"repair_state_before_lines",
     "repairs",
     "lines wait before they are there",
     nullptr,
     {2, 1, 0, 300}},
    {"repair_heads_with_entries",
     "log-repair",
     "an extent's new head may be there in part before its entries are",
     nullptr,
     {37, 1, 0, 500}},
    {"repair_heads_together",
     "log-repair-any",
     "a damaged head is put right together with its new sum",
     nullptr,
     {262, 1, 0, 300}},
    {"repair_erases_in_table_alone",
     "log-repair",
     "keys that a repair drops are gone from the table, and not from the log",
     nullptr,
     {11}},
    {"repair_forgets_what_was_told",
     "log-repair-keys",
     "a repair that is cut off while it drops keys does not keep that it knew of all others",
     nullptr,
     {314, 1, 0, 300}},
    {"repair_believes_any_number",
     "log-repair",
     "a damaged number of a batch is taken for right because its entries are whole",
     nullptr,
     {177}},
    {"last_batch_judged_again",
     "log-repair",
     "a kill after an opening brings the last batch in doubt again",
     nullptr,
     {62, 1, 0, 500}},
    {"opening_drops_before_root",
     "log-repair-any",
     "what tells that the last batch was ordered goes before the root says so",
     nullptr,
     {2084, 1, 0, 300}},
};

}  // namespace perdure::explore
