// Files that the benchmark programs write. Invariant: a file that is there is never replaced, which
// is said before anything runs; scripts that measure again remove what they measured before.
#pragma once

#include <string>

namespace perdure::bench {

/// Why nothing may be written to a new file at `path`, or "". An empty path, and "-", are no files.
[[nodiscard]] std::string why_not_new(std::string const& path);
/// Writes a new file, or to standard output for "-"; nothing for an empty path. Throws Failure.
void write_new(std::string const& path, std::string const& text);

}  // namespace perdure::bench
