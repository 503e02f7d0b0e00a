// How a benchmark gives up, and the exit statuses of benchmark programs.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "perdure/status.h"

namespace perdure::bench {

/// The benchmark cannot go on: exit status 2, for it was asked or set up wrongly. (Wrong results of
/// the store are not failures in this sense: they are counted, printed, and end in exit status 1.)
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr int kGood = 0;
constexpr int kFaults = 1;
constexpr int kUsage = 2;

/// Throws Failure("what: the status's message") unless the status is ok.
inline void require(Status const& status, std::string const& what) {
  if (!status.ok())
    throw Failure(what + ": " + std::string(name(status.code())) + ": " + status.message());
}

template <class T>
[[nodiscard]] T require(Result<T> result, std::string const& what) {
  require(result.status(), what);
  return std::move(result).value();
}

}  // namespace perdure::bench
