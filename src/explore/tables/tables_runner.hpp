// Named tables as a system under test of the explorer: steps that span tables, crashed as
// crashes.hpp says and judged against a plain model. Invariant: an oracle says what the tables hold
// before and after the step in flight, and how many tables there are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "explore/crashes.hpp"
#include "explore/tables/tables_scenario.hpp"
#include "perdure/store.h"

namespace perdure::explore {

class TablesRunner final : public Crasher {
 public:
  TablesRunner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {}
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  struct Oracle {
    TableRows old, fresh;
    bool whole = true;  // all rows old, or all fresh; else each by itself
    std::uint64_t tables = 0, fresh_tables = 0;
  };
  /// What a step leaves, and the rows that it writes and erases.
  struct Change {
    TableRows rows;
    std::vector<RowKey> put, notes, erased;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const&) const override {
    return tracker_.crashed.read_hash() % 8 == 0;
  }

  void expect(Oracle oracle);
  std::optional<std::string> run_steps(Store& store);
  std::optional<std::string> make_table(Store& store);
  std::optional<std::string> run_step(Store& store, TableStep const& step, std::uint64_t number);
  std::optional<std::string> run_transaction(Store& store, TableStep const& step,
                                             Change const& change, std::uint64_t number);
  std::optional<std::string> write_change(Store& store, TableStep const& step, Change const& change,
                                          std::uint64_t number, CallOptions const& how);
  std::optional<std::string> check_open(Store& store, Oracle const& oracle, TableRows& found);

  TablesScenario scenario_{};
  TableRows filled_;
  std::vector<Oracle> oracles_;
};

}  // namespace perdure::explore
