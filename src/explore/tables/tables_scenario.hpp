// What runs over named tables do, drawn from one number: training steps that change rows of two
// tables, and erase ids with a note of each in a third; tables that are made meanwhile. And the
// plain model of what the tables hold. Invariants: a seed always gives the same scenario; each word
// of a row says which step, table and id it is of.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explore/sim_engines.hpp"
#include "perdure/options.h"

namespace perdure::explore {

// Numbers of the tables, as they are made. A row has a weight, then state.
inline constexpr std::uint64_t kUsers = 1, kItems = 2, kGone = 3;
inline constexpr std::uint64_t kLastTable = kGone + 2;  // that a run makes
inline constexpr std::array<std::uint32_t, kLastTable + 1> kRowWords = {0, 2, 3, 1, 2, 1};
inline constexpr std::int64_t kIdsOfATable = 3;

using RowKey = std::pair<std::uint64_t, std::int64_t>;  // table, id
/// The step that each row is of.
using TableRows = std::map<RowKey, std::uint64_t>;

[[nodiscard]] std::string name_of_table(std::uint64_t table);
[[nodiscard]] std::uint64_t row_word(RowKey const& key, std::uint64_t step, std::uint32_t word);
/// The step that a word says; none: it is no such word.
[[nodiscard]] std::optional<std::uint64_t> step_in(RowKey const& key, std::uint32_t word,
                                                   std::uint64_t content);

/// A step's changes of the tables; ids that it erases from kUsers get a note in kGone.
struct TableStep {
  enum class Writing : std::uint8_t {
    by_tables,  // a transaction, with a batch for each table
    at_once,  // a transaction, with one batch for all rows
    atomically,  // one atomic batch; nothing is erased
    plainly,  // one plain batch, which is atomic row by row; nothing is erased
  } writing;
  bool notes_first = false;  // notes come before the erasures
  bool makes_table = false;  // before the step
  std::vector<RowKey> put;
  std::vector<std::int64_t> erased;  // of kUsers, none of which it puts
  [[nodiscard]] bool is_whole() const { return writing != Writing::plainly; }
  /// What the tables hold after it.
  void apply(TableRows& rows, std::uint64_t step) const;
};

struct TablesScenario {
  Machine machine;
  Shape shape;
  std::uint32_t value_bytes;  // of the pool; 0: any
  bool begins_empty;  // its first three tables are made in the run
  bool roomy;  // room for the run's transactions is made before it
  std::vector<RowKey> filling;  // of step 0, before the run
  std::vector<TableStep> steps;  // from 1 on
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] TablesScenario make_tables_scenario(std::uint64_t seed, std::uint32_t warps,
                                                  std::uint32_t most_steps);

}  // namespace perdure::explore
