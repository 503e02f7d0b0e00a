// Names of the public enums, and the end of a process that breaks a Result's invariant.
#include "perdure/status.h"

#include "base/assert.hpp"

namespace perdure {

std::string_view name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_found: return "not_found";
    case Code::already_exists: return "already_exists";
    case Code::busy: return "busy";
    case Code::no_space: return "no_space";
    case Code::locked_memory: return "locked_memory";
    case Code::corrupt: return "corrupt";
    case Code::unsupported: return "unsupported";
    case Code::io_error: return "io_error";
    case Code::device_error: return "device_error";
    case Code::closed: return "closed";
    case Code::stopped: return "stopped";
  }
  return "unknown";
}

void result_of_ok_status() noexcept {
  assertion_failed("a Result has a value or an error", "status.h", 0);
}

}  // namespace perdure
