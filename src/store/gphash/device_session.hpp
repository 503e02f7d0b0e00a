// A device session while it is open, and the inside entry to one for the tests and the explorer,
// who use its table by warps of the engine's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/process.hpp"
#include "perdure/store.h"
#include "store/gphash/engine/engine.hpp"
#include "store/store_lock.hpp"

namespace perdure {

class GphashStore;

struct DeviceSession::State {
  std::atomic<GphashStore*> store{nullptr};  // null once it has ended
  std::uint64_t process = this_process();
  std::unique_ptr<DeviceRun>
      run;  // with memory of the machine, which only that process may give back
  ExclusiveLock store_lock;
  std::shared_ptr<State> itself;  // once it is put aside
  State* aside = nullptr;
};

struct DeviceAccess {
  /// As Store::device_session, on any machine and shape.
  static Result<DeviceSession> open(Store& store, DeviceSessionOptions const& options);
  static Status run(DeviceSession& session, DeviceOps const& ops);
  /// Records that are in use: as many as there are keys, or some are lost until the next opening.
  /// Index gphash.
  static Result<std::uint64_t> records_in_use(Store& store);
};

}  // namespace perdure
