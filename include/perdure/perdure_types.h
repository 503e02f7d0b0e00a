// The numbers and structures of perdure/perdure.h, which includes this file and says how structures
// grow. In C11 and in C++.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef enum perdure_code {
  PERDURE_OK = 0,
  PERDURE_INVALID_ARGUMENT = 1,  // the caller asked for something that cannot be
  PERDURE_NOT_FOUND = 2,  // no such pool
  PERDURE_ALREADY_EXISTS = 3,  // a pool is there already
  PERDURE_BUSY = 4,  // opened for writing elsewhere
  PERDURE_NO_SPACE = 5,  // the medium or the pool's max_bytes is full, or the engine lacks memory
  PERDURE_LOCKED_MEMORY = 6,  // RLIMIT_MEMLOCK or the driver refuses to pin the pool
  PERDURE_CORRUPT = 7,  // truncated, of a foreign format, or a checksum does not match
  PERDURE_UNSUPPORTED = 8,  // this build, machine or medium cannot do it
  PERDURE_IO_ERROR = 9,  // the operating system failed
  PERDURE_DEVICE_ERROR = 10,  // the GPU failed
  PERDURE_CLOSED = 11,  // the store was closed, or failed earlier and refuses further writes
  PERDURE_STOPPED = 12,  // the caller stopped the call before its end
  PERDURE_OUT_OF_MEMORY = 1000,  // for this interface's own objects: the call changed nothing
  PERDURE_INTERNAL_ERROR = 1001  // a bug in Perdure
} perdure_code;

// ---- Values that the numbers below may have ----

enum perdure_device { PERDURE_DEVICE_CPU = 0, PERDURE_DEVICE_CUDA = 1 };
/// What finds keys: see Index in perdure/options.h.
enum perdure_index {
  PERDURE_INDEX_GPHASH = 0,
  PERDURE_INDEX_DASH_EH = 1,
  PERDURE_INDEX_DASH_LH = 2,
  PERDURE_INDEX_BTREE = 3
};
/// Which of two keys of a btree comes first. Integers are little-endian, of 1, 2, 4 or 8 bytes.
enum perdure_key_order {
  PERDURE_KEY_ORDER_BYTES = 0,
  PERDURE_KEY_ORDER_UNSIGNED_INTEGER = 1,
  PERDURE_KEY_ORDER_SIGNED_INTEGER = 2
};
/// Where a btree keeps its records.
enum perdure_values_in { PERDURE_VALUES_HEAP = 0, PERDURE_VALUES_LOG = 1 };
/// What of a btree is durable.
enum perdure_persist {
  PERDURE_PERSIST_MINIMAL = 0,
  PERDURE_PERSIST_INDEX = 1,
  PERDURE_PERSIST_FULL = 2
};
enum perdure_layout {
  PERDURE_LAYOUT_WORD = 0,
  PERDURE_LAYOUT_IN_PLACE = 1,
  PERDURE_LAYOUT_LOG = 2
};
enum perdure_durability {
  PERDURE_DURABILITY_NONE = 0,
  PERDURE_DURABILITY_PROCESS = 1,
  PERDURE_DURABILITY_POWER = 2
};
enum perdure_residency {
  PERDURE_RESIDENCY_AUTOMATIC = 0,
  PERDURE_RESIDENCY_PM = 1,
  PERDURE_RESIDENCY_MIRRORED = 2
};
enum perdure_gets_by {
  PERDURE_GETS_BY_AUTOMATIC = 0,
  PERDURE_GETS_BY_DEVICE = 1,
  PERDURE_GETS_BY_HOST = 2,
  PERDURE_GETS_BY_BOTH = 3,
  PERDURE_GETS_BY_MEASURED = 4
};
enum perdure_memory_space { PERDURE_MEMORY_HOST = 0, PERDURE_MEMORY_DEVICE = 1 };
/// How one key of a batch fared.
enum perdure_key_status {
  PERDURE_KEY_OK = 0,
  PERDURE_KEY_NOT_FOUND = 1,  // get, update and erase: no such key
  PERDURE_KEY_SIZE_MISMATCH = 2,  // operand, or row, and stored value differ in length
  PERDURE_KEY_CORRUPT = 3,  // the stored record fails its checksum; it was left alone
  PERDURE_KEY_NO_SPACE = 4,  // put and update: the pool could not grow; the old value stands
  PERDURE_KEY_TOO_LARGE = 5,  // key or value longer than the pool allows
  PERDURE_KEY_NOT_TRIED = 6  // the call was stopped, or failed, before it came to this key
};
enum perdure_operation {
  PERDURE_OPERATION_GET = 0,
  PERDURE_OPERATION_PUT = 1,
  PERDURE_OPERATION_ERASE = 2,
  PERDURE_OPERATION_UPDATE = 3
};
/// Read-modify-write on values seen as arrays of one element type, element by element. Integers
/// wrap.
enum perdure_rmw {
  PERDURE_RMW_REPLACE = 0,
  PERDURE_RMW_ADD = 1,
  PERDURE_RMW_MIN = 2,
  PERDURE_RMW_MAX = 3
};
enum perdure_element {
  PERDURE_ELEMENT_U8 = 0,
  PERDURE_ELEMENT_I32 = 1,
  PERDURE_ELEMENT_U32 = 2,
  PERDURE_ELEMENT_I64 = 3,
  PERDURE_ELEMENT_U64 = 4,
  PERDURE_ELEMENT_F32 = 5,
  PERDURE_ELEMENT_F64 = 6
};
enum perdure_medium {
  PERDURE_MEDIUM_TMPFS = 0,
  PERDURE_MEDIUM_HUGETLBFS = 1,
  PERDURE_MEDIUM_MEMFD = 2,
  PERDURE_MEDIUM_FILE = 3
};
/// On whose word a store survives something.
enum perdure_basis {
  PERDURE_BASIS_NONE = 0,
  PERDURE_BASIS_DECLARED = 1,  // the platform's
  PERDURE_BASIS_ASSERTED = 2,  // the user's
  PERDURE_BASIS_EMULATED = 3  // an emulator's
};

