"""What a file of rows looks like to those who load it: the protocol that every format fulfils."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from perdure.cli_support import Failure
from perdure.tables.cells import is_bytes
from perdure.tables.rejects import Rejected

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Piece:
    """Some rows of the file: their columns in the plan's order, and their numbers in the file."""

    columns: list[pa.Array]
    numbers: npt.NDArray[np.int64]
    text: Callable[[int], bytes]  # row -> as the file has it


class Pool(Protocol):
    """What rows are loaded into and exported from: a perdure.Store, or a column family of RocksDB
    (perdure._cli_rocks_rows)."""

    @property
    def path(self) -> str: ...
    @property
    def key_bytes(self) -> int | None: ...
    @property
    def value_bytes(self) -> int | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def row_shape(self) -> tuple[int, ...] | None: ...
    def put(self, keys: Any, values: Any, *, check: bool) -> Any: ...
    def scan(self, page_size: int) -> Iterator[tuple[Any, Any]]: ...
    def __len__(self) -> int: ...


class Source(Protocol):
    """A file of rows. The types are what it says of a column itself; a user's word goes before."""

    header: list[str]
    typed: bool  # whether the file has types of its own
    rejected: Rejected
    done: float  # the part of the file that is read

    def describe(self) -> str: ...
    def key_type(self, column: str) -> str | None: ...
    def value_type(self, column: str, width: int | None) -> str: ...
    def kind(self, column: str) -> str: ...  # for people, and for columns of records
    def pieces(self, names: list[str]) -> Iterator[Piece]: ...


def key_type_of(kind: pa.DataType, column: str) -> str | None:
    import pyarrow as pa

    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return None if text else value_type_of("--key", column, kind)


def value_type_of(option: str, column: str, kind: pa.DataType) -> str:
    import pyarrow as pa

    if is_bytes(kind):
        return "text"  # its bytes as they are
    if pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64()):
        return np.dtype(kind.to_pandas_dtype()).name
    raise Failure(
        f"{option} {column}: Arrow type {kind} has no fixed bytes; choose integer, float, binary or"
        " string columns"
    )
