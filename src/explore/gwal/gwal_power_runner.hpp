// The G-WAL of durability power, and the hand-over of its segments: memory is gone with the power,
// and of the disk whatever was not synced. Which of RocksDB's states is there is a block of a file
// on the same disk. Invariant: after a cut every acknowledged batch is there exactly once and in
// order, and of the one in flight all or nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "explore/disk_crasher.hpp"
#include "explore/gwal/gwal_life.hpp"
#include "wal/disk/block_file.hpp"

namespace perdure::explore {

struct ExpectedOfGwal {
  GwalContents old, fresh;
  [[nodiscard]] std::uint64_t hash() const { return mix(old.hash(), fresh.hash()); }
};

class GwalPowerRunner final : public DiskCrasher<ExpectedOfGwal>, private GwalWorld {
 public:
  GwalPowerRunner(Options const& options, Totals& totals);
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  Wrong judge_cut(DiskImage const& disk, ExpectedOfGwal const& expected, std::uint64_t chance,
                  Recorded& recovery, std::uint64_t& logical) override;
  /// Of the disk, before anything is recorded.
  Status make_rocks();

  Result<std::unique_ptr<lsm::Gwal>> open_log() override;
  [[nodiscard]] GwalRocks rocks() const override;
  void set_rocks(GwalRocks next) override;
  void expect(GwalContents const& old, GwalContents const& fresh) override {
    DiskCrasher::expect({old, fresh});
  }
  void acknowledged(GwalContents const& contents) override { expect(contents, contents); }
  [[nodiscard]] GwalContents const& contents() const override { return expected_.back().old; }
  [[nodiscard]] Totals* counted() override { return progress_.counted(); }

  GwalScenario scenario_{};
  std::vector<GwalRocks> rocks_;  // all that there ever was
};

}  // namespace perdure::explore
