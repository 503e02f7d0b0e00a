#include "base/own_thread.hpp"

namespace perdure {

SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t sent;
  ::sigfillset(&sent);
  for (int const mine : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
    ::sigdelset(&sent, mine);
  ::pthread_sigmask(SIG_BLOCK, &sent, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace perdure
