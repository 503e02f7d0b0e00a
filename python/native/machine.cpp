#include "machine.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"
#include "perdure/litmus.h"

namespace perdure::python {

namespace nb = nanobind;

namespace {

/// Calls a function of Python's between two tests, from work without the GIL. What it raises, or a
/// signal's handler, ends the work and is raised when that has ended.
class PythonGoOn {
 public:
  explicit PythonGoOn(nb::object call) : call_(std::move(call)) {}
  bool operator()(double done) {
    nb::gil_scoped_acquire const held;
    try {
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      call_(done);
      return true;
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
      return false;
    }
  }
  void raise() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  nb::object call_;
  std::optional<nb::python_error> raised_;
};

/// Of work(go_on), which runs without the GIL.
template <class Work>
auto watched(nb::object call, Work work) {
  PythonGoOn go_on(std::move(call));
  auto answer = without_gil([&] { return work([&](double done) { return go_on(done); }); });
  go_on.raise();
  return value_or_raise(std::move(answer));
}

nb::dict as_dict(LitmusLine const& line) {
  nb::dict all;
  all["test"] = line.test;
  all["sides"] = line.sides;
  all["order"] = line.order;
  all["scope"] = line.scope;
  all["memory"] = line.memory;
  all["runs"] = line.runs;
  all["seen"] = line.seen;
  all["allowed"] = line.allowed;
  all["verdict"] = name(line.verdict);
  all["relied_on"] = line.relied_on;
  all["seconds"] = line.seconds;
  return all;
}

nb::dict run_litmus(std::uint64_t runs, double seconds, bool managed, nb::object go_on) {
  LitmusOptions const options{.runs = runs,
                              .seconds = seconds,
                              .memory = managed ? LitmusMemory::managed : LitmusMemory::pinned};
  LitmusReport const report =
      watched(std::move(go_on), [&](GoOn const& asked) { return litmus(options, asked); });
  nb::list lines;
  for (LitmusLine const& line : report.lines) lines.append(as_dict(line));
  nb::dict all;
  all["cpu"] = report.cpu;
  all["gpu"] = report.gpu;
  all["why_no_gpu"] = report.why_no_gpu;
  all["sound"] = report.sound;
  all["lines"] = lines;
  return all;
}

}  // namespace

void bind_machine(nb::module_& module) {
  module.def("litmus", &run_litmus, nb::arg("runs"), nb::arg("seconds"), nb::arg("managed"),
             nb::arg("go_on"));
}

}  // namespace perdure::python
