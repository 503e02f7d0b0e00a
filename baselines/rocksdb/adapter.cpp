// The RocksDB side of the comparison, set as its fastest in-memory form allows: no write-ahead log,
// no compression, no checksum on reads, everything on tmpfs. Which memtable and table format are
// used is the caller's choice; bench/rocksdb_main.cpp names the ones that were tried.
//
// Compiled against RocksDB's headers with the flags of the library it is linked to; nothing of C++
// leaves this file.
#include "adapter.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

namespace {

thread_local std::string last_error;

int failed(std::string message) {
  last_error = std::move(message);
  return 1;
}

int result_of(rocksdb::Status const& status) { return status.ok() ? 0 : failed(status.ToString()); }

/// DB::Open() fills in a plain pointer up to RocksDB 10, and its owner from 11.0 on.
template <class Db>
rocksdb::Status open(std::unique_ptr<Db>& db, rocksdb::Options const& options,
                     char const* directory) {
  Db* plain = nullptr;
  if constexpr (requires { Db::Open(options, directory, &plain); }) {
    rocksdb::Status status = Db::Open(options, directory, &plain);
    db.reset(plain);
    return status;
  } else {
    return Db::Open(options, directory, &db);
  }
}

bool uses_prefixes(BaselineRocksdbOptions const& o) {
  return std::strncmp(o.memtable, "hash", 4) == 0 || std::strcmp(o.table, "plain") == 0;
}

// Records that one memtable can hold, at most those expected.
size_t memtable_records(BaselineRocksdbOptions const& o) {
  return std::min(o.expected_records, o.write_buffer_bytes / (o.key_bytes + o.value_bytes));
}

// Null for an unknown name.
std::shared_ptr<rocksdb::MemTableRepFactory> memtable_for(BaselineRocksdbOptions const& o) {
  std::string const name = o.memtable;
  auto const owned = [](rocksdb::MemTableRepFactory* f) {
    return std::shared_ptr<rocksdb::MemTableRepFactory>(f);
  };
  if (name == "skiplist") return std::make_shared<rocksdb::SkipListFactory>();
  if (name == "vector") return std::make_shared<rocksdb::VectorRepFactory>(memtable_records(o));
  if (name == "hash_skiplist")
    return owned(rocksdb::NewHashSkipListRepFactory(memtable_records(o)));
  if (name == "hash_linklist")
    return owned(rocksdb::NewHashLinkListRepFactory(memtable_records(o), 0, 0, false));
  return nullptr;
}

std::shared_ptr<rocksdb::TableFactory> block_table(BaselineRocksdbOptions const& o) {
  rocksdb::BlockBasedTableOptions t;
  t.block_size = 4096;
  t.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  t.data_block_hash_table_util_ratio = 0.75;
  t.format_version = 5;
  t.checksum = rocksdb::kXXH3;
  if (o.bloom_bits > 0) t.filter_policy.reset(rocksdb::NewBloomFilterPolicy(o.bloom_bits));
  if (o.mmap_reads != 0) {
    t.no_block_cache = true;  // a mapped block needs no second copy
  } else {
    t.block_cache =
        rocksdb::NewLRUCache(2 * o.expected_records * (o.key_bytes + o.value_bytes + 16), 6);
  }
  return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory(t));
}

std::shared_ptr<rocksdb::TableFactory> table_for(BaselineRocksdbOptions const& o) {
  std::string const name = o.table;
  if (name == "block") return block_table(o);
  if (name == "cuckoo") {
    rocksdb::CuckooTableOptions t;
    t.use_module_hash = false;
    return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewCuckooTableFactory(t));
  }
  if (name == "plain") {
    rocksdb::PlainTableOptions t;
    t.user_key_len = o.key_bytes;
    t.bloom_bits_per_key = static_cast<int>(o.bloom_bits);
    t.hash_table_ratio = 0.75;
    t.index_sparseness = 1;
    return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewPlainTableFactory(t));
  }
  return nullptr;
}

rocksdb::Options options_for(BaselineRocksdbOptions const& o) {
  rocksdb::Options r;
  r.create_if_missing = true;
  r.error_if_exists = true;
  r.compression = rocksdb::kNoCompression;
  r.bottommost_compression = rocksdb::kNoCompression;
  // the other two formats need it
  r.allow_mmap_reads = o.mmap_reads != 0 || std::strcmp(o.table, "block") != 0;
  r.use_fsync = false;
  r.max_open_files = -1;
  r.skip_stats_update_on_db_open = true;
  r.stats_dump_period_sec = 0;
  r.stats_persist_period_sec = 0;
  r.paranoid_file_checks = false;
  r.IncreaseParallelism(static_cast<int>(o.threads));
  // Loading: memtables are as large as asked for, and compaction waits for settle().
  r.write_buffer_size = o.write_buffer_bytes;
  r.max_write_buffer_number = static_cast<int>(o.write_buffers);
  r.min_write_buffer_number_to_merge = 1;
  r.arena_block_size = 64u << 20;
  r.memtable_factory = memtable_for(o);
  r.allow_concurrent_memtable_write =
      r.memtable_factory && r.memtable_factory->IsInsertConcurrentlySupported();
  r.enable_pipelined_write = false;
  r.unordered_write = o.unordered_write != 0 && r.allow_concurrent_memtable_write;
  r.disable_auto_compactions = true;
  r.level0_slowdown_writes_trigger = 1 << 20;
  r.level0_stop_writes_trigger = 1 << 20;
  r.soft_pending_compaction_bytes_limit = 0;
  r.hard_pending_compaction_bytes_limit = 0;
  r.target_file_size_base = 256u << 20;
  r.max_subcompactions = o.threads;
  r.table_factory = table_for(o);
  if (uses_prefixes(o)) r.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(o.key_bytes));
  return r;
}

}  // namespace

