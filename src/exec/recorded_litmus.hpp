// What litmus tests found on this machine, as `perdure doctor --litmus --record` left it: what the
// engine relies on and was seen to fail is refused from then on.
//
// Invariant: a record counts on the machine that it is of, by the names of its processor and GPU.
// No record, or one of another machine, refuses nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "perdure/status.h"

namespace perdure::exec {

/// Who relies on what was tested.
enum class Reliance : std::uint8_t { host_threads, batches, sessions };
std::string_view name(Reliance who);

struct LitmusFailure {
  std::string who;  // a Reliance's name
  std::string what;  // in words
};

/// The file: $PERDURE_LITMUS, else perdure/litmus below $XDG_STATE_HOME or ~/.local/state. Empty:
/// there is none of these.
std::string litmus_record();
/// In place of what was recorded before.
Status record_litmus(std::string const& cpu, std::string const& gpu,
                     std::vector<LitmusFailure> const& failed);
/// Not ok where what it relies on is recorded to have failed here; `gpu` is the description of the
/// one that is to be used, empty for none.
Status check_recorded(Reliance who, std::string const& gpu);

}  // namespace perdure::exec
