#include "lsm/rocks/metrics.hpp"

#include <string_view>

#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

std::vector<Metric> metrics_of(DatabaseParts const& parts) {
  Counters const& c = *parts.counters;
  return {
      {"perdure.table-batches", "table_batches_total", "Batches that memtables took.",
       c.table_batches},
      {"perdure.table-operations", "table_operations_total", "Operations that memtables took.",
       c.table_operations},
      {"perdure.passed-through", "passed_through_total", "Batches that RocksDB served alone.",
       c.passed_through},
      {"perdure.table-hits", "table_hits_total", "Keys that reads found in memtables.",
       c.table_hits},
      {"perdure.table-misses", "table_misses_total", "Keys that reads went to RocksDB for.",
       c.table_misses},
      {"perdure.flushed-generations", "flushed_generations_total",
       "Generations of memtables that RocksDB took over.", c.flushed_generations},
      {"perdure.flushed-entries", "flushed_entries_total", "Entries of their sorted files.",
       c.flushed_entries},
      {"perdure.writer-waits", "writer_waits_total", "Writes that waited for a flush.",
       c.writer_waits},
      {"perdure.writer-wait-micros", "writer_wait_seconds_total", "How long they waited.",
       c.writer_wait_micros, true},
      {"perdure.ingest-waits", "ingest_waits_total", "Flushes that waited for a compaction.",
       c.ingest_waits},
      {"perdure.recovered-generations", "recovered_generations_total",
       "Generations that the opening restored from the G-WAL.", c.recovered_generations},
      {"perdure.recovered-requests", "recovered_requests_total", "Requests of those.",
       c.recovered_requests},
      {"perdure.sealed-generations", "sealed_generations", "Generations that wait for their flush.",
       parts.tables->sealed_generations()},
      {"perdure.threshold", "threshold", "Operations from which memtables take a write.",
       parts.writer->threshold()},
      {"perdure.memtables", "memtables", "1 while memtables hold anything.",
       parts.tables->any() ? 1u : 0u},
  };
}

std::string as_statistics(std::span<Metric const> metrics) {
  std::string text;
  for (Metric const& one : metrics)
    text += std::string(one.property) + " COUNT : " + std::to_string(one.value) + "\n";
  return text;
}

namespace {

std::string escaped(std::string const& label) {
  std::string text;
  for (char const c : label) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return text;
}

std::string shown(Metric const& one) {
  if (!one.is_micros) return std::to_string(one.value);
  std::string const micros = std::to_string(one.value % 1'000'000);
  return std::to_string(one.value / 1'000'000) + "." + std::string(6 - micros.size(), '0') + micros;
}

}  // namespace

std::string as_prometheus(std::span<Metric const> metrics, std::string const& database) {
  std::string const label = "{db=\"" + escaped(database) + "\"} ";
  std::string text;
  for (Metric const& one : metrics) {
    std::string const name = std::string("perdure_rocks_") + one.prometheus;
    bool const only_grows = std::string_view(one.prometheus).ends_with("_total");
    text += "# HELP " + name + " " + one.help + "\n";
    text += "# TYPE " + name + (only_grows ? " counter\n" : " gauge\n");
    text += name + label + shown(one) + "\n";
  }
  return text;
}

}  // namespace perdure::lsm
