// The bytes of an entry log, as whoever has the pool mapped reads them: headers of segments, heads
// of extents, entries and their sums. The log itself reads so (entry_log.hpp), and so do readers in
// other processes (store/gphash/log_follower.hpp), beside whoever writes it.
//
// Invariant: nothing is written, and nothing outside the segments is read. What is there may be of
// any moment, or damaged: a header, a head or entries count only if their checks match.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "pm/pool_format.hpp"
#include "wal/entries.hpp"

namespace perdure::wal {

/// An extent of which at least the head is whole.
struct EntryExtent {
  std::uint64_t number = 0;
  std::uint64_t entries = 0;
  ExtentKind kind = ExtentKind::batch;
  std::uint64_t first = 0;  // position of its first entry
  std::uint64_t sum = 0;

  /// Where what follows it begins.
  [[nodiscard]] std::uint64_t end() const { return first + entries; }
  /// Without the entries that undo it.
  [[nodiscard]] EntryExtent saying() const {
    EntryExtent said = *this;
    if (kind == ExtentKind::part) said.entries /= 2;
    return said;
  }
};

/// Positions count cells from the first segment's first one.
class EntryCells {
 public:
  EntryCells() = default;
  explicit EntryCells(pm::PoolHeader const& h);

  std::byte const* base = nullptr;  // where the pool is mapped
  std::uint64_t id = 0;  // random, of the whole log
  std::uint64_t first_number = 1;  // of the first segment
  std::vector<std::uint64_t> segments;  // where they begin, in their order

  [[nodiscard]] std::uint32_t cell_bytes() const { return cell_bytes_; }
  [[nodiscard]] std::uint64_t cells_each() const { return cells_each_; }  // of a segment
  [[nodiscard]] std::uint64_t cells() const { return segments.size() * cells_each_; }
  /// Of an extent's head.
  [[nodiscard]] std::uint64_t head_cells() const { return head_cells_of(cell_bytes_); }
  [[nodiscard]] Offset offset(std::uint64_t position) const;
  [[nodiscard]] std::byte const* cell(std::uint64_t position) const {
    return base + offset(position).bytes;
  }

  [[nodiscard]] static std::uint32_t crc_of(SegmentHeader header);
  [[nodiscard]] SegmentHeader header_at(std::uint64_t segment) const;
  /// Whether a segment of this log with that number begins there, in the pool.
  [[nodiscard]] bool is_segment(std::uint64_t at, std::uint64_t number) const;

  /// Of its other words, and of the log's id in place of the check. Repairs try it very often.
  [[nodiscard]] std::uint64_t check_of(ExtentHead head) const {
    head.check = id;
    return hash_bytes(reinterpret_cast<std::byte const*>(&head), sizeof head);
  }
  /// That begins there, if its number is above that one. Only its head has been looked at: its
  /// entries may go on behind the segments.
  [[nodiscard]] std::optional<EntryExtent> head_at(std::uint64_t position,
                                                   std::uint64_t above) const;
  /// Calls f(position, begin, bytes) for what each of the cells from there on has of a head.
  template <class F>
  void each_of_head(std::uint64_t position, F f) const {
    for (std::size_t begin = 0; begin < sizeof(ExtentHead); begin += cell_bytes_, ++position)
      f(position, begin, std::min<std::size_t>(cell_bytes_, sizeof(ExtentHead) - begin));
  }

  /// Entries number from, from + 1, ... of an extent: whole cells.
  void copy(EntryExtent const& extent, std::uint64_t from, std::span<std::byte> to) const;
  /// Whether a whole head's extent is, whose entries come to what sum() says. What a session came
  /// to its end says.
  template <class Sum>
  [[nodiscard]] static bool is_borne_out(EntryExtent const& extent, Sum sum) {
    switch (extent.kind) {
      case ExtentKind::commit:
      case ExtentKind::session_end: return extent.entries == 0;
      case ExtentKind::session: return extent.sum == 0;
      default: return sum() == extent.sum;
    }
  }

  /// Of entries number begin up to end: what they have of the extent's sum. f(cells) is given them,
  /// some at a time.
  template <class F>
  [[nodiscard]] std::uint64_t sum_of_cells(EntryExtent const& extent, std::uint64_t begin,
                                           std::uint64_t end, F f) const;
  [[nodiscard]] std::uint64_t sum_of_cells(EntryExtent const& extent, std::uint64_t begin,
                                           std::uint64_t end) const {
    return sum_of_cells(extent, begin, end, [](std::span<std::byte const>) {});
  }

 private:
  std::uint32_t cell_bytes_ = 0;
  std::uint64_t cells_each_ = 0;
};

template <class F>
std::uint64_t EntryCells::sum_of_cells(EntryExtent const& extent, std::uint64_t begin,
                                       std::uint64_t end, F f) const {
  constexpr std::uint64_t kMany = 256;
  std::byte some[kMany * cell_bytes_for(kMostEntryKey)];
  std::uint64_t sum = 0;
  for (std::uint64_t from = begin; from < end; from += kMany) {
    auto const n = static_cast<std::size_t>(std::min(kMany, end - from));
    std::span<std::byte> const cells = std::span(some).first(n * cell_bytes_);
    copy(extent, from, cells);
    for (std::size_t i = 0; i < n; ++i) sum += sum_of(&cells[i * cell_bytes_], cell_bytes_);
    f(std::span<std::byte const>(cells));
  }
  return sum;
}

}  // namespace perdure::wal
