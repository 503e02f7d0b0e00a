#include "watch.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "errors.hpp"
#include "gil.hpp"
#include "log_sink.hpp"
#include "perdure/glance.h"
#include "perdure/logging.h"
#include "records.hpp"

namespace perdure::python {
namespace {

void bind_glance(nb::module_& module) {
  nb::enum_<PoolUse>(module, "PoolUse")
      .value("nobody", PoolUse::nobody)
      .value("reading", PoolUse::reading)
      .value("writing", PoolUse::writing);
  Record<Glance>(module, "Glance")
      .field("use", &Glance::use)
      .field("process", &Glance::process)
      .field("closed_in_order", &Glance::closed_in_order)
      .field("changes", &Glance::changes)
      .field("changing", &Glance::changing)
      .field("transactions", &Glance::transactions)
      .field("records", &Glance::records)
      .field("estimated", &Glance::estimated)
      .field("slots", &Glance::slots)
      .field("load_factor", &Glance::load_factor)
      .field("growing", &Glance::growing)
      .field("pool_bytes", &Glance::pool_bytes)
      .field("max_bytes", &Glance::max_bytes)
      .field("used_bytes", &Glance::used_bytes)
      .field("repairs", &Glance::repairs)
      .field("key_bytes", &Glance::key_bytes)
      .field("value_bytes", &Glance::value_bytes)
      .field("index", &Glance::index)
      .field("layout", &Glance::layout)
      .field("durability", &Glance::durability)
      .field("bytes_read", &Glance::bytes_read)
      .done();
  module.def(
      "glance",
      [](std::string const& path) {
        return value_or_raise(without_gil([&] { return glance(path); }));
      },
      nb::arg("path"));
}

void bind_levels(nb::module_& module) {
  nb::enum_<LogLevel>(module, "LogLevel", nb::is_arithmetic())
      .value("debug", LogLevel::debug)
      .value("info", LogLevel::info)
      .value("warning", LogLevel::warning)
      .value("error", LogLevel::error)
      .value("off", LogLevel::off);
}

}  // namespace

void bind_watch(nb::module_& module) {
  bind_glance(module);
  bind_levels(module);
  bind_log_sink(module);
}

}  // namespace perdure::python
