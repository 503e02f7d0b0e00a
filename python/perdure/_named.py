"""Named tables: several key spaces of 64-bit ids in one pool, with one heap and one commit.

A pool of tables has keys of 16 bytes: the id, then the table's number (8 bytes each). Table 0 is
the catalogue: at id 0 how many tables there are, at id n the name and the row's width of table n
(docs/format.md). A row that is narrower than the pool's is followed by zeros.

Invariant: a table counts once the catalogue's count has reached it, and its entry is there before
that; so it is there whole or not at all, in every layout.
"""

from __future__ import annotations

import functools
import math
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perdure import errors
from perdure._deferred import Deferred
from perdure.results import Outcome, Result

if TYPE_CHECKING:
    import numpy as np

    from perdure.store import Store
    from perdure.typing import Array, DType, RowShape, Stream
else:
    np = Deferred("numpy")

KEY_BYTES = 16
_HEAD = struct.Struct("<4sIQ")  # of the count: magic, version, tables
_ENTRY = struct.Struct("<4sIII")  # magic, bytes of a row, bytes of the name, 0; then the name
_COUNT, _TABLE = b"PRTC", b"PRTT"
_VERSION = 1
_TRIES = 20
LEAST_ROW = _ENTRY.size + 16  # of a pool: so that its tables can have names


