// perdure::PoolReader in Python: what perdure.kv reads blocks by.
#pragma once

#include <nanobind/nanobind.h>

namespace perdure::python {

void bind_pool_reader(nanobind::module_& module);

}  // namespace perdure::python
