// A read of a list of runs that lie on two sides: part after part of the list, from the newest on,
// and each part for those keys alone that the parts before it left open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/engine/machine_engine.hpp"
#include "lsm/engine/two_sided_run.hpp"

namespace perdure::lsm {

/// Cuts a list of two-sided runs into parts that one side has each, with as few reads by the device
/// as that takes.
class RunParts {
 public:
  /// `wish`: where a run is read that is on both.
  RunParts(RunList runs, Side wish) : runs_(runs), wish_(wish) {}

  [[nodiscard]] bool at_end() const { return runs_.empty(); }
  /// The next of them, not at_end(), and where it is read.
  struct Part {
    Side side;
    RunList runs;
  };
  [[nodiscard]] Part next() const;
  /// As that side has it; then comes the one behind it.
  Side take(RunPointers& part);

 private:
  RunList runs_;
  Side wish_;
};

/// Those keys of a read that are still looked for.
class OpenKeys {
 public:
  /// All of them. What they refer to outlives this.
  OpenKeys(Column const& keys, Limits const& limits);
  OpenKeys(OpenKeys const&) = delete;
  OpenKeys& operator=(OpenKeys const&) = delete;

  [[nodiscard]] bool are_all() const { return which_.size() == all_.count; }
  [[nodiscard]] bool empty() const { return which_.empty(); }
  /// Each one's place among all.
  [[nodiscard]] std::span<std::size_t const> which() const { return which_; }
  [[nodiscard]] Column const& column() const { return column_; }
  [[nodiscard]] Limits const& limits() const { return limits_; }

  /// Those of which is_open(place).
  template <class F>
  void keep(F const& is_open) {
    std::size_t const before = which_.size();
    std::erase_if(which_, [&](std::size_t i) { return !is_open(i); });
    if (which_.size() != before) gather();
  }

 private:
  void gather();

  Column all_;
  Limits all_limits_;
  std::vector<std::size_t> which_;
  Column column_;
  Limits limits_;
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> offsets_;
  std::vector<RequestId> each_;
};

/// Of the keys that are open, before they go to the places of these among all.
class SomeAnswers {
 public:
  /// For so many; the answer is where their rows go, if the caller wants rows.
  AnswerRows take(std::size_t keys, AnswerRows const& asked);
  [[nodiscard]] std::span<Answer> answers() { return answers_; }
  void put(OpenKeys const& open, std::span<Answer> answers, AnswerRows const& rows) const;

 private:
  std::vector<Answer> answers_;
  std::vector<std::uint64_t> rows_;
};

/// Chains that grow from part to part.
class GrowingChains {
 public:
  explicit GrowingChains(std::size_t keys) : versions_(keys) {}

  /// A part's, of the keys that were open.
  void add(OpenKeys const& open, Chains const& part);
  /// Whether the key's chain goes on behind what there is.
  [[nodiscard]] bool is_open(std::size_t key) const {
    return versions_[key].empty() || versions_[key].back().kind == Kind::merge;
  }
  void finish(Chains& chains) const;

 private:
  std::vector<std::vector<Version>> versions_;
};

}  // namespace perdure::lsm
