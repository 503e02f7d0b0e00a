// The engine of one machine, and what it takes to have a run on another machine too: a run is one
// allocation, whose layout follows from its form, so that its bytes are all there is to copy.
// Invariant: runs that are handed to an engine are its own, but for the source of copy_in().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/engine/ranges.hpp"
#include "lsm/engine/run_view.hpp"

namespace perdure::lsm {

/// What a run has.
struct RunShape {
  std::uint32_t count = 0;
  std::uint32_t shared = 0;
  std::uint32_t width = 0;  // of all keys, unless `sizes_vary`
  std::uint32_t value_size = 0;  // of all values, unless `value_sizes_vary`
  bool sizes_vary = false;
  bool value_sizes_vary = false;
  bool values_inside = false;  // the run has their bytes
  bool has_values = true;  // false: all entries are erases

  /// Of each value, that the run has.
  [[nodiscard]] std::uint32_t value_words() const {
    return values_inside ? RunView::words_of(value_size) : 0;
  }
  /// The same where these are rows.
  [[nodiscard]] std::uint32_t row_words() const { return value_words() > 1 ? value_words() : 0; }
  /// Prefixes are the keys.
  [[nodiscard]] bool whole() const { return !sizes_vary && width <= 8; }
};

/// All that a run is, but for its bytes.
struct RunForm {
  RunShape shape;
  std::uint64_t key_words = 0;  // that are kept
  std::vector<std::byte> shared;  // what all keys begin with
};

/// A list of runs as calls take it that own none, newest first.
using RunSpan = std::span<Run const* const>;

/// Made of another list, in place for the usual number of runs.
class RunPointers {
 public:
  RunPointers() = default;
  explicit RunPointers(RunList runs) {
    for (RunPtr const& run : runs) add(run.get());
  }
  RunPointers(RunPointers const&) = delete;
  RunPointers& operator=(RunPointers const&) = delete;

  void add(Run const* run) {
    if (count_ == few_.size()) many_.assign(few_.begin(), few_.end());
    if (count_ < few_.size()) {
      few_[count_] = run;
    } else {
      many_.push_back(run);
    }
    ++count_;
  }
  void clear() { count_ = 0; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] RunSpan span() const {
    return count_ <= few_.size() ? RunSpan(few_.data(), count_) : RunSpan(many_);
  }

 private:
  std::size_t count_ = 0;
  std::array<Run const*, 16> few_;
  std::vector<Run const*> many_;
};

class MachineEngine : public Engine {
 public:
  using Engine::chains;
  using Engine::find;
  using Engine::fold;
  using Engine::merge;
  using Engine::ranges;

  virtual Result<RunPtr> merge(RunSpan runs) = 0;
  virtual Status find(RunSpan runs, Column const& keys, Limits const& limits,
                      std::span<Answer> answers, AnswerRows const& rows) = 0;
  virtual Status chains(RunSpan runs, Column const& keys, Limits const& limits, Chains& chains) = 0;
  virtual Status fold(RunSpan runs, Column const& keys, Limits const& limits, Operation operation,
                      std::span<Answer> answers) = 0;
  virtual Result<RangePairs> ranges(RunSpan runs, RangeQuery const& query) = 0;

  [[nodiscard]] virtual RunForm form(Run const& run) const = 0;
  /// Null: its memory is not the host's.
  [[nodiscard]] virtual std::byte const* host_bytes(Run const& run) const = 0;
  /// All run.bytes(), to host memory.
  virtual Status copy_out(Run const& run, std::byte* to) = 0;
  /// A copy of another engine's run. The memory of one of the two is the host's.
  virtual Result<RunPtr> copy_in(MachineEngine& from, Run const& run) = 0;

  Result<RunPtr> merge(RunList runs) final { return merge(RunPointers(runs).span()); }
  Status find(RunList runs, Column const& keys, Limits const& limits, std::span<Answer> answers,
              AnswerRows const& rows) final {
    return find(RunPointers(runs).span(), keys, limits, answers, rows);
  }
  Status chains(RunList runs, Column const& keys, Limits const& limits, Chains& chains) final {
    return this->chains(RunPointers(runs).span(), keys, limits, chains);
  }
  Status fold(RunList runs, Column const& keys, Limits const& limits, Operation operation,
              std::span<Answer> answers) final {
    return fold(RunPointers(runs).span(), keys, limits, operation, answers);
  }

  Result<RangePairs> ranges(RunList runs, RangeQuery const& query) final {
    return ranges(RunPointers(runs).span(), query);
  }
};

/// As make_cpu_engine() and make_cuda_engine().
Result<std::unique_ptr<MachineEngine>> make_cpu_side(exec::Workers& workers,
                                                     EngineOptions const& options = {});
Result<std::unique_ptr<MachineEngine>> make_cuda_side(exec::Workers& workers,
                                                      EngineOptions const& options = {});

}  // namespace perdure::lsm
