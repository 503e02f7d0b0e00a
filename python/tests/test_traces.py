"""The trace readers against hand-written lines, line-by-line reading, and the real samples in
data/.

The seven-column lines here are written by hand after twitter/cache-trace's documentation.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure import _trace_sniff, traces
from perdure._trace_csv import Csv, csv_form, csv_options
from perdure._trace_forms import form_of
from perdure.traces import Op, Requests, Trace, TraceError, TraceFormat
from trace_files import DATA, PACKINGS, SEVEN, TWITTER, read, written


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


def test_options_of_a_csv_form():
    form = csv_form([b"1|x|3"], csv_options("key=2,delimiter=|"))
    assert form.parse(b"1|x|3") == (None, b"x", None, None)
