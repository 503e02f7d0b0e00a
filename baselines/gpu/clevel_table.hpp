// The host's side of Clevel-GPM: its levels, and what attach does. Level k is the run with number
// k. One level above the top lies ready, zero, so that a thread of a running batch can publish it.
// Invariant: the context in the file names levels that stand in the directory; two between batches,
// unless one could not be emptied.
#pragma once

#include <cstdint>

#include "arena.hpp"
#include "clevel.hpp"
#include "records.hpp"

namespace perdure::baselines::clevel {

class Table {
 public:
  using Ops = clevel::Ops;
  static constexpr bool kCooperative = false;  // a thread an operation
  static constexpr std::uint64_t kCommits = 0;  // words stored to commit a batch

  explicit Table(Arena& arena);

  static std::uint64_t record_bytes(std::uint32_t key_bytes, std::uint32_t value_bytes) {
    return View::value_at(key_bytes) + value_bytes;
  }

  [[nodiscard]] std::uint64_t slots() const;
  [[nodiscard]] std::uint64_t growths() const { return growths_; }
  [[nodiscard]] View const& view() const { return view_; }
  [[nodiscard]] std::uint64_t shared() const { return context_.as_word(); }
  void set_shared(std::uint64_t word);

  Status create(std::uint64_t expected_records);
  Result<std::uint64_t> recover(Records& records);

  template <class Runner>
  Status make_room(Runner&, std::uint64_t, std::uint64_t) {
    return {};  // levels are added when they are needed
  }
  Status begin_batch(std::uint64_t) { return view_.most == context_.top ? more_room() : Status{}; }
  Status more_room();
  void commit() {}  // each slot's word was the last store of its operation

  /// Empties the bottom levels until two are left.
  template <class Runner>
  Status settle(Runner& runner, BatchView const& batch, std::uint64_t& records) {
    while (context_.top - context_.bottom > 1) {
      Offset const from = view_.level[context_.bottom];
      auto const moved =
          runner.run(std::uint64_t{kSlots} << context_.bottom, RehashBody{view_, batch, from});
      if (!moved) return moved.status();
      records -= moved.value()[BatchCounts::erased];
      if (moved.value()[BatchCounts::full] != 0) return {};  // when there is a further level
      drop_bottom();
    }
    return {};
  }

 private:
  Status add_level(std::uint32_t number);
  void drop_bottom();

  Arena* arena_;
  View view_;
  Context context_{0, 0};
  std::uint64_t growths_ = 0;
};

}  // namespace perdure::baselines::clevel
