// The B+-tree as a system under test of the explorer: threads of the host that read, write and scan
// side by side while leaves and inner nodes split and merge. Its leaves lie in DRAM, so nothing is
// left after a crash, and runs are judged by what they answer. Invariant: some order of the
// operations on each key explains what they answered and what is there in the end; fillers are in
// each scan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explore/btree/btree_scenario.hpp"
#include "explore/crashes.hpp"
#include "explore/judging.hpp"

namespace perdure::explore {

class BTreeRunner final : public Crasher {
 public:
  BTreeRunner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {}
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override {
    return make_btree_scenario(scenario_seed, options_.bounds.operations).describe();
  }

 private:
  struct OpenedTree;
  using Contents = ByKey;

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t, bool, std::vector<Window>&,
                                   std::uint64_t&) override {
    return std::nullopt;  // there are no windows
  }
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override { return oracle; }

  bool fill(OpenedTree& opened) const;
  void operate(OpenedTree& opened, std::size_t thread);
  void operate(OpenedTree& opened, BTreeOp const& op, DoneOperation& mine);
  std::optional<std::string> fault_of_scan(OpenedTree& opened, bool up, Contents* found);
  std::optional<std::string> fault_in_the_end(OpenedTree& opened);

  BTreeScenario scenario_;
  HistoryOracle oracle_;
  std::optional<std::string> wrong_;  // what a scan saw
  std::uint64_t clock_ = 0;
};

}  // namespace perdure::explore
