// What a call answers that an exception ended: no exception crosses the API. Invariant: where
// memory is what lacks, the answer needs none.
#pragma once

#include <cxxabi.h>

#include <stdexcept>

#include "perdure/status.h"

namespace perdure {

/// What an exception says that is Code::corrupt: a file's word leads nowhere.
class Damaged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// What one says that is Code::no_space with a message of its own.
class NoRoom : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Of the exception that is being handled.
[[nodiscard]] Status status_of_exception() noexcept;

/// f(), or what its exception says. A thread that is being cancelled goes on unwinding.
template <class F>
auto caught(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (abi::__forced_unwind const&) {
    throw;
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace perdure
