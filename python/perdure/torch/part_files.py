"""Files of columns, written and read page by page: Parquet, and safetensors.

A page is a dictionary of arrays with one row each for an id. A safetensors file has its header,
with the number of rows, before the first column; so columns gather in files of their own until all
rows are there, and are joined then.

Invariant: memory is that of a page, whatever the file's size.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Page = dict[str, Any]
Columns = dict[str, tuple[type, int]]  # of each its numbers' type, and how many a row has; 0: one
Write = Callable[[Page], None]

_ROWS = 65536  # of a page that is read
_SAFETENSORS = {np.int64: "I64", np.int32: "I32", np.float32: "F32"}


@dataclass(frozen=True)
class Format:
    write: Callable[[Path, Columns], AbstractContextManager[Write]]
    read: Callable[[Path], Iterator[Page]]


# --- Parquet


@contextmanager
def _write_parquet(path: Path, columns: Columns) -> Iterator[Write]:
    schema = pa.schema([(name, _arrow_type(*column)) for name, column in columns.items()])

    def write(page: Page) -> None:
        arrays = [_arrow(page[name], width) for name, (_, width) in columns.items()]
        writer.write_batch(pa.record_batch(arrays, schema=schema))

    with pq.ParquetWriter(path, schema) as writer:
        yield write


def _arrow_type(dtype: type, width: int) -> pa.DataType:
    flat = pa.from_numpy_dtype(np.dtype(dtype))
    return pa.list_(flat, width) if width else flat


def _arrow(column: Any, width: int) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(column).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, width) if width else flat


def _read_parquet(path: Path) -> Iterator[Page]:
    with _naming(path, pa.ArrowException):
        for batch in pq.ParquetFile(path).iter_batches(_ROWS):
            yield {name: _numpy(batch.column(name)) for name in batch.schema.names}


@contextmanager
def _naming(path: Path, damage: type[Exception]) -> Iterator[None]:
    """What a library says of a damaged file, with the file's name."""
    try:
        yield
    except damage as error:
        raise ValueError(
            f"{path}: damaged, or cut short ({error}); export or copy it anew"
        ) from error


def _numpy(column: pa.Array) -> Any:
    if not pa.types.is_fixed_size_list(column.type):
        return column.to_numpy()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)


# --- safetensors


@contextmanager
def _write_safetensors(path: Path, columns: Columns) -> Iterator[Write]:
    rows = 0
    gathered = {name: path.with_name(f".{path.name}.{name}") for name in columns}
    with ExitStack() as several:
        files = {name: several.enter_context(one.open("wb")) for name, one in gathered.items()}

        def write(page: Page) -> None:
            nonlocal rows
            rows += len(page["id"])
            for name, (dtype, _) in columns.items():
                files[name].write(np.ascontiguousarray(page[name], dtype).data)

        yield write
    with path.open("wb") as whole:
        whole.write(_header(columns, rows))
        for one in gathered.values():
            with one.open("rb") as column:
                shutil.copyfileobj(column, whole, 1 << 20)
            one.unlink()


def _header(columns: Columns, rows: int) -> bytes:
    tensors, at = {}, 0
    for name, (dtype, width) in columns.items():
        shape = [rows, width] if width else [rows]
        end = at + math.prod(shape) * np.dtype(dtype).itemsize
        tensors[name] = {
            "dtype": _SAFETENSORS[dtype],
            "shape": shape,
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)  # columns begin at whole words
    return len(text).to_bytes(8, "little") + text


def _read_safetensors(path: Path) -> Iterator[Page]:
    from safetensors import SafetensorError, safe_open

    with _naming(path, SafetensorError), safe_open(path, framework="numpy") as file:
        names = list(file.keys())
        (rows, *_) = file.get_slice("id").get_shape()
        for start in range(0, rows, _ROWS):
            yield {name: file.get_slice(name)[start : min(start + _ROWS, rows)] for name in names}


FORMATS = {
    "parquet": Format(_write_parquet, _read_parquet),
    "safetensors": Format(_write_safetensors, _read_safetensors),
}
