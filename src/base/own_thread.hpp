// Threads that the library starts. Invariant: a signal that is sent to the process has no handler
// run on one of them, so a program may block signals at any time and wait for them (sigwait,
// signalfd), and its handlers find the stacks and locks of its own threads. Faults of the thread
// itself, and SIGPROF, by which profilers sample every thread, are handled there as anywhere.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace perdure {

/// Signals are not for this thread, nor for those that it starts meanwhile. A write beyond the
/// limit of a file's size (SIGXFSZ) answers an error.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t sent;
    ::sigfillset(&sent);
    for (int const mine : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      ::sigdelset(&sent, mine);
    ::pthread_sigmask(SIG_BLOCK, &sent, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(SignalsBlocked const&) = delete;
  SignalsBlocked& operator=(SignalsBlocked const&) = delete;

 private:
  sigset_t before_;
};

/// Throws std::system_error where there is no thread to be had.
template <class F>
[[nodiscard]] std::thread own_thread(F&& f) {
  SignalsBlocked const blocked;  // the thread inherits it
  return std::thread(std::forward<F>(f));
}

}  // namespace perdure
