// What a follower does with the extents that it has read: their entries go into its index, by all
// workers where that is much. Invariant: what is in the index and not published yet makes nothing
// stand that was published before.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "store/gphash/log_follower.hpp"

namespace perdure::gphash {
namespace {

// Entries that workers put into the index at a time, and those that are worth their while.
constexpr std::uint64_t kMany = 1u << 20, kFew = 1u << 14;

}  // namespace

Result<bool> LogFollower::take(Extent const& extent) {
  using wal::ExtentKind;
  std::uint64_t const head = extent.first - next_.cells.head_cells();
  if (static_cast<std::uint32_t>(extent.kind) > wal::kLastExtentKind)
    return Status{Code::unsupported,
                  "pool " + path_ +
                      ": its log of entries has a batch of a kind that this build does not know; "
                      "read it with the build that wrote it"};
  bool const waits = extent.kind == ExtentKind::part || extent.kind == ExtentKind::session;
  bool const goes_on = extent.kind == ExtentKind::part || parts_.empty();
  if (waits && goes_on && !mutated("log_reader_applies_parts")) {
    parts_.push_back(extent);
    return true;
  }
  if (extent.kind == ExtentKind::session_end) parts_.back().sum = extent.sum;
  if (wal::is_commit(extent.kind) || extent.kind == ExtentKind::session_end) {
    if (!apply_parts()) return false;
  } else if (!parts_.empty()) {
    return damaged("the log of entries has no end of the transaction before the batch of number " +
                   std::to_string(extent.number));
  } else if (extent.kind != ExtentKind::copy || (anew_ && !counted_.head)) {
    // Entries written anew say nothing new to who has read those before.
    if (!apply(extent.saying())) return false;
  }
  counted_ = {head, extent.number, extent.end()};
  return true;
}

/// Others may stand there by now: those that were read were aborted then.
bool LogFollower::apply_parts() {
  for (Extent const& part : parts_)
    if (!is_there(next_, part.first - next_.cells.head_cells(), part.number)) return false;
  for (Extent const& part : parts_)
    if (!apply(part.saying())) return false;
  parts_.clear();
  return true;
}

/// Of many extents together, where there are workers: most have too few entries to be shared.
bool LogFollower::apply(Extent const& extent) {
  touched_ = true;
  waiting_.push_back(extent);
  waiting_entries_ += extent.entries;
  return (workers_->threads() > 1 && waiting_entries_ < kMany) || apply_waiting();
}

/// Each worker reads all of them, and puts its share into the index. What changes while it is read
/// was let go.
bool LogFollower::apply_waiting() {
  if (!waiting_.empty()) {
    // What comes into the index may be taken back before it is published: then what was published
    // before stands again in the pool, and no more in the index.
    std::unique_lock const lock(mutex_);
    mark_.known = false;
  }
  exec::Workers& workers = waiting_entries_ < kFew ? alone_ : *workers_;
  std::uint32_t const shares = workers.threads();
  std::atomic<bool> same{true};
  auto const read_all = [&](auto put_in) {
    for (Extent const& extent : waiting_)
      if (next_.cells.sum_of_cells(extent, 0, extent.entries, put_in) != extent.sum) same = false;
  };
  using Cells = std::span<std::byte const>;
  if (shares == 1) {
    read_all([&](Cells cells) {
      std::unique_lock const lock(mutex_);
      index_.apply(cells);
    });
  } else {
    std::unique_lock const lock(mutex_);
    workers.for_chunks(shares, 1, [&](std::size_t begin, std::size_t end) {
      for (auto share = static_cast<std::uint32_t>(begin); share < end; ++share)
        read_all([&](Cells cells) { index_.apply(cells, share, shares); });
    });
  }
  waiting_.clear();
  waiting_entries_ = 0;
  if (!same) next_.known = false;
  return same;
}

}  // namespace perdure::gphash
