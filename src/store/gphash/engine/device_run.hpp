// The seam between a device session and its machine: how the store begins and ends one, and how the
// tests and the explorer run operations in it by warps of the engine's own. Invariant: between
// begin() and end() nobody else uses the table.
#pragma once

#include <cstdint>
#include <span>

#include "exec/counts.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"
#include "wal/entries.hpp"

namespace perdure {

struct DeviceView;

/// Operations for a device session's own machine, as a kernel of a user's would do them: each of
/// `sequences` warps carries out operations s, s + sequences, ... one after the other; between
/// warps there is no order.
struct DeviceOps {
  Column keys;
  Column values;  // of puts and updates
  MutableColumn out;  // of gets, and room for the sums of updates that add
  std::span<OpKind const> kinds;  // one per key
  // to the value's first 8 bytes, and insert new keys: DeviceTable::modify
  bool updates_add = false;
  std::uint64_t sequences = 1;
  std::span<KeyStatus> statuses;
  // Moments of one clock, per key, or empty: before a call, and after it.
  std::span<std::uint64_t> began, ended;
  std::uint64_t* acknowledged = nullptr;  // machine memory or null: how many each sequence has done
};

/// What a session may use up.
struct DeviceRoom {
  std::uint64_t records = 0;
  std::uint64_t sequence = 0;  // the session's number, which its records carry
  std::uint64_t erases = ~std::uint64_t{0};
  // Layout `log`: where the cells of its extent are, one for each record and each erase. In host
  // memory.
  std::span<std::uint64_t const> segments = {};
  wal::EntryRegion entries = {};
};

/// A device session on its machine (device_run_on.hpp).
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  /// Takes that many records from the engine's lease. False: so many are not free, and nothing was
  /// taken.
  virtual Result<bool> begin(DeviceRoom const& room) = 0;
  [[nodiscard]] virtual DeviceView const& view() const = 0;
  virtual Status run(DeviceOps const& ops) = 0;
  /// Waits for every kernel on the device.
  virtual Result<exec::Counts> end() = 0;
  /// Afterwards: gives back the records that no slot leads to.
  virtual Status release() = 0;
};

}  // namespace perdure
