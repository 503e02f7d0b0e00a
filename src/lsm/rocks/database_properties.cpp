// What the database says of itself: RocksDB's properties and sizes with the memtables in them, and
// properties of Perdure's own.
#include <algorithm>
#include <string>

#include "lsm/rocks/database.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

/// Entries of a family's memtables in a range, and bytes by the average entry. Versions count each.
struct InTables {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

InTables in_tables(Engine& engine, View const& view, std::uint32_t family,
                   rocksdb::Range const* range) {
  InTables all;
  for (RunPtr const& run : view.runs(family)) {
    std::uint64_t entries = run->count();
    if (range != nullptr) {
      std::string const both = range->start.ToString() + range->limit.ToString();
      std::int64_t const offsets[] = {0, static_cast<std::int64_t>(range->start.size()),
                                      static_cast<std::int64_t>(both.size())};
      std::uint32_t positions[2] = {};
      Column const bounds{as_bytes(both.data()), offsets, 0, 2, MemorySpace::host};
      if (!engine.seek(*run, bounds, Bound::lower, positions).ok()) continue;
      entries = positions[1] > positions[0] ? positions[1] - positions[0] : 0;
    }
    all.entries += entries;
  }
  std::uint64_t bytes = 0, requests = 0;
  for (auto const& generation : view.generations) {
    bytes += generation->bytes;
    requests += generation->requests;
  }
  all.bytes = requests == 0 ? 0 : all.entries * bytes / requests;
  return all;
}

constexpr char kEstimatedKeys[] = "rocksdb.estimate-num-keys";

}  // namespace

bool Database::own_property(Slice const& property, std::uint64_t* value) const {
  Counters const& counters = *parts_.counters;
  struct Named {
    char const* name;
    std::uint64_t value;
  };
  Named const all[] = {
      {"perdure.table-batches", counters.table_batches},
      {"perdure.table-operations", counters.table_operations},
      {"perdure.passed-through", counters.passed_through},
      {"perdure.table-hits", counters.table_hits},
      {"perdure.table-misses", counters.table_misses},
      {"perdure.flushed-generations", counters.flushed_generations},
      {"perdure.flushed-entries", counters.flushed_entries},
      {"perdure.writer-waits", counters.writer_waits},
      {"perdure.writer-wait-micros", counters.writer_wait_micros},
      {"perdure.ingest-waits", counters.ingest_waits},
      {"perdure.recovered-generations", counters.recovered_generations},
      {"perdure.recovered-requests", counters.recovered_requests},
      {"perdure.block-cache-bytes", parts_.cache == nullptr ? 0 : parts_.cache->bytes()},
      {"perdure.block-cache-hits", counters.cache.hits},
      {"perdure.block-cache-misses", counters.cache.misses},
      {"perdure.block-cache-locked", counters.cache.locked},
      {"perdure.block-cache-inserted", counters.cache.inserted},
      {"perdure.block-cache-refused", counters.cache.refused},
      {"perdure.block-cache-evicted", counters.cache.evicted},
      {"perdure.block-cache-invalidated", counters.cache.invalidated},
      {"perdure.block-cache-epochs", counters.cache.epochs},
      {"perdure.sealed-generations", parts_.tables->sealed_generations()},
      {"perdure.threshold", parts_.writer->threshold()},
      {"perdure.memtables", parts_.tables->any() ? 1u : 0u},
  };
  for (Named const& one : all) {
    if (property != one.name) continue;
    *value = one.value;
    return true;
  }
  return false;
}

bool Database::GetProperty(CF* cf, Slice const& property, std::string* value) {
  std::uint64_t number = 0;
  if (property == "perdure.device") {
    *value = parts_.engine->describe();
    return true;
  }
  if (own_property(property, &number) ||
      (property == kEstimatedKeys && GetIntProperty(cf, property, &number))) {
    *value = std::to_string(number);
    return true;
  }
  return db_->GetProperty(cf, property, value);
}

bool Database::GetIntProperty(CF* cf, Slice const& property, uint64_t* value) {
  if (own_property(property, value)) return true;
  if (!db_->GetIntProperty(cf, property, value)) return false;
  if (property == kEstimatedKeys)
    *value += in_tables(*parts_.engine, *parts_.tables->view(), cf->GetID(), nullptr).entries;
  return true;
}

bool Database::GetAggregatedIntProperty(Slice const& property, uint64_t* value) {
  if (!db_->GetAggregatedIntProperty(property, value)) return false;
  if (property != kEstimatedKeys) return true;
  ViewPtr const view = parts_.tables->view();
  for (View::FamilyRuns const& one : view->families)
    *value += in_tables(*parts_.engine, *view, one.family, nullptr).entries;
  return true;
}

rocksdb::Status Database::GetApproximateSizes(rocksdb::SizeApproximationOptions const& o, CF* cf,
                                              rocksdb::Range const* ranges, int n,
                                              uint64_t* sizes) {
  Status const s = db_->GetApproximateSizes(o, cf, ranges, n, sizes);
  if (!s.ok() || !o.include_memtables) return s;
  ViewPtr const view = parts_.tables->view();
  for (int i = 0; i < n; ++i)
    sizes[i] += in_tables(*parts_.engine, *view, cf->GetID(), &ranges[i]).bytes;
  return s;
}

void Database::GetApproximateMemTableStats(CF* cf, rocksdb::Range const& range,
                                           uint64_t* const count, uint64_t* const size) {
  db_->GetApproximateMemTableStats(cf, range, count, size);
  InTables const ours = in_tables(*parts_.engine, *parts_.tables->view(), cf->GetID(), &range);
  *count += ours.entries;
  *size += ours.bytes;
}

}  // namespace perdure::lsm
