// A pool that was closed in order: what that close notes, what an opening compares with it, and
// what a repair does where they differ. Invariants: without `repair` a damaged pool is left as it
// is; what a repair does is noted in the pool before it begins, and in full when it has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/offset.hpp"
#include "store/dash/dash_core.hpp"

namespace perdure {

class DashRecovery {
 public:
  explicit DashRecovery(DashCore& core) : core_(core) {}

  /// What is not as the close left it, as far as it can be told without a look at the segments.
  [[nodiscard]] std::vector<std::string> changed_words(Offset index);
  /// Whether that close noted what it left: then each segment has its sum.
  [[nodiscard]] bool has_note() const { return left_.has_value(); }
  /// Opens the table, looks at all segments, and mends those that are damaged. `wrong`: what
  /// changed_words() found.
  Status repair(Offset index, std::vector<std::string> wrong);
  /// For the next opening; none where that would find damage. No writer runs.
  [[nodiscard]] std::optional<pm::ClosingNote> closing_note();

 private:
  [[nodiscard]] std::uint64_t sum_of_index() const;
  std::string mend_index();
  void note_found(std::vector<std::string>& lines);
  [[nodiscard]] Status lost(std::string const& why) const;

  DashCore& core_;
  std::optional<pm::ClosingNote> left_;  // by the orderly close before this opening
};

}  // namespace perdure
