// One record at a time, by its bytes: what `store[key]` and the command line call. No array is made
// on the way.
#pragma once

#include <nanobind/nanobind.h>

#include "perdure/store.h"

namespace perdure::python {

namespace nb = nanobind;

/// Adds get_one, put_one and erase_one to the class.
void bind_single(nb::class_<Store>& store);

}  // namespace perdure::python