// ---- Objects, of which callers have addresses ----

typedef struct perdure_error perdure_error;
typedef struct perdure_store perdure_store;
typedef struct perdure_transaction perdure_transaction;
typedef struct perdure_table perdure_table;
/// Tells calls, from any thread, to end early.
typedef struct perdure_stop perdure_stop;
/// Byte strings of varying length, owned: element i is data[offsets[i] .. offsets[i+1]); empty if
/// absent.
typedef struct perdure_strings perdure_strings;
/// Where a scan or a range stands. It belongs to no store, but goes on in the one that it began
/// with.
typedef struct perdure_cursor perdure_cursor;
/// Some records, keys and values side by side.
typedef struct perdure_page perdure_page;
/// Lines of text, owned.
typedef struct perdure_lines perdure_lines;
/// The machines that this build and this computer offer.
typedef struct perdure_devices perdure_devices;

// ---- Options ----

/// What a pool is to be: see CreateOptions in perdure/options.h. Flags are 0 or 1.
typedef struct perdure_create_options {
  size_t struct_bytes;
  uint64_t expected_records;  // sizes the first levels; the table grows past it
  uint64_t max_bytes;  // the pool file never grows past this; 0 = as the medium allows
  uint32_t key_bytes;  // fixed, 1 to 128; 0 = variable length
  uint32_t value_bytes;  // fixed, from 1 on; 0 = variable length
  uint32_t index;  // enum perdure_index
  uint32_t key_order;  // enum perdure_key_order; index btree alone
  uint32_t values_in;  // enum perdure_values_in; index btree alone
  uint32_t persist;  // enum perdure_persist; index btree alone
  uint32_t layout;  // enum perdure_layout
  uint32_t durability;  // enum perdure_durability
  uint32_t overwrite;  // flag: replace a pool that is there (of durability power, its log too)
  uint32_t force;  // flag: replace whatever file is there
  uint32_t mode;  // permission bits of the file; 0 = 0600
  uint32_t reserved;  // 0
  char const* log_dir;  // durability power: a directory on a disk; else NULL
  uint64_t log_bytes;  // durability power: size of the log
} perdure_create_options;

