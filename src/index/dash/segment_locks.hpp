// All locks of a segment for as long as one of these stands. Invariant: a segment that is half
// changed keeps its locks, and who waits for them is told so.
#pragma once

#include <exception>

#include "index/dash/segment_buckets.hpp"

namespace perdure::dash {

/// Of a segment that is only looked at: released by an exception, too.
template <class Host, class Ops>
class LockedSegment {
 public:
  LockedSegment(Host& host, Ops const& ops, Segment s, bool locks)
      : host_(host), ops_(ops), s_(s), locks_(locks) {
    if (locks_) ops_.lock_all(host_, s_);
  }
  LockedSegment(LockedSegment const&) = delete;
  LockedSegment& operator=(LockedSegment const&) = delete;
  ~LockedSegment() {
    if (locks_) ops_.unlock_all(host_, s_);
  }

 private:
  Host& host_;
  Ops const& ops_;
  Segment s_;
  bool locks_;
};

/// Of a segment that its holder is about to change. An exception releases it where begins() has
/// not been called; else its locks stay, and the host's give_up() is called.
template <class Host, class Ops>
class ChangingSegment {
 public:
  ChangingSegment(Host& host, Ops const& ops, Segment s) : host_(host), ops_(ops), s_(s) {
    ops_.lock_all(host_, s_);
  }
  ChangingSegment(ChangingSegment const&) = delete;
  ChangingSegment& operator=(ChangingSegment const&) = delete;
  ~ChangingSegment() {
    bool const thrown = std::uncaught_exceptions() > before_;
    if (!begun_ || !thrown)
      ops_.unlock_all(host_, s_);
    else if constexpr (requires { host_.give_up(); })
      host_.give_up();
  }
  void begins() { begun_ = true; }

 private:
  Host& host_;
  Ops const& ops_;
  Segment s_;
  int before_ = std::uncaught_exceptions();
  bool begun_ = false;
};

}  // namespace perdure::dash
