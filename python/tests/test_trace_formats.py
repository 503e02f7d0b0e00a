"""Each format of traces, written from its published layout (docs/traces.md) and read back; data/
holds no oracleGeneral, MSR or LIRS traces.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure import _trace_tables
from perdure.traces import Op, Requests, TraceFormat
from trace_files import PACKINGS, packed, read, written

# --- each format, written from its published layout and read back -------------------------------

whole = st.integers(0, (1 << 63) - 1)
object_ = st.integers(0, (1 << 64) - 1)
u32 = st.integers(0, (1 << 32) - 1)


def rows_of(*fields: st.SearchStrategy) -> st.SearchStrategy[list[tuple]]:
    return st.lists(st.tuples(*fields), min_size=1, max_size=40)


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
