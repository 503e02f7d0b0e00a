// What indexes are called. Invariant: the command line, Python and errors use these names and no
// others.
#pragma once

#include "perdure/options.h"

namespace perdure {

[[nodiscard]] constexpr char const* name(Index index) {
  switch (index) {
    case Index::gphash: return "gphash";
    case Index::dash_eh: return "dash-eh";
    case Index::dash_lh: return "dash-lh";
    case Index::btree: return "btree";
  }
  return "unknown";
}

}  // namespace perdure
