"""Every record of a store, page by page.

Invariant: a page's keys and values have a row a record, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perdure import _checks, _native, _typed
from perdure._deferred import Deferred
from perdure._handle import Handle
from perdure._single import bound

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _arrow
    from perdure.typing import DType, RowShape
else:
    np, _arrays, _arrow = Deferred("numpy"), Deferred("perdure._arrays"), Deferred("perdure._arrow")


class Scans(Handle):
    """Scans of a store."""

    def scan(
        self,
        page_size: int = 65536,
        *,
        start: Any = None,
        end: Any = None,
        limit: int | None = None,
        reverse: bool = False,
        key_dtype: DType | None = None,
        dtype: DType | None = None,
        shape: RowShape | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Every record, page by page, in the index's order.

        Of index "btree" that is the order of keys, and `start`, `end` and `reverse` choose among
        them. For one record at a time: `items`.

        Parameters
        ----------
        page_size : int
            At most so many records a page, of n each.
        start, end : bytes, str or int, optional
            Keys from `start` on and below `end`. Index "btree", as `reverse`.
        limit : int, optional
            At most so many records in all.
        reverse : bool
            The greatest key first.
        key_dtype : dtype, optional
            Of keys of fixed length; by default uint64 for keys of 8 bytes (int64 where the
            pool's `key_order` is "signed"), else uint8.
        dtype : dtype, default uint8
            Of values of fixed length.
        shape : tuple of int, optional
            Of a value's row, as in `get`.

        Yields
        ------
        tuple of arrays
            `(keys, values)`. Keys are of shape (n,) where one element of `key_dtype` is a key, else
            (n, key_bytes / itemsize); values `(n, *shape)`. Where lengths vary:
            pyarrow.LargeBinaryArrays.

        Raises
        ------
        Busy
            Keys moved meanwhile, because the table grew or made room: start again.
        ValueError
            `key_dtype`, `dtype` or `shape` does not fit, or lengths vary.
        Unsupported
            `start`, `end` or `reverse`, and the pool's index keeps no order.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:scan", key_bytes=8, value_bytes=4)
        >>> _ = store.put(np.arange(1000), np.ones(1000, np.float32))
        >>> sum(float(values.sum()) for keys, values in store.scan(256, dtype=np.float32))
        1000.0
        """
        if self._key_width is None:
            refuse_rows(key_dtype=key_dtype)
        if self._value_width is None:
            refuse_rows(dtype=dtype, shape=shape)
        if self._row_type is not None:
            dtype, shape = _typed.result(self._row_type, dtype, shape)
        size = _checks.whole("page_size", page_size, least=1)
        if limit is not None:
            limit = _checks.whole("limit", limit)
        first, last = bound("start", start, self._key_width), bound("end", end, self._key_width)
        pages = self._raw_pages(size, first, last, limit, reverse)
        return self._shaped_pages(pages, key_dtype, dtype, shape)

    def count(self, start: Any = None, end: Any = None) -> int:
        """How many records have keys in [start, end); exact while nobody writes. Index "btree".

        Parameters
        ----------
        start, end : bytes, str or int, optional
            As in `scan`.

        Returns
        -------
        int
            The number of records.

        Raises
        ------
        Unsupported
            The pool's index keeps no order.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> options = {"index": "btree", "key_order": "unsigned"}
        >>> store = perdure.create("memfd:count", key_bytes=8, value_bytes=4, **options)
        >>> _ = store.put(np.arange(1000), np.ones(1000, np.float32))
        >>> store.count(100, 300)
        200
        """
        first, last = bound("start", start, self._key_width), bound("end", end, self._key_width)
        return self._engine.count_range(_native.RangeQuery.of(first, last, False))

    def _shaped_pages(
        self, pages: Iterator[Any], key_dtype: Any, dtype: Any, shape: Any
    ) -> Iterator[tuple[Any, Any]]:
        if key_dtype is None and self._key_width == 8:
            key_dtype = np.int64 if self._key_order == "signed" else np.uint64
        for key_ends, keys, value_ends, values in pages:
            if len(key_ends) < 2:
                continue
            # Rows of one element are a plain column, which is what integer keys look like
            # elsewhere.
            key_shape = (
                ()
                if key_dtype is not None and np.dtype(key_dtype).itemsize == self._key_width
                else None
            )
            yield (
                self._column(key_ends, keys, self._key_width, key_dtype, key_shape, "keys"),
                self._column(value_ends, values, self._value_width, dtype, shape, "values"),
            )

    @staticmethod
    def _column(ends: Any, data: Any, width: int | None, dtype: Any, shape: Any, what: str) -> Any:
        if width is None:
            return _arrow.to_array(ends, data)
        return _arrays.as_rows(data, len(ends) - 1, width, dtype, shape, what)


def refuse_rows(**options: Any) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(
            f"{given[0]}: lengths vary in this pool, so they come as an Arrow large_binary array;"
            f" leave {given[0]}= away"
        )
