"""The extension module: the public C++ API, call for call. Users go through perdure.Store."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str
built_with_cuda: bool

class KeyStatus(enum.IntEnum):
    ok = 0
    not_found = 1
    size_mismatch = 2
    corrupt = 3
    no_space = 4
    too_large = 5
    not_tried = 6

class OpKind(enum.IntEnum):
    get = 0
    put = 1
    erase = 2
    update = 3

class Rmw(enum.Enum):
    replace = 0
    add = 1
    min = 2
    max = 3

class Element(enum.Enum):
    uint8 = 0
    int32 = 1
    uint32 = 2
    int64 = 3
    uint64 = 4
    float32 = 5
    float64 = 6

class Device(enum.Enum):
    cpu = 0
    cuda = 1

class Index(enum.Enum):
    gphash = 0
    dash_eh = 1
    dash_lh = 2
    btree = 3

class KeyOrder(enum.Enum):
    bytes = 0
    unsigned = 1
    signed = 2

class Values(enum.Enum):
    heap = 0
    log = 1

class Persist(enum.Enum):
    minimal = 0
    index = 1
    full = 2

class Layout(enum.Enum):
    word = 0
    in_place = 1

class Durability(enum.Enum):
    none = 0
    process = 1
    power = 2

class Basis(enum.Enum):
    none = 0
    declared = 1
    asserted = 2
    emulated = 3

class Medium(enum.Enum):
    tmpfs = 0
    hugetlbfs = 1
    memfd = 2
    file = 3

class Residency(enum.Enum):
    automatic = 0
    pm = 1
    mirrored = 2

class Gather(enum.Enum):
    automatic = 0
    at_once = 1
    in_order = 2
    by_host = 3
    shared = 4

class GetsBy(enum.Enum):
    automatic = 0
    device = 1
    host = 2
    both = 3
    measured = 4

class CachePolicy(enum.Enum):
    lfu = 0
    lru = 1
    random = 2

class Shape:
    def __init__(self, levels: int = 2, hashes: int = 2, slots: int = 8) -> None: ...
    @property
    def levels(self) -> int: ...
    @property
    def hashes(self) -> int: ...
    @property
    def slots(self) -> int: ...

class ValueType:
    dtypes: tuple[str, ...]
    def __init__(self, dtype: str, extents: list[int]) -> None: ...
    @property
    def dtype(self) -> str: ...
    @property
    def extents(self) -> tuple[int, ...]: ...

class CreateOptions:
    key_bytes: int
    value_bytes: int
    expected_records: int
    max_bytes: int
    index: Index
    key_order: KeyOrder
    values: Values
    persist: Persist
    layout: Layout
    shape: Shape
    durability: Durability
    overwrite: bool
    force: bool
    mode: int
    log_dir: str
    log_bytes: int
    value_type: ValueType

class SnapshotOptions:
    overwrite: bool
    force: bool
    mode: int

class RestoreOptions:
    durability: Durability | None
    overwrite: bool
    force: bool
    mode: int
    log_dir: str
    log_bytes: int

class OpenOptions:
    read_only: bool
    live: bool
    repair: bool
    device: Device
    threads: int
    verify_reads: bool
    count_accesses: bool
    lock_memory: bool
    displacement: bool
    grow: bool
    expect_key_bytes: int
    expect_value_bytes: int
    log_dir: str
    residency: Residency
    gather: Gather
    gets_by: GetsBy
    memory_budget: int
    cache_bytes: int
    cache_policy: CachePolicy
    collectors: int
    most_queued: int

class Survival:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def kernel_abort(self) -> bool: ...
    @property
    def process_kill(self) -> bool: ...
    @property
    def gpu_reset(self) -> bool: ...
    @property
    def os_crash(self) -> bool: ...
    @property
    def power_loss(self) -> bool: ...
    @property
    def basis(self) -> Basis: ...
    @property
    def description(self) -> str: ...

class RecoveryReport:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def clean(self) -> bool: ...
    @property
    def resize_resumed(self) -> bool: ...
    @property
    def records(self) -> int: ...
    @property
    def counted(self) -> bool: ...
    @property
    def dropped(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def why_dropped(self) -> str: ...
    @property
    def repaired(self) -> bool: ...
    @property
    def changes(self) -> list[str]: ...
    @property
    def undone(self) -> int: ...
    @property
    def replayed(self) -> int: ...
    @property
    def lost_acknowledged(self) -> bool: ...
    @property
    def log_report(self) -> str: ...
    @property
    def replay_seconds(self) -> float: ...
    @property
    def map_seconds(self) -> float: ...
    @property
    def recover_seconds(self) -> float: ...

class VerifyReport:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def records(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def faults(self) -> list[str]: ...
    @property
    def fault_count(self) -> int: ...

class DeviceInfo:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def device(self) -> Device: ...
    @property
    def available(self) -> bool: ...
    @property
    def description(self) -> str: ...
    @property
    def why_not(self) -> str: ...

class AccessCounts:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def pm_reads(self) -> int: ...
    @property
    def pm_writes(self) -> int: ...
    @property
    def orders(self) -> int: ...
    @property
    def cache_hits(self) -> int: ...

class SharedSize:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def batch(self) -> int: ...
    @property
    def by(self) -> GetsBy: ...
    @property
    def device_share(self) -> float: ...
    @property
    def host_us(self) -> float: ...
    @property
    def device_us(self) -> float: ...
    @property
    def both_us(self) -> float: ...
    @property
    def contests(self) -> int: ...
    @property
    def spent_seconds(self) -> float: ...
    @property
    def contest_seconds(self) -> float: ...

class SharingStats:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def shared(self) -> bool: ...
    @property
    def note(self) -> str: ...
    @property
    def host_keys(self) -> int: ...
    @property
    def device_keys(self) -> int: ...
    @property
    def sizes(self) -> list[SharedSize]: ...

class ValueLogStats:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def segments(self) -> int: ...
    @property
    def free_segments(self) -> int: ...
    @property
    def queued_segments(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def outdated_bytes(self) -> int: ...
    @property
    def tombstone_bytes(self) -> int: ...
    @property
    def appended_bytes(self) -> int: ...
    @property
    def moved_bytes(self) -> int: ...
    @property
    def collections(self) -> int: ...
    @property
    def failed_collections(self) -> int: ...
    @property
    def waits(self) -> int: ...
    @property
    def longest_wait_ns(self) -> int: ...

class CacheReport:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def records(self) -> int: ...
    @property
    def corrupt(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def seconds(self) -> float: ...

class Stats:
    def as_dict(self) -> dict[str, Any]: ...
    @property
    def records(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def load_factor(self) -> float: ...
    @property
    def growths(self) -> int: ...
    @property
    def units_left(self) -> int: ...
    @property
    def displacements(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def pool_bytes(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def dense_bytes(self) -> int: ...
    @property
    def accesses(self) -> AccessCounts: ...
    @property
    def key_bytes(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def row_shape(self) -> list[int]: ...
    @property
    def max_key_bytes(self) -> int: ...
    @property
    def max_value_bytes(self) -> int: ...
    @property
    def top_level(self) -> int: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def index(self) -> Index: ...
    @property
    def key_order(self) -> KeyOrder: ...
    @property
    def values(self) -> Values: ...
    @property
    def persist(self) -> Persist: ...
    @property
    def value_log(self) -> ValueLogStats: ...
    @property
    def segments(self) -> int: ...
    @property
    def index_bytes(self) -> int: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def device(self) -> Device: ...
    @property
    def medium(self) -> Medium: ...
    @property
    def residency(self) -> Residency: ...
    @property
    def mirror_bytes(self) -> int: ...
    @property
    def residency_note(self) -> str: ...
    @property
    def sharing(self) -> SharingStats: ...
    @property
    def damage(self) -> str: ...
    @property
    def cache_records(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    @property
    def log_used_bytes(self) -> int: ...
    @property
    def checkpoints(self) -> int: ...
    @property
    def log_method(self) -> str: ...
    @property
    def machine(self) -> str: ...

_Shape = tuple[int, ...]

class Column:
    """An array of a call, which the column keeps alive."""

    @staticmethod
    def rows(array: Any, width: int, count: int) -> Column:
        """`count` rows of `width` bytes of a contiguous array in host memory."""

    @staticmethod
    def lend(capsule: Any, whole: bool = False) -> tuple[Column | None, _Shape, str, int]:
        """Of a DLPack capsule: column (None where it is not contiguous), shape, dtype, itemsize."""

    @staticmethod
    def variable(offsets: Any, data: Any) -> Column: ...
    @staticmethod
    def empty() -> Column: ...

class MutableColumn:
    """As `Column`, of an array that the engine writes."""

    @staticmethod
    def rows(array: Any, width: int, count: int) -> MutableColumn: ...
    @staticmethod
    def lend(
        capsule: Any, whole: bool = False
    ) -> tuple[MutableColumn | None, _Shape, str, int]: ...
    @staticmethod
    def empty() -> MutableColumn: ...

class RangeQuery:
    @staticmethod
    def of(start: bytes | None, end: bytes | None, reverse: bool) -> RangeQuery: ...

class ScanCursor:
    def __init__(self) -> None: ...
    @property
    def done(self) -> bool: ...

_Statuses = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

class Transaction:
    def write_step(self, step: int, stream: int = 0) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...

class Store:
    @staticmethod
    def create(path: str, options: CreateOptions, open: OpenOptions) -> Store: ...
    @staticmethod
    def open(path: str, options: OpenOptions) -> Store: ...
    @staticmethod
    def restore(snapshot: str, path: str, options: RestoreOptions, open: OpenOptions) -> Store: ...
    def get(
        self,
        keys: Column,
        values: MutableColumn,
        statuses: _Statuses,
        stream: int = 0,
        transaction: Transaction | None = None,
    ) -> None: ...
    def get_variable(
        self,
        keys: Column,
        statuses: _Statuses,
        stream: int = 0,
        transaction: Transaction | None = None,
    ) -> tuple[_Offsets, _Bytes]: ...
    def view(self, keys: Column, statuses: _Statuses) -> list[_Bytes | None]: ...
    def get_one(self, key: bytes) -> tuple[int, bytes]: ...
    def put_one(self, key: bytes, value: bytes, transaction: Transaction | None = None) -> int: ...
    def erase_one(self, key: bytes, transaction: Transaction | None = None) -> int: ...
    def begin(self, max_operations: int) -> Transaction: ...
    def register_dense(self, buffers: list[tuple[str, MutableColumn]]) -> None: ...
    def restore_step(self, stream: int = 0) -> int | None: ...
    def put(
        self,
        keys: Column,
        values: Column,
        statuses: _Statuses,
        stream: int = 0,
        atomic: bool = False,
        transaction: Transaction | None = None,
    ) -> None: ...
    def update(
        self,
        keys: Column,
        operands: Column,
        rmw: Rmw,
        element: Element,
        statuses: _Statuses,
        stream: int = 0,
        atomic: bool = False,
        transaction: Transaction | None = None,
    ) -> None: ...
    def erase(
        self,
        keys: Column,
        statuses: _Statuses,
        stream: int = 0,
        atomic: bool = False,
        transaction: Transaction | None = None,
    ) -> None: ...
    def apply(
        self,
        keys: Column,
        kinds: npt.NDArray[np.uint8],
        values: Column,
        rmw: Rmw,
        element: Element,
        out: MutableColumn,
        statuses: _Statuses,
        stream: int = 0,
        atomic: bool = False,
        transaction: Transaction | None = None,
    ) -> None: ...
    def scan(
        self, cursor: ScanCursor, limit: int, here: bool = False
    ) -> tuple[_Offsets, _Bytes, _Offsets, _Bytes, ScanCursor]: ...
    def range(
        self, query: RangeQuery, limit: int
    ) -> tuple[_Offsets, _Bytes, _Offsets, _Bytes, RangeQuery | None]: ...
    def count_range(self, query: RangeQuery) -> int: ...
    def snapshot(self, path: str, options: SnapshotOptions) -> None: ...
    def load_cache(self) -> CacheReport: ...
    def verify(self, here: bool = False) -> VerifyReport: ...
    def acknowledge_repair(self) -> None: ...
    def stats(self) -> Stats: ...
    def reset_counts(self) -> None: ...
    def recovery(self) -> RecoveryReport: ...
    def survives(self) -> Survival: ...
    def path(self) -> str: ...
    def key_bytes(self) -> int: ...
    def value_bytes(self) -> int: ...
    def value_type(self) -> ValueType: ...
    def key_order(self) -> KeyOrder: ...
    def device(self) -> Device: ...
    def close(self) -> None: ...

def devices() -> list[DeviceInfo]: ...
def survives(medium: Medium) -> Survival: ...
def litmus(
    runs: int,
    seconds: float,
    memory: str,
    record: bool,
    go_on: Callable[[float], None],
) -> dict[str, Any]: ...
def measure(
    seconds: float,
    memory_bytes: int,
    quick: bool,
    oversubscribe: bool,
    go_on: Callable[[float], None],
) -> dict[str, Any]: ...
def numbers_of_stores() -> list[dict[str, Any]]: ...
