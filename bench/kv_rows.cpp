// The rows of `perdure-bench kv`: medians of repeats, as JSON and as lines.
#include <cstdio>

#include "kv_cases.hpp"

namespace perdure::bench {
namespace {

double per(double sum, std::uint64_t ops) { return sum / static_cast<double>(ops); }
double per(std::uint64_t sum, std::uint64_t ops) { return per(static_cast<double>(sum), ops); }

void add_counts(Json& row, KvOptions const& o, KvMeasured const& m, std::uint64_t ops) {
  if (o.host == "counted") {
    row["lines_read"] = per(m.counts.lines_read, ops);
    row["lines_written"] = per(m.counts.lines_written, ops);
    row["lines_flushed"] = per(m.counts.lines_flushed, ops);
    row["fences"] = per(m.counts.fences, ops);
  }
  if (o.host == "emulated") {
    row["media_lines"] = per(m.media.lines, ops);
    row["media_bytes"] = per(256 * m.media.internal, ops);
  }
}

/// Medians, in seconds.
void add_recovery(Json& row, KvCase const& c, std::vector<KvMeasured> const& repeats) {
  std::vector<double> whole, map, index, space, value;
  for (KvMeasured const& m : repeats) {
    whole.push_back(m.recovery_seconds);
    map.push_back(m.recovery.map_seconds);
    index.push_back(m.recovery.parts.index);
    space.push_back(m.recovery.parts.space);
    value.push_back(m.recovery.parts.value);
  }
  row["recovery"] = {{"records", repeats.front().recovery.records},
                     {"threads", c.recovery_threads},
                     {"seconds", median(whole)},
                     {"map_seconds", median(map)},
                     {"read_seconds", median(value)},
                     {"index_seconds", median(index)},
                     {"space_seconds", median(space)}};
}

void print_recovery(Json const& row) {
  Json const& r = row["recovery"];
  auto const seconds = [&](char const* what) { return r[what].get<double>(); };
  std::printf(
      "recover %-10s %5s B %2s threads: %s records in %.3f s: map %.3f, read %.3f, index %.3f, "
      "space %.3f%s\n",
      row["design"].get<std::string>().c_str(), row["value_bytes"].dump().c_str(),
      r["threads"].dump().c_str(), r["records"].dump().c_str(), seconds("seconds"),
      seconds("map_seconds"), seconds("read_seconds"), seconds("index_seconds"),
      seconds("space_seconds"), row["faults"] == 0 ? "" : "  FAULT");
}

}  // namespace

Json kv_row(KvOptions const& o, KvCase const& c, std::vector<KvMeasured> const& repeats) {
  KvMeasured const& first = repeats.front();
  std::uint64_t const ops = first.ops;
  std::vector<double> mops, cpu, all_cpu;
  std::uint64_t faults = 0;
  for (KvMeasured const& m : repeats) {
    mops.push_back(static_cast<double>(m.ops) / m.seconds * 1e-6);
    cpu.push_back(per(m.cpu_seconds * 1e9, m.ops));
    all_cpu.push_back(per(m.all_cpu_seconds * 1e9, m.ops));
    faults += m.faults;
  }
  Json row{{"design", c.design},       {"workload", c.workload},
           {"keys", c.keys},           {"mode", c.mode},
           {"caches", c.caches},       {"value_bytes", c.value_bytes},
           {"threads", c.threads},     {"ops", ops},
           {"mops", median(mops)},     {"mops_each", mops},
           {"seconds", first.seconds}, {"cut_short", ops < kv_setting(o, c, 0).ops},
           {"faults", faults}};
  if (o.host == "flushed") {
    row["cpu_ns"] = median(cpu);
    row["all_cpu_ns"] = median(all_cpu);
  }
  add_counts(row, o, first, ops);
  row["collected_segments"] = first.collected.segments;
  row["moved_bytes"] = per(first.collected.moved_bytes, ops);
  row["waits"] = first.collected.waits;
  row["longest_wait_ms"] = static_cast<double>(first.collected.longest_wait_ns) * 1e-6;
  if (o.parts) {
    row["index_ns"] = per(first.parts.index * 1e9, ops);
    row["space_ns"] = per(first.parts.space * 1e9, ops);
    row["value_ns"] = per(first.parts.value * 1e9, ops);
  }
  if (c.workload == "recover") add_recovery(row, c, repeats);
  if (o.series_ms != 0) {
    row["longest_call_us"] = first.longest_us;
    row["series"] = first.series;
  }
  return row;
}

void print_kv_row(KvOptions const& o, Json const& row) {
  if (row.contains("recovery")) return print_recovery(row);
  auto const text = [&](char const* what) { return row[what].get<std::string>(); };
  std::printf("%-7s %-7s %-9s %-7s %5s B %2s threads %-10s %9.4f Mop/s%s", text("workload").c_str(),
              text("keys").c_str(), text("mode").c_str(), text("caches").c_str(),
              row["value_bytes"].dump().c_str(), row["threads"].dump().c_str(),
              text("design").c_str(), row["mops"].get<double>(),
              o.host == "emulated" ? " emulated" : "");
  if (o.host == "flushed")
    std::printf("  cpu %7.0f ns, with collectors %7.0f ns", row["cpu_ns"].get<double>(),
                row["all_cpu_ns"].get<double>());
  if (o.parts)
    std::printf("  index %.0f, space %.0f, value %.0f ns", row["index_ns"].get<double>(),
                row["space_ns"].get<double>(), row["value_ns"].get<double>());
  if (o.host == "counted")
    std::printf("  lines read %.3f, written %.3f, flushed %.3f; fences %.3f",
                row["lines_read"].get<double>(), row["lines_written"].get<double>(),
                row["lines_flushed"].get<double>(), row["fences"].get<double>());
  if (o.host == "emulated")
    std::printf("  media write %.0f bytes an operation", row["media_bytes"].get<double>());
  std::printf("%s\n", row["faults"] == 0 ? "" : "  FAULT");
}

}  // namespace perdure::bench
