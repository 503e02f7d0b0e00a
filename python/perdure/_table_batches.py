"""Batches over named tables: one call, one launch and one ordering, however many tables.

Invariant: what a call does to several tables is one batch of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure import _named, _native
from perdure._batches import Batches
from perdure._deferred import Deferred
from perdure._table_reads import TableReads
from perdure.results import Outcome, Result, checked, done_mask

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _made
    from perdure._named import Table
    from perdure.options import Operation
    from perdure.typing import Array, DType, RowShape, Stream
else:
    np, _arrays = Deferred("numpy"), Deferred("perdure._arrays")
    _made = Deferred("perdure._made")


class TableBatches(Batches, TableReads):
    """Batches of a store that write named tables."""

    def _rows_source(self) -> _native.Store:
        return self._engine

    def put_tables(
        self,
        tables: Sequence[Table],
        ids: Array,
        rows: Array,
        offsets: Any = None,
        *,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Outcome:
        """Writes rows of several tables, whose rows have one width, in one batch.

        Parameters
        ----------
        tables, ids
            As in `get_tables`.
        rows : array of n rows
            Of whatever dtype, `value_bytes` of the tables each, where the ids are.
        offsets, stream, check
            As in `get_tables`.

        Returns
        -------
        Outcome
            As `put`.

        Raises
        ------
        ValueError, TypeError
            As in `get_tables`, or a row has another length.
        NoSpace, Closed
            As in `put`.

        Examples
        --------
        See `get_tables`.
        """
        layout = self._layout(tables, ids, offsets)
        width, keys = layout.one_width(), layout.keys_of(ids)
        return self._put_rows(keys, rows, width, stream=stream, check=check)

    def _get_rows(
        self,
        keys: Any,
        width: int,
        *,
        dtype: DType | None = None,
        shape: RowShape | None = None,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """In a pool of any length a value of another length gets a status that says so."""
        if self._value_width == width and self._row_type is None:
            return self.get(keys, dtype=dtype, shape=shape, stream=stream, check=check)
        if self._value_width is not None:
            return super()._get_rows(
                keys, width, dtype=dtype, shape=shape, stream=stream, check=check
            )
        handle = _arrays.stream_of(stream, self._device, keys)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        statuses = np.zeros(given.count, np.uint8)
        rows, column = _arrays.made(
            keys, given, width, dtype, shape, handle, self._device, zeros=False
        )
        worst = self._engine.get(given, column, statuses, handle, self._mine())
        found = done_mask(statuses)
        _made.clear_absent(rows, found)
        return checked(self._path, "get", Result(rows, found, statuses), worst, check)

    def _put_rows(
        self, keys: Any, rows: Any, width: int, *, stream: Any = None, check: bool = True
    ) -> Outcome:
        """Rows of so many bytes, by the pool's keys."""
        wide = _named.widened(rows, width, self._value_width)
        return self.put(keys, wide, stream=stream, check=check)

    def update_tables(
        self,
        tables: Sequence[Table],
        ids: Array,
        operands: Array,
        offsets: Any = None,
        *,
        op: Operation = "add",
        stream: Stream | None = None,
        check: bool = True,
    ) -> Outcome:
        """Combines rows of several tables, whose rows have one width, with operands, in one batch.

        Parameters
        ----------
        tables, ids
            As in `get_tables`.
        operands : array of n rows
            `value_bytes` of the tables each, where the ids are. Their dtype says what the rows
            hold, as in `update`.
        offsets : integers
            As in `get_tables`.
        op : {"add", "min", "max", "replace"}
            As in `update`.
        stream, check
            As in `get_tables`.

        Returns
        -------
        Outcome
            As `update`: `done` is false where an id was absent.

        Raises
        ------
        ValueError, TypeError
            As in `put_tables`, or as in `update`.
        Corrupt, NoSpace, Closed
            As in `update`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:update-tables", key_bytes=16, value_bytes=64)
        >>> both = [store.table("a", 8), store.table("b", 8)]
        >>> done = store.put_tables(both, [1, 1], np.array([[40], [50]]), [0, 1, 2])
        >>> done = store.update_tables(both, [1, 1, 9], np.array([[2], [3], [4]]), [0, 1, 3])
        >>> done.done.tolist(), both[1].get([1], dtype=np.int64).values.tolist()
        ([True, True, False], [[53]])
        """
        layout = self._layout(tables, ids, offsets)
        width, keys = layout.one_width(), layout.keys_of(ids)
        rows = _named.as_rows(operands)
        return self.update(
            keys,
            _named.widened(rows, width, self._value_width),
            op,
            element=None if width == self._value_width else _named.dtype_name(rows),
            stream=stream,
            check=check,
        )

    def erase_tables(
        self,
        tables: Sequence[Table],
        ids: Array,
        offsets: Any = None,
        *,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Outcome:
        """Erases ids of several tables, of any widths, in one batch.

        Parameters
        ----------
        tables, ids, offsets, stream, check
            As in `get_tables`.

        Returns
        -------
        Outcome
            As `erase`.

        Raises
        ------
        ValueError, TypeError, Closed
            As in `get_tables`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:erase-tables", key_bytes=16, value_bytes=64)
        >>> table = store.table("a", 64)
        >>> done = table.put([1, 2], np.ones((2, 16), np.float32))
        >>> store.erase_tables([table], [2, 3]).done.tolist()
        [True, False]
        """
        keys = self._layout(tables, ids, offsets).keys_of(ids)
        return self.erase(keys, stream=stream, check=check)
