// The inside entry to a device session, for the tests and the explorer, who use its table by warps
// of the engine's own.
#pragma once

#include <cstdint>

#include "perdure/store.h"
#include "store/gphash/engine/device_run.hpp"

namespace perdure {

struct DeviceAccess {
  /// As Store::device_session, on any machine and shape.
  static Result<DeviceSession> open(Store& store, DeviceSessionOptions const& options);
  static Status run(DeviceSession& session, DeviceOps const& ops);
  /// Records that are in use: as many as there are keys, or some are lost until the next opening.
  /// Index gphash.
  static Result<std::uint64_t> records_in_use(Store& store);
};

}  // namespace perdure
