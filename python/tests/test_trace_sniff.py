"""Which format a file is taken for: samples, traces of every format, and files that are none."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import numpy as np
import perdure
import pyarrow as pa
import pytest
from perdure import traces
from perdure.traces import Trace, TraceError, TraceFormat
from pyarrow import parquet
from trace_files import DATA, PACKINGS, SEVEN, packed, read, written, zstd

# --- real samples -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format", "requests", "distinct", "first"),
    [
        ("arc_OLTP.rows0-1K.lis.zst", "arc", 1000, 836, [1, 2, 3]),
        ("arc_P3.rows0-1K.lis.zst", "arc", 29_868, 28_396, [230027, 230028, 230029]),
        ("cache2k_orm-busy.rows0-2K.u32le.xz", "u32le", 2000, 544, [16777456, 131208, 262280]),
        ("cache2k_web12.rows0-2K.u32be.xz", "u32be", 2000, 899, [0, 1, 2]),
        ("scarab_recs.rows0-150K.u64be.xz", "u64be", 150_000, 48_497, None),
        (
            "gradle_build-cache.rows0-500.txt.xz",
            "keys",
            500,
            436,
            [b"d05fdfe4022d6da89116ccbd91a8df8b", b"eef6560f69080093976e42ae19038886"],
        ),
    ],
)
def test_real_samples_are_recognised(name, format, requests, distinct, first):
    found, trace = read(DATA / name)
    assert (trace.format, trace.malformed.count) == (format, 0)
    assert (len(found), len(found.keys.unique())) == (requests, distinct)
    assert first is None or found.keys[: len(first)].to_pylist() == first


# --- what is recognised, and what is not --------------------------------------------------------


def oracle(objects: list[int], base: int = 1) -> bytes:
    """An oracleGeneral trace of these objects, with the next access of each counted from `base`."""
    later = [
        next((j for j in range(i + 1, len(objects)) if objects[j] == o), -1)
        for i, o in enumerate(objects)
    ]
    rows = [
        (i // 3, o, 100, n + base if n >= 0 else -1)
        for i, (o, n) in enumerate(zip(objects, later, strict=True))
    ]
    return packed("<IQIq", rows)


@pytest.mark.parametrize(
    ("file", "format"),
    [
        (oracle([5, 6, 5, 7, 6, 5]), "oraclegeneral"),
        (oracle([5, 6, 5, 7, 6, 5], base=0), "oraclegeneral"),
        (oracle(list(range(50))), "oraclegeneral"),
        (b"1 8 0 0\n9 16 0 1\n", "arc"),
        (b"7\n8\n7\n", "lirs"),
        (b"*\n7\n*\n8\n", "lirs"),
        (b"128166372003061629,hm,1,Write,3216997,512,1331\n", "msr"),
        (b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n", "cloudphysics"),
        (b"timestamp,obj_id,obj_size\n1,a,2\n", "csv"),
        (b"time,object,size\n1,2,3\n", "cache3"),
        (SEVEN, "cache7"),
        (b"/a\r\n/b\r\n/a", "keys"),
    ],
)
@pytest.mark.parametrize("pack", [None, *PACKINGS.values()])
def test_recognised(tmp_path, file, format, pack):
    found, trace = read(written(tmp_path, pack(file) if pack else file, "a.trace"))
    assert trace.format == format and len(found) and trace.malformed.count == 0


def tar(folder: Path) -> bytes:
    with tarfile.open(folder / "t.tar", "w") as archive:
        archive.add(__file__, "f")
    return (folder / "t.tar").read_bytes()


def table(folder: Path) -> bytes:
    parquet.write_table(pa.table({"key": [1, 2, 3]}), folder / "t.parquet")
    return (folder / "t.parquet").read_bytes()


def pool(folder: Path) -> bytes:
    with perdure.create(folder / "pool", 8, 8) as store:
        store.put(np.arange(100, dtype=np.uint64), np.arange(100, dtype=np.uint64))
    with open(folder / "pool", "rb") as file:
        return file.read(1 << 20)


def log(folder: Path) -> bytes:
    store = perdure.create(
        folder / "p", 8, 8, durability="power", log_dir=folder / "log", log_bytes=64 << 20
    )
    store.put(np.arange(100, dtype=np.uint64), np.arange(100, dtype=np.uint64))
    store.close()
    file = max((folder / "log").iterdir(), key=lambda file: file.stat().st_size)
    with open(file, "rb") as opened:
        return opened.read(1 << 20)


RECORDS = [{"time": i, "object": i % 3, "size": 9} for i in range(40)]
LOG = "".join(
    f"2026-01-01T00:00:{i % 60:02} INFO get key={i % 3} took {i} us\n" for i in range(200)
).encode()
FOREIGN = {
    "JSON": (json.dumps(RECORDS), "JSON"),
    "pretty JSON": (json.dumps(RECORDS, indent=1), "JSON"),
    "JSON lines": ("".join(json.dumps(row) + "\n" for row in RECORDS), "JSON"),
    "Parquet": (table, "Parquet"),
    "pool": (pool, "a Perdure pool"),
    "redo log": (log, "a Perdure"),
    "log": (LOG, "text that begins '2026"),
    "PNG": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 9, "a PNG picture"),
    "tar": (tar, "tar archive"),
    "CSV with header": ("id,x,y\n" + "1,2,3\n2,3,4\n" * 9, "CSV of 3 columns"),
    "CSV of numbers": ("1,2,3\n2,3,4\n3,2,3\n" * 9, "CSV of 3 columns"),
    "CSV of four": ("time,key,value,size\n" + "1,2,3,4\n" * 9, "CSV of 4 columns"),
    "edges": ("1 2\n1 3\n2 3\n" * 9, "text"),
    "four columns": ("1 2 3 4\n5 6 7 8\n" * 9, "text"),
    "tabs": ("a\tb\n1\t2\n" * 9, "tab-separated"),
    "word list": ("".join(f"word{i}\n" for i in range(99)), "a list of words"),
    "number list": ("".join(f"{i}\n" for i in range(99)), "a list of numbers"),
    "floats in lines": ("0.5\n1e-3\n0.5\n" * 9, "a list of numbers"),
    "bars": ("1|2|x y\n" * 9, "CSV with bars of 3 columns"),
    "HTML": ("<!doctype html>\n<p>\n<p>\n", "HTML"),
    "program": (Path(traces.__file__).read_bytes(), "text"),
    "UTF-16": ("time,object,size\n1,2,3\n".encode("utf-16"), "UTF-16"),
    "u32 without a name": (packed("<I", [(i % 7,) for i in range(999)]), "binary data"),
    "u64 without a name": (packed("<Q", [(i % 7,) for i in range(999)]), "binary data"),
    "sorted u64": (packed("<Q", [(i,) for i in range(9999)]), "binary data"),
    "sorted large u64": (packed("<Q", [(10**9 + 1000 * i,) for i in range(9999)]), "binary data"),
    "floats": (np.linspace(0, 1, 999).tobytes(), "binary data"),
    "zeros": (bytes(24 * 99), "binary data"),
}


NO_TRACES = [
    "road-usa-NY.pace.gr.xz",
    "hotspot_temp_512.xz",
    "hotspot_power_512.xz",
    "srad_image.pgm.xz",
    "mesh-wing.metis.graph.xz",
    "t10k-images-idx3-ubyte.xz",
    "t10k-labels-idx1-ubyte.xz",
    "open_bandit_bts.rows0-10K.csv.xz",
    "README.md",
    "SHA256SUMS",
]


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("pack", [None, gzip.compress, zstd])
def test_what_is_no_trace_is_told_in_one_line(tmp_path, what, pack):
    made, looks_like = FOREIGN[what]
    data = made(tmp_path) if callable(made) else made.encode() if isinstance(made, str) else made
    path = written(tmp_path, pack(data) if pack else data, "some.bin")
    with pytest.raises(TraceError) as refused:
        Trace(path)
    said = str(refused.value)
    assert (
        said.startswith(f"{path}: no trace that is recognised: it looks like ")
        and looks_like in said
    )
    assert (
        "\n" not in said
        and "--format" in said
        and all(form in said for form in list(TraceFormat)[1:])
    )


@pytest.mark.parametrize("name", NO_TRACES)
def test_real_files_that_are_no_traces(name):
    with pytest.raises(TraceError, match=r"no trace that is recognised: it looks like"):
        Trace(DATA / name)


def test_the_page_about_traces_names_every_format():
    page = (DATA.parent / "docs" / "traces.md").read_text()
    assert [form for form in list(TraceFormat)[1:] if f"`{form}`" not in page] == []


@pytest.mark.parametrize("what", ["JSON", "log", "CSV of four", "word list", "program"])
@pytest.mark.parametrize(
    "format", ["cache3", "cache7", "arc", "lirs", "msr", "cloudphysics", "csv"]
)
def test_a_named_format_that_no_line_has_is_refused(tmp_path, what, format):
    made = FOREIGN[what][0]
    path = written(tmp_path, made.encode() if isinstance(made, str) else made)
    with pytest.raises(TraceError, match=r"it looks like|does not name"):
        Trace(path, format)


@pytest.mark.parametrize("format", ["oraclegeneral", "u32le", "u32be", "u64le", "u64be"])
@pytest.mark.parametrize("pack", [None, gzip.compress, zstd])
def test_a_torn_binary_trace_is_refused(tmp_path, format, pack):
    file = oracle([5, 6, 5, 7, 6, 5])[:-1]
    with pytest.raises(TraceError, match=r"truncated, or not of this format: 143 bytes"):
        read(written(tmp_path, pack(file) if pack else file), format)


def test_a_suffix_names_plain_numbers(tmp_path):
    file = packed("<I", [(1,), (2,)])
    for suffix, keys in {
        "u32le": [1, 2],
        "u32be": [1 << 24, 2 << 24],
        "u64le": [1 + (2 << 32)],
    }.items():
        found, trace = read(written(tmp_path, file, f"t.{suffix}"))
        assert (trace.format, found.keys.to_pylist()) == (suffix, keys)
        found, _ = read(written(tmp_path, gzip.compress(file), f"t.{suffix}.gz"))
        assert found.keys.to_pylist() == keys
    with pytest.raises(TraceError, match="PNG"):
        Trace(written(tmp_path, FOREIGN["PNG"][0], "t.u32le"))


def test_compressed_twice_is_refused(tmp_path):
    with pytest.raises(TraceError, match="gzip data inside compressed data"):
        Trace(written(tmp_path, gzip.compress(gzip.compress(SEVEN)), "t.gz"))
