"""What the tests of traces share: the samples in data/, and traces written and read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from pathlib import Path

import pyarrow as pa
from perdure import traces
from perdure.traces import Requests, Trace

DATA = Path(__file__).resolve().parents[2] / "data"
TWITTER = DATA / "twitter_cluster52.rows0-1M.csv.zst"

SEVEN = b"""\
0,nz:u:eeW511W3dcH3de3d15ec,22,304,127,get,0
0,nz:u:aa,7,12,3,set,86400
1,nz:u:aa,7,0,3,gets,0
1,nz:u:b,c,8,0,3,delete,0
2,nz:u:aa,7,5,3,append,60
"""


def written(tmp_path: Path, text: bytes, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text)
    return path


def read(
    path: Path, format: str = "auto", size: int = 1000, columns: str | None = None
) -> tuple[Requests, Trace]:
    with Trace(path, format, columns) as trace:
        batches = list(trace.batches(size))
    assert all(len(batch) == size for batch in batches[:-1])
    return traces.join(batches), trace


def zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


PACKINGS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd}


def packed(fields: str, rows: list[tuple]) -> bytes:
    return b"".join(struct.pack(fields, *row) for row in rows)
