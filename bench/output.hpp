// Files that the benchmark programs write. Invariant: a file that is there is never replaced, which
// is said before anything runs; scripts that measure again remove what they measured before.
#pragma once

#include <string>
#include <utility>

namespace perdure::bench {

/// Why nothing may be written to a new file at `path`, or "". An empty path, and "-", are no files.
[[nodiscard]] std::string why_not_new(std::string const& path);
/// Writes a new file, or to standard output for "-"; nothing for an empty path. Throws Failure.
void write_new(std::string const& path, std::string const& text);

/// A new file for a result that grows. Invariant: whoever reads it meets one of the texts, whole.
class RewrittenFile {
 public:
  /// Standard output gets the last text alone.
  explicit RewrittenFile(std::string path) : path_(std::move(path)) {}
  void update(std::string const& text);
  void finish(std::string const& text);

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace perdure::bench
