#include "capi/growing.hpp"

#include <string>

namespace perdure::capi {

Status bad_struct_size(char const* name, std::size_t bytes) {
  return {Code::invalid_argument, std::string(name) + ": struct_bytes is " + std::to_string(bytes) +
                                      "; set it to the structure's size, or fill the structure by "
                                      "its init function"};
}

Status newer_field(char const* name) {
  return {Code::unsupported,
          std::string(name) +
              ": a field is set that this library does not know, for it is older than the header "
              "that the program was compiled with; use a newer library, or leave the field 0"};
}

}  // namespace perdure::capi
