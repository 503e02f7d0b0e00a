// Fields of a caller's structure, checked one by one: the first that is none decides. Invariant: an
// enumeration or a flag of the C++ interface is only made of a number that it has.
#pragma once

#include <cstdint>
#include <string>

#include "perdure/status.h"

namespace perdure::capi {

class Fields {
 public:
  /// A number that is one of E's, which are 0 to `last`.
  template <class E>
  E one_of(std::uint32_t value, E last, char const* name) {
    check(value, static_cast<std::uint32_t>(last), name);
    return status_.ok() ? static_cast<E>(value) : E{};
  }
  bool flag(std::uint32_t value, char const* name) {
    check(value, 1, name);
    return value == 1;
  }
  /// A field that a later version may use.
  void reserved(std::uint32_t value) {
    if (status_.ok() && value != 0)
      status_ = {Code::unsupported,
                 "reserved is " + std::to_string(value) +
                     ", which this library does not know; set it to 0, or fill the structure by "
                     "its init function"};
  }
  [[nodiscard]] Status const& status() const { return status_; }

 private:
  void check(std::uint32_t value, std::uint32_t last, char const* name) {
    if (status_.ok() && value > last)
      status_ = {Code::invalid_argument, std::string(name) + " is " + std::to_string(value) +
                                             "; it has to be one of 0 to " + std::to_string(last)};
  }

  Status status_;
};

}  // namespace perdure::capi
