// A Status that failed becomes a Python exception of package perdure, chosen by its code.
// Invariant: no Status is dropped on the way to Python.
#pragma once

#include <exception>
#include <utility>

#include "perdure/status.h"

namespace perdure::python {

struct StatusError : std::exception {
  explicit StatusError(Status failed) : status(std::move(failed)) {}
  char const* what() const noexcept override { return status.message().c_str(); }
  Status status;
};

inline void raise_unless_ok(Status const& status) {
  if (!status.ok()) throw StatusError(status);
}

template <class T>
T value_or_raise(Result<T> result) {
  raise_unless_ok(result.status());
  return std::move(result).value();
}

/// Teaches nanobind to turn a StatusError into `perdure.errors.from_code(code, message)`.
void register_errors();

}  // namespace perdure::python
