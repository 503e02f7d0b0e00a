#include "capi/guard.hpp"

#include <new>

namespace perdure::capi {
namespace {

/// An error that is not to be had for want of memory is NULL: the code has been answered anyway.
void write_error(perdure_error** error, char const* message) noexcept {
  if (error == nullptr) return;
  try {
    *error = new perdure_error{message};
  } catch (...) {
    *error = nullptr;
  }
}

}  // namespace

perdure_code told(Status const& status, perdure_error** error) noexcept {
  write_error(error, status.message().c_str());
  return static_cast<perdure_code>(status.code());
}

perdure_code told_of_exception(perdure_error** error) noexcept {
  try {
    throw;
  } catch (std::bad_alloc const&) {
    write_error(error, "out of memory: nothing was done");
    return PERDURE_OUT_OF_MEMORY;
  } catch (std::exception const& failure) {
    write_error(error, failure.what());
    return PERDURE_INTERNAL_ERROR;
  } catch (...) {
    write_error(error, "an exception of unknown type; please report this");
    return PERDURE_INTERNAL_ERROR;
  }
}

}  // namespace perdure::capi

using perdure::Code;

// The codes and numbers of the C interface are those of the C++ interface, and are cast.
static_assert(PERDURE_OK == static_cast<int>(Code::ok));
static_assert(PERDURE_INVALID_ARGUMENT == static_cast<int>(Code::invalid_argument));
static_assert(PERDURE_NOT_FOUND == static_cast<int>(Code::not_found));
static_assert(PERDURE_ALREADY_EXISTS == static_cast<int>(Code::already_exists));
static_assert(PERDURE_BUSY == static_cast<int>(Code::busy));
static_assert(PERDURE_NO_SPACE == static_cast<int>(Code::no_space));
static_assert(PERDURE_LOCKED_MEMORY == static_cast<int>(Code::locked_memory));
static_assert(PERDURE_CORRUPT == static_cast<int>(Code::corrupt));
static_assert(PERDURE_UNSUPPORTED == static_cast<int>(Code::unsupported));
static_assert(PERDURE_IO_ERROR == static_cast<int>(Code::io_error));
static_assert(PERDURE_DEVICE_ERROR == static_cast<int>(Code::device_error));
static_assert(PERDURE_CLOSED == static_cast<int>(Code::closed));
static_assert(PERDURE_STOPPED == static_cast<int>(Code::stopped));

extern "C" {

char const* perdure_code_name(std::int32_t code) {
  switch (code) {
    case PERDURE_OUT_OF_MEMORY: return "out_of_memory";
    case PERDURE_INTERNAL_ERROR: return "internal_error";
    default: break;
  }
  if (code < PERDURE_OK || code > PERDURE_STOPPED) return "unknown";
  return perdure::name(static_cast<Code>(code)).data();  // a literal
}

char const* perdure_error_message(perdure_error const* error) {
  return error != nullptr ? error->message.c_str() : "";
}

void perdure_error_free(perdure_error* error) { delete error; }

}  // extern "C"
