// The segments of Dash-EH as they follow each other, in the order of hashes. Invariant: whoever is
// led to a segment by a word of the pool asks here whether one can be there, before it goes on.
#pragma once

#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/table_core.hpp"

namespace perdure::dash {

/// What no header says that crashes leave: a segment reaches as far as the next one begins.
/// Empty: nothing.
template <class Core, class Host>
std::string fault_at(Core& core, Host& host, std::uint64_t address, Extent& extent,
                     std::uint64_t& start) {
  if (!core.blocks.is_block(Offset{address})) return told("no segment begins at byte ", address);
  SegmentHeader const* const header = core.segment_at(address).header;
  extent = {host.load(&header->extent)};
  start = host.load(&header->start);
  if (extent.depth() > Extent::kMostDepth || !begins_segment(start, extent.depth()))
    return told("segment at byte ", address, ": none of ", extent.depth(),
                " bits begins with hash ", start);
  std::uint64_t const end = end_of(start, extent.depth()), next = extent.next();
  if (end == 0 && next == 0) return {};
  if (end == 0 || !core.blocks.is_block(Offset{next}) ||
      host.load(&core.segment_at(next).header->start) != end)
    return told("segment at byte ", address, " ends before hash ", end,
                ", and the next one, at byte ", next, ", does not begin there");
  return {};
}

/// f(place) for each segment from the first on. Answers what breaks the chain off; empty:
/// nothing.
template <class Core, class Host, class F>
std::string along_chain(Core& core, Host& host, F f) {
  std::uint64_t end = 0;
  for (std::uint64_t at = host.load(&core.root->first);;) {
    Extent extent;
    std::uint64_t start = 0;
    if (std::string fault = fault_at(core, host, at, extent, start); !fault.empty()) return fault;
    if (start != end) return told("the first segment, at byte ", at, ", begins with hash ", start);
    f(at);
    if (extent.next() == 0) return {};
    end = end_of(start, extent.depth());
    at = extent.next();
  }
}

/// The one store that makes a split or a merge.
template <class Host>
void commit_extent(Host& host, Segment s, Extent extent) {
  PERDURE_ASSERT(extent.depth() > 0 && extent.depth() <= Extent::kMostDepth);
  host.store(&s.header->extent, extent.word);
  host.persist(&s.header->extent, sizeof extent.word);
}

}  // namespace perdure::dash