/// How this process works with a pool: see OpenOptions in perdure/options.h. Flags are 0 or 1.
typedef struct perdure_open_options {
  size_t struct_bytes;
  uint32_t read_only;  // flag
  uint32_t live;  // flag: look at a pool that another process has open for writing
  uint32_t repair;  // flag: mend a pool that is damaged, or go on without what a damaged log lost
  uint32_t device;  // enum perdure_device
  uint32_t threads;  // CPU workers; 0 = one a core
  uint32_t verify_reads;  // flag, 1 by default: check each record's CRC-32C on get
  uint32_t count_accesses;  // flag: count PM reads, PM writes and ordering points (slower)
  uint32_t lock_memory;  // flag: mlock the pool
  uint32_t grow;  // flag, 1 by default; 0: a full table reports no_space
  uint32_t residency;  // enum perdure_residency
  uint32_t gets_by;  // enum perdure_gets_by
  uint32_t expect_key_bytes;  // a pool of other sizes does not open; 0 = any
  uint32_t expect_value_bytes;
  uint32_t collectors;  // values in logs: threads that collect segments
  uint64_t most_queued;  // values in logs: segments that may wait for them before writers do
  uint64_t memory_budget_bytes;  // of the device's memory; 0 = 7/8 of what is free
  char const* log_dir;  // of a pool of durability power; else NULL
} perdure_open_options;

/// What a pool made from a snapshot is to be. Sizes, index and layout are the snapshot's.
typedef struct perdure_restore_options {
  size_t struct_bytes;
  uint32_t set_durability;  // flag: `durability` counts; else it is as the snapshot's pool had it
  uint32_t durability;  // enum perdure_durability
  uint32_t overwrite;
  uint32_t force;
  uint32_t mode;
  uint32_t reserved;  // 0
  char const* log_dir;
  uint64_t log_bytes;
} perdure_restore_options;

/// What a file that a call writes may replace, and whose it is.
typedef struct perdure_file_options {
  size_t struct_bytes;
  uint32_t overwrite;
  uint32_t force;
  uint32_t mode;
  uint32_t reserved;  // 0
} perdure_file_options;

typedef struct perdure_transaction_options {
  size_t struct_bytes;
  uint64_t max_operations;  // of all its batches; room for them is made when it begins
  uint32_t revertible;  // 1: perdure_revert can take it back
  uint32_t reserved;  // 0
} perdure_transaction_options;

typedef struct perdure_call_options {
  size_t struct_bytes;
  perdure_transaction* transaction;  // the call belongs to this one; NULL = none
  perdure_stop const* stop;  // NULL = none
  void* stream;  // a cudaStream_t, whose work so far comes before the call; NULL = the default one
  uint8_t* device_statuses;  // gets: also put here, one per key, in memory of the GPU; NULL = no
  uint32_t atomic;  // flag, of writes: all of the batch or none of it, whatever happens
  uint32_t reserved;  // 0
} perdure_call_options;

// ---- Batches ----

/// Byte strings, which stay the caller's. Fixed width: element i is the `width` bytes at data +
/// i*width, and `offsets` is NULL. Variable width (Arrow's large-binary shape): element i is
/// data[offsets[i] .. offsets[i+1]) and `width` is 0; offsets are in host memory, count + 1 of
/// them. No alignment is asked of `data`.
typedef struct perdure_column {
  void const* data;
  int64_t const* offsets;
  size_t count;
  uint32_t width;
  uint32_t space;  // enum perdure_memory_space
} perdure_column;

/// A caller's array that receives fixed-width values: element i goes to data + i*width. Elements
/// whose key is absent are left as they were; of a corrupt record, an element may hold anything.
typedef struct perdure_mutable_column {
  void* data;
  size_t count;
  uint32_t width;
  uint32_t space;  // enum perdure_memory_space
} perdure_mutable_column;

/// A mixed batch. Operations on one key take effect in array order; different keys are independent.
typedef struct perdure_mixed_batch {
  size_t struct_bytes;
  perdure_column keys;
  uint8_t const* kinds;  // enum perdure_operation, one per key, host memory
  perdure_column values;  // of puts and updates; gets and erases ignore theirs
  perdure_mutable_column out;  // results of the gets; fixed-width pools only
  uint32_t rmw;  // what `update` does in this batch
  uint32_t element;
} perdure_mixed_batch;

