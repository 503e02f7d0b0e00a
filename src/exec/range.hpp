// A named range of a profiler's timeline (NVTX, in builds with CUDA): one around each call of the
// public API.
#pragma once

namespace perdure::exec {

class Range {
 public:
  explicit Range(char const* name);  // a literal
  ~Range();
  Range(Range const&) = delete;
  Range& operator=(Range const&) = delete;
};

}  // namespace perdure::exec
