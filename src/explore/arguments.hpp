// The command line of perdure-explore. Invariant: options that parse() lets through go together, so
// that nobody asks again.
#pragma once

#include <optional>
#include <string>

#include "explore/crashes.hpp"
#include "explore/mutant_runs.hpp"

namespace perdure::explore {

struct Arguments {
  Options options;
  std::string index = "store";
  std::string layout = "word";
  std::string model = "fence";
  MutantInfo const* mutant = nullptr;
  std::string replay;
  bool all_mutants = false;
  bool steered = false;
  bool json = false;
};

/// The exit status, where the program ends here: after --help, or for wrong usage, which stderr
/// then names.
[[nodiscard]] std::optional<int> parse(int argc, char** argv, Arguments& arguments);

/// Which options were asked for, so that they stay as they are.
struct Given {
  bool operations = false, batches = false, per_scenario = false;
};
/// What fits runs over a log.
void fit_to_a_log(Options& options, Given const& given);

}  // namespace perdure::explore
