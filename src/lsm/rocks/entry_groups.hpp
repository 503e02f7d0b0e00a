// The entries of one key in a block of a run.
#pragma once

#include <cstddef>
#include <span>

#include "lsm/entry.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

/// What follows the last one with the same bytes.
[[nodiscard]] inline std::size_t end_of_key(EntryBlock const& block, std::size_t first) {
  std::size_t end = first + 1;
  rocksdb::Slice const key = as_slice(block.key(first));
  while (end < block.size() && as_slice(block.key(end)) == key) ++end;
  return end;
}

/// Newest first, down to the first that is no operand.
[[nodiscard]] inline std::span<Version const> chain_of(EntryBlock const& block, std::size_t first,
                                                       std::size_t end) {
  std::size_t last = first;
  while (last + 1 < end && block.versions[last].kind == Kind::merge) ++last;
  return std::span(block.versions).subspan(first, last + 1 - first);
}

}  // namespace perdure::lsm
