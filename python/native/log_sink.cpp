#include "log_sink.hpp"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "gil.hpp"
#include "long_call.hpp"
#include "perdure/logging.h"

namespace nb = nanobind;

namespace perdure::python {
namespace {

nb::dict fields_of(LogEvent const& event) {
  nb::dict fields;
  for (LogField const& field : event.fields)
    std::visit(
        [&](auto const& value) { fields[nb::str(field.name.data(), field.name.size())] = value; },
        field.value);
  return fields;
}

/// A callable of Python's, which is released with the GIL held, whoever is the last to have it.
std::shared_ptr<nb::object> shared(nb::object callable) {
  return {new nb::object(std::move(callable)), [](nb::object* it) {
            nb::gil_scoped_acquire const held;
            delete it;
          }};
}

/// Whether a handler of Python's for some signal is among what the exception came through.
bool handler_raised(nb::python_error const& error) {
  nb::module_ const signal = nb::module_::import_("signal");
  nb::object const numbers = signal.attr("valid_signals")();
  for (nb::object at = nb::borrow(error.traceback()); at.is_valid() && !at.is_none();
       at = at.attr("tb_next")) {
    nb::object const code = at.attr("tb_frame").attr("f_code");
    for (nb::handle const number : numbers)
      if (nb::getattr(signal.attr("getsignal")(number), "__code__", nb::none()).is(code))
        return true;
  }
  return false;
}

int raise_now(void* error) {
  std::unique_ptr<nb::python_error> const late(static_cast<nb::python_error*>(error));
  late->restore();
  return -1;
}

/// A signal's handler may run while the sink does, on the main thread. What it raises cannot be
/// thrown through the engine: Python raises it when the engine's call has returned. What the sink
/// itself raises concerns nobody's call.
void hand_on(nb::python_error& error) {
  bool const late = on_main_thread() && (!error.matches(PyExc_Exception) || handler_raised(error));
  auto kept = std::make_unique<nb::python_error>(std::move(error));
  if (late && Py_AddPendingCall(&raise_now, kept.get()) == 0)
    kept.release();
  else
    kept->discard_as_unraisable("perdure's log sink");
}

/// `sink(level, name, pool, message, fields)`; None: nobody is told anything. The engine calls it
/// without a lock of its own, from a call that let go of the GIL.
void set_sink(nb::object sink, LogLevel least) {
  LogSink call;
  if (!sink.is_none())
    call = [callable = shared(std::move(sink))](LogEvent const& event) {
      nb::gil_scoped_acquire const held;
      nb::error_scope const others;  // a store may be closed while an exception is on its way
      try {
        (*callable)(event.level, nb::str(event.name.data(), event.name.size()), event.pool,
                    event.message, fields_of(event));
      } catch (nb::python_error& error) {
        hand_on(error);
      }
    };
  without_gil([&] { set_log_sink(std::move(call), least); });
}

}  // namespace

void bind_log_sink(nb::module_& module) {
  module.def("set_log_sink", &set_sink, nb::arg("sink").none(), nb::arg("least"));
  // Stores may be closed after Python has ended, by what its last threads leave behind.
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { set_sink(nb::none(), LogLevel::off); }));
}

}  // namespace perdure::python
