// Events of the engine, handed to Python. Each extension module has an engine of its own within it,
// and so a sink of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace perdure::python {

/// Adds set_log_sink to the module. LogLevel is that of perdure._native, which comes first.
void bind_log_sink(nanobind::module_& module);

}  // namespace perdure::python
