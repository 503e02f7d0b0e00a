#include "wal/entry_cells.hpp"

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::wal {

EntryCells::EntryCells(pm::PoolHeader const& h)
    : cell_bytes_(cell_bytes_for(h.key_bytes)),
#if defined(PERDURE_EXPLORE)
      cells_each_(16)  // so that batches of a few operations go on in other segments
#else
      cells_each_(cells_in(h.superblock_bytes, cell_bytes_))
#endif
{
}

Offset EntryCells::offset(std::uint64_t position) const {
  PERDURE_ASSERT(position < cells());
  return cell_in(segments[position / cells_each_], position % cells_each_, cell_bytes_);
}

std::uint32_t EntryCells::crc_of(SegmentHeader header) {
  header.crc = 0;
  header.next = 0;
  return crc32c(0, &header, sizeof header);
}

SegmentHeader EntryCells::header_at(std::uint64_t segment) const {
  SegmentHeader header;
  pm::read_bytes(&header, base + segment, sizeof header);
  return header;
}

bool EntryCells::is_segment(std::uint64_t at, std::uint64_t number) const {
  SegmentHeader const header = header_at(at);
  return header.magic == kSegmentMagic && header.crc == crc_of(header) && header.log_id == id &&
         header.number == number;
}

std::optional<EntryExtent> EntryCells::head_at(std::uint64_t position, std::uint64_t above) const {
  if (position + head_cells() > cells()) return std::nullopt;
  ExtentHead head;
  auto* const bytes = reinterpret_cast<std::byte*>(&head);
  each_of_head(position, [&](std::uint64_t from, std::size_t begin, std::size_t n) {
    pm::read_bytes(bytes + begin, cell(from), n);
  });
  if (head.number <= above || head.check != check_of(head)) return std::nullopt;
  return EntryExtent{head.number, head.entries, static_cast<ExtentKind>(head.kind),
                     position + head_cells(), head.sum};
}

void EntryCells::copy(EntryExtent const& extent, std::uint64_t from,
                      std::span<std::byte> to) const {
  std::size_t const n = to.size() / cell_bytes_;
  PERDURE_ASSERT(to.size() % cell_bytes_ == 0 && from + n <= extent.entries);
  for (std::size_t done = 0; done < n;) {
    std::uint64_t const position = extent.first + from + done;
    std::size_t const here = std::min<std::size_t>(n - done, cells_each_ - position % cells_each_);
    pm::read_bytes(&to[done * cell_bytes_], cell(position), here * cell_bytes_);
    done += here;
  }
}

}  // namespace perdure::wal
