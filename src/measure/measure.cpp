// All measurements of this machine: see perdure/measure.h.
#include "perdure/measure.h"

#include <string>

#include "exec/cpu/processor.hpp"
#include "measure/measuring.hpp"
#include "measure/pages.hpp"

namespace perdure {

namespace measure {

void Measuring::add(std::string_view what, std::string_view how, Accessed const& accessed,
                    double value, std::string_view unit) {
  MeasuredRow& row = report_.rows.emplace_back();
  row.what = what;
  row.how = how;
  row.threads = accessed.threads;
  row.span_bytes = accessed.span_bytes;
  row.access_bytes = accessed.access_bytes;
  row.value = value;
  row.unit = unit;
}

void Measuring::leave_out(std::string_view what, std::string_view why) {
  LeftOut& one = report_.left_out.emplace_back();
  one.what = what;
  one.why = why;
}

void Measuring::leave_out(std::string_view what, std::string_view how, Status const& failed) {
  leave_out(what, failed.message());
  report_.left_out.back().what.append(", ").append(how);
}

bool Measuring::has_time(std::string_view what) {
  constexpr double kGrace = 20;  // seconds, of a machine that is busy otherwise
  if (seconds() < options_.seconds + kGrace) return true;
  leave_out(what, "all before it took too long; give more --seconds");
  return false;
}

bool Measuring::has_room(std::string_view what, std::uint64_t bytes) {
  if (bytes <= memory_bytes_) return true;
  auto const shown = [](std::uint64_t n) {
    return n >> 20 != 0 ? std::to_string(n >> 20) + " MiB" : std::to_string(n) + " bytes";
  };
  leave_out(what, "needs " + shown(bytes) + ", and arrays may take " + shown(memory_bytes_));
  return false;
}

}  // namespace measure

Result<MeasureReport> measure_machine(MeasureOptions const& options, GoOn const& go_on) {
  if (!(options.seconds > 0)) return Status{Code::invalid_argument, "measure: seconds must be > 0"};
  std::uint64_t const memory =
      options.memory_bytes != 0 ? options.memory_bytes : measure::free_memory() / 2;
  measure::Measuring measuring(options, memory, go_on);
  struct Part {
    char const* what;
    void (*run)(measure::Measuring&);
  };
  constexpr Part kParts[] = {{"read, write, copy", measure::measure_streams},
                             {"chase", measure::measure_chases},
                             {"random, sort by the host", measure::measure_host_access},
                             {"launch, link, random, sort by a GPU", measure::measure_gpu}};
  for (Part const& part : kParts) {
    if (measuring.goes_on() && measuring.has_time(part.what)) part.run(measuring);
  }
  if (measuring.stopped()) return Status{Code::stopped, "measure: stopped between two rows"};
  MeasureReport report = measuring.report();
  report.cpu = exec::processor_name();
  report.memory_bytes = memory;
  report.seconds = measuring.seconds();
  return report;
}

}  // namespace perdure
