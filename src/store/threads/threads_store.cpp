#include "store/threads/threads_store.hpp"

#include <optional>

namespace perdure::threads {

Status ThreadsStore::acknowledge_repair() {
  exec::SharedHold const open(core().open);
  if (Status s = core().check_open(true); !s.ok()) return s;
  exec::ExclusiveHold const exclusive(core().changing);
  core().repairs.acknowledge();
  return {};
}

Survival ThreadsStore::survives() {
  exec::SharedHold const open(core().open);
  return perdure::survives(core().pool.medium());
}

Result<std::shared_ptr<Transaction::State>> ThreadsStore::begin(TransactionOptions const&) {
  return core().lacks("transactions", "write batches without one, or use a pool of index gphash");
}
Status ThreadsStore::register_dense(std::vector<DenseBuffer> const&) {
  return core().lacks("steps", "use a pool of index gphash for dense buffers");
}
Result<std::optional<std::uint64_t>> ThreadsStore::restore_step(CUstream_st*) {
  return core().lacks("steps", "use a pool of index gphash for dense buffers");
}
Status ThreadsStore::revert() {
  return core().lacks("transactions", "use a pool of index gphash for commits to take back");
}
Result<std::shared_ptr<DeviceSession::State>> ThreadsStore::device_session(
    DeviceSessionOptions const&, bool) {
  return core().lacks("device sessions", "use a pool of index gphash on a GPU");
}
Result<CacheReport> ThreadsStore::load_cache() {
  return core().lacks("record cache", "use a pool of index gphash");
}

}  // namespace perdure::threads
