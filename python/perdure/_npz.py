"""NumPy's archives of arrays (.npz) as rows: the arrays `keys` and `values`, a row a record.

Byte strings of varying length are their bytes, one behind the other, with the int64 array
`key_offsets` or `value_offsets`, one longer than there are records. Invariant: what `write` writes,
`load` reads back; no pickled object is read.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from perdure import _arrow
from perdure._outputs import Kind, Output
from perdure.cli_support import Failure, plural, progress
from perdure.tables.pieces import BATCH_ROWS

if TYPE_CHECKING:
    from perdure.tables.loading import Loaded
    from perdure.tables.pieces import Pool

NPZ = Kind("NPZ file", lambda first: first.startswith(b"PK\x03\x04"))


def is_npz(name: str) -> bool:
    return name.lower().endswith(".npz")


def load(pool: Pool, name: str, loaded: Loaded) -> None:
    """Puts all records of an archive, a batch at a time."""
    try:
        with np.load(name, allow_pickle=False) as archive:
            columns = [_column(archive, what) for what in ("key", "value")]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise Failure(f"{name}: not a readable NPZ file: {error}") from error
    keys, values = columns
    if len(keys) != len(values):
        raise Failure(
            f"{name}: {plural(len(keys), 'key')} and {plural(len(values), 'value')}; an archive "
            "needs a row of each a record"
        )
    loaded.facts = {"format": "NPZ", "columns": f"keys {_kind(keys)}, values {_kind(values)}"}
    loaded.rejected.unit = "row"
    with progress(f"load {name}", len(keys)) as show:
        for at in range(0, len(keys), BATCH_ROWS):
            pool.put(keys[at : at + BATCH_ROWS], values[at : at + BATCH_ROWS], check=True)
            loaded.stored = min(len(keys), at + BATCH_ROWS)
            show(loaded.stored)


def _column(archive: Any, what: str) -> Any:
    name, ends = f"{what}s", f"{what}_offsets"
    if name not in archive:
        there = ", ".join(archive.files) or "none"
        raise Failure(f"no array {name} in it (there is {there}); name them keys and values")
    array = archive[name]
    if array.ndim == 0:
        raise Failure(f"array {name} has no dimensions; it needs a row a record")
    if ends not in archive:
        return array
    offsets = archive[ends]
    if array.dtype != np.uint8 or offsets.dtype != np.int64 or not _ascend(offsets, len(array)):
        raise Failure(f"array {ends} is not where the bytes of {name} begin and end")
    return _arrow.to_array(offsets, array)


def _ascend(offsets: Any, size: int) -> bool:
    good = offsets.ndim == 1 and offsets.size > 0 and offsets[0] >= 0 and offsets[-1] <= size
    return bool(good and (np.diff(offsets) >= 0).all())


def _kind(column: Any) -> str:
    return "of varying length" if _arrow.is_arrow(column) else f"{column.dtype}{column.shape[1:]}"


def write(pool: Pool, output: Output) -> int:
    """All records, which have to fit in memory. Columns of one width have no offsets."""
    pages = list(pool.scan(BATCH_ROWS))
    arrays: dict[str, Any] = {}
    for what, column in (("key", 0), ("value", 1)):
        arrays |= _arrays_of(what, [page[column] for page in pages])
    with output.writing() as unfinished, open(unfinished, "wb") as file:
        np.savez(file, **arrays)
    return sum(len(keys) for keys, _ in pages)


def _arrays_of(what: str, pages: list[Any]) -> dict[str, Any]:
    if pages and isinstance(pages[0], np.ndarray):
        return {f"{what}s": np.concatenate(pages)}
    parts = [_arrow.offsets_and_data(page) for page in pages]
    lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(ends) for ends, _ in parts)])
    data = [octets[ends[0] : ends[-1]] for ends, octets in parts]
    joined = np.concatenate([np.zeros(0, np.uint8), *data])
    if lengths.size and lengths[0] and (lengths == lengths[0]).all():
        return {f"{what}s": joined.reshape(len(lengths), int(lengths[0]))}
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return {f"{what}s": joined, f"{what}_offsets": offsets}
