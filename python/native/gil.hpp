// Work of the engine, while other threads of Python run.
#pragma once

#include <nanobind/nanobind.h>

namespace perdure::python {

template <class Call>
auto without_gil(Call call) {
  nanobind::gil_scoped_release const released;
  return call();
}

}  // namespace perdure::python
