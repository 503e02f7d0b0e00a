// Names of the public enums.
#include "perdure/status.h"

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

}  // namespace perdure
