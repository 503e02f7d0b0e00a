// A libGPM log on a machine: its file, and what kernels need beside it in machine memory.
// Invariant: the view that kernels have is that of the last open() or clear(); nothing of a log is
// cleared while a kernel uses it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpm/gpm_log.hpp"
#include "gpm/gpm_log_file.hpp"

namespace perdure::gpm {

/// What the host asks about one partition; one thread answers.
struct GpmPartitionAnswer {
  GpmLogError error;
  std::uint64_t bytes;
};
struct GpmPartitionKernel {
  enum class Do : std::uint8_t { clear, size } what;
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  GpmLogView log;
  std::int64_t partition;
  GpmPartitionAnswer* answer;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    GpmPartitionAnswer mine{GpmLogError::none, 0};
    mine.error = what == Do::clear ? gpm_clear(thread, log, partition)
                                   : gpm_size(thread, log, mine.bytes, partition);
    *answer = mine;
  }
};

/// Bytes of all partitions; those that are no stack of entries count as `foreign`.
struct GpmSumKernel {
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  GpmLogView log;
  std::uint64_t* bytes;
  std::uint64_t* foreign;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t p = thread.global(); p < log.partitions; p += thread.total()) {
      std::uint64_t mine = 0;
      GpmLogError const error = gpm_size(thread, log, mine, static_cast<std::int64_t>(p));
      if (error != GpmLogError::none) thread.add(foreign, 1);
      if (mine != 0) thread.add(bytes, mine);
    }
  }
};

template <class Grid>
class GpmLogOn {
 public:
  /// `for_kernels`: false for a log that the host alone uses, for its transaction numbers; it may
  /// lie on any disk.
  static Result<GpmLogOn> create(Grid& grid, std::string const& path, std::uint64_t bytes,
                                 GpmLogGeometry const& geometry, bool for_kernels = true) {
    auto file = GpmLogFile::create(path, bytes, geometry, whom(for_kernels),
                                   Grid::kPinsPools && for_kernels);
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
    if (mutated("gpm_clear_keeps_tails")) return {};
    return grid_->fill(tails_.data(), 0, file_.header().partitions);
  }
  /// The same for one partition, entry by entry.
  Status clear(std::uint64_t partition) {
    return ask(GpmPartitionKernel::Do::clear, partition).status();
  }
  /// Bytes that a partition's stack holds.
  Result<std::uint64_t> size(std::uint64_t partition) {
    return ask(GpmPartitionKernel::Do::size, partition);
  }
  /// Bytes that all of them hold.
  Result<std::uint64_t> size() {
    typename Grid::template Buffer<std::uint64_t> sums;
    if (Status s = sums.resize(2); !s.ok()) return s;
    if (Status s = grid_->fill(sums.data(), 0, 2); !s.ok()) return s;
    GpmSumKernel const kernel{view(), sums.data(), sums.data() + 1};
    auto const most = std::min<std::uint64_t>(file_.header().partitions, 1u << 16);
    if (Status s = grid_->launch(exec::grid_of(most, 64), kernel); !s.ok()) return s;
    std::uint64_t summed[2] = {};
    if (Status s = grid_->fetch(summed, sums.data(), 2); !s.ok()) return s;
    if (summed[1] != 0) return foreign(std::to_string(summed[1]) + " partitions were");
    return summed[0];
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
    return static_cast<std::uint64_t>(
        std::count_if(tails.begin(), tails.end(), [](auto tail) { return tail != 0; }));
  }
  [[nodiscard]] GpmLogFile const& file() const { return file_; }

 private:
  GpmLogOn(Grid& grid, GpmLogFile file) : grid_(&grid), file_(std::move(file)) {}

  Result<std::uint64_t> ask(GpmPartitionKernel::Do what, std::uint64_t partition) {
    if (partition >= file_.header().partitions) {
      return Status{Code::invalid_argument, "log " + file_.path() + " has no partition " +
                                                std::to_string(partition) + "; there are " +
                                                std::to_string(file_.header().partitions)};
    }
    typename Grid::template Buffer<GpmPartitionAnswer> answer;
    if (Status s = answer.resize(1); !s.ok()) return s;
    GpmPartitionKernel const kernel{what, view(), static_cast<std::int64_t>(partition),
                                    answer.data()};
    if (Status s = grid_->launch({1, 1}, kernel); !s.ok()) return s;
    GpmPartitionAnswer answered{};
    if (Status s = grid_->fetch(&answered, answer.data(), 1); !s.ok()) return s;
    if (answered.error == GpmLogError::none) return answered.bytes;
    return foreign("partition " + std::to_string(partition) + " was");
  }
  [[nodiscard]] Status foreign(std::string const& what) const {
    return {Code::corrupt, "log " + file_.path() + ": " + what +
                               " written by somebody else meanwhile; open it again"};
  }
  static GpmLogFile::For whom(bool for_kernels) {
    return for_kernels ? GpmLogFile::For::kernels : GpmLogFile::For::host;
  }
  static Result<GpmLogOn> over(Grid& grid, GpmLogFile file,
                               std::vector<std::uint32_t> const& tails) {
    GpmLogOn log(grid, std::move(file));
    GpmLogHeader const& h = log.file_.header();
    std::uint64_t const locks = h.kind == GpmLogKind::conventional ? h.partitions : 1;
    for (Status s : {log.tails_.resize(h.partitions), log.locks_.resize(locks),
                     log.known_.resize(2 * kGpmSizeMask), log.lost_.resize(1)})
      if (!s.ok()) return s;
    for (Status s : {grid.fill(log.locks_.data(), 0, locks), grid.fill(log.lost_.data(), 0, 1)})
      if (!s.ok()) return s;
    if (Status s = grid.send(log.tails_.data(), tails.data(), tails.size()); !s.ok()) return s;
    std::array<std::uint32_t, 2 * kGpmSizeMask> known{};
    for (std::uint32_t i = 0; i < kMostEntryBytes; ++i) {
      if (h.sizes[i] != 0) known[i / 32] |= gpm_detail::mask_bit(i + 1);
      if (h.parts[i] != 0) known[kGpmSizeMask + i / 32] |= gpm_detail::mask_bit(i + 1);
    }
    if (Status s = grid.send(log.known_.data(), known.data(), known.size()); !s.ok()) return s;
    return Result<GpmLogOn>(std::move(log));
  }

  Grid* grid_;
  GpmLogFile file_;
  typename Grid::template Buffer<std::uint32_t> tails_, locks_, known_;
  typename Grid::template Buffer<std::uint64_t> lost_;
};

}  // namespace perdure::gpm
