// What `perdure doctor` asks of the machine itself: litmus tests and measurements.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "perdure/measure.h"

namespace perdure::python {

/// Plain data of them; here, for two modules have such numbers.
inline nanobind::list as_list(std::vector<UsedNumber> const& numbers) {
  nanobind::list all;
  for (UsedNumber const& one : numbers) {
    nanobind::dict number;
    number["what"] = nanobind::str(one.what.c_str());
    number["value"] = one.value;
    number["unit"] = nanobind::str(one.unit.c_str());
    number["row_what"] = nanobind::str(one.row_what.c_str());
    number["row_how"] = nanobind::str(one.row_how.c_str());
    all.append(number);
  }
  return all;
}

/// Adds litmus, measure and numbers_of_stores to the module; each answers plain data, as it goes
/// into JSON.
void bind_machine(nanobind::module_& module);

}  // namespace perdure::python
