// Whether a store of a Dash index may go on after an operation has ended in its midst. Invariant:
// then its locks stay taken, and what it left only recovery can tell; so nobody waits for them, and
// every call is refused until the pool is opened anew.
#pragma once

#include <cxxabi.h>

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "base/caught.hpp"
#include "perdure/status.h"

namespace perdure::threads {

class Health {
 public:
  /// Runs what changes the table. An exception in its midst ends the store.
  template <class F>
  Status whole_or_failed(F f) {
    try {
      return f();
    } catch (abi::__forced_unwind const&) {  // the thread is being cancelled
      fail({Code::closed, "cancelled"});
      throw;
    } catch (...) {
      Status why = status_of_exception();
      Code const code = why.code();
      fail(std::move(why));
      return {code, "out of memory"};
    }
  }

  /// The same of what undo() can take back: only where that fails, too, the store ends.
  template <class F, class Undo>
  Status whole_or_undone(F f, Undo undo) {
    try {
      Status const done = caught(f);
      if (done.ok()) return done;
      Status const undone = caught(undo);
      if (undone.ok()) return done;
      fail({undone.code(), done.message() + "; then " + undone.message()});
      return done;
    } catch (abi::__forced_unwind const&) {  // the thread is being cancelled
      fail({Code::closed, "cancelled"});
      throw;
    }
  }

  [[nodiscard]] bool given_up() const { return given_up_; }
  [[nodiscard]] std::string why() const {
    std::lock_guard const lock(mutex_);
    return failed_.ok() ? "out of memory" : failed_.message();
  }
  /// For who waits inside the table (gives_up.hpp).
  [[nodiscard]] std::atomic<bool>* flag() { return &given_up_; }

 private:
  void fail(Status why) {
    std::lock_guard const lock(mutex_);
    if (failed_.ok()) failed_ = std::move(why);
    given_up_ = true;
  }

  std::atomic<bool> given_up_{false};
  mutable std::mutex mutex_;
  Status failed_;  // guarded by mutex_; why given_up_
};

}  // namespace perdure::threads
