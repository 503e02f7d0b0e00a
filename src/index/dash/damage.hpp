// What no crash leaves behind, told before anybody follows it: words of a pool's index that were
// overwritten. Each is looked at when it is read for the first time after an opening, never again,
// so searches pay nothing. Invariant: whoever meets damage changes nothing, answers
// Answer::damaged, and says here what it was.
#pragma once

#include <sstream>
#include <string>
#include <utility>

#include "base/mutex.hpp"
#include "index/dash/layout.hpp"
#include "perdure/status.h"

namespace perdure::dash {

/// In place of a segment's: nothing lies there.
inline constexpr std::uint64_t kDamaged = 1;

/// "segment at byte 5: what it is".
template <class... Parts>
std::string told(Parts const&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

class Damage {
 public:
  std::uint64_t note(std::string what) {
    MutexLock const lock(mutex_);
    last_ = std::move(what);
    return kDamaged;
  }
  [[nodiscard]] Status why() {
    MutexLock const lock(mutex_);
    return {Code::corrupt, last_};
  }

 private:
  Mutex mutex_;
  std::string last_ PERDURE_GUARDED_BY(mutex_);
};

/// Where the hashes end of a segment that begins at `start`; 0: with the last one.
[[nodiscard]] inline std::uint64_t end_of(std::uint64_t start, std::uint32_t depth) {
  return start + (std::uint64_t{1} << (64 - depth));
}
/// Whether a segment of that depth may begin there.
[[nodiscard]] inline bool begins_segment(std::uint64_t start, std::uint32_t depth) {
  return depth != 0 && (start & ((std::uint64_t{1} << (64 - depth)) - 1)) == 0;
}
/// Whether a segment of that extent that begins at `start` has a hash.
[[nodiscard]] inline bool covers(Extent extent, std::uint64_t start, std::uint64_t hash) {
  return ((hash ^ start) >> (64 - extent.depth())) == 0;
}

}  // namespace perdure::dash
