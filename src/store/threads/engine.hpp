// What a batch is to a store whose operations host threads do one by one, and the part of its
// engine that batches use. Invariant: what a call answers has taken effect, operation by operation,
// and survives what the pool's medium does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "batch/call.hpp"
#include "exec/counts.hpp"
#include "exec/workers.hpp"
#include "perdure/status.h"

namespace perdure::threads {

/// A batch on its way.
struct Batch {
  Call const* call = nullptr;
  std::uint8_t* status = nullptr;  // KeyStatus of each operation, or kPending
  // of its records; where each operation has a number, operation i has sequence + i
  std::uint64_t sequence = 0;

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
struct Ops {
  std::uint32_t const* order = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;
  [[nodiscard]] std::size_t operator[](std::size_t i) const {
    return order != nullptr ? order[begin + i] : begin + i;
  }
};

/// What they came to.
struct Tally {
  std::uint64_t inserted = 0, erased = 0, refused = 0;
  Status why_refused;  // the last of them, for want of room
  std::uint64_t damaged = 0;  // operations that met damage in the index, not in a record alone
  std::uint64_t reads = 0, writes = 0, orders = 0;
};

/// A record as a scan sees it, valid inside the call.
using Visitor =
    std::function<void(std::span<std::byte const> key, std::span<std::byte const> value)>;

/// What a look over everything found.
struct Faults {
  static constexpr std::size_t kMost = 100;
  std::uint64_t good = 0;
  std::uint64_t count = 0;
  std::vector<std::string> first;  // kMost of them
  void add(std::string fault) {
    ++count;
    if (first.size() < kMost) first.push_back(std::move(fault));
  }
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// Whether each operation of a batch has a number of its own, or all have one.
  [[nodiscard]] virtual bool numbers_each() const { return false; }

  /// Gets of fixed-width values, into the call's output.
  virtual void get(Batch const& batch, Ops const& ops, Tally& tally) = 0;
  /// Gets of any values: one after the other into `values`, and of each its length.
  virtual void get_variable(Batch const& batch, Ops const& ops, std::vector<std::byte>& values,
                            std::int64_t* lengths, Tally& tally) = 0;
  virtual void write(Batch const& batch, Ops const& ops, Tally& tally) = 0;
  // Where a batch of writes is a transaction (Core::has_transactions), with nobody beside it:
  virtual void begin() {}
  /// `records`: how many there are then. Where it is not ok, or throws, undo() is called.
  virtual Status commit(std::uint64_t /*records*/) { return {}; }
  /// As if it had never begun: how many records there are.
  virtual Result<std::uint64_t> undo() { return std::uint64_t{0}; }
  /// Puts a whole batch into an index that is empty, and that nobody else uses meanwhile, faster
  /// than write() would. False: it cannot, and nothing has changed.
  virtual bool load(Batch const&, exec::Workers&, std::atomic<bool> const* /*stop*/, Tally&) {
    return false;
  }
  /// What the last operation that met damage in the index found.
  [[nodiscard]] virtual Status why_damaged() = 0;
};

}  // namespace perdure::threads
