"""The pools of a folder of checkpoints: `rank-N.pool` has the pieces that rank N saved,
`checkpoints.pool` what each checkpoint is made of, and which of them count.

All have keys of 24 bytes. A piece's key is its digest and 8 zeros. Any other record is a part of a
blob: (number, part, kind), and its value begins with the blob's length. A blob counts once its part
0 is there, which is put last.

Invariant: a piece is in a pool only while a blob of that pool names it: what a save adds is named
before it is put, and what nobody needs is erased before its names are.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

import perdure
from perdure import _native
from perdure.torch.piece_names import NONE, Names, are_among, each_once, names_in, union, without
from perdure.torch.pieces import AT_ONCE, DIGEST

KEY = 24
META_BYTES = 16 << 10  # a value of checkpoints.pool
STATE, MANIFEST, ADDED, META, HEAD = 1, 2, 3, 4, 5  # kinds of blobs
_NAME = struct.Struct("<QQQ")
_LENGTH = struct.Struct("<Q")
_OK, _CORRUPT = int(_native.KeyStatus.ok), int(_native.KeyStatus.corrupt)
_TRIES = 20

Octets = np.ndarray[Any, np.dtype[np.uint8]]


def piece_keys(names: Names) -> Octets:
    keys = np.zeros((len(names), KEY), np.uint8)
    keys[:, :DIGEST] = np.ascontiguousarray(names).view(np.uint8)
    return keys


def blob_keys(kind: int, number: int, parts: Iterable[int]) -> Octets:
    names = b"".join(_NAME.pack(number, part, kind) for part in parts)
    return np.frombuffer(names, np.uint8).reshape(-1, KEY)


class Source(Protocol):
    """Whoever answers keys with whole values, and statuses."""

    path: str
    width: int

    def read(self, keys: Octets, to: Octets) -> Octets: ...


class Beside:
    """A pool that is read where it lies, whether a process writes it or not."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._open()

    def _open(self) -> None:
        self._reader = _native.PoolReader.open(self.path)
        self.width = self._reader.value_bytes()

    def read(self, keys: Octets, to: Octets) -> Octets:
        """`to` is contiguous, and as long as the values or a little shorter."""
        statuses = self._read(keys, to)
        for _ in range(_TRIES):  # a key that the writer moves is missed
            if (statuses == _OK).all() or (statuses == _CORRUPT).any():
                break
            time.sleep(0.001)
            if self._reader.replaced():
                self._open()
            statuses = self._read(keys, to)
        return statuses

    def _read(self, keys: Octets, to: Octets) -> Octets:
        count = len(keys)
        statuses = np.zeros(count, np.uint8)
        starts = np.arange(count, dtype=np.int64) * self.width
        lengths = np.minimum(self.width, to.size - starts)
        column = _native.Column.rows(keys, KEY, count)
        self._reader.get(column, [to], np.zeros(count, np.int64), starts, lengths, statuses)
        return statuses


class Own:
    """A pool that this process has open for writing."""

    def __init__(self, store: perdure.Store) -> None:
        self.path, self._store = store.path, store
        self.width = store.value_bytes or 0

    def read(self, keys: Octets, to: Octets) -> Octets:
        found = self._store.get(keys, out=to.reshape(len(keys), self.width), check=False)
        return np.asarray(found.statuses)


