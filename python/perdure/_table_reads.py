"""Named tables of whoever answers keys with values, and lookups over several of them.

Invariant: what a call looks up in several tables is one batch.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perdure import _checks, _named, _native, errors
from perdure._deferred import Deferred
from perdure.results import Result

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays
    from perdure._named import Table
    from perdure.typing import Array, DType, Keys, RowShape, Stream
else:
    np, _arrays = Deferred("numpy"), Deferred("perdure._arrays")


_KEPT = 4  # layouts of batches

# Entered again where the garbage collector or a signal's handler closes a store meanwhile.
_numbering = threading.RLock()


def _number_anew() -> None:
    """In a child, whose parent may have been numbering when it forked."""
    global _numbering
    _numbering = threading.RLock()


os.register_at_fork(after_in_child=_number_anew)


class TableReads:
    """Named tables, by whoever answers keys with values: a store, or a reader beside its writer."""

    _path: str
    _value_width: int | None
    _row_number_made: int | None = None
    _forgets_rows: weakref.finalize[Any, Any] | None = None
    _layouts: Mapping[Any, _named.Layout] = MappingProxyType({})

    def get(
        self,
        keys: Keys,
        *,
        out: Array | None = None,
        dtype: DType | None = None,
        shape: RowShape | None = None,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """Whoever this is answers keys as a store does."""
        raise NotImplementedError

    _catalogue_made: _named.Catalogue | None = None

    @property
    def _catalogue(self) -> _named.Catalogue:
        if self._catalogue_made is None:
            self._catalogue_made = _named.Catalogue(self)
        return self._catalogue_made

    def table(self, name: str, value_bytes: int | None = None) -> Table:
        """The table of that name: a key space of 64-bit ids of its own, in this pool.

        All tables share the pool's heap, its space, and its commits: a transaction, a step or a
        snapshot has all of them as they are at one moment. The pool has keys of 16 bytes, and
        values of the widest row's bytes, which narrower rows take, too; or, with
        `value_bytes=None`, of any length: then each row takes its own width's room.

        Parameters
        ----------
        name : str
        value_bytes : int, optional
            Of a row. Makes the table where there is none of that name; where there is one, it must
            be the same.

        Returns
        -------
        Table
            With `get`, `put`, `erase` and `scan` by ids.

        Raises
        ------
        KeyError
            There is no table of that name, and `value_bytes` is not given.
        TypeError
            `name` is no str.
        ValueError
            Its rows have another width, or the pool has no room for such a row or name.
        InvalidArgument
            A new table in an open transaction, in a read-only store, or in a pool of other keys.
        Unsupported
            The pool's keys have not 16 bytes, or its values less than 32.
        NoSpace, Closed
            As in `put`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:tables", key_bytes=16, value_bytes=64)
        >>> users, items = store.table("user", 64), store.table("item", 16)
        >>> with store.transaction():
        ...     done = users.put([7, -1], np.ones((2, 16), np.float32))
        ...     done = items.put([7], np.zeros((1, 4), np.float32))
        >>> users.get([-1], dtype=np.float32).values[0, :3].tolist(), sorted(store.tables())
        ([1.0, 1.0, 1.0], ['item', 'user'])
        """
        width = None if value_bytes is None else _checks.width("value_bytes", value_bytes)
        return self._catalogue.find(name, width)

    def tables(self) -> dict[str, Table]:
        """The tables of the pool by their names; see `table`.

        Returns
        -------
        dict of str to Table

        Raises
        ------
        Unsupported, Closed
            As in `table`.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:no-tables", key_bytes=16, value_bytes=64)
        >>> store.tables()
        {}
        """
        return self._catalogue.all()

    def get_tables(
        self,
        tables: Sequence[Table],
        ids: Array,
        offsets: Any = None,
        *,
        dtype: DType | None = None,
        shape: RowShape | None = None,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """The rows of ids of several tables, whose rows have one width, in one batch.

        Parameters
        ----------
        tables : sequence of Table
            Of this store.
        ids : array of integers of shape (n,)
            NumPy's or PyTorch's, or a list; tensors in host or device memory, as the keys of `get`.
        offsets : integers of shape (len(tables) + 1,), in host memory
            Ids from offsets[t] to offsets[t + 1] are of tables[t]. For one table it may be left
            out.
        dtype, shape, stream, check
            As in `get`; `dtype` of PyTorch for a tensor of ids.

        Returns
        -------
        Result
            As `get`: values of shape `(n, *shape)`, zeros where an id is absent.

        Raises
        ------
        ValueError, TypeError
            `offsets` do not fit, widths differ, or ids are no integers.
        InvalidArgument
            With `check`, where the pool's values have any length: one is no row of its table.
        Corrupt, Closed
            As in `get`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:get-tables", key_bytes=16, value_bytes=64)
        >>> both = [store.table("a", 64), store.table("b", 64)]
        >>> done = store.put_tables(both, [1, 2, 1], np.ones((3, 16), np.float32), [0, 2, 3])
        >>> store.get_tables(both, [1, 1, 9], [0, 1, 3]).found.tolist()
        [True, True, False]
        """
        layout = self._layout(tables, ids, offsets)
        width, keys = layout.one_width(), layout.keys_of(ids)
        return self._get_rows(keys, width, dtype=dtype, shape=shape, stream=stream, check=check)

    def _rows_source(self) -> _native.Store | _native.PoolReader:
        """Whoever this is reads by one of the two."""
        raise NotImplementedError

    def _row_number(self) -> int:
        """What operators of PyTorch name it by (native/row_calls.hpp)."""
        source = self._rows_source()
        if (number := self._row_number_made) is not None:
            return number
        with _numbering:
            source = self._rows_source()  # again, so that a store which a thread closes is not kept
            if self._row_number_made is None:
                self._row_number_made = _native.keep_rows(source)
                self._forgets_rows = weakref.finalize(
                    self, _native.forget_rows, self._row_number_made
                )
            return self._row_number_made

    def _forget_row_number(self) -> None:
        """Nothing but calls that are under way keeps the native object any more."""
        with _numbering:
            if self._forgets_rows is not None:
                self._forgets_rows()
            self._row_number_made = self._forgets_rows = None

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
        """Rows of so many bytes, by the pool's keys."""
        found = self.get(keys, dtype="uint8", stream=stream, check=check)
        rows = _named.narrowed(found.values, width, dtype, shape)
        return Result(rows, found.found, found.statuses)

    def _layout(self, tables: Sequence[Table], ids: Any, offsets: Any) -> _named.Layout:
        """Of a batch; kept for the next ones that are cut alike, as those of a training are."""
        count = _named.count_of(ids)
        ends = None if offsets is None else _named.offsets_of(offsets)
        which = (tuple(tables), count, None if ends is None else (ends.shape, ends.tobytes()))
        found = self._layouts.get(which)
        if found is None:
            foreign = [table.name for table in tables if table._store is not self]
            if foreign:
                raise errors.InvalidArgument(
                    f"pool {self._path}: table {foreign[0]!r} is of another store; take it from"
                    " this one"
                )
            found = _named.Layout(tables, ends, count)
            last = list(self._layouts.items())[1 - _KEPT :]
            self._layouts = dict([*last, (which, found)])
        return found
