// The store whose index is a Dash table: many host threads, each operation by itself; the calls of
// Store, each with the locks (store/threads/core.hpp) and the checks that it needs. How a put and a
// get read: store/threads/batches.cpp. Invariant: a call that fails in here has left the pool as it
// was, or closed for writing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pm/pool.hpp"
#include "store/dash/dash_core.hpp"
#include "store/dash/dash_recovery.hpp"
#include "store/dash/dash_sweeper.hpp"
#include "store/threads/threads_store.hpp"

namespace perdure {

class DashStore final : public threads::ThreadsStore {
 public:
  DashStore(std::string path, OpenOptions const& options, pm::Pool pool);

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options,
                                            pm::Pool pool);
  static Result<std::unique_ptr<Impl>> restore(std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open, pm::Pool pool);

  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop) override;
  Result<VerifyReport> verify(std::atomic<bool> const* stop) override;
  [[nodiscard]] Stats stats() override;
  Status snapshot(std::string const& to, SnapshotOptions const& how) override;
  Status close() override;

 private:
  [[nodiscard]] threads::Core& core() override { return core_; }
  /// False: the index is damaged, and what could not be reached is left out.
  bool count_if_unknown();
  [[nodiscard]] Stats stats_open();

  DashCore core_;
  DashRecovery recovery_{core_};
  DashSweeper sweeper_{core_};
  Stats last_;  // of a closed store

  friend struct DashOpening;  // dash_open.cpp
};

}  // namespace perdure
