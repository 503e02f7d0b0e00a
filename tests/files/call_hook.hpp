// Places to stand between two system calls of the library: this program's own flock(), renameat2()
// and unlink(), which the library calls, first ask a hook of the calling thread. What others do
// between a file's opening and its locking, say, then happens just there, every time.
#pragma once

#include <functional>

namespace perdure::test {

/// While it lives, the `nth` such call (from 1) of this thread is preceded by `what`, which may use
/// files itself.
class BeforeNthCall {
 public:
  BeforeNthCall(int nth, std::function<void()> what);
  ~BeforeNthCall();
  BeforeNthCall(BeforeNthCall const&) = delete;
  BeforeNthCall& operator=(BeforeNthCall const&) = delete;
  [[nodiscard]] bool happened() const;
};

}  // namespace perdure::test
