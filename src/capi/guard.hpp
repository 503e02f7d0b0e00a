// From Status and exceptions to codes. Invariant: every entry point that can fail is one of these
// functions around a call, so no exception crosses the C interface, and an object or an error that
// a call answers is whole or NULL.
#pragma once

#include <cxxabi.h>

#include <memory>
#include <string>
#include <utility>

#include "capi/handles.hpp"
#include "perdure/status.h"

namespace perdure::capi {

/// The code of a status, and its message into `error` unless that is null or memory lacks.
perdure_code told(Status const& status, perdure_error** error) noexcept;
/// The same of the exception that is being handled.
perdure_code told_of_exception(perdure_error** error) noexcept;

[[nodiscard]] inline Status no_argument(char const* name) {
  return {Code::invalid_argument, std::string(name) + " is NULL"};
}

/// What call(), which answers a Status, came to. A thread that is being cancelled goes on
/// unwinding.
template <class Call>
perdure_code guarded(perdure_error** error, Call&& call) {
  if (error != nullptr) *error = nullptr;
  try {
    Status const status = call();
    return status.ok() ? PERDURE_OK : told(status, error);
  } catch (abi::__forced_unwind const&) {
    throw;
  } catch (...) {
    return told_of_exception(error);
  }
}

/// call(Store&) on a store that a caller has.
template <class Handle, class Call>
perdure_code in_store(Handle* store, perdure_error** error, Call&& call) {
  return guarded(error, [&]() -> Status {
    if (store == nullptr) return no_argument("store");
    return call(*store->store);
  });
}

/// What a call is to make, which is NULL unless it does: the first thing that such a call does.
template <class Handle>
void clear(Handle** made) {
  if (made != nullptr) *made = nullptr;
}

/// An object that call(Handle&) fills. Its memory is taken first.
template <class Handle, class Call>
Status make(Handle** made, char const* name, Call&& call) {
  if (made == nullptr) return no_argument(name);
  auto handle = std::make_unique<Handle>();
  if (Status s = call(*handle); !s.ok()) return s;
  *made = handle.release();
  return {};
}

}  // namespace perdure::capi
