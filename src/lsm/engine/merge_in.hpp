// Runs on their way into one: their entries are sorted like those of a batch. Merging them two by
// two, or looking up each entry's place in the other runs, takes longer from three runs on.
// Invariant: of one key, entries of a newer run come before those of an older one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "exec/counts.hpp"
#include "lsm/engine/key_order.hpp"
#include "lsm/engine/run_on.hpp"

namespace perdure::lsm {

/// Labels count the entries of the newest run, then those of the next; see KeyOrder. Each run's
/// begin at a multiple of kBlock, so that a block of labels is of one run.
struct RunsKeys {
  static constexpr std::uint32_t kBlock = 4096;
  RunView const* runs = nullptr;
  std::uint32_t const* run_of_block = nullptr;
  std::uint32_t const* starts = nullptr;  // of each run's labels

  [[nodiscard]] PERDURE_FN RunView const& run(std::uint32_t label) const {
    return runs[run_of_block[label / kBlock]];
  }
  [[nodiscard]] PERDURE_FN std::uint32_t entry(std::uint32_t label) const {
    return label - starts[run_of_block[label / kBlock]];
  }
  [[nodiscard]] PERDURE_FN std::uint32_t size(std::uint32_t label) const {
    return run(label).size(entry(label));
  }
  [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t label, std::uint64_t from) const {
    return run(label).word(entry(label), from);
  }
};

/// Of one run.
struct RunWordBody {
  RunView run;
  std::uint32_t start;  // of its labels
  std::uint64_t shared;
  exec::Sorted* items;
  PERDURE_FN void operator()(std::size_t i) const {
    items[i] = {start + i, run.word(static_cast<std::uint32_t>(i), shared)};
  }
};

/// Entries in the order of the run; see RunMaker.
struct RunsFrom {
  RunsKeys keys;
  exec::Sorted const* order = nullptr;  // labels, and the words that become prefixes

  [[nodiscard]] PERDURE_FN std::uint32_t label(std::size_t k) const {
    return static_cast<std::uint32_t>(order[k].index);
  }
  [[nodiscard]] PERDURE_FN std::uint32_t key_size(std::size_t k) const {
    return keys.size(label(k));
  }
  PERDURE_FN void copy_key(std::size_t k, std::uint64_t* to) const {
    keys.run(label(k)).copy_key(keys.entry(label(k)), to);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t prefix(std::size_t k) const { return order[k].hash; }
  [[nodiscard]] PERDURE_FN StoredVersion version(std::size_t k) const {
    return keys.run(label(k)).versions[keys.entry(label(k))];
  }
  [[nodiscard]] PERDURE_FN std::uint32_t value_size(std::size_t k) const {
    return keys.run(label(k)).size_of_value(keys.entry(label(k)));
  }
  [[nodiscard]] PERDURE_FN std::uint64_t value_word(std::size_t k) const {
    RunView const& run = keys.run(label(k));
    return run.words != nullptr ? run.words[keys.entry(label(k))] : 0;
  }
  struct Row {
    std::uint64_t const* words;  // null: of a run of erases alone
    [[nodiscard]] PERDURE_FN std::uint64_t word(std::uint32_t w) const {
      return words != nullptr ? words[w] : 0;
    }
  };
  [[nodiscard]] PERDURE_FN Row value_row(std::size_t k) const {
    RunView const& run = keys.run(label(k));
    return {run.rows != nullptr ? run.row(keys.entry(label(k))) : nullptr};
  }
};

template <class Machine>
class MergeIn {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

 public:
  static constexpr std::uint64_t kMostEntries = std::numeric_limits<std::int32_t>::max();
  static constexpr std::uint64_t kMostWords = std::numeric_limits<std::uint32_t>::max();

