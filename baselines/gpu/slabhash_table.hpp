// The host's side of SlabHash-GPM: its runs, its undo log, growth, and what attach does. A
// generation is one array of buckets and the slabs that hang from it. The root word names the one
// that counts (low half its number, high half the logarithm of its buckets), so a growth cut short
// leaves the older one whole, and its own runs are dropped at attach.
#pragma once

#include <cstdint>

#include "arena.hpp"
#include "records.hpp"
#include "slabhash.hpp"

namespace perdure::baselines::slabhash {

class TableBase {
 public:
  [[nodiscard]] std::uint64_t slots() const { return per_slab_ << view_.log2_buckets; }
  [[nodiscard]] std::uint64_t growths() const { return growths_; }
  [[nodiscard]] View const& view() const { return view_; }
  /// The volatile word that kernels see as View::shared.
  [[nodiscard]] std::uint64_t shared() const { return shared_; }
  void set_shared(std::uint64_t value) { shared_ = value; }

  Status create(std::uint64_t expected_records);
  /// Undoes what an interrupted batch changed, marks the records in use; their number.
  Result<std::uint64_t> recover(Records& records);

  /// A batch of `operations` begins: its epoch, and an undo entry for each of them.
  Status begin_batch(std::uint64_t operations);
  /// The batch is on the medium: none of it will be undone.
  void commit();
  /// Slabs ran out inside a batch.
  Status more_room() { return add_slabs(view_, root_, view_.slab_limit); }

 protected:
  TableBase(Arena& arena, std::uint64_t slots_per_slab)
      : arena_(&arena), per_slab_(slots_per_slab) {}

  /// "SlabHash-GPM resizes when the number of inserted keys approaches the capacity (e.g. 80 %)",
  /// section 4.2.
  [[nodiscard]] bool crowded(std::uint64_t records, std::uint32_t log2_buckets) const {
    return records * 5 > (per_slab_ << log2_buckets) * 4;
  }
  /// Empty runs of the next generation, large enough for `records`.
  Result<View> next_generation(std::uint64_t records);
  /// From now on they are the table; the runs before them are dropped.
  void switch_to(View const& next);
  /// Drops the runs of every generation but the one that counts.
  void drop_others();

  View view_;
  std::uint64_t shared_ = 0;

 private:
  Status add_slabs(View& view, std::uint64_t generation, std::uint64_t slabs);
  [[nodiscard]] bool holds_slab(Offset slab) const;
  [[nodiscard]] std::uint64_t pointers_at() const { return (kNext / per_slab_ - 1) * per_slab_; }
  void undo();
  Result<std::uint64_t> walk(Records& records);
  void find_unused_slabs(Offset highest);

  Arena* arena_;
  std::uint64_t per_slab_;
  std::uint64_t root_ = 0;  // generation
  std::uint64_t growths_ = 0;
  std::uint64_t log_room_ = 0;
};

template <std::uint32_t kKeyWords>
class Table : public TableBase {
 public:
  using Ops = slabhash::Ops<kKeyWords>;
  static constexpr bool kCooperative = true;  // a warp an operation
  static constexpr std::uint64_t kCommits = 1;  // words stored to commit a batch

  explicit Table(Arena& arena) : TableBase(arena, Ops::kSlots) {}

  static std::uint64_t record_bytes(std::uint32_t, std::uint32_t value_bytes) {
    return value_bytes;
  }

  /// Before a batch that may insert `more`.
  template <class Runner>
  Status make_room(Runner& runner, std::uint64_t records, std::uint64_t more) {
    if (!crowded(records + more, view_.log2_buckets)) return {};
    auto next = next_generation(records + more);
    if (!next) return next.status();
    std::uint64_t const used = shared_;
    shared_ = 0;
    auto const moved = runner.run(std::uint64_t{1} << view_.log2_buckets,
                                  RehashBody<kKeyWords>{*next, view_.buckets});
    if (moved.ok() && moved.value()[BatchCounts::full] == 0) {
      switch_to(*next);
      return {};
    }
    shared_ = used;
    drop_others();
    return moved.ok() ? Status{Code::no_space, "no room to grow SlabHash"} : moved.status();
  }

  /// After a batch: nothing goes on in the background.
  template <class Runner>
  Status settle(Runner&, BatchView const&, std::uint64_t&) {
    return {};
  }
};

}  // namespace perdure::baselines::slabhash
