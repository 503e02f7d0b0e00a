#include "exec/range.hpp"

namespace perdure::exec {

Range::Range(char const*) {}
Range::~Range() = default;

}  // namespace perdure::exec