  /// `views`: of the runs, for the host and where the machine reads them.
  Result<RunPtr> merge(Machine& machine, KeyOrder<Machine>& order, RunMaker<Machine>& maker,
                       RunSpan runs, std::vector<RunView> const& views, RunView const* views_here) {
    std::uint64_t n = 0;
    std::uint64_t words = 0;
    for (Run const* run : runs) {
      n += run->count();
      words += RunOn<Machine>::of(*run).key_words();
    }
    if (n > kMostEntries || words > kMostWords || !label(views))
      return Status{Code::invalid_argument,
                    "runs of " + std::to_string(n) + " entries and " + std::to_string(8 * words) +
                        " bytes of keys in all; one takes fewer than 2^31 entries and 32 GiB"};
    RunsFrom from;
    if (n == 0) return maker.make(machine, {}, from, {});
    std::vector<std::byte> shared;
    RunShape const shape = shape_of(runs, views, static_cast<std::uint32_t>(n), shared);
    auto const keys = keys_of(machine, views_here);
    if (!keys) return keys.status();
    from.keys = keys.value();
    auto const items = order.room(n);
    if (!items) return items.status();
    exec::Sorted* at = items.value();
    for (std::size_t r = 0; r < views.size(); at += views[r++].count) {
      RunWordBody const body{views[r], starts_[r], shape.shared, at};
      if (Status s = machine.threads(views[r].count, body); !s.ok()) return s;
    }
    if (Status s = order.sort(machine, from.keys, n, shape.shared, shape.whole()); !s.ok())
      return s;
    from.order = order.order();
    return maker.make(machine, shape, from, std::move(shared));
  }

 private:
  /// False: there are not enough labels.
  bool label(std::vector<RunView> const& views) {
    starts_.clear();
    run_of_block_.clear();
    for (std::size_t r = 0; r < views.size(); ++r) {
      std::uint64_t const blocks =
          (std::uint64_t{views[r].count} + RunsKeys::kBlock - 1) / RunsKeys::kBlock;
      std::uint64_t const before = run_of_block_.size();
      if ((before + blocks) * RunsKeys::kBlock > std::numeric_limits<std::uint32_t>::max())
        return false;
      starts_.push_back(static_cast<std::uint32_t>(before * RunsKeys::kBlock));
      run_of_block_.resize(before + blocks, static_cast<std::uint32_t>(r));
    }
    return true;
  }
  Result<RunsKeys> keys_of(Machine& machine, RunView const* views_here) {
    auto const starts = bring(machine, starts_here_, std::span<std::uint32_t const>(starts_));
    if (!starts) return starts.status();
    auto const blocks =
        bring(machine, run_of_block_here_, std::span<std::uint32_t const>(run_of_block_));
    if (!blocks) return blocks.status();
    return RunsKeys{views_here, blocks.value(), starts.value()};
  }

  static RunShape shape_of(RunSpan runs, std::vector<RunView> const& views, std::uint32_t n,
                           std::vector<std::byte>& shared) {
    RunShape shape;
    shape.has_values = false;
    bool first = true;
    for (std::size_t r = 0; r < views.size(); ++r) {
      RunView const& view = views[r];
      if (view.count == 0) continue;
      auto const& bytes = RunOn<Machine>::of(*runs[r]).shared();
      if (first) {
        shape.width = view.width;
        shared = bytes;
      }
      first = false;
      shape.sizes_vary |= view.sizes != nullptr || view.width != shape.width;
      if (view.has_values) add_values(shape, view);
      auto const ends = std::ranges::mismatch(shared, bytes);
      shared.erase(ends.in1, shared.end());
    }
    shape.count = n;
    if (shape.whole()) shared.clear();
    shape.shared = static_cast<std::uint32_t>(shared.size());
    return shape;
  }

  static void add_values(RunShape& shape, RunView const& view) {
    if (!shape.has_values) {
      shape.value_size = view.value_size;
      shape.values_inside = true;
    }
    shape.has_values = true;
    shape.value_sizes_vary |= view.value_sizes != nullptr || view.value_size != shape.value_size;
    shape.values_inside &=
        (view.words != nullptr || view.rows != nullptr) && !shape.value_sizes_vary;
  }

  std::vector<std::uint32_t> starts_, run_of_block_;
  Buffer<std::uint32_t> starts_here_, run_of_block_here_;
};

}  // namespace perdure::lsm
