// The seam between a store and its Dash table: operations of batches, by any number of threads at
// once. Behind it there is one table of each kind and each content of slots (dash_engine_on.hpp).
// Invariant: what a call answers has taken effect, operation by operation, and survives what the
// pool's medium does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "batch/call.hpp"
#include "exec/counts.hpp"
#include "index/dash/layout.hpp"
#include "pm/pool.hpp"
#include "store/dash/dash_space.hpp"

namespace perdure {

/// A batch on its way.
struct DashBatch {
  Call const* call = nullptr;
  std::uint8_t* status = nullptr;  // KeyStatus of each operation, or kPending
  std::uint64_t sequence = 0;  // of its records

  [[nodiscard]] exec::ByteColumn keys() const { return bytes_of(call->keys); }
  [[nodiscard]] OpKind kind(std::size_t i) const {
    return call->kinds.empty() ? call->kind : call->kinds[i];
  }
  [[nodiscard]] std::span<std::byte const> operand(std::size_t i) const {
    exec::ByteColumn const values = bytes_of(call->values);
    return {values.at(i), values.size(i)};
  }
  [[nodiscard]] bool pending(std::size_t i) const { return status[i] == kPending; }
  void complete(std::size_t i, KeyStatus answer) const {
    PERDURE_ASSERT(!kCostlyAssertions || i < call->keys.count);
    status[i] = static_cast<std::uint8_t>(answer);
  }

 private:
  static exec::ByteColumn bytes_of(Column const& column) {
    return {column.data, column.offsets, column.width};
  }
};

/// Which of a batch's operations: `order` names them, or all from `begin` on.
struct DashOps {
  std::uint32_t const* order = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;
  [[nodiscard]] std::size_t operator[](std::size_t i) const {
    return order != nullptr ? order[begin + i] : begin + i;
  }
};

/// What they came to.
struct DashTally {
  std::uint64_t inserted = 0, erased = 0, refused = 0;
  Status why_refused;  // the last of them, for want of room
  std::uint64_t damaged = 0;  // operations that met damage in the index, not in a record alone
  std::uint64_t reads = 0, writes = 0, orders = 0;
};

/// A record as a scan sees it, valid inside the call.
using DashVisitor =
    std::function<void(std::span<std::byte const> key, std::span<std::byte const> value)>;

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

struct DashFaults {
  static constexpr std::size_t kMost = 100;
  std::uint64_t good = 0;
  std::uint64_t count = 0;
  std::vector<std::string> first;  // kMost of them
  void add(std::string fault) {
    ++count;
    if (first.size() < kMost) first.push_back(std::move(fault));
  }
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

class DashEngine {
 public:
  virtual ~DashEngine() = default;
  virtual Status create(Offset index, std::uint32_t depth) = 0;
  /// See dash::Segmented::open().
  virtual Status open(Offset index, bool sound, bool summed) = 0;
  virtual void begin_mending() = 0;
  [[nodiscard]] virtual std::vector<std::string> mended() = 0;

  /// Gets of fixed-width values, into the call's output.
  virtual void get(DashBatch const& batch, DashOps const& ops, DashTally& tally) = 0;
  /// Gets of any values: one after the other into `values`, and of each its length.
  virtual void get_variable(DashBatch const& batch, DashOps const& ops,
                            std::vector<std::byte>& values, std::int64_t* lengths,
                            DashTally& tally) = 0;
  virtual void write(DashBatch const& batch, DashOps const& ops, DashTally& tally) = 0;
  /// What the last operation that met damage in the index found.
  [[nodiscard]] virtual Status why_damaged() = 0;

  /// Records in the order of their keys' hashes, from hash `from` on: `limit` of them, and those of
  /// equal hash.
  virtual DashPage page(std::uint64_t from, std::size_t limit, DashVisitor const& visit) = 0;
  /// No writer runs during the next three.
  [[nodiscard]] virtual DashCount count() = 0;
  /// Where segments begin, in order; damaged ones are faults, and so is whatever else of the index
  /// leads astray.
  virtual std::vector<std::uint64_t> positions(DashFaults& faults) = 0;
  /// Looks at every record of the segments that begin at these positions.
  virtual void check(std::span<std::uint64_t const> positions, DashFaults& faults) = 0;

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

std::unique_ptr<DashEngine> make_dash_eh(pm::Pool& pool, Mutex& memory, DashSpace& space,
                                         DashOptions const& options);
std::unique_ptr<DashEngine> make_dash_lh(pm::Pool& pool, Mutex& memory, DashSpace& space,
                                         DashOptions const& options);

}  // namespace perdure
