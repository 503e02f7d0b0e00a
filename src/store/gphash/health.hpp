// Whether a store may go on after something failed inside it. Invariant: what changes the pool is
// whole, or ends writing for good: after a failure in the midst of a change the pool holds what
// only recovery can sort out, and nothing is built on it.
#pragma once

#include <cxxabi.h>

#include <string>

#include "perdure/status.h"

namespace perdure {

class Health {
 public:
  explicit Health(std::string const& path) : path_(path) {}

  [[nodiscard]] bool failed() const { return !failure_.ok(); }
  [[nodiscard]] Status const& failure() const { return failure_; }

  /// After this the store refuses writes. What was in flight may or may not be published.
  Status fail(Status const& status);
  /// The same, and no call has answered with it: closing the store does.
  void fail_unheard(Status status);
  /// Runs what changes the pool. An exception in its midst ends writing.
  template <class F>
  Status whole_or_failed(F f) {
    changing = false;
    try {
      return f();
    } catch (abi::__forced_unwind const&) {  // the thread is being cancelled
      static_cast<void>(failed_by_exception());
      throw;
    } catch (...) {
      return failed_by_exception();
    }
  }

  // A change has begun, and is not whole yet.
  bool changing = false;
  // Of what should be all or nothing a part may be there.
  bool half_undoable = false;
  // Durability power: the pool holds what the log lacks.
  bool unlogged = false;
  // A failure that no call has answered.
  Status unheard;

 private:
  Status failed_by_exception();

  std::string const& path_;
  Status failure_;
};

}  // namespace perdure
