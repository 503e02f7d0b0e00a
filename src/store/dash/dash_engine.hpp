// The seam between a store and its Dash table: operations of batches, by any number of threads at
// once. Behind it there is one table of each kind and each content of slots (dash_engine_on.hpp).
// Invariant: what a call answers has taken effect, operation by operation, and survives what the
// pool's medium does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "index/dash/layout.hpp"
#include "pm/pool.hpp"
#include "store/threads/engine.hpp"
#include "store/threads/space.hpp"

namespace perdure {

/// `damaged`: the walk met damage in the index, and ended there.
struct DashPage {
  std::uint64_t next = 0;  // where the next one begins; 0 = there is none
  std::size_t records = 0;
  bool damaged = false;
  std::string record;  // that is damaged, where that is why it ended; else the index is
};

struct DashCount {
  std::uint64_t records = 0;
  bool whole = true;  // else what damaged segments hold is left out
};

struct DashShape {
  std::uint64_t segments = 0, slots = 0, splits = 0;
};

struct DashOptions {
  std::uint32_t key_bytes = 0, value_bytes = 0;  // 0 = variable
  bool verify_reads = true;
  bool count_accesses = false;
  dash::SegmentShape segments;
  // an operation ended in its midst, and its locks are released by nobody
  std::atomic<bool>* given_up = nullptr;
};

class DashEngine : public threads::Engine {
 public:
  virtual Status create(Offset index, std::uint32_t depth) = 0;
  /// See dash::Segmented::open().
  virtual Status open(Offset index, bool sound, bool summed) = 0;
  virtual void begin_mending() = 0;
  [[nodiscard]] virtual std::vector<std::string> mended() = 0;

  /// Records in the order of their keys' hashes, from hash `from` on: `limit` of them, and those of
  /// equal hash.
  virtual DashPage page(std::uint64_t from, std::size_t limit, threads::Visitor const& visit) = 0;
  /// No writer runs during the next three.
  [[nodiscard]] virtual DashCount count() = 0;
  /// Where segments begin, in order; damaged ones are faults, and so is whatever else of the index
  /// leads astray.
  virtual std::vector<std::uint64_t> positions(threads::Faults& faults) = 0;
  /// Looks at every record of the segments that begin at these positions.
  virtual void check(std::span<std::uint64_t const> positions, threads::Faults& faults) = 0;

  /// Finds out what is free after an opening, while others go on; go_on() is asked after each
  /// segment. False: it was asked to end before it had seen everything, or met damage, and nothing
  /// is known.
  virtual bool sweep(std::function<bool()> const& go_on) = 0;
  /// May look at each segment, where depth() looks at none.
  [[nodiscard]] virtual DashShape shape() = 0;
  [[nodiscard]] virtual std::uint32_t depth() = 0;
  /// The count that an orderly close leaves for the next opening.
  [[nodiscard]] virtual std::uint64_t noted_count() = 0;
  virtual void note_count(std::uint64_t records) = 0;
  /// What an orderly close leaves of each segment, for the next opening to compare. False: some are
  /// damaged. No writer runs.
  [[nodiscard]] virtual bool store_sums() = 0;
};

/// Slots hold keys and values themselves where both fit in.
[[nodiscard]] inline bool dash_inline(std::uint32_t key_bytes, std::uint32_t value_bytes) {
  return key_bytes >= 1 && key_bytes <= 8 && value_bytes >= 1 && value_bytes <= 8;
}

std::unique_ptr<DashEngine> make_dash_eh(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                         DashOptions const& options);
std::unique_ptr<DashEngine> make_dash_lh(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                         DashOptions const& options);

}  // namespace perdure
