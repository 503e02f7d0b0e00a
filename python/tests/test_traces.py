"""The trace readers against hand-written lines, line-by-line reading, and the real samples in
data/.

The seven-column lines here are written by hand after twitter/cache-trace's documentation;
oracleGeneral, MSR and LIRS traces are built from their published layouts (docs/traces.md), for
data/ holds no real ones.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import struct
import tarfile
from pathlib import Path

import numpy as np
import perdure
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure import _trace_sniff, _trace_tables, traces
from perdure._trace_csv import Csv, csv_form, csv_options
from perdure._trace_forms import form_of
from perdure.traces import Op, Requests, Trace, TraceError, TraceFormat
from pyarrow import parquet

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


def test_the_samples_are_the_files_that_the_checksums_name():
    for line in (DATA / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name


def test_the_samples_stay_small():
    assert sum(file.stat().st_size for file in DATA.iterdir()) <= 8_000_000


def test_the_twitter_sample():
    with Trace(TWITTER) as trace:
        assert trace.format is TraceFormat.cache3
        batches = list(trace.batches(16384))
        assert trace.fraction_read() == 1.0
    assert [len(batch) for batch in batches] == [16384] * 61 + [1_000_000 - 61 * 16384]
    whole = traces.join(batches)
    assert trace.malformed.count == 0
    assert len(whole.keys.unique()) == 143_542
    assert whole.keys[0].as_py() == 13053225291711363978
    assert (whole.sizes[0], whole.sizes.min(), whole.sizes.max()) == (737, 11, 4985)
    assert (np.diff(whole.times) >= 0).all() and whole.times[-1] == 509


def test_limit_and_batches(tmp_path):
    path = written(tmp_path, b"".join(b"0,%d,9\n" % i for i in range(10)))
    with Trace(path, "cache3") as trace:
        batches = list(trace.batches(4, limit=7))
    assert [batch.keys.to_pylist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6]]
    with Trace(path, "cache3") as trace:
        assert list(trace.batches(4, limit=0)) == []
        with pytest.raises(ValueError, match="at least one"):
            next(trace.batches(0))


def zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


PACKINGS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd}


@pytest.mark.parametrize("suffix", PACKINGS)
def test_compressions(tmp_path, suffix):
    pack, text = PACKINGS[suffix], b"".join(b"1,%d,%d\n" % (i, i % 7) for i in range(5000))
    whole, _ = read(written(tmp_path, pack(text), "t.csv" + suffix), "cache3")
    assert whole.keys.to_pylist() == list(range(5000))
    unnamed, _ = read(written(tmp_path, pack(text), "t"), "cache3")
    assert unnamed.keys.equals(whole.keys)
    cut = written(tmp_path, pack(text)[:-20], "cut.csv" + suffix)
    with pytest.raises(TraceError, match=r"cut\.csv.*(damaged|truncated)"):
        read(cut, "cache3")


def test_seven_columns(tmp_path):
    whole, trace = read(written(tmp_path, SEVEN))
    assert trace.format is TraceFormat.cache7 and trace.malformed.count == 0
    names = [b"nz:u:eeW511W3dcH3de3d15ec", b"nz:u:aa", b"nz:u:aa", b"nz:u:b,c", b"nz:u:aa"]
    assert whole.keys.to_pylist() == names
    assert whole.ops.tolist() == [Op.get, Op.set, Op.gets, Op.delete, Op.append]
    assert whole.sizes.tolist() == [304, 12, 0, 0, 5]
    assert whole.ttls.tolist() == [0, 86400, 0, 0, 60]
    assert whole.times.tolist() == [0, 0, 1, 1, 2]


def test_keys(tmp_path):
    text = b"/a\n\n/b c\r\n# not a comment\n\xff\xfe\nlast"
    whole, trace = read(written(tmp_path, text), "keys")
    assert trace.format is TraceFormat.keys
    assert whole.keys.to_pylist() == [b"/a", b"/b c", b"# not a comment", b"\xff\xfe", b"last"]
    assert whole.sizes is whole.ops is whole.times is None


def test_the_format_can_be_forced(tmp_path):
    path = written(tmp_path, b"1, 2, 3\n4, 5, 6\n")
    whole, _ = read(path, "keys")
    assert whole.keys.to_pylist() == [b"1, 2, 3", b"4, 5, 6"]
    with pytest.raises(ValueError, match="cache4"):
        Trace(path, "cache4")


def test_malformed_lines_are_named_and_the_rest_is_read(tmp_path):
    text = (
        b"# time, object, size\n1, 2, 3\n1, x, 3\n\n1, 2\n1, -2, 3\n1, 18446744073709551616, 3\n"
        b"1, 18446744073709551615, 3\r\n# more\n1, 0x10, 3\n1, 5, 6.5\n1, 1_0, 2\n1, +1, 2\n9, 9, 9"
    )
    whole, trace = read(written(tmp_path, text))
    assert whole.keys.to_pylist() == [2, (1 << 64) - 1, 16, 9]
    assert trace.malformed.count == 7
    assert [line for line, _ in trace.malformed.first] == [3, 5, 6, 7, 11, 12, 13]
    reasons = [reason for _, reason in trace.malformed.first]
    assert reasons[0] == "object 'x' is not a whole number"
    assert reasons[1] == "3 columns expected (time, object, size), 2 found"
    assert "outside 0..18446744073709551615" in reasons[3]


def test_malformed_seven_columns(tmp_path):
    bad = b"0,,1,2,3,get,0\n0,k,1,2,3,fetch,0\n0,k,1,2,get,0\nx,k,1,2,3,get,0\n0,k,1,2,3,get,-1\n"
    whole, trace = read(written(tmp_path, SEVEN + bad + SEVEN))
    assert len(whole) == 10
    assert [line for line, _ in trace.malformed.first] == [6, 7, 8, 9, 10]
    assert [reason.split("'")[0].split("(")[0].strip() for _, reason in trace.malformed.first] == [
        "the key is empty",
        "operation",
        "7 columns expected",
        "timestamp",
        "TTL",
    ]


def test_only_the_first_malformed_lines_are_kept(tmp_path):
    text = b"1,2,3\n" * 60 + b"oops\n" * 50
    _, trace = read(written(tmp_path, text), "cache3")
    assert trace.malformed.count == 50
    assert [line for line, _ in trace.malformed.first] == list(range(61, 81))


def test_blocks_change_nothing(tmp_path, monkeypatch):
    path = written(tmp_path, SEVEN * 50 + b"bad\n" + SEVEN * 50)
    whole, trace = read(path)
    monkeypatch.setattr(traces, "BLOCK_BYTES", 61)
    monkeypatch.setattr(_trace_sniff, "SNIFF_BYTES", 200)
    small, again = read(path)
    assert small.keys.to_pylist() == whole.keys.to_pylist()
    assert again.malformed == trace.malformed
    assert again.malformed.first[0][0] == 251


def test_what_is_no_trace(tmp_path):
    with pytest.raises(TraceError, match=r"none\.csv: cannot read the trace: No such file"):
        Trace(tmp_path / "none.csv")
    with pytest.raises(TraceError, match="empty"):
        Trace(written(tmp_path, b"\n\n"))
    with pytest.raises(TraceError, match="holds no request"):
        Trace(written(tmp_path, b"version,time,op,size,lbn\n"))
    with pytest.raises(TraceError, match="zero bytes"):
        Trace(written(tmp_path, b"\1\0\0\0\2\0\0\0"), "keys")
    with pytest.raises(TraceError, match="damaged or truncated"):
        Trace(written(tmp_path, b"plain text", "t.xz"))
    with pytest.raises(TraceError, match="longer than"):
        read(written(tmp_path, b"a" * (6 << 20)), "keys")


number = st.integers(0, 1 << 64).map(lambda n: b"%d" % n) | st.sampled_from(
    [b"", b" ", b"-1", b"0x1f", b"1.5", b"1e3", b"nan", b"007", b"\xb2", b'"7"']
)
pad = st.sampled_from([b"", b" ", b"\t"])
field3 = st.tuples(pad, number, pad).map(b"".join)
line3 = st.lists(field3, min_size=2, max_size=4).map(b",".join) | st.sampled_from(
    [b"", b"#", b" # no", b"1,2,3", b"1, 2, 3"]
)
small = st.sampled_from([b"0", b"1", b"12", b"-3", b"", b"x"])
key7 = st.sampled_from([b"k", b"a:b", b"a,b", b"", b"\xff", b'"q"', b" s "])
op7 = st.sampled_from([op.name.encode() for op in Op] + [b"GET", b"", b"get "])
line7 = st.tuples(small, key7, small, small, key7, op7, small).map(b",".join)
ending = st.sampled_from([b"\n", b"\r\n"])


word4 = st.sampled_from(
    [b"0", b"1", b"7 ", b" 7", b"9" * 20, b"\t3", b"", b"-1", b"0x10", b"1.5", b"#"]
)
line4 = st.lists(word4, min_size=3, max_size=5).map(b" ".join)
line1 = st.sampled_from(
    [b"*", b"* 5", b"", b"1", b" 2 ", b"x", b"-1", b"0x1F", b"1 2", b"9" * 19, b"9" * 21]
)
host = st.sampled_from([b"usr", b"web", b""])
kind7 = st.sampled_from([b"Read", b"Write", b"read", b""])
msr7 = st.tuples(small, host, small, kind7, number, small, small).map(b",".join)
io5 = st.tuples(small, small, st.sampled_from([b"28", b"2a", b"2A", b"00"]), small, number).map(
    b",".join
)
LINES = {
    "cache3": line3,
    "cache7": line7,
    "arc": line4,
    "lirs": line1,
    "msr": msr7,
    "cloudphysics": io5,
}
text_field = st.sampled_from([b"a", b"1", b"2", b"#x", b"a\r", b"", b" ", b'"', b"9" * 21])
SPECS = [
    ("csv", "key=1", b","),
    ("csv", "key=2,size=1,delimiter=;,obj-id-is-num=true", b";"),
    ("csv", "time=1,key=2,size=3,delimiter=\\t,has-header=true", b"\t"),
    ("csv", "key=1,delimiter=space", b" "),
]


def line_by_line(trace: Trace, text: bytes) -> tuple[Requests | None, traces.Malformed]:
    """What the reader would have taken of the text had it read each line by itself."""
    malformed, line = traces.Malformed(), 1
    form = trace.form
    if isinstance(form, Csv):
        fresh = Csv(form.columns, form._delimiter, form.has_header)
        if form.has_header:
            text, line = text.partition(b"\n")[2], 2
    else:
        fresh = form_of(trace.format)
    return fresh.slow(text, line, malformed), malformed


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([(name, None, b"") for name in LINES] + SPECS), st.data())
def test_block_reading_equals_line_reading(tmp_path_factory, how, data):
    format, columns, delimiter = how
    count = data.draw(
        st.integers(1, 4)
    )  # of columns, so that most files of a csv are taken in one go
    fields = st.lists(text_field, min_size=count, max_size=count).map(delimiter.join)
    lines = data.draw(st.lists(LINES.get(format, fields), min_size=1, max_size=12))
    text = b"".join(line + data.draw(ending) for line in lines)
    path = written(tmp_path_factory.mktemp("t"), text)
    try:
        with Trace(path, format, columns) as trace:
            trace.form.pieces = lambda requests: iter([requests])  # a line, not its blocks
            blocks = list(trace._requests())
    except TraceError:
        # A csv is refused for its columns too; of the others, no line is a request.
        assert (
            format == "csv"
            or form_of(TraceFormat(format)).slow(text, 1, traces.Malformed()) is None
        )
        return
    slow, malformed = line_by_line(trace, text)
    assert trace.malformed == malformed
    if slow is None:
        assert blocks == []
        return
    fast = traces.join(blocks)
    assert fast.keys.to_pylist() == slow.keys.to_pylist()
    for name in ("times", "sizes", "ops", "ttls"):
        left, right = getattr(fast, name), getattr(slow, name)
        assert (left is None) == (right is None)
        assert left is None or left.tolist() == right.tolist()


# --- each format, written from its published layout and read back -------------------------------

whole = st.integers(0, (1 << 63) - 1)
object_ = st.integers(0, (1 << 64) - 1)
u32 = st.integers(0, (1 << 32) - 1)


def rows_of(*fields: st.SearchStrategy) -> st.SearchStrategy[list[tuple]]:
    return st.lists(st.tuples(*fields), min_size=1, max_size=40)


def packed(fields: str, rows: list[tuple]) -> bytes:
    return b"".join(struct.pack(fields, *row) for row in rows)


def lines_of(template: str, rows: list[tuple]) -> bytes:
    return "".join(template.format(*row) + "\n" for row in rows).encode()


ROWS = {
    "oraclegeneral": rows_of(u32, object_, u32, st.integers(-1, 1 << 40)),
    "arc": rows_of(whole, st.integers(1, 300), st.just(0), u32),
    "lirs": rows_of(object_),
    "msr": rows_of(whole, st.sampled_from(["Read", "Write"]), object_, u32),
    "cloudphysics": rows_of(whole, st.sampled_from(["28", "2a", "88", "0a"]), u32, object_),
    "csv": rows_of(whole, st.text("abcdef/", min_size=1, max_size=9), u32),
    "cache3": rows_of(whole, object_, whole),
    "u32le": rows_of(u32),
    "u32be": rows_of(u32),
    "u64le": rows_of(object_),
    "u64be": rows_of(object_),
}
WRITERS = {
    "oraclegeneral": lambda rows: packed("<IQIq", rows),
    "arc": lambda rows: lines_of("{} {} {} {}", rows),
    "lirs": lambda rows: b"*\n" + lines_of("{}\n*", rows),
    "msr": lambda rows: lines_of("{},src1,0,{},{},{},5122", rows),
    "cloudphysics": lambda rows: b"version,time,op,size,lbn\n" + lines_of("1,{},{},{},{}", rows),
    "csv": lambda rows: (
        b"# time, object, size, next_access_vtime\n" + lines_of("{},{},{},-1", rows)
    ),
    "cache3": lambda rows: b"# time, object, size\n" + lines_of("{}, {}, {}", rows),
    "u32le": lambda rows: packed("<I", rows),
    "u32be": lambda rows: packed(">I", rows),
    "u64le": lambda rows: packed("<Q", rows),
    "u64be": lambda rows: packed(">Q", rows),
}
WRITES = ("Write", "2a", "0a")


def expected(format: str, rows: list[tuple]) -> list[tuple]:
    """Key, size, time and operation of each request."""
    match format:
        case "arc":
            return [(start + i, 512, None, None) for start, count, *_ in rows for i in range(count)]
        case "msr":
            return [
                (key, size, time, Op.set if op in WRITES else Op.get)
                for time, op, key, size in rows
            ]
        case "cloudphysics":
            return [
                (key, size, time, Op.set if op in WRITES else Op.get)
                for time, op, size, key in rows
            ]
        case "csv":
            return [(key.encode(), size, time, None) for time, key, size in rows]
        case "oraclegeneral" | "cache3":
            return [(key, size, time, None) for time, key, size, *_ in rows]
    return [(key, None, None, None) for (key,) in rows]


def columns_of(requests: Requests) -> list[tuple]:
    numbers = (requests.sizes, requests.times, requests.ops)
    absent = [None] * len(requests)
    columns = [absent if column is None else column.tolist() for column in numbers]
    return list(zip(requests.keys.to_pylist(), *columns, strict=True))


@pytest.mark.parametrize("format", WRITERS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_what_was_written_is_read_back(tmp_path_factory, format, data):
    rows = data.draw(ROWS[format])
    packing = data.draw(st.sampled_from([None, *PACKINGS.values()]))
    file = WRITERS[format](rows)
    path = written(tmp_path_factory.mktemp("t"), packing(file) if packing else file, "trace")
    found, trace = read(path, format, size=7)
    assert trace.malformed.count == 0 and trace.format == format
    assert columns_of(found) == expected(format, rows)
    assert trace.numeric == (format != "csv")


def test_a_long_request_of_arc_does_not_come_in_one_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(_trace_tables, "_PIECE_KEYS", 100)
    found, _ = read(written(tmp_path, b"5 250 0 0\n1000 30 0 1\n2000 30 0 2\n3000 60 0 3\n"))
    starts = [(5, 250), (1000, 30), (2000, 30), (3000, 60)]
    assert found.keys.to_pylist() == [start + i for start, count in starts for i in range(count)]
    _, trace = read(written(tmp_path, b"5 9 0 0\n5 0 0 0\n5 99999999 0 1\n"), "arc")
    assert [line for line, _ in trace.malformed.first] == [2, 3]


def test_a_trace_of_msr_has_one_volume(tmp_path):
    text = b"128166372003061629,usr,0,Read,512,8,1\n128166372003061630,web,0,Read,512,8,1\n"
    found, trace = read(written(tmp_path, text))
    assert (trace.format, found.keys.to_pylist(), trace.malformed.count) == (
        TraceFormat.msr,
        [512],
        1,
    )
    assert trace.malformed.first[0][1] == "Hostname 'web' is not the first line's ('usr')"
    wrong = text + b"128166372003061631,web,0,Delete,512,8,1\n"
    _, trace = read(written(tmp_path, wrong))
    assert [why.split(" ")[0] for _, why in trace.malformed.first] == ["Hostname", "Type"]


# --- libCacheSim's csv --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns", "keys", "sizes"),
    [
        (b"a;1;9\nb;2;8\n", "key=1,size=3", [b"a", b"b"], [9, 8]),
        (
            b"op_time,key,size\n1,k,7\n2,l,6\n",
            "key=key,size=size,time=op_time",
            [b"k", b"l"],
            [7, 6],
        ),
        (
            b"1,5,9\n2,6,8\n",
            "time-col=1, obj-id-col=2, obj-size-col=3, delimiter=,",
            [5, 6],
            [9, 8],
        ),
        (b"t,o,s\n2,6,8\n", "time-col=1,obj-id-col=2,obj-size-col=3,has-header=true", [6], [8]),
        (b"2,6,8\n", "key=2,obj-id-is-num=false", [b"6"], None),
        (b"2\t6\n3\tx\n", "key=2,delimiter=\\t", [b"6", b"x"], None),
        (b"006\n7\n", "key=1", [b"006", b"7"], None),
    ],
)
def test_columns_of_a_csv(tmp_path, text, columns, keys, sizes):
    found, trace = read(written(tmp_path, text), columns=columns)
    assert trace.format is TraceFormat.csv and trace.malformed.count == 0
    assert found.keys.to_pylist() == keys
    assert (None if found.sizes is None else found.sizes.tolist()) == sizes


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("key", "not NAME=VALUE"),
        ("time=1", "the key's column"),
        ("key=5", "columns 1 to 3"),
        ("key=nothere", "no such column"),
        ("key=1,size=1", "a column twice"),
        ("key=1,op-col=2", "op-col is none of"),
        ("key=1,has-header=maybe", "true or false"),
        ("key=1,delimiter=ab", "one byte"),
    ],
)
def test_wrong_columns_are_refused(tmp_path, columns, why):
    with pytest.raises(TraceError, match=why):
        Trace(written(tmp_path, b"a,b,c\n1,2,3\n"), columns=columns)
    with pytest.raises(TraceError, match="goes with --format csv"):
        Trace(written(tmp_path, b"a,b,c\n1,2,3\n"), "arc", "key=1")


def test_keys_of_a_csv_that_begin_as_numbers_are_told(tmp_path):
    """Ten thousand numbers, then a word: it is named, not taken for another kind of key."""
    text = b"".join(b"%d\n" % i for i in range(10_000)) + b"word\n"
    found, trace = read(written(tmp_path, text), columns="key=1")
    assert len(found) == 10_000
    assert trace.malformed.first == [(10_001, "key 'word' is not a whole number")]


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


def test_options_of_a_csv_form():
    form = csv_form([b"1|x|3"], csv_options("key=2,delimiter=|"))
    assert form.parse(b"1|x|3") == (None, b"x", None, None)
