/* RocksDB behind eight C functions, in a shared object of its own: the Release build of RocksDB has
 * another C++ ABI than this program (no RTTI, strings of before GCC 5), and no C++ type may cross.
 *
 * Keys and values are of fixed width and lie one after another. Every call that can fail returns 0
 * when it succeeds; otherwise it fills the store's error text. Calls on one store from several
 * threads are allowed, but for open, settle and close. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BaselineRocksdb BaselineRocksdb;

typedef struct {
  const char* directory; /* made anew; must not exist */
  const char* memtable; /* skiplist, vector, hash_skiplist or hash_linklist */
  const char* table; /* block, plain or cuckoo */
  uint64_t write_buffer_bytes; /* of one memtable */
  uint32_t write_buffers; /* memtables at most, the ones being flushed included */
  uint64_t expected_records; /* sizes the hash memtables and the block cache */
  uint32_t key_bytes;
  uint32_t value_bytes;
  uint32_t threads; /* background threads for flushes and compactions */
  uint32_t mmap_reads; /* 1: read tables through a mapping; 0: through the block cache */
  uint32_t bloom_bits; /* a key; 0 = no filter */
  uint32_t unordered_write; /* 1: writers do not wait for each other's order */
} BaselineRocksdbOptions;

/* What puts left behind is brought into the form that reads are fastest on. */
typedef enum {
  BASELINE_SETTLE_NOTHING = 0,
  BASELINE_SETTLE_FLUSH = 1,
  BASELINE_SETTLE_COMPACT = 2
} BaselineSettle;

/* For example "7.8.3", of the headers that this adapter was compiled against. */
const char* baseline_rocksdb_version(void);

/* NULL on failure, with the reason in `error` (cut to error_size). */
BaselineRocksdb* baseline_rocksdb_open(const BaselineRocksdbOptions* options, char* error,
                                       size_t error_size);
void baseline_rocksdb_close(BaselineRocksdb* store);

/* WriteBatches of `batch` puts each, write-ahead log off. */
int baseline_rocksdb_put(BaselineRocksdb* store, const char* keys, const char* values, size_t count,
                         size_t batch);

/* MultiGets of `batch` keys each. Value i is copied to values + i*value_bytes, and found[i] is 1 or
 * 0. A value of another size than value_bytes is an error. */
int baseline_rocksdb_get(BaselineRocksdb* store, const char* keys, size_t count, size_t batch,
                         char* values, unsigned char* found);

/* At most `most` keys and their values, from `from` on, by an iterator of its own. */
int baseline_rocksdb_scan(BaselineRocksdb* store, const char* from, size_t most, char* keys,
                          char* values, size_t* count);

int baseline_rocksdb_settle(BaselineRocksdb* store, BaselineSettle how);

/* Of the last call on this thread that failed. */
const char* baseline_rocksdb_error(void);

#ifdef __cplusplus
}
#endif
