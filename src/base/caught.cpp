#include "base/caught.hpp"

#include <exception>
#include <new>
#include <stdexcept>

namespace perdure {

namespace {

// so short that a string holds it without memory of its own
constexpr char const* kNoMemory = "out of memory";

/// What the exception says, where there is memory for it.
Status said(Code code, std::exception const& error) noexcept {
  try {
    return {code, error.what()};
  } catch (...) {
    return {Code::no_space, kNoMemory};
  }
}

}  // namespace

Status status_of_exception() noexcept {
  try {
    throw;
  } catch (std::bad_alloc const&) {
    return {Code::no_space, kNoMemory};
  } catch (std::length_error const&) {
    return {Code::no_space, kNoMemory};
  } catch (NoRoom const& error) {
    return said(Code::no_space, error);
  } catch (Damaged const& error) {
    return said(Code::corrupt, error);
  } catch (std::exception const& error) {
    return said(Code::io_error, error);  // of the system: a thread that it refuses, for one
  } catch (...) {
    return {Code::io_error, "unknown"};
  }
}

}  // namespace perdure
