// What the records of the Python package say of themselves: NumPy-style docstrings, an attribute a
// field. Invariant: a record's docstring lists its fields, all of them and in their order
// (python/tests/test_docs.py).
#include "records.hpp"

#include <string_view>

namespace perdure::python {

namespace {

constexpr char const* kKeyStatus = R"(How a key of a batch fared; one a key, as uint8.

Attributes
----------
ok
    The operation took effect.
not_found
    The key is absent, which is no error. (`perdure.NotFound` is another thing: there is no such
    pool.)
size_mismatch
    Operand, or row, and stored value differ in length.
corrupt
    Its record fails its checksum, and was left alone.
no_space
    The pool could not grow; the old value stands.
too_large
    Key or value is too long for this pool.
not_tried
    The call was stopped, or failed, before it came to this key.
)";

constexpr char const* kSurvival =
    R"(Which events acknowledged operations outlive, and on whose word.

Attributes
----------
kernel_abort, process_kill, gpu_reset, os_crash, power_loss : bool
basis : Basis
    How that is known: declared of the medium, asserted by who runs it, emulated by a log on a disk.
description : str
    All of it in words.
)";

constexpr char const* kRecoveryReport = R"(What opening a pool found.

Attributes
----------
clean : bool
    The pool was closed cleanly.
resize_resumed : bool
    A growth that was cut short goes on.
records : int
    Reachable after recovery.
counted : bool
    False where `records` is not counted yet: of a large Dash index that was not closed in order.
dropped : int
    Slots cleared (half inserted, or by a repair), or pointing outside any record.
duplicates : int
    Second copies of one record removed.
why_dropped : str
    Empty where nothing was dropped.
repaired : bool
    By `perdure.open(..., repair=True)`, for the pool was damaged: see `Store.acknowledge_repair`.
changes : list of str
    What recovery or repair changed, naming slot and file offset; at most 100.
undone : int
    Slots set back, for a transaction that had not committed; its step counts as one. Layout
    "log": operations dropped.
replayed : int
    Durability "power": batches taken from the log.
lost_acknowledged : bool
    Durability "power": the log is damaged before a place that it once had reached.
log_report : str
    Durability "power": which image was used, where the log ended and why.
replay_seconds, map_seconds, recover_seconds : float
)";

constexpr char const* kVerifyReport = R"(What checking every record found.

Attributes
----------
records : int
    Those whose checksum, key and place in the index agree.
dropped : int
    What recovery dropped when the store was opened.
faults : list of str
    Naming slot and file offset; at most 100.
fault_count : int
    All of them.
)";

constexpr char const* kDeviceInfo = R"(A machine that batches can run on.

Attributes
----------
device : Device
    Its kind, as `device=` names it.
available : bool
    This build and this computer have it.
description : str
why_not : str
    Empty where it is available.
)";

constexpr char const* kAccessCounts =
    R"(Accesses since open or `Store.reset_counts`; zero without `Options.count_accesses`.

Attributes
----------
pm_reads : int
    Bucket rows and records touched; of a Dash index, cache lines.
pm_writes : int
    Records and slot words written; of a Dash index, cache lines.
orders : int
    Ordering points.
cache_hits : int
    Gets that the record cache answered, or whose key the bucket cache found.
)";

constexpr char const* kGatherSize =
    R"(How gets of a mirrored store fetch values, of batches of one size, measured while running
(`Options.gather` "automatic"). Sizes below 1,024 keys take values as they come.

Attributes
----------
batch : int
    Keys: from here to twice as many.
by : Gather
    The way that stays: "at_once", "in_order", "by_host" or "shared".
to_host : bool
    Of a GPU's gets into arrays in host memory; "by_host" then copies values straight into them.
at_once_us, in_order_us, by_host_us, shared_us : float
    A batch of `batch` keys, in microseconds, as each way took last; 0 where it was not tried.
contests : int
    Comparisons of two ways that have ended.
learning : bool
    Whether some way has not been tried yet.
)";

constexpr char const* kSharedSize =
    R"(Gets of batches of one size, measured while running: who answers them, and how long it took.

Attributes
----------
batch : int
    Keys: from here to twice as many.
by : GetsBy
    Who answers them: "host", "device" or "both".
device_share : float
    Of the keys, where both answer.
host_us, device_us, both_us : float
    A batch of `batch` keys, in microseconds; 0 where that way was not tried.
contests : int
    Comparisons of two ways that have ended.
spent_seconds, contest_seconds : float
    Of batches so far; and of them more than the better way of a comparison would have taken.
)";

constexpr char const* kSharingStats =
    R"(Gets that the host's threads share with the device (`Options.gets_by`).

Attributes
----------
shared : bool
note : str
    Why they are not, where that was not asked for.
host_keys, device_keys : int
    Of batches that may be shared, by who answered.
sizes : list of SharedSize
    That came, ascending.
)";

constexpr char const* kValueLogStats =
    R"(Of a pool of values "log"; zeros elsewhere. What has been counted, since the store was opened.

Attributes
----------
segments : int
    Of the pool.
free_segments : int
    Of them, those that hold nothing.
queued_segments : int
    Wait to be collected, or are being collected.
used_bytes : int
    Of records, outdated ones and tombstones among them.
