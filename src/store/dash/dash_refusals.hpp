// Options that a Dash index has no use for. Invariant: what is refused here has had no effect.
#pragma once

#include <string>

#include "perdure/store.h"

namespace perdure {

Status check_dash_create(std::string const& path, CreateOptions const& create);
Status check_dash_open(std::string const& path, Index index, OpenOptions const& options);

}  // namespace perdure
