// Options that stores of host threads have no use for. Invariant: what is refused here has had no
// effect.
#pragma once

#include <string>

#include "perdure/store.h"

namespace perdure::threads {

Status check_create(std::string const& path, CreateOptions const& create);
Status check_open(std::string const& path, Index index, OpenOptions const& options);

}  // namespace perdure::threads
