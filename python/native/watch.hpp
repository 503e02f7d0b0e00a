// What operators watch: a glance at a pool from outside, and the engine's events.
#pragma once

#include <nanobind/nanobind.h>

namespace perdure::python {

/// Adds glance, PoolUse, Glance and set_log_sink to the module. Needs its enums of stores.
void bind_watch(nanobind::module_& module);

}  // namespace perdure::python