outdated_bytes : int
    Of records that were put anew or erased; without tombstones.
tombstone_bytes : int
    What erasures appended.
appended_bytes : int
    By writes.
moved_bytes : int
    By collections.
collections : int
    Segments that were collected.
failed_collections : int
    Of segments that are damaged, or found no room.
waits : int
    Of writers, while the queue was full.
longest_wait_ns : int
    Of one writer, in nanoseconds.
)";

constexpr char const* kCacheReport = R"(What a load of the record cache came to.

Attributes
----------
records : int
    In the cache now.
corrupt : int
    Left out, for their checksum does not match.
bytes : int
    Of the device's memory.
seconds : float
)";

constexpr char const* kStats = R"(How full a store is, what it is made of, and where it runs.

Attributes
----------
records : int
    Of a Dash index that was not closed in order: counted when first asked for.
slots : int
load_factor : float
    records / slots
growths : int
    Begun or resumed since open, and not given up for want of memory.
units_left : int
    Of the table, that a growth under way has still to move; 0 where it does not grow.
displacements : int
    Words moved aside since open.
batches : int
    Since open.
pool_bytes : int
    Size of the pool. While it is open its file may be longer, by what is prepared for its growth.
used_bytes : int
    Of it: header, live levels, heap in use, and room for registered arrays.
dense_bytes : int
    Of that, for registered arrays: two copies of each.
accesses : AccessCounts
key_bytes, value_bytes : int
    0 where lengths vary.
dtype : str
    Of values, where the pool knows it: see `perdure.create`; else empty.
row_shape : tuple of int
    Of a value, in elements of that; () where it is one element.
max_key_bytes, max_value_bytes : int
    What fits in a record.
top_level : int
    log2 of its buckets.
shape : Shape
    Levels, hash functions, slots a bucket.
index : Index
key_order : KeyOrder
    Of index "btree": which of two keys comes first.
values : Values
    Of index "btree": where records are, in a "heap" or a "log".
persist : Persist
    Of index "btree": what of it is durable, "minimal", "index" or "full".
value_log : ValueLogStats
    Of values "log".
segments : int
    Of a Dash index; of a "btree", its leaves.
index_bytes : int
    Of ordinary memory, that a "btree" takes.
layout : Layout
device : Device
medium : Medium
residency : Residency
    Where the index is looked up: "pm", or "mirrored" in the device's memory.
mirror_bytes : int
    Of the device's memory.
residency_note : str
    What the mirror lacks, and why; empty where it lacks nothing.
sharing : SharingStats
    Gets that the host's threads share with the device.
gathers : list of GatherSize
    How gets fetch values, by sizes that came, ascending.
damage : str
    Of a Dash index: what the counting met, so that `records` lacks some; empty where it met
    nothing.
cache_records : int
    Taken by the last load, or in the buckets that it took.
cache_bytes : int
    Of the device's memory.
log_used_bytes : int
    Durability "power": not yet covered by both checkpoints.
checkpoints : int
    Durability "power": since open.
log_method : str
    Durability "power", for example "io_uring, O_DIRECT, registered buffers".
machine : str
    For example "cpu AVX3 x2" or "cuda NVIDIA H200".
)";

constexpr char const* kGlance =
    R"(What the file of a pool says by itself, beside the process that has it open (`glance`).

Attributes
----------
use : PoolUse
    Who has it open, as far as the system's list of locks says: it names no process of another
    container.
process : int
    That has it; 0: none that is known of.
closed_in_order : bool
    False while a process writes to it.
changes : int or None
    Index "gphash": write batches, transactions, openings and closings since it was made.
changing : bool
    One of them is under way.
transactions : int
    That ended, since it was made.
records : int or None
    Of index "gphash" estimated from a sample of slots, unless the table is small; of others as the
    last orderly close left it.
estimated : bool
slots : int or None
    Index "gphash".
load_factor : float or None
    Index "gphash".
growing : bool
    A level of the table is being emptied.
pool_bytes : int
    Of the file.
max_bytes : int
    0: as the medium allows.
used_bytes : int
    At most: a part of the pool that was emptied counts until it is used for something else.
repairs : int
    Lines that wait for `Store.acknowledge_repair`.
key_bytes, value_bytes : int
    0: of any length.
index : Index
layout : Layout
durability : Durability
bytes_read : int
    By this glance.
)";

}  // namespace

char const* doc_of(std::string_view record) {
  struct Documented {
    std::string_view record;
    char const* doc;
  };
  constexpr Documented kDocs[] = {{"Survival", kSurvival},
                                  {"RecoveryReport", kRecoveryReport},
                                  {"VerifyReport", kVerifyReport},
                                  {"DeviceInfo", kDeviceInfo},
                                  {"AccessCounts", kAccessCounts},
                                  {"ValueLogStats", kValueLogStats},
                                  {"CacheReport", kCacheReport},
                                  {"Stats", kStats},
                                  {"SharedSize", kSharedSize},
                                  {"SharingStats", kSharingStats},
                                  {"GatherSize", kGatherSize},
                                  {"KeyStatus", kKeyStatus},
                                  {"Glance", kGlance}};
  for (Documented const& one : kDocs)
    if (one.record == record) return one.doc;
  return "";
}

}  // namespace perdure::python
