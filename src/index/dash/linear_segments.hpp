// The headers of Dash-LH's segments. Segments follow each other by number, so the bits of `extent`
// that name the next one elsewhere check depth and start here. Invariant: with one bit less, what
// was split off would be split off again, and its newer records lost; so a header is looked at
// before its segment is.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "base/hash.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/linear_directory.hpp"
#include "index/dash/table_core.hpp"

namespace perdure::dash {

[[nodiscard]] inline Extent linear_extent(std::uint64_t start, std::uint32_t depth) {
  return Extent::of(depth, nth_hash(start, depth) >> 8);
}

template <class Host>
void store_header(Host& host, SegmentHeader* header, std::uint64_t start, std::uint32_t depth,
                  std::uint64_t version) {
  host.store(&header->start, start);
  host.store(&header->chain, 0);
  host.store(&header->version, version);
  host.store(&header->extent, linear_extent(start, depth).word);
  host.persist(header, 32);
}

/// The one store that makes a split.
template <class Host>
void commit_depth(Host& host, Segment s, std::uint32_t depth) {
  host.store(&s.header->extent, linear_extent(host.load(&s.header->start), depth).word);
  host.persist(&s.header->extent, sizeof(std::uint64_t));
}

/// What no header says that crashes leave, of segment i, which was split off. Empty: nothing.
template <class Core, class Host>
std::string fault_of_header(LinearDirectory<Core> const& directory, Host& host, std::uint64_t i,
                            Segment s) {
  Extent const extent{host.load(&s.header->extent)};
  std::uint32_t const least = directory.least_depth_of(i);
  if (std::uint32_t const most = directory.depth_of(host, i);
      extent.depth() < least || extent.depth() > most ||
      extent.word != linear_extent(start_of(i), extent.depth()).word)
    return told("word ", extent.word, " is no extent of ", least, " to ", most, " bits");
  if (std::uint64_t const start = host.load(&s.header->start); start != start_of(i))
    return told("its hashes begin with ", start, ", where those of segment ", i, " do with ",
                start_of(i));
  return {};
}
/// The same of a chain that nobody changes: each link leads to a bucket, and the last to none.
template <class Core, class Host>
std::string fault_of_chain(Core& core, Host& host, Segment s) {
  std::uint64_t const* link = &s.header->chain;
  std::uint64_t seen = 0;  // by Brent: the link that many steps ago, a power of two
  for (std::uint64_t at, n = 1; (at = host.load(link)) != 0; ++n) {
    if (!core.blocks.is_block(Offset{at})) return told("no chained bucket begins at byte ", at);
    if (at == seen) return told("its chain comes back to the bucket at byte ", at);
    if (std::has_single_bit(n)) seen = at;
    link = &core.ops.chained_at(at).hints;
  }
  return {};
}

}  // namespace perdure::dash