/// Ids of several named tables, those of one after those of the other, in host memory. Rows that go
/// with them lie in the same order without gaps, as many bytes each as their table's rows have.
typedef struct perdure_table_batch {
  size_t struct_bytes;
  perdure_table const* const* tables;
  size_t table_count;
  int64_t const* ids;
  size_t count;
  // table_count + 1 numbers that rise from 0 to count: ids from offsets[t] on, up to offsets[t +
  // 1], are of tables[t]; NULL: of the one table
  int64_t const* offsets;
} perdure_table_batch;

/// Records with keys in [start, end), in the order of keys, of index btree. A bound is a key; among
/// fixed keys in the order of bytes a shorter one may be, too.
typedef struct perdure_range_query {
  size_t struct_bytes;
  void const* start;  // NULL = from the least key on; an empty key has an address all the same
  size_t start_bytes;
  void const* end;  // is not in it; NULL = up to the greatest key
  size_t end_bytes;
  uint32_t after_start;  // flag: without `start` itself
  uint32_t reverse;  // flag: the greatest key first
} perdure_range_query;

// ---- Reports ----

/// See Stats in perdure/reports.h.
typedef struct perdure_stats {
  size_t struct_bytes;
  uint64_t records;
  uint64_t slots;
  double load_factor;  // records / slots
  uint64_t growths;  // since open
  uint64_t units_left;  // of the table, that a growth under way has still to move
  uint64_t batches;  // since open
  uint64_t pm_reads;  // zero unless count_accesses, as the next three
  uint64_t pm_writes;
  uint64_t orders;
  uint64_t cache_hits;
  uint64_t pool_bytes;  // size of the pool; while it is open its file may be longer
  uint64_t used_bytes;  // of it
  uint64_t mirror_bytes;  // of the device's memory
  uint64_t index_bytes;  // of ordinary memory, that a btree takes
  uint64_t log_used_bytes;  // durability power: not yet covered by both checkpoints
  uint64_t checkpoints;  // durability power: since open
  uint64_t value_log_used_bytes;  // values in logs: outdated ones among them
  uint64_t value_log_outdated_bytes;
  uint32_t key_bytes;
  uint32_t value_bytes;
  uint32_t max_key_bytes;
  uint32_t max_value_bytes;
  uint32_t index;  // enum perdure_index
  uint32_t layout;  // enum perdure_layout
  uint32_t device;  // enum perdure_device
  uint32_t medium;  // enum perdure_medium
  uint32_t damaged;  // flag, of a Dash index: `records` lacks some; perdure_verify() says more
  uint32_t reserved;
} perdure_stats;

/// What the store's acknowledged operations outlive, and on whose word. Flags are 0 or 1.
typedef struct perdure_survival {
  size_t struct_bytes;
  uint32_t kernel_abort;
  uint32_t process_kill;
  uint32_t gpu_reset;
  uint32_t os_crash;
  uint32_t power_loss;
  uint32_t basis;  // enum perdure_basis
  char description[128];  // for example "kernel abort, process kill, GPU reset (declared)"
} perdure_survival;

/// What the opening found: see RecoveryReport in perdure/reports.h.
typedef struct perdure_recovery {
  size_t struct_bytes;
  uint64_t records;  // reachable after recovery
  uint64_t dropped;  // slots cleared, or pointing outside any record
  uint64_t undone;  // of a transaction that had not committed: slots set back, or, in layout log,
                    // operations dropped
  uint64_t duplicates;  // second copies of one record removed
  uint64_t replayed;  // durability power: batches taken from the log
  double recover_seconds;
  uint32_t clean;  // flag: the pool was closed cleanly
  uint32_t counted;  // flag; 0: `records` not yet, of a large Dash index
  uint32_t resize_resumed;  // flag
  uint32_t repaired;  // flag: see perdure_acknowledge_repair()
  uint32_t lost_acknowledged;  // flag: by a repair, without what a damaged log had held
  uint32_t reserved;
} perdure_recovery;

typedef struct perdure_verification {
  size_t struct_bytes;
  uint64_t records;  // whose checksum, key and slot in the index agree
  uint64_t dropped;  // what recovery dropped when this store was opened
  uint64_t fault_count;
} perdure_verification;

#if defined(__cplusplus)
}
#endif
