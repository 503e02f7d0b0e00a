#include "explore/gwal/gwal_power_runner.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "wal/disk/disk.hpp"
#include "wal/log_dir.hpp"

namespace perdure::explore {
namespace {

constexpr char const* kRocks = "/db/rocks";
constexpr std::uint64_t kGwalRing = 4 * wal::kBlock;  // a record takes a block
constexpr std::uint64_t kSegment = 192;  // a few records

lsm::GwalOptions options() {
  return {.directory = "",
          .identity = "a database",
          .segment_bytes = kSegment,
          .power = lsm::GwalPowerOptions{"/power", kGwalRing, "/db/perdure-power"}};
}

}  // namespace

GwalPowerRunner::GwalPowerRunner(Options const& options, Totals& totals)
    : DiskCrasher(options, totals) {
  options_.schedules = 0;
  wal::explored_least_log = kGwalRing;
}

std::string GwalPowerRunner::describe(std::uint64_t scenario_seed) const {
  return make_gwal_scenario(scenario_seed).describe();
}

// ------------------------------------------------------------------------------------------------
// What the store stands on

Result<std::unique_ptr<lsm::Gwal>> GwalPowerRunner::open_log() {
  return lsm::Gwal::open(options());
}

Status GwalPowerRunner::make_rocks() {
  if (auto made = wal::disk().make_directory("/db", 0700); !made.ok()) return made.status();
  auto file = wal::BlockFile::make(kRocks, {});
  if (!file.ok()) return file.status();
  if (Status s = file->first->zero(0, wal::kBlock); !s.ok()) return s;
  if (Status s = file->first->sync(); !s.ok()) return s;
  if (Status s = file->second->keep(); !s.ok()) return s;
  if (Status s = wal::disk().sync_directory_of(kRocks); !s.ok()) return s;
  return wal::disk().sync_directory_of("/db");
}

/// Its first sector says which of them it is, so that a cut leaves this one or that one.
GwalRocks GwalPowerRunner::rocks() const {
  auto const block = wal::AlignedBuffer::make(wal::kBlock);
  auto file = wal::BlockFile::open(kRocks, wal::OpenMode::read_only);
  PERDURE_ASSERT(block.ok() && file.ok() && file.value()->read(0, block.value().span()).ok());
  std::uint64_t which = 0;
  std::memcpy(&which, block.value().data(), sizeof which);
  return rocks_.at(which);
}

/// A RocksDB without power takes nothing.
void GwalPowerRunner::set_rocks(GwalRocks next) {
  rocks_.push_back(std::move(next));
  auto const block = wal::AlignedBuffer::make(wal::kBlock);
  auto file = wal::BlockFile::open(kRocks, wal::OpenMode::read_write);
  PERDURE_ASSERT(block.ok() && file.ok());
  std::uint64_t const which = rocks_.size() - 1;
  std::memcpy(block.value().data(), &which, sizeof which);
  static_cast<void>(file.value()->write_durably(0, block.value().span()));
}

// ------------------------------------------------------------------------------------------------
// A run, and power cuts

bool GwalPowerRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_gwal_scenario(scenario_seed);
  judged_.clear();
  start_recording({});
  DiskCrasher::expect({});
  bool const made = make_rocks().ok();
  base_disk_ = disk_.now;
  return made;
}

Crasher::Forward GwalPowerRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  exec::SimScheduler scheduler(schedule);
  Scheduled const scheduled(scheduler);
  rocks_.assign(1, {kFirstSequence, {}});
  start_recording(base_disk_);
  DiskCrasher::expect({});
  {
    GwalLife life(*this);
    GwalContents found;
    forward.wrong = life.open(found);
    if (!forward.wrong) forward.wrong = life.run(scenario_);
  }
  end_disk_run(forward, scheduler);
  return forward;
}

GwalPowerRunner::Wrong GwalPowerRunner::judge_cut(DiskImage const& disk,
                                                  ExpectedOfGwal const& expected,
                                                  std::uint64_t chance, Recorded& recovery,
                                                  std::uint64_t& logical) {
  start_recording(disk);
  DiskCrasher::expect(expected);
  GwalLife life(*this);
  GwalContents found;
  if (Wrong wrong = life.open(found)) return wrong;
  if (found != expected.old && found != expected.fresh)
    return "the store has" + found.describe() + "; it had" + expected.old.describe() +
           " and may have had" + expected.fresh.describe();
  logical = found.hash();
  expected_[0] = {found, found};  // once it has been seen, it stays
  if (Wrong wrong = life.go_on([&] { return chance % 3 == 0; })) return wrong;
  if (chance % 4 == 0) {
    if (Wrong wrong = life.reopen()) return wrong;
  }
  disk_.cut_power();
  life.drop();
  recovery = stop_recording();
  return std::nullopt;
}

}  // namespace perdure::explore
