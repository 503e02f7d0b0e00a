// The soak's loop: a victim is started, crashed and judged, again and again.
#pragma once

#include "soak/tally.hpp"

namespace perdure::test {

/// All kills, then all traps; false (with lines on stderr) at the first that lost something.
/// `tally` counts them meanwhile.
[[nodiscard]] bool kill_again_and_again(Arguments const& arguments, Tally& tally);

}  // namespace perdure::test
