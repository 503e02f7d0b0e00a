// Steps: dense buffers of the caller's and a step number that become durable with a transaction's
// batches. Order of a step: the other copy of each buffer, and the undo entry of the step's word |
// order | the word | order; then, as of all transactions, the epoch, in layout `log` behind the
// extent that commits. Invariant: until the transaction has committed, undoing makes the older copy
// count.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "store/gphash/core.hpp"
#include "store/gphash/records.hpp"
#include "store/gphash/transactions.hpp"

namespace perdure {

class Steps {
 public:
  Steps(Core& core, Records& records, Transactions& transactions)
      : core_(core), records_(records), transactions_(transactions) {}

  Status register_dense(std::vector<DenseBuffer> const& buffers);
  Status write(Transaction::State& transaction, std::uint64_t step, CUstream_st* stream);
  Result<std::optional<std::uint64_t>> restore(CUstream_st* stream);

 private:
  Status check_steps() const;
  Status check_step(OpenTransaction const& tx, std::uint64_t step) const;
  Result<std::vector<DenseBuffer>> as_registered(std::vector<DenseBuffer> const& buffers) const;
  Status make_dense_room(std::vector<DenseBuffer> const& buffers);
  [[nodiscard]] std::vector<Offset> dense_copies(bool counting) const;
  template <class F>
  std::vector<PoolCopy> copy_buffers(std::vector<Offset> const& addresses, F host);
  Status save_buffers(std::vector<Offset> const& to, CUstream_st* stream);
  Status load_buffers(std::vector<Offset> const& from, CUstream_st* stream);
  Status write_in(OpenTransaction& tx, std::uint64_t step, CUstream_st* stream);

  Core& core_;
  Records& records_;
  Transactions& transactions_;
  std::vector<DenseBuffer> registered_;  // in the pool's order; empty until register_dense()
};

}  // namespace perdure
