"""Named tables: several key spaces of 64-bit ids in one pool, with one heap and one commit.

A pool of tables has keys of 16 bytes: the id, then the table's number (8 bytes each). Which tables
there are is the engine's affair (perdure/tables.h). Where the pool's values have one size, a row
that is narrower is followed by zeros; where they have any length, it is as long as its table says.

Invariant: a table is one object as long as its store is open.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perdure import _checks, errors
from perdure._deferred import Deferred
from perdure.results import Outcome, Result

if TYPE_CHECKING:
    import numpy as np

    from perdure.options import Operation
    from perdure.store import Store
    from perdure.typing import Array, DType, RowShape, Stream
else:
    np = Deferred("numpy")

KEY_BYTES = 16
LEAST_ROW = 32  # of a pool whose values have one size: so that its tables can have names


def _is_tensor(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "torch"


class Layout:
    """Which tables the ids of a batch are of. It is checked once, and kept for batches that are cut
    alike (TableReads._layout)."""

    def __init__(self, tables: Sequence[Table], offsets: Any, count: int) -> None:
        if offsets is None and len(tables) != 1:
            raise ValueError("offsets: say which ids are whose; only one table needs none")
        if offsets is not None:
            _check_offsets(offsets, len(tables), count)
        self._numbers = tuple(table.number for table in tables)
        self._counts = (count,) if offsets is None else tuple(np.diff(offsets).tolist())
        self.widths = sorted({table.value_bytes for table in tables})

    def one_width(self) -> int:
        if len(self.widths) != 1:
            raise ValueError(
                f"tables: rows of {self.widths} bytes; one call takes tables of one width"
            )
        return self.widths[0]

    def keys_of(self, ids: Any) -> Any:
        """The pool's keys, where the ids are."""
        if _is_tensor(ids):
            return self._torch_keys(ids)
        whole = np.asarray(ids)
        if whole.ndim != 1 or (whole.size and whole.dtype.kind not in "iu"):
            raise TypeError(
                f"ids: {whole.dtype} of shape {whole.shape}; pass one column of integers"
            )
        keys = np.empty((whole.size, 2), np.int64)
        keys[:, 0] = whole.view(np.int64) if whole.dtype == np.uint64 else whole
        one = len(self._numbers) == 1
        keys[:, 1] = self._numbers[0] if one else np.repeat(self._numbers, self._counts)
        return keys

    def _torch_keys(self, ids: Any) -> Any:
        torch = sys.modules["torch"]
        kind = ids.dtype
        if ids.dim() != 1 or kind == torch.bool or kind.is_floating_point or kind.is_complex:
            raise TypeError(f"ids: {kind} of shape {tuple(ids.shape)}; pass one column of integers")
        if kind != torch.int64:
            ids = ids.to(torch.int64)
        if len(self._numbers) == 1:
            each = torch.full_like(ids, self._numbers[0])
        else:
            each = numbers_of_each(self._numbers, self._counts, ids.device)
        return torch.stack([ids, each], dim=1)


@functools.lru_cache(maxsize=4)
def numbers_of_each(numbers: tuple[int, ...], counts: tuple[int, ...], device: Any) -> Any:
    """Each table's number as often as there are ids of it: a tensor, not to be changed. It is kept,
    for batches of a training are often cut alike."""
    torch = sys.modules["torch"]
    each, often = torch.tensor([numbers, counts]).to(device).unbind(0)
    return torch.repeat_interleave(each, often, output_size=sum(counts))


def count_of(ids: Any) -> int:
    try:
        return len(ids)
    except TypeError:
        raise TypeError(f"ids: {type(ids).__name__}; pass one column of integers") from None


def offsets_of(given: Any) -> Any:
    """As int64, of integers."""
    ends = np.asarray(given)
    if ends.size and ends.dtype.kind not in "iu":
        raise TypeError(f"offsets: {ends.dtype}; pass integers")
    return ends.astype(np.int64, copy=False)


