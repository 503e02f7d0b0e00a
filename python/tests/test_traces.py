"""The trace readers against hand-written lines, line-by-line reading, and the real samples in data/.

The seven-column lines here are written by hand after twitter/cache-trace's documentation.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure import traces
from perdure.traces import Op, Requests, Trace, TraceError, TraceFormat

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


def read(path: Path, format: str = "auto", size: int = 1000) -> tuple[Requests, Trace]:
    with Trace(path, format) as trace:
        batches = list(trace.batches(size))
    assert all(len(batch) == size for batch in batches[:-1])
    return traces._join(batches), trace


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
    whole = traces._join(batches)
    assert trace.malformed.count == 0
    assert len(whole.keys.unique()) == 143_542
    assert whole.keys[0].as_py() == 13053225291711363978
    assert (whole.sizes[0], whole.sizes.min(), whole.sizes.max()) == (737, 11, 4985)
    assert (np.diff(whole.times) >= 0).all() and whole.times[-1] == 509


def test_limit_and_batches(tmp_path):
    path = written(tmp_path, b"".join(b"0,%d,9\n" % i for i in range(10)))
    with Trace(path) as trace:
        batches = list(trace.batches(4, limit=7))
    assert [batch.keys.to_pylist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6]]
    with Trace(path) as trace:
        assert list(trace.batches(4, limit=0)) == []
        with pytest.raises(ValueError, match="at least one"):
            next(trace.batches(0))


def zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress), (".zst", zstd)],
)
def test_compressions(tmp_path, suffix, pack):
    text = b"".join(b"1,%d,%d\n" % (i, i % 7) for i in range(5000))
    whole, _ = read(written(tmp_path, pack(text), "t.csv" + suffix))
    assert whole.keys.to_pylist() == list(range(5000))
    cut = written(tmp_path, pack(text)[:-20], "cut.csv" + suffix)
    with pytest.raises(TraceError, match=r"cut\.csv.*(damaged|truncated)"):
        read(cut)


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
    whole, trace = read(written(tmp_path, text))
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
    _, trace = read(written(tmp_path, text))
    assert trace.malformed.count == 50
    assert [line for line, _ in trace.malformed.first] == list(range(61, 81))


def test_blocks_change_nothing(tmp_path, monkeypatch):
    path = written(tmp_path, SEVEN * 50 + b"bad\n" + SEVEN * 50)
    whole, trace = read(path)
    monkeypatch.setattr(traces, "BLOCK_BYTES", 61)
    small, again = read(path)
    assert small.keys.to_pylist() == whole.keys.to_pylist()
    assert again.malformed == trace.malformed
    assert again.malformed.first[0][0] == 251


def test_what_is_no_trace(tmp_path):
    with pytest.raises(TraceError, match=r"none\.csv: cannot read the trace: No such file"):
        Trace(tmp_path / "none.csv")
    with pytest.raises(TraceError, match="empty"):
        Trace(written(tmp_path, b"\n\n"))
    with pytest.raises(TraceError, match="zero bytes"):
        Trace(written(tmp_path, b"\1\0\0\0\2\0\0\0"))
    with pytest.raises(TraceError, match="damaged or truncated"):
        Trace(written(tmp_path, b"plain text", "t.xz"))
    with pytest.raises(TraceError, match="longer than"):
        read(written(tmp_path, b"a" * (6 << 20)))


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


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(["cache3", "cache7"]), st.data())
def test_block_reading_equals_line_reading(tmp_path_factory, format, data):
    lines = data.draw(st.lists(line3 if format == "cache3" else line7, min_size=1, max_size=12))
    text = b"".join(line + data.draw(ending) for line in lines)
    form = traces._FORMS[TraceFormat(format)]
    slow_malformed = traces.Malformed()
    slow = form.slow(text, 1, slow_malformed)
    if not text.strip():
        return
    with Trace(written(tmp_path_factory.mktemp("t"), text), format) as trace:
        blocks = list(trace._requests())
    assert trace.malformed == slow_malformed
    if slow is None:
        assert blocks == []
        return
    fast = traces._join(blocks)
    assert fast.keys.to_pylist() == slow.keys.to_pylist()
    for name in ("times", "sizes", "ops", "ttls"):
        left, right = getattr(fast, name), getattr(slow, name)
        assert (left is None) == (right is None)
        assert left is None or left.tolist() == right.tolist()