def get_blob(source: Source, kind: int, number: int) -> bytes | None:
    """Of a blob that is not there, or not all of it, None."""
    first = _values(source, blob_keys(kind, number, [0]))
    if first is None:
        return None
    (length,) = _LENGTH.unpack(first[: _LENGTH.size])
    count = -(-(length + _LENGTH.size) // source.width)
    rest = _values(source, blob_keys(kind, number, range(1, count))) if count > 1 else b""
    return None if rest is None else (first + rest)[_LENGTH.size : _LENGTH.size + length]


def _values(source: Source, keys: Octets) -> bytes | None:
    to = np.zeros(len(keys) * source.width, np.uint8)
    statuses = source.read(keys, to)
    if (statuses == _CORRUPT).any():
        raise perdure.Corrupt(
            f"pool {source.path}: a record fails its checksum; `perdure verify` says what else"
            " does. Copy the pool from elsewhere, or begin a new folder of checkpoints"
        )
    return to.tobytes() if (statuses == _OK).all() else None


def put_blob(store: perdure.Store, kind: int, number: int, content: bytes) -> None:
    width = store.value_bytes or 1
    whole = _LENGTH.pack(len(content)) + content
    count = -(-len(whole) // width)
    rows = np.zeros((count, width), np.uint8)
    rows.reshape(-1)[: len(whole)] = np.frombuffer(whole, np.uint8)
    if count > 1:
        store.put(blob_keys(kind, number, range(1, count)), rows[1:])
    store.put(blob_keys(kind, number, [0]), rows[:1])


def erase_blob(store: perdure.Store, kind: int, number: int) -> None:
    source = Own(store)
    first = _values(source, blob_keys(kind, number, [0]))
    if first is not None:
        (length,) = _LENGTH.unpack(first[: _LENGTH.size])
        count = -(-(length + _LENGTH.size) // source.width)
        for part in range(count - 1, -1, -1):
            store.erase(blob_keys(kind, number, [part]))


def numbers_in(content: bytes) -> list[int]:
    return [int(one) for one in np.frombuffer(content, "<u8")]


def as_content(numbers: Iterable[int]) -> bytes:
    return np.array(list(numbers), "<u8").tobytes()


class RankPool:
    """What one rank saves. One save at a time."""

    def __init__(self, path: str, piece: int, max_bytes: int | None) -> None:
        self.store = _open_or_make(path, piece, max_bytes)
        self.piece = self.store.value_bytes or 0
        self._own = Own(self.store)
        self._number: int | None = None
        self._lock = threading.Lock()
        self._seen = b""  # the last save's token
        numbers = numbers_in(get_blob(self._own, STATE, 0) or b"")
        self._held = {number: self._named_by(number) for number in numbers}
        self._there = self._used = self._added = NONE
        self._parts = 0

    def begin(self, number: int, kept: Sequence[int], token: bytes) -> None:
        """A save. Pieces that only other checkpoints have than those that are kept go first."""
        if not self._lock.acquire(blocking=False):
            raise perdure.Busy(f"pool {self.store.path}: a save is under way; let it end first")
        try:
            if token == self._seen:
                raise perdure.Unsupported(
                    f"pool {self.store.path}: the planner answers the plan of an earlier save; use"
                    " one without enable_plan_caching"
                )
            self._forget(set(kept))
            self._number, self._parts = number, 0
            self._used = self._added = NONE
            put_blob(self.store, STATE, 0, as_content([*self._held, number]))
            self._seen = token
        except BaseException:
            self._lock.release()
            raise

    def put(self, names: Names, rows_of: Callable[[Any], Sequence[Tensor]]) -> int:
        """Those of these pieces that are not there yet, their names first; how many. `rows_of`
        answers the bytes of some of them, by their positions: of each run that lies together."""
        assert self._number is not None
        each, first = each_once(names)
        self._used = union(self._used, each)
        lacking = ~are_among(self._there, each)
        if not lacking.any():
            return 0
        part, self._parts = self._parts, self._parts + 1
        put_blob(self.store, ADDED, self._name_of(part), each[lacking].tobytes())
        self._added = union(self._added, each[lacking])
        chosen = np.sort(first[lacking])
        at_once = max(1, AT_ONCE // self.piece)
        for begin in range(0, len(chosen), at_once):
            some = chosen[begin : begin + at_once]
            keys, at = piece_keys(names[some]), 0
            for rows in rows_of(some):
                self.store.put(keys[at : at + len(rows)], rows.numpy())
                at += len(rows)
        self._there = union(self._there, each[lacking])
        return len(chosen)

    def end(self) -> int:
        """This rank's part is there; of how many pieces."""
        assert self._number is not None
        put_blob(self.store, MANIFEST, self._number, self._used.tobytes())
        self._erase_added(self._number, self._parts)
        self._held[self._number] = self._used
        self._number = None
        self._lock.release()
        return len(self._used)

    def abandon(self) -> None:
        """After an error: what was added goes, as far as it can; the next save does the rest."""
        assert self._number is not None
        number, self._number = self._number, None
        self._held[number] = self._added
        self._lock.release()
        self._forget(set(self._held) - {number})

    def _forget(self, kept: set[int]) -> None:
        live = union(*(self._held[one] for one in kept if one in self._held))
        gone = [one for one in self._held if one not in kept]
        dead = without(union(*(self._held[one] for one in gone)), live)
        if len(dead):
            self.store.erase(piece_keys(dead))
        for number in gone:
            erase_blob(self.store, MANIFEST, number)
            self._erase_added(number, self._count_added(number))
            del self._held[number]
        if gone:
            put_blob(self.store, STATE, 0, as_content(self._held))
        self._there = live

    # --- names of pieces

    def _named_by(self, number: int) -> Names:
        parts = range(self._count_added(number))
        blobs = [get_blob(self._own, ADDED, self._name_of(part, number)) for part in parts]
        blobs.append(get_blob(self._own, MANIFEST, number))
        return each_once(names_in(b"".join(one or b"" for one in blobs)))[0]

    def _name_of(self, part: int, number: int | None = None) -> int:
        return ((self._number or 0) if number is None else number) << 32 | part

    def _count_added(self, number: int) -> int:
        part = 0
        while _values(self._own, blob_keys(ADDED, self._name_of(part, number), [0])) is not None:
            part += 1
        return part

    def _erase_added(self, number: int, count: int) -> None:
        for part in range(count - 1, -1, -1):
            erase_blob(self.store, ADDED, self._name_of(part, number))


def _open_or_make(path: str, width: int, max_bytes: int | None) -> perdure.Store:
    if os.path.lexists(path):
        return perdure.open(path, expect_key_bytes=KEY)
    return perdure.create(path, KEY, width, max_bytes=max_bytes, expected_records=32)


# --- one object for a pool, however many writers a process makes

Kept = TypeVar("Kept")
_open: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def shared(kind: type[Kept], path: str, make: Callable[[], Kept]) -> Kept:
    """The pool that this process has open at `path`, or opens now."""
    with _opening:
        if os.path.lexists(path):
            known = _open.get(_file(kind, path))
            if known is not None:
                return known
        made = make()
        weakref.finalize(made, _close, made.store)  # type: ignore[attr-defined]
        _open[_file(kind, path)] = made
        return made


def _close(store: perdure.Store) -> None:
    with suppress(perdure.Closed):  # of a process that was forked from its owner
        store.close()


def _file(kind: type, path: str) -> tuple[Any, ...]:
    there = os.stat(path)
    return kind.__name__, os.getpid(), there.st_dev, there.st_ino