def _is_tensor(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "torch"


def keys_of(ids: Any, numbers: Sequence[int], offsets: Any = None) -> Any:
    """The pool's keys, where the ids are: those from offsets[t] to offsets[t + 1] of table
    numbers[t]."""
    counts = None if offsets is None else np.diff(offsets)
    if _is_tensor(ids):
        return _torch_keys(ids, numbers, counts)
    whole = np.asarray(ids)
    if whole.ndim != 1 or (whole.size and whole.dtype.kind not in "iu"):
        raise TypeError(f"ids: {whole.dtype} of shape {whole.shape}; pass one column of integers")
    keys = np.empty((whole.size, 2), np.int64)
    keys[:, 0] = whole.view(np.int64) if whole.dtype == np.uint64 else whole
    keys[:, 1] = _of_each(whole.size, numbers, counts)
    return keys


def _of_each(size: int, numbers: Sequence[int], counts: Any) -> Any:
    if counts is None:
        return np.full(size, numbers[0], np.int64)
    return np.repeat(np.asarray(numbers, np.int64), counts)


def _torch_keys(ids: Any, numbers: Sequence[int], counts: Any) -> Any:
    torch = sys.modules["torch"]
    if ids.dim() != 1 or ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise TypeError(
            f"ids: {ids.dtype} of shape {tuple(ids.shape)}; pass one column of integers"
        )
    keys = torch.empty((ids.numel(), 2), dtype=torch.int64, device=ids.device)
    keys[:, 0] = ids
    each = counts is not None
    keys[:, 1] = numbers_of_each(numbers, counts, ids.device) if each else numbers[0]
    return keys


def numbers_of_each(numbers: Sequence[int], counts: Sequence[int], device: Any) -> Any:
    """Each table's number as often as there are ids of it: a tensor, not to be changed."""
    return _numbers_of_each(tuple(map(int, numbers)), tuple(map(int, counts)), device)


@functools.lru_cache(maxsize=4)
def _numbers_of_each(numbers: tuple[int, ...], counts: tuple[int, ...], device: Any) -> Any:
    """Kept, for batches of a training are often cut alike."""
    torch = sys.modules["torch"]
    return torch.repeat_interleave(torch.tensor(numbers), torch.tensor(counts)).to(device)


def checked_offsets(offsets: Any, tables: int, ids: int) -> Any:
    ends = np.asarray(offsets, np.int64)
    rises = ends.ndim == 1 and bool((np.diff(ends) >= 0).all())
    if ends.shape != (tables + 1,) or not rises or ends[0] != 0 or ends[-1] != ids:
        raise ValueError(
            f"offsets: for {tables} tables and {ids} ids pass {tables + 1} numbers that rise from 0"
            f" to {ids}"
        )
    return ends


class Table:
    """A table of a pool: ids of 64 bits, and a row of `value_bytes` bytes each.

    Made by `Store.table`. Its calls are the store's, and take ids instead of keys; whatever they
    write is part of the transaction or step that is open on the thread.

    Attributes
    ----------
    name : str
    number : int
        In the pool's keys.
    value_bytes : int
        Of a row.
    """

    name: str
    number: int
    value_bytes: int

    _store: Store

    def __init__(self, store: Store, name: str, number: int, value_bytes: int) -> None:
        self._store = store
        self.name = name
        self.number = number
        self.value_bytes = value_bytes

    def __repr__(self) -> str:
        return (
            f"<perdure.Table {self.name!r} of {self._store.path!r}: {self.value_bytes} bytes a row>"
        )

    def get(
        self,
        ids: Array,
        *,
        dtype: DType | None = None,
        shape: RowShape | None = None,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """The rows of `ids`, as `Store.get` answers keys; absent ones are zeros."""
        return self._store.get_tables(
            [self], ids, dtype=dtype, shape=shape, stream=stream, check=check
        )

    def put(
        self, ids: Array, rows: Array, *, stream: Stream | None = None, check: bool = True
    ) -> Outcome:
        """Writes the rows of `ids`, as `Store.put` does; of an id that is there twice the last."""
        return self._store.put_tables([self], ids, rows, stream=stream, check=check)

    def erase(self, ids: Array, *, stream: Stream | None = None, check: bool = True) -> Outcome:
        """Erases `ids`, as `Store.erase` does."""
        return self._store.erase_tables([self], ids, stream=stream, check=check)

    def scan(
        self, page_size: int = 65536, *, dtype: DType | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """All rows, page by page: ids (int64) and rows. Looks at the whole pool; as `Store.scan`,
        it raises `Busy` where keys move meanwhile."""
        for keys, rows in self._store.scan(page_size, key_dtype=np.int64):
            mine = keys[:, 1] == self.number
            if mine.any():
                found = np.ascontiguousarray(rows.view(np.uint8)[mine, : self.value_bytes])
                yield keys[mine, 0], found.view(dtype or np.uint8)


class Catalogue:
    """The tables of a pool, read once and kept.

    Who reads the store may wait for another thread's transaction, and that thread may ask here. So
    nobody reads under `_lock`; who makes a table has `_making`, and is in no transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._making = threading.Lock()
        self._lock = threading.Lock()  # guards what follows; taken last
        self._known: dict[str, Table] = {}

    def all(self) -> dict[str, Table]:
        self._refresh()
        with self._lock:
            return dict(self._known)

    def find(self, name: str, value_bytes: int | None) -> Table:
        known = self._of_name(name)
        if known is None:
            self._refresh()
            known = self._of_name(name)
        if known is None and value_bytes is not None:
            known = self._make(name, value_bytes)
        if known is None:
            names = ", ".join(map(repr, self.all())) or "none yet"
            raise KeyError(
                f"pool {self._store.path}: it has no table {name!r} ({names}); give value_bytes to"
                " make it"
            )
        if value_bytes not in (None, known.value_bytes):
            raise ValueError(
                f"pool {self._store.path}: rows of table {name!r} have {known.value_bytes} bytes,"
                f" not {value_bytes}"
            )
        return known

    def _of_name(self, name: str) -> Table | None:
        with self._lock:
            return self._known.get(name)

    def _refresh(self) -> None:
        count = self._count()
        with self._lock:
            numbers = np.arange(len(self._known) + 1, count + 1)
        if not len(numbers):
            return
        for _ in range(_TRIES):  # a reader beside its writer may miss what moves
            entries, found, _ = self._store.get(keys_of(numbers, [0]))
            if found.all():
                break
            time.sleep(0.001)
        tables = [
            self._parse(int(number), entry.tobytes())
            for number, entry in zip(numbers, entries, strict=True)
        ]
        with self._lock:
            for table in tables:  # those that another thread has read meanwhile stay
                self._known.setdefault(table.name, table)

    def _count(self) -> int:
        width = self._store.value_bytes
        if self._store.key_bytes != KEY_BYTES or width is None or width < LEAST_ROW:
            raise errors.Unsupported(
                f"pool {self._store.path}: tables need keys of {KEY_BYTES} bytes and rows of one"
                f" width, {LEAST_ROW} bytes at least: create(path, key_bytes={KEY_BYTES},"
                " value_bytes=the widest row)"
            )
        values, found, _ = self._store.get(keys_of([0], [0]))
        if not found[0]:
            return 0
        magic, version, count = _HEAD.unpack(values[0].tobytes()[: _HEAD.size])
        if magic != _COUNT or version != _VERSION:
            raise errors.Unsupported(
                f"pool {self._store.path}: what stands at id 0 of table 0 is no catalogue of tables"
                f" of version {_VERSION}; a later perdure may read it"
            )
        return int(count)

    def _parse(self, number: int, entry: bytes) -> Table:
        magic, row_bytes, name_bytes, _ = _ENTRY.unpack(entry[: _ENTRY.size])
        if magic != _TABLE:
            raise errors.Corrupt(
                f"pool {self._store.path}: the entry of table {number} is missing; restore the pool"
            )
        name = entry[_ENTRY.size : _ENTRY.size + name_bytes].decode()
        return Table(self._store, name, number, row_bytes)

    def _make(self, name: str, value_bytes: int) -> Table:
        width = self._store.value_bytes or 0
        text = name.encode()
        if not 0 < value_bytes <= width:
            raise ValueError(
                f"value_bytes: {value_bytes}; rows of this pool have 1 to {width} bytes (the pool's"
                " value_bytes)"
            )
        if not 0 < len(text) <= width - _ENTRY.size:
            raise ValueError(
                f"name: {len(text)} bytes; names of tables have 1 to {width - _ENTRY.size} here"
            )
        if self._store._mine() is not None:
            raise errors.InvalidArgument(
                f"pool {self._store.path}: make table {name!r} before the transaction, which may"
                " abort"
            )
        entry = _ENTRY.pack(_TABLE, value_bytes, len(text), 0) + text
        with self._making:
            self._refresh()
            made = self._of_name(name)
            if made is not None:
                return made
            number = len(self._known) + 1
            return self._write_next(Table(self._store, name, number, value_bytes), entry)

    def _write_next(self, table: Table, entry: bytes) -> Table:
        """This thread alone makes tables."""
        if table.number == 1 and not self._is_new():
            raise errors.InvalidArgument(
                f"pool {self._store.path}: it holds keys of no table; make tables in a new pool"
            )
        self._write(table.number, entry)
        self._write(0, _HEAD.pack(_COUNT, _VERSION, table.number))
        with self._lock:
            return self._known.setdefault(table.name, table)

    def _is_new(self) -> bool:
        """Nothing is in the pool, or the entry of a first table that a kill kept from counting."""
        records = len(self._store)
        if records != 1:
            return records == 0
        values, found, _ = self._store.get(keys_of([1], [0]))
        return bool(found[0]) and values[0].tobytes().startswith(_TABLE)

    def _write(self, at: int, content: bytes) -> None:
        row = np.zeros((1, self._store.value_bytes or 0), np.uint8)
        row[0, : len(content)] = np.frombuffer(content, np.uint8)
        self._store.put(keys_of([at], [0]), row)


def widened(rows: Any, table_bytes: int, pool_bytes: int) -> Any:
    """Rows of a table as rows of the pool."""
    if table_bytes == pool_bytes:
        return rows
    if _is_tensor(rows):
        torch = sys.modules["torch"]
        octets = (
            rows.contiguous().reshape(rows.shape[0], math.prod(rows.shape[1:])).view(torch.uint8)
        )
        wide = torch.zeros((rows.shape[0], pool_bytes), dtype=torch.uint8, device=rows.device)
    else:
        narrow = np.ascontiguousarray(rows)
        row_bytes = math.prod(narrow.shape[1:]) * narrow.itemsize
        octets = narrow.reshape(-1).view(np.uint8).reshape(narrow.shape[0], row_bytes)
        wide = np.zeros((narrow.shape[0], pool_bytes), np.uint8)
    if octets.shape[1] != table_bytes:
        raise ValueError(
            f"rows: {octets.shape[1]} bytes each; rows of this table have {table_bytes}"
        )
    wide[:, :table_bytes] = octets
    return wide


def narrowed(values: Any, table_bytes: int, dtype: Any, shape: Any) -> Any:
    """Rows of the pool (uint8) as rows of a table."""
    rows = values[:, :table_bytes]
    if _is_tensor(values):
        if dtype is not None and rows.shape[0] == 0:
            rows = rows.new_empty((0, table_bytes // dtype.itemsize), dtype=dtype)
        elif dtype is not None:
            rows = rows.contiguous().view(dtype)
    else:
        rows = np.ascontiguousarray(rows).view(dtype or np.uint8)
    return rows if shape is None else rows.reshape((rows.shape[0], *shape))