struct BaselineRocksdb {
  std::unique_ptr<rocksdb::DB> db;
  BaselineRocksdbOptions options;
};

const char* baseline_rocksdb_version(void) {
  static std::string const version = std::to_string(ROCKSDB_MAJOR) + "." +
                                     std::to_string(ROCKSDB_MINOR) + "." +
                                     std::to_string(ROCKSDB_PATCH);
  return version.c_str();
}

const char* baseline_rocksdb_error(void) { return last_error.c_str(); }

BaselineRocksdb* baseline_rocksdb_open(const BaselineRocksdbOptions* options, char* error,
                                       size_t error_size) {
  rocksdb::Options const r = options_for(*options);
  if (!r.memtable_factory || !r.table_factory) {
    std::snprintf(error, error_size, "no such memtable or table: %s, %s", options->memtable,
                  options->table);
    return nullptr;
  }
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::Status const status = open(db, r, options->directory);
  if (!status.ok()) {
    std::snprintf(error, error_size, "%s", status.ToString().c_str());
    return nullptr;
  }
  return new BaselineRocksdb{std::move(db), *options};
}

void baseline_rocksdb_close(BaselineRocksdb* store) { delete store; }

int baseline_rocksdb_put(BaselineRocksdb* store, const char* keys, const char* values, size_t count,
                         size_t batch) {
  size_t const key_bytes = store->options.key_bytes;
  size_t const value_bytes = store->options.value_bytes;
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  rocksdb::WriteBatch puts(batch * (key_bytes + value_bytes + 8));
  for (size_t first = 0; first < count; first += batch) {
    size_t const end = std::min(first + batch, count);
    puts.Clear();
    for (size_t i = first; i < end; ++i) {
      rocksdb::Slice const key(keys + i * key_bytes, key_bytes);
      rocksdb::Slice const value(values + i * value_bytes, value_bytes);
      if (auto s = puts.Put(key, value); !s.ok()) return result_of(s);
    }
    if (auto s = store->db->Write(write, &puts); !s.ok()) return result_of(s);
  }
  return 0;
}

int baseline_rocksdb_get(BaselineRocksdb* store, const char* keys, size_t count, size_t batch,
                         char* values, unsigned char* found) {
  size_t const key_bytes = store->options.key_bytes;
  size_t const value_bytes = store->options.value_bytes;
  rocksdb::ReadOptions read;
  read.verify_checksums = false;
  std::vector<rocksdb::Slice> slices(batch);
  std::vector<rocksdb::PinnableSlice> pinned(batch);
  std::vector<rocksdb::Status> statuses(batch);
  auto* const family = store->db->DefaultColumnFamily();
  for (size_t first = 0; first < count; first += batch) {
    size_t const n = std::min(batch, count - first);
    for (size_t i = 0; i < n; ++i)
      slices[i] = rocksdb::Slice(keys + (first + i) * key_bytes, key_bytes);
    store->db->MultiGet(read, family, n, slices.data(), pinned.data(), statuses.data());
    for (size_t i = 0; i < n; ++i) {
      found[first + i] = statuses[i].ok() ? 1 : 0;
      if (statuses[i].IsNotFound()) continue;
      if (!statuses[i].ok()) return result_of(statuses[i]);
      if (pinned[i].size() != value_bytes)
        return failed("a value has " + std::to_string(pinned[i].size()) + " bytes");
      std::memcpy(values + (first + i) * value_bytes, pinned[i].data(), value_bytes);
      pinned[i].Reset();
    }
  }
  return 0;
}

int baseline_rocksdb_scan(BaselineRocksdb* store, const char* from, size_t most, char* keys,
                          char* values, size_t* count) {
  size_t const key_bytes = store->options.key_bytes;
  size_t const value_bytes = store->options.value_bytes;
  std::unique_ptr<rocksdb::Iterator> const at(store->db->NewIterator(rocksdb::ReadOptions()));
  size_t n = 0;
  for (at->Seek(rocksdb::Slice(from, key_bytes)); n < most && at->Valid(); at->Next(), ++n) {
    if (at->key().size() != key_bytes || at->value().size() != value_bytes)
      return failed("a pair is of other sizes");
    std::memcpy(keys + n * key_bytes, at->key().data(), key_bytes);
    std::memcpy(values + n * value_bytes, at->value().data(), value_bytes);
  }
  *count = n;
  return result_of(at->status());
}

int baseline_rocksdb_settle(BaselineRocksdb* store, BaselineSettle how) {
  if (how == BASELINE_SETTLE_NOTHING) return 0;
  if (int const bad = result_of(store->db->Flush(rocksdb::FlushOptions())); bad != 0) return bad;
  if (how == BASELINE_SETTLE_FLUSH) return 0;
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  compact.max_subcompactions = store->options.threads;
  return result_of(store->db->CompactRange(compact, nullptr, nullptr));
}
