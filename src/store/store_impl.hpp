// What is behind the public face, whatever the index: the calls of Store, and which store of ours answers them.
// Invariant: a pool is opened by the store of the index that its header names, and by no other.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perdure/store.h"
#include "pm/pool.hpp"

namespace perdure {

struct Call;

struct Store::Impl {
  Impl(std::string pool_path, OpenOptions const& open_options, pm::PoolHeader const& header)
      : path(std::move(pool_path)),
        options(open_options),
        key_bytes(header.key_bytes),
        value_bytes(header.value_bytes) {}
  Impl(Impl const&) = delete;
  Impl& operator=(Impl const&) = delete;
  virtual ~Impl() = default;

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options);
  static Result<std::unique_ptr<Impl>> restore(std::string const& snapshot, std::string const& path,
                                               RestoreOptions const& restore, OpenOptions const& open);

  virtual Status read(Call const& call, std::span<KeyStatus> statuses) = 0;
  virtual Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses) = 0;
  virtual Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) = 0;
  virtual Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& options) = 0;
  virtual Status register_dense(std::vector<DenseBuffer> const& buffers) = 0;
  virtual Result<std::optional<std::uint64_t>> restore_step(void* stream) = 0;
  /// `anywhere`: on any machine and shape, for the engine's own warps (store/device_session.hpp).
  virtual Result<std::shared_ptr<DeviceSession::State>> device_session(DeviceSessionOptions const& options,
                                                                       bool anywhere) = 0;
  virtual Result<CacheReport> load_cache() = 0;
  virtual Result<ScanPage> scan(ScanCursor const& from, std::size_t limit) = 0;
  virtual Result<VerifyReport> verify() = 0;
  virtual Status acknowledge_repair() = 0;
  [[nodiscard]] virtual Stats stats() = 0;
  [[nodiscard]] virtual Survival survives() = 0;
  virtual void reset_counts() = 0;
  virtual Status snapshot(std::string const& to, SnapshotOptions const& how) = 0;
  virtual Status close() = 0;

  // Constant after opening.
  std::string const path;
  OpenOptions const options;
  std::uint32_t const key_bytes, value_bytes;  // 0 = of any length
  RecoveryReport recovery;

 protected:
  static constexpr std::size_t kMostFaults = 100;  // that reports name
  /// Of a pool that was closed in order and has changed since: what `lines` say of it, and the way out.
  [[nodiscard]] Status changed_since_close(std::vector<std::string> const& lines) const;
  /// Notes what recovery or a repair changed.
  void note_changes(std::vector<std::string> const& lines);
  /// What repairs changed and nobody has acknowledged are faults.
  static void add_unacknowledged(std::vector<std::string> const& lines, VerifyReport& report);

  static std::shared_ptr<Transaction::State> const& state_of(Transaction const& transaction) {
    return transaction.state_;
  }
};

}  // namespace perdure
