// What a call answers that an exception ended: no exception crosses the API. Invariant: where
// memory is what lacks, the answer needs none.
#pragma once

#include <cxxabi.h>

#include "perdure/status.h"

namespace perdure {

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
