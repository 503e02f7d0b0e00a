// Runs on their way into one. Each entry's place is its own number and, of each other run, how many
// entries come before it; entries of one block look for theirs near their neighbour's.
// Invariant: of one key, entries of a newer run come before those of an older one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lsm/engine/run_on.hpp"
#include "lsm/engine/run_search.hpp"

namespace perdure::lsm {

/// A run and an entry of it.
struct EntryOfRun {
  std::uint32_t run;
  std::uint32_t entry;
};

/// Entries in the order of the run; see RunMaker.
struct RunsFrom {
  RunView const* runs = nullptr;
  EntryOfRun const* entries = nullptr;
  std::uint32_t shared = 0;

  [[nodiscard]] PERDURE_FN RunView const& run(std::size_t k) const { return runs[entries[k].run]; }
  [[nodiscard]] PERDURE_FN std::uint32_t key_size(std::size_t k) const {
    return run(k).size(entries[k].entry);
  }
  PERDURE_FN void copy_key(std::size_t k, std::uint64_t* to) const {
    run(k).copy_key(entries[k].entry, to);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t prefix(std::size_t k) const {
    return run(k).word(entries[k].entry, shared);
  }
  [[nodiscard]] PERDURE_FN StoredVersion version(std::size_t k) const {
    return run(k).versions[entries[k].entry];
  }
  [[nodiscard]] PERDURE_FN std::uint32_t value_size(std::size_t k) const {
    return run(k).size_of_value(entries[k].entry);
  }
};

/// Of a block of one run's entries.
struct PlaceOfEntriesBody {
  static constexpr std::uint32_t kBlock = 32;
  RunView const* runs;
  std::uint32_t count;  // of runs
  std::uint32_t mine;
  EntryOfRun* entries;  // of the merged run

  PERDURE_FN void operator()(std::size_t block) const {
    RunView const& run = runs[mine];
    auto const first = static_cast<std::uint32_t>(block * kBlock);
    std::uint32_t const n = run.count - first < kBlock ? run.count - first : kBlock;
    std::uint64_t places[kBlock];
    for (std::uint32_t i = 0; i < n; ++i) places[i] = std::uint64_t{first} + i;
    for (std::uint32_t other = 0; other < count; ++other) {
      if (other != mine) add_before(run, first, n, runs[other], other < mine, places);
    }
    for (std::uint32_t i = 0; i < n; ++i) entries[places[i]] = {mine, first + i};
  }

  static PERDURE_FN void add_before(RunView const& run, std::uint32_t first, std::uint32_t n,
                                    RunView const& other, bool newer, std::uint64_t* places) {
    std::uint64_t space = 0;
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      std::byte const* key = nullptr;
      if (run.keys != nullptr) {
        key = run.key(first + i);
      } else {
        space = swapped(run.prefixes[first + i]);
        key = reinterpret_cast<std::byte const*>(&space);
      }
      Wanted const wanted(other, key, run.size(first + i));
      at = i == 0 ? bound_of(other, wanted, newer) : bound_after(other, wanted, newer, at);
      places[i] += at;
    }
  }

  /// As bound_of(), which is not before `at`.
  static PERDURE_FN std::uint32_t bound_after(RunView const& run, Wanted const& wanted, bool above,
                                              std::uint32_t at) {
    if (wanted.side != 0) return wanted.side < 0 ? 0 : run.count;
    return first_not(at, run.count, [&](std::uint32_t i) {
      if (run.prefixes[i] != wanted.word) return run.prefixes[i] < wanted.word;
      int const order = wanted.compare_rest(run, i);
      return above ? order >= 0 : order > 0;
    });
  }
};

template <class Machine>
class MergeIn {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

 public:
  static constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

  /// `views`: of the runs, for the host and where the machine reads them.
  Result<RunPtr> merge(Machine& machine, RunMaker<Machine>& maker, RunList runs,
                       std::vector<RunView> const& views, RunView const* views_here) {
    std::uint64_t n = 0;
    std::uint64_t words = 0;
    for (RunPtr const& run : runs) {
      n += run->count();
      words += RunOn<Machine>::of(*run).key_words();
    }
    if (n > kMost || words > kMost)
      return Status{Code::invalid_argument,
                    "runs of " + std::to_string(n) + " entries and " + std::to_string(8 * words) +
                        " bytes of keys in all; one takes fewer than 2^32 entries and 32 GiB"};
    if (n == 0) return maker.make(machine, {}, RunsFrom{}, {});
    if (Status s = entries_.resize(n); !s.ok()) return s;
    for (std::uint32_t r = 0; r < views.size(); ++r) {
      std::uint64_t const blocks =
          (std::uint64_t{views[r].count} + PlaceOfEntriesBody::kBlock - 1) /
          PlaceOfEntriesBody::kBlock;
      PlaceOfEntriesBody const body{views_here, static_cast<std::uint32_t>(views.size()), r,
                                    entries_.data()};
      if (Status s = machine.threads(blocks, body); !s.ok()) return s;
    }
    std::vector<std::byte> shared;
    RunShape const shape = shape_of(runs, views, static_cast<std::uint32_t>(n), shared);
    return maker.make(machine, shape, RunsFrom{views_here, entries_.data(), shape.shared},
                      std::move(shared));
  }

 private:
  static RunShape shape_of(RunList runs, std::vector<RunView> const& views, std::uint32_t n,
                           std::vector<std::byte>& shared) {
    RunShape shape;
    bool first = true;
    for (std::size_t r = 0; r < views.size(); ++r) {
      RunView const& view = views[r];
      if (view.count == 0) continue;
      auto const& bytes = RunOn<Machine>::of(*runs[r]).shared();
      if (first) {
        shape.width = view.width;
        shape.value_size = view.value_size;
        shared = bytes;
      }
      first = false;
      shape.sizes_vary |= view.sizes != nullptr || view.width != shape.width;
      shape.value_sizes_vary |= view.value_sizes != nullptr || view.value_size != shape.value_size;
      auto const ends = std::ranges::mismatch(shared, bytes);
      shared.erase(ends.in1, shared.end());
    }
    shape.count = n;
    if (shape.whole()) shared.clear();
    shape.shared = static_cast<std::uint32_t>(shared.size());
    return shape;
  }

  Buffer<EntryOfRun> entries_;
};

}  // namespace perdure::lsm
