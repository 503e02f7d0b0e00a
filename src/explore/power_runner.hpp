// Stores of durability power as a system under test of the explorer: batches, transactions,
// checkpoints, snapshots of a store whose memory a power cut takes whole, over a disk of which it
// takes any of what was not synced. Invariant: after a cut the store made anew from log and images
// holds every acknowledged batch, whole ones alone, and nothing else.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "explore/crashes.hpp"
#include "explore/sim_disk.hpp"

namespace perdure::explore {

class PowerRunner final : public Crasher {
 public:
  PowerRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;
  std::optional<std::string> replay(Finding const& finding) override;

 private:
  using Wrong = std::optional<std::string>;
  /// What may be there: of the pool, and of the snapshot. `may_refuse`: there may be no pool that
  /// opens.
  struct Expected {
    Contents old{}, fresh{};
    bool may_refuse = false;
    bool half_made = false;  // the record of the first checkpoint may be none
    std::optional<Contents> snapshot = {}, fresh_snapshot = {};
  };
  /// Requests, what may be there at each, and the disk before them.
  struct Recorded {
    DiskImage before;
    std::vector<DiskEvent> events;
    std::vector<Expected> expected;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  void explore_creation() override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<Finding> crash_run(Forward const& forward) override;
  Wrong judge(std::size_t, bool, std::vector<Window>&, std::uint64_t&) override {
    return std::nullopt;
  }  // of windows
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t) const override { return 0; }

  Wrong live(Contents& contents);
  Wrong write(Store& store, Batch const& batch, Contents& contents, Writing writing);
  Wrong transact(Store& store, std::span<Batch const> batches, bool commits, Contents& contents);
  Wrong snapshot(Store& store, Contents const& contents);
  void expect(Expected expected);
  std::optional<Finding> crash_everywhere(Recorded const& recorded,
                                          std::vector<CrashPoint> const& outer);
  std::optional<Finding> crash_at(Recorded const& recorded, Leftover const& leftover,
                                  std::size_t event, std::vector<CrashPoint> path);
  std::optional<Finding> crash_once(DiskImage disk, Expected const& expected,
                                    std::vector<CrashPoint> const& path);
  /// `chance` decides what is done now and then alone.
  Wrong judge_disk(DiskImage const& disk, Expected const& expected, std::uint64_t chance,
                   Recorded& recovery, std::uint64_t& logical);
  Wrong judge_snapshot(DiskImage const& disk, Expected const& expected, std::uint64_t chance);
  [[nodiscard]] static std::string differs(Expected const& expected, Contents const& found);
  void start_recording(DiskImage before);
  [[nodiscard]] Recorded stop_recording();
  [[nodiscard]] Result<Store> open_store();

  std::optional<Scenario> scenario_;
  Contents filled_{};
  DiskImage base_disk_;  // the state before the run
  Recorded creation_, recorded_;
  DiskRun disk_;
  std::vector<Expected> expected_;  // while recording
  std::unordered_set<std::uint64_t> judged_;  // states of this scenario
};

}  // namespace perdure::explore
