#include "lsm/rocks/metrics.hpp"

#include <string_view>

#include "lsm/rocks/database.hpp"

namespace perdure::lsm {

namespace {

std::vector<Metric> of_tables(DatabaseParts const& parts) {
  Counters const& c = *parts.counters;
  Tables::Flushed const flushed = parts.tables->flushed();
  return {
      {"perdure.table-batches", "table_batches_total", "Batches that memtables took.",
       c.table_batches},
      {"perdure.table-operations", "table_operations_total", "Operations that memtables took.",
       c.table_operations},
      {"perdure.passed-through", "passed_through_total", "Batches that RocksDB served alone.",
       c.passed_through},
      {"perdure.table-hits", "table_hits_total", "Keys that reads found in memtables.",
       c.table_hits},
      {"perdure.flushed-hits", "flushed_hits_total",
       "Keys that reads found in memtables that RocksDB has by now.", c.flushed_hits},
      {"perdure.hot-hits", "hot_hits_total",
       "Keys that reads found in hot entries of the block cache that the machine has.", c.hot_hits},
      {"perdure.hot-builds", "hot_builds_total", "Times that the machine got hot entries.",
       c.hot_builds},
      {"perdure.hot-entries", "hot_entries", "Entries of the block cache that the machine has.",
       flushed.hot_entries},
      {"perdure.table-misses", "table_misses_total", "Keys that reads went to RocksDB for.",
       c.table_misses},
      {"perdure.hand-overs", "hand_overs_total",
       "Times that memtables were given up, for no large batch came.", c.hand_overs},
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
      {"perdure.flushed-memtables", "flushed_memtables",
       "Generations that RocksDB has by now, and that reads still ask.", flushed.generations},
      {"perdure.flushed-memtable-bytes", "flushed_memtable_bytes", "Memory that these take.",
       flushed.bytes},
      {"perdure.threshold", "threshold", "Operations from which memtables take a write.",
       parts.writer->threshold()},
      {"perdure.memtables", "memtables", "1 while memtables hold anything.",
       parts.tables->any() ? 1u : 0u},
  };
}

std::vector<Metric> of_cache(DatabaseParts const& parts) {
  CacheCounters const& c = parts.counters->cache;
  return {
      {"perdure.block-cache-bytes", "block_cache_bytes", "Memory of the block cache.",
       parts.cache == nullptr ? 0 : parts.cache->bytes()},
      {"perdure.block-cache-hits", "block_cache_hits_total", "Keys that the block cache answered.",
       c.hits},
      {"perdure.block-cache-misses", "block_cache_misses_total", "Keys that it did not know.",
       c.misses},
      {"perdure.block-cache-locked", "block_cache_locked_total",
       "Of those, keys whose set was being written.", c.locked},
      {"perdure.block-cache-inserted", "block_cache_inserted_total", "Answers that it took.",
       c.inserted},
      {"perdure.block-cache-refused", "block_cache_refused_total",
       "Answers that were read less than what their sets hold.", c.refused},
      {"perdure.block-cache-evicted", "block_cache_evicted_total", "Answers that gave way.",
       c.evicted},
      {"perdure.block-cache-invalidated", "block_cache_invalidated_total",
       "Answers that a flush made old.", c.invalidated},
      {"perdure.block-cache-epochs", "block_cache_epochs_total",
       "Times when all answers became old at once.", c.epochs},
  };
}

}  // namespace

std::vector<Metric> metrics_of(DatabaseParts const& parts) {
  std::vector<Metric> all = of_tables(parts);
  std::vector<Metric> const cache = of_cache(parts);
  all.insert(all.end(), cache.begin(), cache.end());
  return all;
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
