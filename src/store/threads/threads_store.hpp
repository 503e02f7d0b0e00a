// What every store of host threads answers alike, whatever its index: batches, and refusals of what
// such stores lack (refusals.hpp has those of options). Invariant: what is refused has had no
// effect.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/store_impl.hpp"
#include "store/threads/batches.hpp"
#include "store/threads/core.hpp"

namespace perdure::threads {

class ThreadsStore : public Store::Impl {
 public:
  Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) final {
    return Batches(core()).read(call, statuses, how);
  }
  Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                       CallOptions const& how) final {
    return Batches(core()).read_variable(call, statuses, how);
  }
  Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) override {
    return Batches(core()).write(call, statuses, how);
  }
  Status acknowledge_repair() final;
  [[nodiscard]] Survival survives() final;
  void reset_counts() final { core().counters.reset_accesses(); }

  Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& options) final;
  Status register_dense(std::vector<DenseBuffer> const& buffers) final;
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream) final;
  Status revert() final;
  Result<bool> can_revert() final { return false; }
  Result<std::shared_ptr<DeviceSession::State>> device_session(DeviceSessionOptions const& options,
                                                               bool anywhere) final;
  Result<CacheReport> load_cache() final;

 protected:
  using Impl::Impl;
  [[nodiscard]] virtual Core& core() = 0;
};

}  // namespace perdure::threads
