"""What every part of a store works with: the engine's store, and what was asked of it once.

Invariant: `_engine` is the one way to the engine, and refuses when the store was closed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

from perdure import _native, errors
from perdure._typed import RowType
from perdure.options import KeyOrderName


class Beside(Protocol):
    """What uses a store from a thread of its own."""

    def check_end(self) -> None:
        """Raises `Busy` where its end would wait for this thread, and this thread for its end."""

    def end(self) -> None:
        """Comes to its end; raises what went wrong and nobody was told."""


class _OfThread(threading.local):
    """What a store knows of each thread."""

    transaction: _native.Transaction | None = None  # the one that is open on it


class Handle:
    """The state of a `perdure.Store`; its parts inherit from this."""

    def __init__(self, native: _native.Store) -> None:
        self._native: _native.Store | None = native
        self._of_thread = _OfThread()
        self._dense: list[tuple[Any, _native.MutableColumn]] = []  # the engine points into these
        self._beside: weakref.WeakSet[Beside] = weakref.WeakSet()  # which end before the store does
        self._path = native.path()
        self._key_width = native.key_bytes() or None
        self._value_width = native.value_bytes() or None
        self._key_order: KeyOrderName = native.key_order().name
        self._row_type = RowType.of_pool(native.value_type())
        self._device = native.device().name

    def __reduce__(self) -> str:
        raise TypeError(
            f"pool {self._path}: a store is of one process, and is neither pickled nor copied; pass"
            " the path, and open the pool where it is needed"
        )

    @property
    def _engine(self) -> _native.Store:
        native = self._native
        if native is None:
            raise errors.Closed(
                f"pool {self._path}: this store is closed; open it again with perdure.open"
            )
        return native

    def _mine(self) -> _native.Transaction | None:
        """The transaction that is open on this thread."""
        return self._of_thread.transaction

    def _too_long(self, key_bytes: int, value_bytes: int = 0) -> str:
        """What to say of a key or value that a record cannot hold."""
        limits = self._engine.stats()
        if key_bytes > limits.max_key_bytes:
            return f"the key has {key_bytes} bytes, at most {limits.max_key_bytes} fit in a record"
        return (
            f"the value has {value_bytes} bytes, at most {limits.max_value_bytes} fit in a record"
        )

    def _page(self, cursor: _native.ScanCursor, limit: int) -> Any:
        """A page of a scan: offsets and bytes of keys, of values, and where to go on."""
        return self._engine.scan(cursor, limit, self._mine() is not None)

    def _raw_pages(
        self,
        size: int,
        start: bytes | None,
        end: bytes | None,
        limit: int | None,
        reverse: bool,
    ) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Offsets and bytes of keys and of values, page by page, of `limit` records in all: by a
        scan, or in the order of keys where the caller asks for some of them."""
        left = limit
        if start is None and end is None and not reverse:
            cursor = _native.ScanCursor()
            while not cursor.done and left != 0:
                *page, cursor = self._page(cursor, size if left is None else min(size, left))
                left = None if left is None else left - len(page[0]) + 1
                yield _cut(page, left)
            return
        query: _native.RangeQuery | None = _native.RangeQuery.of(start, end, reverse)
        while query is not None and left != 0:
            key_ends, keys, value_ends, values, query = self._engine.range(
                query, size if left is None else min(size, left)
            )
            left = None if left is None else left - len(key_ends) + 1
            yield key_ends, keys, value_ends, values


def _cut(page: Any, left: int | None) -> tuple[Any, Any, Any, Any]:
    """A page of a hash index ends with the keys of one hash; without those beyond a limit."""
    key_ends, keys, value_ends, values = page
    if left is None or left >= 0:
        return key_ends, keys, value_ends, values
    key_ends, value_ends = key_ends[:left], value_ends[:left]
    return key_ends, keys[: key_ends[-1]], value_ends, values[: value_ends[-1]]
