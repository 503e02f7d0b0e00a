#include "machine.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"
#include "perdure/litmus.h"
#include "perdure/measure.h"

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

LitmusMemory memory_of(std::string_view name) {
  if (name == "managed") return LitmusMemory::managed;
  return name == "system" ? LitmusMemory::system : LitmusMemory::pinned;
}

nb::dict run_litmus(std::uint64_t runs, double seconds, std::string_view memory, bool record,
                    nb::object go_on) {
  LitmusOptions const options{.runs = runs, .seconds = seconds, .memory = memory_of(memory)};
  LitmusReport const report =
      watched(std::move(go_on), [&](GoOn const& asked) { return litmus(options, asked); });
  std::string const recorded = record ? value_or_raise(record_litmus(report)) : "";
  nb::list lines;
  for (LitmusLine const& line : report.lines) lines.append(as_dict(line));
  nb::dict all;
  all["cpu"] = report.cpu;
  all["gpu"] = report.gpu;
  all["why_no_gpu"] = report.why_no_gpu;
  all["sound"] = report.sound;
  all["recorded"] = recorded;
  all["lines"] = lines;
  return all;
}

nb::dict as_dict(MeasuredRow const& row) {
  nb::dict all;
  all["what"] = row.what;
  all["how"] = row.how;
  all["threads"] = row.threads;
  all["span_bytes"] = row.span_bytes;
  all["access_bytes"] = row.access_bytes;
  all["value"] = row.value;
  all["unit"] = row.unit;
  return all;
}

nb::dict run_measure(double seconds, std::uint64_t memory_bytes, bool quick, bool oversubscribe,
                     nb::object go_on) {
  MeasureOptions const options{.seconds = seconds,
                               .memory_bytes = memory_bytes,
                               .quick = quick,
                               .oversubscribe = oversubscribe};
  MeasureReport const report =
      watched(std::move(go_on), [&](GoOn const& asked) { return measure_machine(options, asked); });
  nb::list rows, left_out;
  for (MeasuredRow const& row : report.rows) rows.append(as_dict(row));
  for (LeftOut const& one : report.left_out) {
    nb::dict reason;
    reason["what"] = one.what;
    reason["why"] = one.why;
    left_out.append(reason);
  }
  nb::dict all;
  all["cpu"] = report.cpu;
  all["gpu"] = report.gpu;
  all["memory_bytes"] = report.memory_bytes;
  all["seconds"] = report.seconds;
  all["rows"] = rows;
  all["left_out"] = left_out;
  return all;
}

}  // namespace

void bind_machine(nb::module_& module) {
  module.def("litmus", &run_litmus, nb::arg("runs"), nb::arg("seconds"), nb::arg("memory"),
             nb::arg("record"), nb::arg("go_on"));
  module.def("measure", &run_measure, nb::arg("seconds"), nb::arg("memory_bytes"), nb::arg("quick"),
             nb::arg("oversubscribe"), nb::arg("go_on"));
  module.def("numbers_of_stores", [] { return as_list(numbers_of_stores()); });
}

}  // namespace perdure::python