def _check_offsets(ends: Any, tables: int, ids: int) -> None:
    rises = ends.ndim == 1 and bool((np.diff(ends) >= 0).all())
    if ends.shape != (tables + 1,) or not rises or ends[0] != 0 or ends[-1] != ids:
        raise ValueError(
            f"offsets: for {tables} tables and {ids} ids pass {tables + 1} numbers that rise from 0"
            f" to {ids}"
        )


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

    def update(
        self,
        ids: Array,
        operands: Array,
        op: Operation = "add",
        *,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Outcome:
        """Combines the rows of `ids` with operands, as `Store.update` does."""
        return self._store.update_tables([self], ids, operands, op=op, stream=stream, check=check)

    def erase(self, ids: Array, *, stream: Stream | None = None, check: bool = True) -> Outcome:
        """Erases `ids`, as `Store.erase` does."""
        return self._store.erase_tables([self], ids, stream=stream, check=check)

    def scan(
        self, page_size: int = 65536, *, dtype: DType | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """All rows, page by page: ids (int64) and rows. Looks at the whole pool; as `Store.scan`,
        it raises `Busy` where keys move meanwhile."""
        size = _checks.whole("page_size", page_size, least=1)
        for _, keys, ends, values in self._store._raw_pages(size, None, None, None, False):
            ids = keys.view(np.int64).reshape(-1, 2)
            mine = ids[:, 1] == self.number
            if not mine.any():
                continue
            lengths = np.diff(ends)
            if self._store.value_bytes is None and (lengths[mine] != self.value_bytes).any():
                raise errors.Corrupt(
                    f"pool {self._store.path}: a value is no row of table {self.name!r}, of"
                    f" {self.value_bytes} bytes; who writes its keys must write such rows"
                )
            rows = values[np.repeat(mine, lengths)].reshape(int(mine.sum()), -1)
            found = np.ascontiguousarray(rows[:, : self.value_bytes])
            yield ids[mine, 0], found.view(dtype or np.uint8)


class Catalogue:
    """The tables of a pool: the engine's, by names that lead to one object each."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._known: dict[str, Table] = {}

    def all(self) -> dict[str, Table]:
        return {entry[0]: self._kept(*entry) for entry in self._store._engine.tables()}

    def find(self, name: str, value_bytes: int | None) -> Table:
        _checks.text("name", name)
        known = self._known.get(name)
        if known is not None and value_bytes in (None, known.value_bytes):
            return known
        try:
            return self._kept(*self._store._engine.table(name, value_bytes or 0))
        except errors.NotFound as error:
            raise KeyError(error.message) from None

    def _kept(self, name: str, number: int, value_bytes: int) -> Table:
        return self._known.setdefault(name, Table(self._store, name, number, value_bytes))


def widened(rows: Any, table_bytes: int, pool_bytes: int | None) -> Any:
    """Rows of a table as rows of the pool; None: of a pool of any length."""
    if table_bytes == pool_bytes:
        return rows  # which the pool checks
    octets = _octets(rows)
    if octets.shape[1] != table_bytes:
        raise ValueError(
            f"rows: {octets.shape[1]} bytes each; rows of this table have {table_bytes}"
        )
    if pool_bytes is None:
        return octets
    if _is_tensor(rows):
        torch = sys.modules["torch"]
        wide = torch.zeros((rows.shape[0], pool_bytes), dtype=torch.uint8, device=rows.device)
    else:
        wide = np.zeros((octets.shape[0], pool_bytes), np.uint8)
    wide[:, :table_bytes] = octets
    return wide


def as_rows(rows: Any) -> Any:
    return rows if _is_tensor(rows) else np.asarray(rows)


def dtype_name(rows: Any) -> str:
    """What its elements are, as NumPy calls it."""
    return str(rows.dtype).rpartition(".")[2]


def _octets(rows: Any) -> Any:
    if _is_tensor(rows):
        whole = rows.contiguous().reshape(rows.shape[0], math.prod(rows.shape[1:]))
        return whole.view(sys.modules["torch"].uint8)
    narrow = np.ascontiguousarray(rows)
    row_bytes = math.prod(narrow.shape[1:]) * narrow.itemsize
    return narrow.reshape(-1).view(np.uint8).reshape(narrow.shape[0], row_bytes)


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
