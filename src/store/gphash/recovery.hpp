// What an opening does with the pool that it finds: takes over what the root names, undoes and
// completes what a crash left half done, and compares a pool that was closed in order with what
// that close noted (repair.cpp, repair_entries.cpp). Invariants: an opening that finds a difference
// changes nothing, unless it was asked to repair; a repair says in the pool what it is about to
// change before it does (pm/repairs.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "index/gphash/slot_recovery.hpp"
#include "store/gphash/core.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/pool_changes.hpp"

namespace perdure {

class BatchWriter;

class Recovery {
 public:
  Recovery(Core& core, Growth& growth, PoolChanges& changes)
      : core_(core), growth_(growth), changes_(changes) {}

  /// Takes over the runs of superblocks that the root names.
  Status attach();
  /// The engine of the device that was asked for, with the table's levels.
  Status start_engine();
  /// Layout `log`, where a repair was asked for, before its entries are put into the table: its log
  /// is whole, and taken over.
  Status repair_entries();
  Status run(BatchWriter& writer);
  /// For the next opening. Readers may run.
  [[nodiscard]] std::optional<pm::ClosingNote> closing_note();
  /// Records and faults.
  [[nodiscard]] VerifyReport look_at_slots(std::atomic<bool> const* stop = nullptr);

 private:
  [[nodiscard]] EngineOptions engine_options() const;
  Status undo_and_complete();
  /// What the slots lead to. In the heap it is marked.
  [[nodiscard]] Result<gphash::Survey> survey();
  [[nodiscard]] Result<std::optional<gphash::Survey>> survey_by_engine();
  void open_for_writing();
  void settle_log(pm::Root root);
  void end_session_left();
  [[nodiscard]] std::vector<std::string> changed_words();
  void restore_words();
  void compare_slots(gphash::Survey const& found, std::vector<std::string>& wrong);
  gphash::Survey repair(std::vector<std::string> const& wrong);
  /// Notes what a repair is about to change.
  void say(std::vector<std::string> const& lines,
           pm::Unfinished unfinished = pm::Unfinished::nothing);

  // Layout `log` (repair_entries.cpp).
  struct Doubtful {
    std::uint64_t slot = 0;
    std::string why;
  };
  Status repair_table(BatchWriter& writer, std::vector<std::string> const& wrong,
                      gphash::Survey& found);
  [[nodiscard]] std::vector<Doubtful> doubtful_slots(gphash::Survey const& found, bool told);
  [[nodiscard]] std::uint64_t older_twin(std::uint64_t number, gphash::Entry const& entry);
  Status erase_slots(BatchWriter& writer, std::vector<Doubtful> const& slots, bool told);
  void mend_heads();
  void say_what_is_left(gphash::Survey const& found, bool told);
  void dropped(std::uint64_t slots, char const* what);

  Core& core_;
  Growth& growth_;
  PoolChanges& changes_;
  std::chrono::steady_clock::time_point begin_;
  std::optional<pm::ClosingNote> left_;  // by the orderly close before this opening
  std::uint64_t astray_ = 0;  // slots that led to no record when it was opened
  std::uint64_t repair_dropped_ = 0;
  bool mended_ = false, lossy_ = false;  // layout `log`: its log, and not all of it
};

}  // namespace perdure
