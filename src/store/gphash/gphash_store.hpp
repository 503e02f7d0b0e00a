// The store whose index is GPHash: the calls of Store, each with the lock and the checks that it
// needs; the parts it is made of do the work. How a put reads: write.cpp.
//
// Locking: get batches share the store lock, write batches have it exclusively
// (store/store_lock.hpp). A transaction has it from begin to end, and calls of its owner are
// inside; so does a device session, whose owner is refused.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perdure/store.h"
#include "store/gphash/core.hpp"
#include "store/gphash/device_session.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/pool_changes.hpp"
#include "store/gphash/power_log.hpp"
#include "store/gphash/read.hpp"
#include "store/gphash/records.hpp"
#include "store/gphash/recovery.hpp"
#include "store/gphash/shared_gets.hpp"
#include "store/gphash/steps.hpp"
#include "store/gphash/transactions.hpp"
#include "store/gphash/write.hpp"
#include "store/store_impl.hpp"

namespace perdure {

class GphashStore final : public Store::Impl {
 public:
  GphashStore(std::string path, OpenOptions const& options, pm::Pool pool);
  ~GphashStore() override {
    // In a child that was forked inside one, which may outlive the engine.
    if (core_.transaction) core_.transaction->open.leased.clear();
    changes_.end(process == this_process());
  }

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options,
                                            pm::Pool pool);
  /// Of durability power: the pool at `path` is made anew first.
  static Result<std::unique_ptr<Impl>> open_logged(std::string const& path,
                                                   OpenOptions const& options);
  /// A pool with everything in it as another's snapshot had it.
  static Result<std::unique_ptr<Impl>> restore(std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open, pm::Pool pool);

  Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) override;
  Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                       CallOptions const& how) override;
  Result<std::unique_ptr<ValuesView::State>> view(Call const& call,
                                                  std::span<KeyStatus> statuses) override;
  Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) override;
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop) override;

  Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& how) override {
    return transactions_.begin(*this, how);
  }
  static Status end(Transaction::State* transaction, bool commit);
  Status revert() override { return transactions_.revert(); }
  Result<bool> can_revert() override;
  Status register_dense(std::vector<DenseBuffer> const& buffers) override {
    return steps_.register_dense(buffers);
  }
  static Status write_step(Transaction::State* transaction, std::uint64_t step,
                           CUstream_st* stream);
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream) override {
    return steps_.restore(stream);
  }
  Result<std::shared_ptr<DeviceSession::State>> device_session(DeviceSessionOptions const& how,
                                                               bool anywhere) override {
    return device_sessions_.begin(*this, how, anywhere);
  }
  static Status end(DeviceSession::State* session);

  Result<CacheReport> load_cache() override;
  Result<VerifyReport> verify(std::atomic<bool> const* stop) override;
  Status acknowledge_repair() override;
  [[nodiscard]] Stats stats() override;
  [[nodiscard]] Survival survives() override;
  void reset_counts() override;
  Status snapshot(std::string const& to, SnapshotOptions const& how) override;
  Status close() override;
  void end_holder() noexcept override;
  [[nodiscard]] bool is_held_here() const override { return core_.lock.is_held_here(); }
  [[nodiscard]] std::uint64_t held_elsewhere() const noexcept override {
    return core_.lock.held_elsewhere();
  }
  /// Of the heap, which takes back what it leased. No other thread uses the store.
  Result<std::uint64_t> records_in_use() { return records_.in_use(); }

 private:
  /// Answers what f() does under the shared lock, once what it has seen is durable.
  template <class F>
  auto reading(void const* transaction, F f) -> decltype(f());
  Status close_in();

  Core core_;
  PoolChanges changes_{core_};
  Records records_{core_};
  Growth growth_{core_, records_};
  PowerLog log_{core_};
  BatchWriter writer_{core_, records_, growth_, log_};
  SharedGets shared_gets_{core_};
  BatchReader reader_{core_, shared_gets_};
  Transactions transactions_{core_, records_, growth_, writer_, log_};
  Steps steps_{core_, records_, transactions_};
  DeviceSessions device_sessions_{core_, records_, growth_, writer_, transactions_};
  Recovery recovery_{core_, growth_, changes_};

  friend struct Opening;  // opening.cpp
};

}  // namespace perdure
