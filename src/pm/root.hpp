// Reading and writing a copy of the root, and whether its names can be right. What an entry means,
// its owner knows: so the pool refuses a name that is none, and who opens the pool refuses the
// names that it does not know (check_names). Invariant: the root of an open pool has whole names,
// each once, and no more than fit.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "perdure/status.h"
#include "pm/pool_format.hpp"

namespace perdure::pm {

/// The copy at `at`, of which no more is read than is in use; none where it is torn or was never
/// written.
[[nodiscard]] std::optional<Root> read_root(std::byte const* at);
/// The copy that counts, of the pool that is mapped at `base`; none where neither is whole.
[[nodiscard]] std::optional<Root> newest_root(std::byte const* base);
/// Writes what is in use of it, with its checksum.
void write_root(std::byte* at, Root& root);

/// What is wrong with the names of a root whose checksum matches; empty where nothing is.
[[nodiscard]] std::string names_fault(Root const& root);

/// Superblocks of what this build does not know would look free to it. knows(name): it does.
template <class Knows>
[[nodiscard]] Status check_names(std::string const& path, Root const& root, Knows knows) {
  for (RootEntry const& entry : root.in_use()) {
    if (knows(entry.text())) continue;
    return {Code::corrupt, "pool " + path + ": its root names \"" + std::string(entry.text()) +
                               "\", which this build does not know; nothing was changed: open it "
                               "with the build that wrote it, or with a newer one"};
  }
  return {};
}

}  // namespace perdure::pm
