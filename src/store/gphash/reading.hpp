// How calls that read a store take its lock and wait for its log. Invariant: what a reader is shown
// is durable by then.
#pragma once

#include "base/hooks.hpp"
#include "store/gphash/gphash_store.hpp"

namespace perdure {

/// Under the shared lock, and then, without it, until the log has all that was seen.
template <class F>
auto GphashStore::reading(void const* transaction, F f) -> decltype(f()) {
  LogMoment seen;
  auto result = [&]() -> decltype(f()) {
    SharedLock const store_lock(core_.lock, transaction);
    if (store_lock.way() == Way::none) return core_.not_the_transaction();
    if (Status s = core_.check_open(false); !s.ok()) return s;
    seen = log_.moment();
    return f();
  }();
  if (!result.ok() || mutated("reads_do_not_wait")) return result;
  Status const durable = seen.wait_durable();
  if (durable.ok()) return result;
  return Status{durable.code(), "pool " + path +
                                    ": what is read may be gone when the pool is reopened, for " +
                                    durable.message() + "; close it, mend the disk, and reopen it"};
}

}  // namespace perdure
