#include "explore/tables/tables_scenario.hpp"

#include <algorithm>

#include "explore/gpm/gpm_scenario.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint32_t kWidestRow = 48;  // of pools whose values have one size
constexpr Shape kTableShapes[] = {{2, 2, 2}, {1, 2, 4}, {2, 2, 4}, {2, 2, 8}};

TableStep draw_step(GpmRandom& random) {
  TableStep step{};
  step.writing = static_cast<TableStep::Writing>(random.below(4));
  step.notes_first = random.below(2) == 0;
  step.makes_table = random.below(4) == 0;
  bool const erases = step.is_whole() && step.writing != TableStep::Writing::atomically;
  for (std::int64_t id = 0; id < kIdsOfATable; ++id) {
    auto const dice = random.below(6);
    if (dice < 3) step.put.push_back({kUsers, id});
    if (dice == 3 && erases) step.erased.push_back(id);
  }
  for (std::int64_t id = 0; id < kIdsOfATable; ++id)
    if (random.below(2) == 0) step.put.push_back({kItems, id});
  return step;
}

}  // namespace

std::string name_of_table(std::uint64_t table) {
  static constexpr std::array<char const*, kLastTable + 1> kNames = {"",     "users", "items",
                                                                     "gone", "late",  "later"};
  return kNames[table];
}

std::uint64_t row_word(RowKey const& key, std::uint64_t step, std::uint32_t word) {
  return (step + 1) << 16 | key.first << 12 | static_cast<std::uint64_t>(key.second) << 4 | word;
}

std::optional<std::uint64_t> step_in(RowKey const& key, std::uint32_t word, std::uint64_t content) {
  std::uint64_t const step = (content >> 16) - 1;
  return content >> 16 != 0 && content == row_word(key, step, word) ? std::optional(step)
                                                                    : std::nullopt;
}

void TableStep::apply(TableRows& rows, std::uint64_t step) const {
  for (RowKey const& key : put) rows[key] = step;
  for (std::int64_t const id : erased)
    if (rows.erase({kUsers, id}) != 0) rows[{kGone, id}] = step;
}

TablesScenario make_tables_scenario(std::uint64_t seed, std::uint32_t warps,
                                    std::uint32_t most_steps) {
  GpmRandom random(seed);
  TablesScenario s{};
  s.shape = kTableShapes[random.below(std::size(kTableShapes))];
  s.value_bytes = random.below(2) == 0 ? kWidestRow : 0;
  bool const mirrored = random.below(4) == 0;
  s.machine = {warps, random.below(2) == 0, mirrored, false};
  if (random.below(2) == 0) s.machine.window_bits = 1;  // so that small tables grow unit by unit
  s.roomy = random.below(4) != 0;
  s.begins_empty = random.below(4) == 0;
  for (std::uint64_t table : {kUsers, kItems})
    for (std::int64_t id = 0; id < kIdsOfATable; ++id)
      if (random.below(3) != 0 && !s.begins_empty) s.filling.push_back({table, id});
  for (std::uint64_t n = 1 + random.below(most_steps); n > 0; --n)
    s.steps.push_back(draw_step(random));
  std::uint64_t made = kGone;
  for (TableStep& step : s.steps) step.makes_table = step.makes_table && made++ < kLastTable;
  return s;
}

std::string TablesScenario::describe() const {
  static constexpr char const* kWriting[] = {"a batch a table", "all rows at once", "atomically",
                                             "plainly"};
  auto const named = [](RowKey const& key) {
    return " " + name_of_table(key.first) + "." + std::to_string(key.second);
  };
  std::string text = "shape " + std::to_string(shape.levels) + "L-" + std::to_string(shape.hashes) +
                     "H-" + std::to_string(shape.slots) + "S, " + std::to_string(machine.warps) +
                     " warps, " + (machine.stage_by_stage ? "stage by stage" : "item by item") +
                     (machine.mirrored ? ", mirrored" : "") +
                     (value_bytes != 0 ? ", values of one size" : ", values of any length") +
                     "\n  before:";
  for (RowKey const& key : filling) text += named(key);
  if (begins_empty) text += " nothing; all tables are made in the run";
  for (TableStep const& step : steps) {
    text += "\n  step (" + std::string(kWriting[static_cast<int>(step.writing)]) + "): put";
    for (RowKey const& key : step.put) text += named(key);
    if (!step.erased.empty()) text += step.notes_first ? "; note and erase" : "; erase and note";
    for (std::int64_t const id : step.erased) text += named({kUsers, id});
    if (step.makes_table) text += "; a table is made before it";
  }
  return text;
}

}  // namespace perdure::explore
