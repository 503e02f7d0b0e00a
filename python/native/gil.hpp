// Work of the engine, while other threads of Python run.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace perdure::python {

/// Lets go of the GIL as long as it lives. A thread that wants it back when Python is at its end
/// never gets it: before 3.14 Python unwinds such a thread (of a daemon, say), which in C++ ends
/// the process by std::terminate. So it sleeps here until the process is gone, as from 3.14 on.
class ReleasedGil {
 public:
  ReleasedGil() : thread_(PyEval_SaveThread()) {}
  ReleasedGil(ReleasedGil const&) = delete;
  ReleasedGil& operator=(ReleasedGil const&) = delete;
  ~ReleasedGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* thread_;
};

template <class Call>
auto without_gil(Call call) {
  ReleasedGil const released;
  return call();
}

}  // namespace perdure::python
