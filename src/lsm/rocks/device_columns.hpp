// The arrays of a call that lie in a device's memory. Those that it reads come to the host before
// it begins, and it goes on as with any other; what it answers goes to the device by one copy, once
// it has ended. Which engine memtables have makes no difference, but that one on the same device
// sorts keys and values from where the caller has them.
//
// Invariants: what is the caller's is read after what its stream has under way, and of its outputs
// only those elements change that the call has values for. Nothing is under way when this goes.
#pragma once

#include <rocksdb/status.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "exec/device_arrays.hpp"
#include "exec/workers.hpp"
#include "lsm/rocks/room.hpp"
#include "perdure/batch.h"
#include "perdure/rocks.h"

namespace perdure::lsm {

/// Ways to the device, each one call's; made when one is first needed.
struct DeviceWays {
  struct Way {
    std::unique_ptr<exec::DeviceArrays> arrays;
    [[nodiscard]] std::size_t bytes() const { return arrays == nullptr ? 0 : arrays->bytes(); }
  };
  std::function<Result<std::unique_ptr<exec::DeviceArrays>>()> make = exec::make_device_arrays;
  Reused<Way> idle;
};

class DeviceColumns {
 public:
  DeviceColumns(DeviceWays& ways, exec::Workers& workers, rocks::ArrayOptions const& options)
      : ways_(ways), workers_(workers), options_(options) {}
  DeviceColumns(DeviceColumns const&) = delete;
  DeviceColumns& operator=(DeviceColumns const&) = delete;
  ~DeviceColumns();

  /// The column, where it will be after arrived(). `what`: "keys", "values".
  [[nodiscard]] Column bring(Column const& column, char const* what);
  /// Where values for the caller's array go.
  [[nodiscard]] MutableColumn place(MutableColumn const& values);
  /// After arrived(): where an engine on the device finds the first element of the column. Null: it
  /// does not reach that.
  [[nodiscard]] std::byte const* there(Column const& column) const;
  /// What could not be brought is an error here.
  rocksdb::Status arrived();
  /// Statuses, and the values of those that are ok; of a mixed batch, of its gets.
  rocksdb::Status send(std::span<KeyStatus const> statuses, std::span<OpKind const> kinds = {});

 private:
  enum Room : std::size_t { kOut = 2, kOutBefore = 3 };  // before them, columns as they come

  bool has_way(char const* what);
  std::byte* room(std::size_t which, std::size_t bytes, char const* what);
  void note(Status const& status, char const* what);
  Status send_values(std::span<KeyStatus const> statuses, std::span<OpKind const> kinds);
  Status wait();

  DeviceWays& ways_;
  exec::Workers& workers_;
  rocks::ArrayOptions const& options_;
  std::optional<Reused<DeviceWays::Way>::Loan> way_;
  std::size_t columns_ = 0;  // brought
  MutableColumn values_;  // the caller's; no count where they are on the host
  std::byte* values_here_ = nullptr;
  bool begun_ = false;  // and the way is to be waited for
  bool arrived_ = false;
  rocksdb::Status failure_;  // the first
};

}  // namespace perdure::lsm
