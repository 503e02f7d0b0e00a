#include "base/caught.hpp"

#include <exception>
#include <new>
#include <stdexcept>

namespace perdure {

Status status_of_exception() noexcept {
  // so short that a string holds it without memory of its own
  constexpr char const* kNoMemory = "out of memory";
  try {
    throw;
  } catch (std::bad_alloc const&) {
    return {Code::no_space, kNoMemory};
  } catch (std::length_error const&) {
    return {Code::no_space, kNoMemory};
  } catch (NoRoom const& error) {
    try {
      return {Code::no_space, error.what()};
    } catch (...) {
      return {Code::no_space, kNoMemory};
    }
  } catch (std::exception const& error) {
    try {
      return {Code::io_error, error.what()};  // of the system: a thread that it refuses, for one
    } catch (...) {
      return {Code::no_space, kNoMemory};
    }
  } catch (...) {
    return {Code::io_error, "unknown"};
  }
}

}  // namespace perdure
