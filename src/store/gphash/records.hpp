// The free records that write batches take: from the host's heap, or from what it leases to the
// engine. Invariants: at any time one of the two hands records out; a record is released only after
// the ordering point that commits the batch which unlinked it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "batch/call.hpp"
#include "store/gphash/core.hpp"

namespace perdure {

class Records {
 public:
  explicit Records(Core& core) : core_(core) {}

  /// The engine has them from the first plain write batch on, where it can, the heap for all else.
  [[nodiscard]] bool can_lease() const;
  [[nodiscard]] bool leased() const { return lease_.has_value(); }
  Status begin_lease();
  Status end_lease();
  /// Calls take() until it says that so many records are taken; where it says that there are too
  /// few, leases more once.
  Status take_leased(std::uint64_t records, std::function<Result<bool>()> const& take);

  /// A free record of the heap's for each operation that may write one, 0 for the others.
  /// `any_fits`: each of them fits every operation.
  Status reserve(Call const& call, std::span<std::uint8_t const> status,
                 std::vector<std::uint64_t>& reserved, bool& any_fits);
  void release(std::span<std::uint64_t const> records);
  /// Those that `used` says were not.
  void release_unused(std::span<std::uint64_t const> records, std::span<std::uint8_t const> used);
  /// Of the heap, which has all of them back. No other thread uses the store.
  Result<std::uint64_t> in_use();

 private:
  Status reserve_by_size(Call const& call, std::span<std::uint8_t const> status,
                         std::vector<std::uint64_t>& reserved);

  [[nodiscard]] std::uint64_t superblocks_ahead(std::uint64_t needed) const;

  Core& core_;
  std::optional<pm::RecordHeap::Lease> lease_;  // while the engine has them
};

}  // namespace perdure
