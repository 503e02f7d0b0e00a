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
#include "store/store_impl.hpp"
#include "store/threads/batches.hpp"

namespace perdure {

class DashStore final : public Store::Impl {
 public:
  DashStore(std::string path, OpenOptions const& options, pm::Pool pool);

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options,
                                            pm::Pool pool);
  static Result<std::unique_ptr<Impl>> restore(std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open, pm::Pool pool);

  Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) override {
    return batches_.read(call, statuses, how);
  }
  Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                       CallOptions const& how) override {
    return batches_.read_variable(call, statuses, how);
  }
  Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) override {
    return batches_.write(call, statuses, how);
  }
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop) override;
  Result<VerifyReport> verify(std::atomic<bool> const* stop) override;
  Status acknowledge_repair() override;
  [[nodiscard]] Stats stats() override;
  [[nodiscard]] Survival survives() override;
  void reset_counts() override;
  Status snapshot(std::string const& to, SnapshotOptions const& how) override;
  Status close() override;

  // What a Dash index lacks: see dash_refusals.cpp.
  Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& options) override;
  Status register_dense(std::vector<DenseBuffer> const& buffers) override;
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream) override;
  Result<std::shared_ptr<DeviceSession::State>> device_session(DeviceSessionOptions const& options,
                                                               bool anywhere) override;
  Result<CacheReport> load_cache() override;

 private:
  /// False: the index is damaged, and what could not be reached is left out.
  bool count_if_unknown();
  [[nodiscard]] Stats stats_open();

  DashCore core_;
  threads::Batches batches_{core_};
  DashRecovery recovery_{core_};
  DashSweeper sweeper_{core_};
  Stats last_;  // of a closed store

  friend struct DashOpening;  // dash_open.cpp
};

}  // namespace perdure
