// A libGPM log on a machine: its file, and what kernels need beside it in machine memory. Invariant: the view that
// kernels have is that of the last open() or clear(); nothing of a log is cleared while a kernel uses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "log/gpm_log.hpp"
#include "log/gpm_log_file.hpp"

namespace perdure::log {

/// Takes off the entries of one partition; one thread.
struct GpmClearKernel {
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  GpmLogView log;
  std::int64_t partition;
  GpmLogError* answer;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    *answer = gpm_clear(thread, log, partition);
  }
};

template <class Grid>
class GpmLogOn {
 public:
  /// `for_kernels`: false for a log that the host alone uses, for its transaction numbers; it may lie on any disk.
  static Result<GpmLogOn> create(Grid& grid, std::string const& path, std::uint64_t bytes,
                                 GpmLogGeometry const& geometry, bool for_kernels = true) {
    auto file = GpmLogFile::create(path, bytes, geometry, whom(for_kernels), Grid::kPinsPools && for_kernels);
    if (!file.ok()) return file.status();
    std::vector<std::uint32_t> const none(file.value().header().partitions, 0);
    return over(grid, std::move(file.value()), none);
  }
  /// Entries that were durable are there again.
  static Result<GpmLogOn> open(Grid& grid, std::string const& path, bool for_kernels = true) {
    auto file = GpmLogFile::open(path, whom(for_kernels), Grid::kPinsPools && for_kernels);
    if (!file.ok()) return file.status();
    std::vector<std::uint32_t> const tails = file.value().scan(grid.host_threads());
    if (Status s = file.value().end_above(tails, grid.host_threads()); !s.ok()) return s;
    return over(grid, std::move(file.value()), tails);
  }

  [[nodiscard]] GpmLogView view() const {
    GpmLogHeader const& h = file_.header();
    return {file_.data(),  h.kind,        h.data,        h.words,       h.partitions,
            h.transaction, tails_.data(), locks_.data(), known_.data(), lost_.data()};
  }
  /// Ends all entries at once, durably; the next ones are another transaction's.
  Status clear() {
    if (Status s = grid_->order(); !s.ok()) return s;
    if (Status s = file_.clear(); !s.ok()) return s;
    if (mutated(Mutant::gpm_clear_keeps_tails)) return {};
    return grid_->fill(tails_.data(), 0, file_.header().partitions);
  }
  /// The same for one partition, entry by entry.
  Status clear(std::uint64_t partition) {
    if (partition >= file_.header().partitions) {
      return {Code::invalid_argument, "log " + file_.path() + " has no partition " + std::to_string(partition) +
                                          "; there are " + std::to_string(file_.header().partitions)};
    }
    typename Grid::template Buffer<GpmLogError> answer;
    if (Status s = answer.resize(1); !s.ok()) return s;
    GpmClearKernel const kernel{view(), static_cast<std::int64_t>(partition), answer.data()};
    if (Status s = grid_->launch({1, 1}, kernel); !s.ok()) return s;
    GpmLogError error = GpmLogError::none;
    if (Status s = grid_->fetch(&error, answer.data(), 1); !s.ok()) return s;
    if (error == GpmLogError::none) return {};
    return {Code::corrupt, "log " + file_.path() + ", partition " + std::to_string(partition) +
                               " was written by somebody else meanwhile; open it again"};
  }
  /// Entries that found no room since the log was opened.
  Result<std::uint64_t> overflows() {
    std::uint64_t lost = 0;
    if (Status s = grid_->fetch(&lost, lost_.data(), 1); !s.ok()) return s;
    return lost;
  }
  /// Partitions that hold entries.
  Result<std::uint64_t> in_use() {
    std::vector<std::uint32_t> tails(file_.header().partitions);
    if (Status s = grid_->fetch(tails.data(), tails_.data(), tails.size()); !s.ok()) return s;
    return static_cast<std::uint64_t>(std::count_if(tails.begin(), tails.end(), [](auto tail) { return tail != 0; }));
  }
  [[nodiscard]] GpmLogFile const& file() const { return file_; }

 private:
  GpmLogOn(Grid& grid, GpmLogFile file) : grid_(&grid), file_(std::move(file)) {}

  static GpmLogFile::For whom(bool for_kernels) {
    return for_kernels ? GpmLogFile::For::kernels : GpmLogFile::For::host;
  }
  static Result<GpmLogOn> over(Grid& grid, GpmLogFile file, std::vector<std::uint32_t> const& tails) {
    GpmLogOn log(grid, std::move(file));
    GpmLogHeader const& h = log.file_.header();
    std::uint64_t const locks = h.kind == GpmLogKind::conventional ? h.partitions : 1;
    for (Status s : {log.tails_.resize(h.partitions), log.locks_.resize(locks), log.known_.resize(kMostEntryWords),
                     log.lost_.resize(1)})
      if (!s.ok()) return s;
    for (Status s : {grid.fill(log.locks_.data(), 0, locks), grid.fill(log.lost_.data(), 0, 1)})
      if (!s.ok()) return s;
    if (Status s = grid.send(log.tails_.data(), tails.data(), tails.size()); !s.ok()) return s;
    if (Status s = grid.send(log.known_.data(), h.sizes, kMostEntryWords); !s.ok()) return s;
    return Result<GpmLogOn>(std::move(log));
  }

  Grid* grid_;
  GpmLogFile file_;
  typename Grid::template Buffer<std::uint32_t> tails_, locks_, known_;
  typename Grid::template Buffer<std::uint64_t> lost_;
};

}  // namespace perdure::log
