// Device sessions: the store alone in the hands of a user's kernels; and the inside entry to one
// for the tests and the explorer, who use its table by warps of the engine's own. Invariant: while
// one is open, room for its records, and in layout `log` for their entries, has been made, and
// nothing but its kernels touches the table; records it unlinked are used again only after it, once
// its end is durable.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/process.hpp"
#include "perdure/store.h"
#include "store/gphash/core.hpp"
#include "store/gphash/engine/device_run.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/records.hpp"
#include "store/gphash/transactions.hpp"
#include "store/gphash/write.hpp"
#include "store/store_lock.hpp"

namespace perdure {

class GphashStore;

struct DeviceSession::State {
  std::atomic<GphashStore*> store{nullptr};  // null once it has ended
  std::uint64_t process = this_process();
  // with memory of the machine, which only that process may give back
  std::unique_ptr<DeviceRun> run;
  ExclusiveLock store_lock;
  std::shared_ptr<State> itself;  // once it is put aside
  State* aside = nullptr;
};

class DeviceSessions {
 public:
  DeviceSessions(Core& core, Records& records, Growth& growth, BatchWriter& writer,
                 Transactions& transactions)
      : core_(core),
        records_(records),
        growth_(growth),
        writer_(writer),
        transactions_(transactions) {}

  /// `anywhere`: on any machine and shape.
  Result<std::shared_ptr<DeviceSession::State>> begin(GphashStore& store,
                                                      DeviceSessionOptions const& how,
                                                      bool anywhere);
  Status end(DeviceSession::State& session);

 private:
  [[nodiscard]] Status check(bool anywhere) const;
  [[nodiscard]] Result<std::uint64_t> cells_of(DeviceSessionOptions const& how) const;
  Status make_room(DeviceSessionOptions const& how, DeviceRun& run);
  Status finish(DeviceRun& run);

  Core& core_;
  Records& records_;
  Growth& growth_;
  BatchWriter& writer_;
  Transactions& transactions_;
};

}  // namespace perdure
