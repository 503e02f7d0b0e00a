// Translates StatusError into the Python exception that perdure.errors has for its code.
#include "errors.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;

namespace perdure::python {

void register_errors() {
  nb::register_exception_translator([](std::exception_ptr const& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (StatusError const& error) {
      nb::object const raised =
          nb::module_::import_("perdure.errors")
              .attr("from_code")(name(error.status.code()), error.status.message());
      PyErr_SetObject(raised.type().ptr(), raised.ptr());
    }
  });
}

}  // namespace perdure::python
