// What is behind the public face, whatever the index: the calls of Store, and which store of ours
// answers them. Invariants: a pool is opened by the store of the index that its header names, and
// by no other. In another process than the one that opened it nothing of a store runs, its
// destructor included: threads, locks and devices are not there.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "perdure/store.h"
#include "pm/pool.hpp"
#include "store/checks.hpp"
#include "store/events.hpp"
#include "store/tables/catalogue.hpp"

namespace perdure {

struct Call;

struct Store::Impl {
  Impl(std::string pool_path, OpenOptions const& open_options, pm::PoolHeader const& header)
      : path(std::move(pool_path)),
        options(open_options),
        key_bytes(header.key_bytes),
        value_bytes(header.value_bytes),
        max_value_bytes(header.max_value_bytes),
        value_type(value_type_of(header)),
        index(static_cast<Index>(header.index)),
        key_order(static_cast<KeyOrder>(header.key_order)) {}
  Impl(Impl const&) = delete;
  Impl& operator=(Impl const&) = delete;
  virtual ~Impl() = default;

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options);
  static Result<std::unique_ptr<Impl>> restore(std::string const& snapshot, std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open);

  virtual Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) = 0;
  virtual Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                               CallOptions const& how) = 0;
  virtual Result<std::unique_ptr<ValuesView::State>> view(Call const& call,
                                                          std::span<KeyStatus> statuses);
  virtual Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) = 0;
  virtual Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& options) = 0;
  virtual Status register_dense(std::vector<DenseBuffer> const& buffers) = 0;
  virtual Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream) = 0;
  virtual Status revert() = 0;
  virtual Result<bool> can_revert() = 0;
  /// `anywhere`: on any machine and shape, for the engine's own warps
  /// (store/gphash/device_session.hpp).
  virtual Result<std::shared_ptr<DeviceSession::State>> device_session(
      DeviceSessionOptions const& options, bool anywhere) = 0;
  virtual Result<CacheReport> load_cache() = 0;
  virtual Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                                std::atomic<bool> const* stop) = 0;
  // What an index without order answers.
  virtual Result<RangePage> range(RangeQuery const& query, std::atomic<bool> const* stop);
  virtual Result<std::uint64_t> count_range(RangeQuery const& query);
  virtual Result<VerifyReport> verify(std::atomic<bool> const* stop) = 0;
  virtual Status acknowledge_repair() = 0;
  [[nodiscard]] virtual Stats stats() = 0;
  [[nodiscard]] virtual Survival survives() = 0;
  virtual void reset_counts() = 0;
  virtual Status snapshot(std::string const& to, SnapshotOptions const& how) = 0;
  virtual Status close() = 0;
  /// Aborts the transaction that is open, ends the device session, whoever began it.
  virtual void end_holder() noexcept {}
  /// This thread began the transaction or device session that is open.
  [[nodiscard]] virtual bool is_held_here() const { return false; }
  /// See Store::held_elsewhere().
  [[nodiscard]] virtual std::uint64_t held_elsewhere() const noexcept { return 0; }

  /// Ok in the process that opened it.
  [[nodiscard]] Status check_process() const;
  /// close(), and an event the first time.
  static Status close_noted(Impl& impl) noexcept;
  /// Closes it and releases it; in another process it is only put aside.
  static void release(std::unique_ptr<Impl> impl) noexcept;

  // Constant after opening.
  std::string const path;
  OpenOptions const options;
  std::uint32_t const key_bytes, value_bytes;  // 0 = of any length
  std::uint32_t const max_value_bytes;
  ValueType const value_type;
  Index const index;
  KeyOrder const key_order;
  std::uint64_t const process = this_process();
  tables::Catalogue catalogue;  // of named tables; has locks of its own
  RecoveryReport recovery;
  std::atomic<bool> end_noted{false};  // its close is an event once
  Impl* aside = nullptr;  // put_aside()

 private:
  static Result<std::unique_ptr<Impl>> open_by_index(std::string const& path,
                                                     OpenOptions const& options, pm::Pool pool);
  static Result<std::unique_ptr<Impl>> restore_by_index(std::string const& path,
                                                        RestoreOptions const& restore,
                                                        OpenOptions const& open, pm::Pool pool);

 protected:
  /// Of the transaction that a call names; null: it names none.
  static void const* token_of(CallOptions const& how) {
    if (how.transaction == nullptr) return nullptr;
    auto const& state = how.transaction->state_;
    return state ? static_cast<void const*>(state.get()) : how.transaction;  // moved from: nobody's
  }
};

[[nodiscard]] inline Status moved_elsewhere() {
  return {Code::closed, "this store was moved elsewhere"};
}

/// With the pool's name, if there is memory for it.
[[nodiscard]] Status named(Store::Impl const& impl, Status status) noexcept;

[[nodiscard]] inline Status status_of(Status const& s) { return s; }
template <class T>
[[nodiscard]] Status status_of(Result<T> const& result) {
  return result.status();
}

/// A public call: refused in another process than the one that opened the store; and whatever is
/// thrown inside comes out as a Status. Its events are delivered when it holds no lock any more.
template <class F>
auto answer(Store::Impl* impl, F call) -> decltype(call(*impl)) {
  log::Delivery const delivery;
  try {
    if (impl == nullptr) return moved_elsewhere();
    if (impl->process != this_process()) return impl->check_process();
    PERDURE_ASSERT(impl->aside == nullptr);  // nobody has what was put aside
    auto answered = call(*impl);
    if (!answered.ok() && log::heard()) [[unlikely]]
      events::failed(impl->path, status_of(answered));
    return answered;
  } catch (abi::__forced_unwind const&) {  // the thread is being cancelled
    throw;
  } catch (...) {
    Status const why = status_of_exception();
    return impl != nullptr ? named(*impl, why) : why;
  }
}

}  // namespace perdure
