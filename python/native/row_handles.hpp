// The numbers that operators of PyTorch name stores by (row_calls.hpp), as Python hands them out.
#pragma once

#include <nanobind/nanobind.h>

namespace perdure::python {

void bind_row_handles(nanobind::module_& module);

}  // namespace perdure::python
