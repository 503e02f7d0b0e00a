// What `perdure doctor` asks of the machine itself: litmus tests and measurements.
#pragma once

#include <nanobind/nanobind.h>

namespace perdure::python {

/// Adds litmus and measure to the module; each answers plain data, as it goes into JSON.
void bind_machine(nanobind::module_& module);

}  // namespace perdure::python
