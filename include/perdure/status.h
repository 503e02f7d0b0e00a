// Errors as values. A Status names what failed and the way out; no exception crosses the API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "perdure/export.h"

namespace perdure {

enum class Code : std::uint8_t {
  ok,
  invalid_argument,  // the caller asked for something that cannot be (sizes, types, options)
  not_found,         // no such pool
  already_exists,    // a pool is there already
  busy,              // opened for writing elsewhere
  no_space,          // the medium (or the pool's max_bytes) is full
  locked_memory,     // RLIMIT_MEMLOCK or the driver refuses to pin the pool
  corrupt,           // truncated, of a foreign format, or a checksum does not match
  unsupported,       // this build, machine or medium cannot do it
  io_error,          // the operating system failed
  device_error,      // the GPU failed
  closed,            // the store was closed, or failed earlier and refuses further writes
  stopped,           // the caller stopped the call before its end (CallOptions::stop)
};

/// The name of a code as the command line and Python print it, for example "no_space".
[[nodiscard]] PERDURE_API std::string_view name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] std::string const& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// Ends the process: a Result was made of a Status that is ok, and so has neither value nor error.
[[noreturn]] PERDURE_API void result_of_ok_status() noexcept;

/// A value or the Status that says why there is none, which is never ok.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : held_(std::in_place_index<1>, std::move(error)) {
    if (std::get<1>(held_).ok()) result_of_ok_status();
  }

  [[nodiscard]] bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Status status() const { return ok() ? Status{} : std::get<1>(held_); }

  T& value() & { return std::get<0>(held_); }
  T const& value() const& { return std::get<0>(held_); }
  T&& value() && { return std::get<0>(std::move(held_)); }
  T* operator->() { return &value(); }
  T& operator*() { return value(); }

 private:
  std::variant<T, Status> held_;
};

}  // namespace perdure
