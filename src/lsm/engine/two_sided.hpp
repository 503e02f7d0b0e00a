// An engine of two: the host's CPU warps and a device. A launch costs as much as a hundred searches
// by the CPU, which in turn cannot keep up with a device once there are many keys. So few entries
// are sorted on the host and many on the device; each run stays where it was made, and a copy of it
// comes to the other side once reads there have paid for it (two_sided_run.hpp).
//
// Invariant: no copy is needed for an answer. A list of runs is read part by part, each on a side
// that has it, so a copy that fails or finds no room costs time alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "exec/workers.hpp"
#include "lsm/engine/machine_engine.hpp"
#include "lsm/engine/split_reads.hpp"
#include "lsm/engine/two_sided_run.hpp"

namespace perdure::lsm {

/// Which side does what, and what copies and reads are taken to cost.
struct SideRules {
  std::size_t host_build = 4096;  // a batch of fewer entries is sorted on the host
  std::uint64_t host_merge = 16384;  // fewer entries that the host has are merged there
  std::size_t host_keys = 256;  // fewer keys are looked up on the host
  std::uint64_t host_pairs = 4096;  // ranges of fewer pairs are read on the host
  std::size_t device_ranges = 64;  // and fewer ranges, however long they are
  // nanoseconds
  double launch = 25e3;  // of a read by the device
  double key = 40;  // in a run, by the host
  double copy = 30e3;  // of a run of no bytes
  double copy_byte = 0.1;
  /// For copies of what the device has: host memory that nobody asked for in particular.
  std::uint64_t image_bytes = ~std::uint64_t{0};

  /// A quarter of the machine's memory for copies.
  static SideRules of(exec::Workers const& workers);
};

class TwoSidedEngine final : public Engine {
 public:
  TwoSidedEngine(std::unique_ptr<MachineEngine> host, std::unique_ptr<MachineEngine> device,
                 SideRules const& rules);

  /// The device's.
  [[nodiscard]] std::string describe() const override { return device_->describe(); }
  [[nodiscard]] std::uint64_t free_bytes() const override { return device_->free_bytes(); }
  [[nodiscard]] bool is_far() const override { return device_->is_far(); }
  /// Host memory that copies take.
  [[nodiscard]] std::uint64_t image_bytes() const { return room_->used(); }

  Result<RunPtr> build(Entries const& entries) override;
  Result<RunPtr> merge(RunList runs) override;
  Status find(RunList runs, Column const& keys, Limits const& limits, std::span<Answer> answers,
              AnswerRows const& rows) override;
  Status chains(RunList runs, Column const& keys, Limits const& limits, Chains& chains) override;
  /// Where one side has all runs.
  Status fold(RunList runs, Column const& keys, Limits const& limits, Operation operation,
              std::span<Answer> answers) override;
  Result<RangePairs> ranges(RunList runs, RangeQuery const& query) override;
  [[nodiscard]] FewMany range_pairs() const override { return device_->range_pairs(); }
  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override;
  Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
               EntryBlock& block) override;
  [[nodiscard]] RunView const* host_view(Run const& run) const override;

 private:
  [[nodiscard]] MachineEngine& engine(Side side) const {
    return side == Side::host ? *host_ : *device_;
  }
  [[nodiscard]] Side side_of_keys(std::size_t keys) const {
    return keys < rules_.host_keys ? Side::host : Side::device;
  }
  /// Of a read of so many keys, on the other side, of runs that this one lacks.
  [[nodiscard]] double cost_without(Side side, std::size_t keys, std::size_t runs) const;
  [[nodiscard]] double price(TwoSidedRun const& run) const;

  /// All of the list as the side has it, or false.
  static bool all_on(Side side, RunList runs, RunPointers& list);
  /// The next part of a read that the side would be best for. Runs that the side lacks pay for
  /// what it is about to cost, and come there once they have paid.
  Side take(Side side, RunParts& parts, std::size_t keys, RunPointers& part);
  void settle(Side side, RunList runs, std::size_t keys);
  void settle(Side side, TwoSidedRun const& run, double cost);
  void bring(Side side, TwoSidedRun const& run);
  /// Where a run is read now that the side would be best for.
  static Side there(Side side, TwoSidedRun const& run) {
    return run.on(side) != nullptr ? side : other(side);
  }

  Result<RunPtr> merge_on(Side side, RunList runs);
  Result<RangePairs> ranges_by_device(RunList runs, RangeQuery const& query);
  /// make(side), or, where there is no memory, make(the other).
  template <class F>
  static Result<RunPtr> make(Side side, F const& make);

  std::unique_ptr<MachineEngine> host_, device_;
  SideRules rules_;
  std::shared_ptr<ImageRoom> room_;
};

}  // namespace perdure::lsm
