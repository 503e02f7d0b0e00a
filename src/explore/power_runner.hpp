// Stores of durability power as a system under test of the explorer: batches, transactions,
// checkpoints, snapshots of a store whose memory a power cut takes whole, over a disk of which it
// takes any of what was not synced. Invariant: after a cut the store made anew from log and images
// holds every acknowledged batch, whole ones alone, and nothing else.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "explore/disk_crasher.hpp"

namespace perdure::explore {

/// What may be there: of the pool, and of the snapshot. `may_refuse`: there may be no pool that
/// opens.
struct ExpectedOfPower {
  Contents old{}, fresh{};
  bool may_refuse = false;
  bool half_made = false;  // the record of the first checkpoint may be none
  std::optional<Contents> snapshot = {}, fresh_snapshot = {};
  [[nodiscard]] std::uint64_t hash() const;
};

class PowerRunner final : public DiskCrasher<ExpectedOfPower> {
 public:
  PowerRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Expected = ExpectedOfPower;

  bool set_up(std::uint64_t scenario_seed) override;
  void explore_creation() override;
  Forward run(exec::SimSchedule const& schedule) override;
  Wrong judge_cut(DiskImage const& disk, Expected const& expected, std::uint64_t chance,
                  Recorded& recovery, std::uint64_t& logical) override;

  Wrong live(Contents& contents);
  Wrong write(Store& store, Batch const& batch, Contents& contents, Writing writing);
  Wrong transact(Store& store, std::span<Batch const> batches, bool commits, Contents& contents);
  [[nodiscard]] std::size_t room_for_batches() const;
  Wrong snapshot(Store& store, Contents const& contents);
  Wrong judge_disk(DiskImage const& disk, Expected const& expected, std::uint64_t chance,
                   Recorded& recovery, std::uint64_t& logical);
  Wrong judge_snapshot(DiskImage const& disk, Expected const& expected, std::uint64_t chance);
  [[nodiscard]] static std::string differs(Expected const& expected, Contents const& found);
  [[nodiscard]] Result<Store> open_store();

  std::optional<Scenario> scenario_;
  Contents filled_{};
  Recorded creation_;
};

}  // namespace perdure::explore
