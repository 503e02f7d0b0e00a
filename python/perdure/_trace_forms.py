"""The forms of traces: how lines or records of a file become columns of requests.

A text form is a table of columns (perdure._trace_tables), twitter's seven columns (`Cache7`) or
one key a line (`Keys`); a binary form is a record of fixed size (`Records`). `form_of` makes the
form of a format.

Invariant: requests come in file order; and a block that `fast` takes whole holds the same requests
as `slow` reads from it, line by line.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perdure._requests import INT64_MAX, OP_NAMES, Malformed, Op, Refused, Requests, TraceFormat
from perdure._trace_lines import (
    Lines,
    int_column,
    lines_unlike,
    only_chunk,
    read_columns,
    shown,
    whole,
)
from perdure._trace_tables import Arc, cache3, cloudphysics, lirs, msr

_OP_CODES = {op.name.encode(): int(op) for op in Op}


# --- twitter's seven columns, and one key a line ------------------------------------------------


class Cache7(Lines):
    numeric = False
    _types: ClassVar = {
        "timestamp": pa.int64(),
        "key": pa.large_binary(),
        "key size": pa.int64(),
        "value size": pa.int64(),
        "client id": pa.large_binary(),
        "operation": pa.string(),
        "TTL": pa.int64(),
    }
    unusual = lines_unlike(
        rb"\d{1,18},[^,\r\n]++,\d{1,18},\d{1,18},[^,\r\n]*+,(?:%s),\d{1,18}"
        % "|".join(OP_NAMES).encode()
    )

    def fast(self, block: bytes) -> Requests | None:
        table = read_columns(block, list(self._types), self._types)
        if table is None:
            return None
        codes = pc.index_in(only_chunk(table, "operation"), value_set=pa.array(OP_NAMES))
        keys = only_chunk(table, "key")
        numbers = [
            int_column(table, name) for name in ("timestamp", "key size", "value size", "TTL")
        ]
        unfit = codes.null_count or min(column.min() for column in numbers) < 0
        if unfit or pc.min(pc.binary_length(keys)).as_py() == 0:
            return None
        times, _, sizes, ttls = numbers
        ops = codes.to_numpy(zero_copy_only=False).astype(np.uint8)
        return Requests(keys, times, sizes, ops, ttls)

    def parse(self, line: bytes) -> tuple[int, bytes, int, int, int]:
        head, *tail = line.rsplit(b",", 5)  # from the right: an anonymized key may hold commas
        time, comma, key = head.partition(b",")
        if len(tail) != 5 or not comma:
            found = line.count(b",") + 1
            raise Refused(
                f"7 columns expected (timestamp, key, key size, value size, client id, "
                f"operation, TTL), {found} found"
            )
        if not key:
            raise Refused("the key is empty")
        whole(tail[0], "key size", 0, INT64_MAX)
        op = _OP_CODES.get(tail[3])
        if op is None:
            raise Refused(f"operation {shown(tail[3])} is none of {'/'.join(OP_NAMES)}")
        return (
            whole(time, "timestamp", 0, INT64_MAX),
            key,
            whole(tail[1], "value size", 0, INT64_MAX),
            op,
            whole(tail[4], "TTL", 0, INT64_MAX),
        )

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(self.good_rows(block, line, malformed))
        if not rows:
            return None
        times, keys, sizes, ops, ttls = zip(*rows, strict=True)
        return Requests(
            pa.array(keys, pa.large_binary()),
            np.array(times, np.int64),
            np.array(sizes, np.int64),
            np.array(ops, np.uint8),
            np.array(ttls, np.int64),
        )


class Keys(Lines):
    """Every line that is not empty is a key, so the vectorised reading never needs a second
    look."""

    numeric = False

    def passes_over(self, line: bytes) -> bool:
        return not line

    def parse(self, line: bytes) -> tuple[bytes]:
        return (line,)

    def fast(self, block: bytes) -> Requests | None:
        text = np.frombuffer(block, np.uint8)
        feed = text == 10
        drop = feed.copy()
        drop[:-1] |= (text[:-1] == 13) & feed[1:]
        kept = np.cumsum(~drop)  # bytes of keys up to and with each byte
        offsets = np.concatenate([[0], kept[feed]])
        offsets = offsets[np.concatenate([[True], np.diff(offsets) > 0])]  # empty lines
        bytes_ = np.ascontiguousarray(text[~drop])
        keys = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            len(offsets) - 1,
            [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(bytes_)],
        )
        return Requests(keys)

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(self.good_rows(block, line, malformed))
        return Requests(pa.array([key for (key,) in rows], pa.large_binary())) if rows else None


# --- binary records -----------------------------------------------------------------------------

ORACLE_RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
assert ORACLE_RECORD.itemsize == 24
RECORDS = {
    TraceFormat.oraclegeneral: ORACLE_RECORD,
    TraceFormat.u32le: np.dtype("<u4"),
    TraceFormat.u32be: np.dtype(">u4"),
    TraceFormat.u64le: np.dtype("<u8"),
    TraceFormat.u64be: np.dtype(">u8"),
}


class Records:
    """Records of one size, one request each."""

    numeric = True

    def __init__(self, format: TraceFormat) -> None:
        self.dtype = RECORDS[format]

    def read(self, block: bytes) -> Requests:
        records = np.frombuffer(block, self.dtype)
        if self.dtype.names is None:
            return Requests(pa.array(records.astype(np.uint64)))
        return Requests(
            pa.array(records["object"].astype(np.uint64)),
            records["time"].astype(np.int64),
            records["size"].astype(np.int64),
            key_counted=True,
        )


_TEXT_FORMS: dict[TraceFormat, Any] = {
    TraceFormat.cache3: cache3,
    TraceFormat.cache7: Cache7,
    TraceFormat.keys: Keys,
    TraceFormat.arc: Arc,
    TraceFormat.lirs: lirs,
    TraceFormat.msr: msr,
    TraceFormat.cloudphysics: cloudphysics,
}


def form_of(format: TraceFormat) -> Any:
    """A fresh form; libCacheSim's csv has none without its columns (`csv_form`)."""
    return Records(format) if format in RECORDS else _TEXT_FORMS[format]()
