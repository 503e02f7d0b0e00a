"""Replay on real pools, against a cache written out here request by request.

The traces are generated here, or written by hand; the real ones are in test_traces.py and
test_demo.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import perdure
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perdure import _cache, _contents, _player, crash
from perdure._cache import Item, Made, Op, Request, step
from perdure._player import Plan
from perdure.traces import TraceFormat
from replaying import HEADER, contents, written

KNOWN_CONTENTS = ["03bf61d70754b4bb82", "00e850"]
NEVER = 1 << 40


# --- contents -----------------------------------------------------------------------------------


def words(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def test_contents_are_the_same_on_every_machine():
    """Known bytes: a pool filled by one release must check out under the next."""
    seeds = _contents.seeds_of(pa.array([0, 7], pa.uint64()))
    made = _contents.make(seeds, np.uint64(0), np.array([9, 3]))
    assert [value.hex() for value in made.to_pylist()] == KNOWN_CONTENTS
    text = _contents.seeds_of(pa.array([b"key", b"yek"], pa.large_binary()))
    assert len(set(text.tolist())) == 2


def test_contents_depend_on_key_version_and_length():
    seeds = _contents.seeds_of(pa.array(range(50), pa.uint64()))
    lengths = np.full(50, 40)
    made = {
        value for version in (1, 2) for value in _contents.make(seeds, version, lengths).to_pylist()
    }
    assert len(made) == 100
    longer = _contents.make(seeds, 1, lengths + 1).to_pylist()
    assert not made & {value[:40] for value in longer}


@given(st.lists(st.integers(0, 70), max_size=20), st.integers(1, 1 << 62))
def test_contents_have_their_lengths_and_a_head_moves_them_only(lengths, version):
    seeds = _contents.mix(np.arange(len(lengths)))
    plain = _contents.make(seeds, version, np.array(lengths, np.int64))
    assert [len(value) for value in plain.to_pylist()] == lengths
    head = np.arange(2 * len(lengths), dtype=np.uint64).reshape(-1, 2)
    headed = _contents.make(seeds, version, np.array(lengths, np.int64), head)
    assert headed.to_pylist() == [head[i].tobytes() + plain[i].as_py() for i in range(len(lengths))]


octets = st.none() | st.binary(max_size=4)


@given(st.lists(st.tuples(octets, octets), max_size=12), st.integers(0, 3))
def test_differing_finds_the_rows(pairs, skip):
    left = pa.array([a for a, _ in pairs], pa.large_binary()).slice(skip)
    right = pa.array([b for _, b in pairs], pa.large_binary()).slice(skip)
    assert _contents.differing(left, right).tolist() == [
        i for i, (a, b) in enumerate(pairs[skip:]) if a != b
    ]


def test_slices_hash_like_their_copies():
    keys = pa.array([b"a", b"bcd", b"ef", b"a"], pa.large_binary())
    assert _contents.seeds_of(keys).tolist()[1:3] == _contents.seeds_of(keys.slice(1, 2)).tolist()


# --- the sequential rule ------------------------------------------------------------------------


def request(op: Op, now: int = 0, size: int = 5, ttl: int = 0, version: int = 9) -> Request:
    return Request(op, now, size, ttl, version)


OLD = Item(0, 3, (Made(1, 4),))
NEW = Item(0, 0, (Made(9, 5),))


@pytest.mark.parametrize(
    ("op", "from_nothing", "from_old"),
    [
        (Op.get, (None, False), (OLD, True)),
        (Op.gets, (None, False), (OLD, True)),
        (Op.set, (NEW, True), (NEW, True)),
        (Op.add, (NEW, True), (OLD, False)),
        (Op.replace, (None, False), (NEW, True)),
        (Op.cas, (None, False), (NEW, True)),
        (Op.append, (None, False), (replace(OLD, pieces=(Made(1, 4), Made(9, 5))), True)),
        (Op.prepend, (None, False), (replace(OLD, pieces=(Made(9, 5), Made(1, 4))), True)),
        (Op.delete, (None, False), (None, True)),
        (Op.incr, (None, False), (replace(OLD, counter=4), True)),
        (Op.decr, (None, False), (replace(OLD, counter=2), True)),
    ],
)
def test_every_operation(op, from_nothing, from_old):
    assert step(request(op), None, NEVER)[:2] == from_nothing
    assert step(request(op), OLD, NEVER)[:2] == from_old
    dead = replace(OLD, expires=10)
    assert step(request(op, now=10), dead, NEVER) == (*from_nothing, True, False)


def test_time_to_live():
    item = step(request(Op.set, now=100, ttl=10), None, NEVER).item
    assert item is not None and item.expires == 110
    assert step(request(Op.get, now=109), item, NEVER).served
    assert step(request(Op.get, now=110), item, NEVER) == (None, False, True, False)
    appended = step(request(Op.append, now=105, ttl=1000), item, NEVER).item
    assert appended is not None and appended.expires == 110  # as memcached: append leaves it alone


def test_limits_of_the_rule():
    assert step(request(Op.set, size=6), OLD, 5) == (OLD, False, False, True)
    assert step(request(Op.append, size=2), OLD, 5) == (OLD, False, False, True)
    assert step(request(Op.incr), replace(OLD, counter=(1 << 64) - 1), NEVER).item.counter == 0
    assert step(request(Op.decr), replace(OLD, counter=0), NEVER).item.counter == 0


def test_items_survive_their_stored_form():
    items = [
        OLD,
        NEW,
        replace(OLD, expires=77, pieces=(b"ab", Made(4, 3), b"")),
        Item(0, 0, (Made(2, 0),)),
    ]
    seeds = _contents.mix(np.arange(4))
    values = _cache.values_of(seeds, items)
    heads = _cache.heads_of(values)
    back = [_cache.item_of(heads[i], values[i]) for i in range(4)]
    assert back[:2] == items[:2] and back[3] == items[3]
    assert (back[2].expires, back[2].length) == (77, 5)
    assert _cache.values_of(seeds, back).equals(values)
    assert _cache.faults_in(seeds, values).tolist() == []


@settings(deadline=None)
@given(st.integers(0, 3), st.integers(0, 200), st.integers(1, 255))
def test_a_flipped_byte_is_a_fault(row, place, flip):
    items = [OLD, NEW, replace(OLD, pieces=(b"ab", Made(4, 3))), Item(5, 0, (Made(2, 100),))]
    seeds = _contents.mix(np.arange(4))
    octets = _cache.values_of(seeds, items).to_pylist()
    broken = bytearray(octets[row])
    broken[place % len(broken)] ^= flip
    octets[row] = bytes(broken)
    assert _cache.faults_in(seeds, pa.array(octets, pa.large_binary())).tolist() == [row]
    octets[row] = octets[row][:7]
    assert row in _cache.faults_in(seeds, pa.array(octets, pa.large_binary()))


# --- replay against a cache written out ---------------------------------------------------------

slow = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def check_pool(plan: Plan, form: TraceFormat, requests: int) -> crash.Report:
    done = crash.check(plan, form, requests)
    assert done.faults == []
    return done


@slow
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), min_size=1, max_size=80),
    st.integers(1, 20),
)
def test_look_aside(pools, rows, batch):
    trace = written(pools, HEADER + "".join(f"0, {key}, {size}\n" for key, size in rows))
    plan = Plan(trace, str(pools / "pool"), batch=batch)
    Path(plan.pool).unlink(missing_ok=True)
    first: dict[int, int] = {}
    for key, size in rows:
        first.setdefault(key, max(0, size - 8))
    done = _player.run(plan)
    assert done.tally.faults == []
    assert (done.tally.ops, done.tally.gets) == (len(rows), len(rows))
    assert (done.tally.puts, done.tally.hits) == (len(first), len(rows) - len(first))
    assert {key: len(value) for key, value in contents(plan.pool).items()} == first
    check_pool(plan, TraceFormat.cache3, len(rows))
    again = _player.run(plan)
    assert (again.tally.puts, again.tally.hits, again.tally.checked) == (0, len(rows), len(rows))


class WrittenOutCache:
    """Eleven operations, one request at a time: what the issue of the trace asks for, spelled
    out."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[int, int, int]] = {}  # key: length, expires, counter
        self.hits = self.puts = 0

    def serve(self, now: int, key: str, size: int, op: str, ttl: int) -> None:
        if key in self.held and 0 < self.held[key][1] <= now:
            del self.held[key]
        there, fresh = key in self.held, (size, now + ttl if ttl else 0, 0)
        length, expires, counter = self.held.get(key, (0, 0, 0))
        if op in ("get", "gets"):
            self.hits += there
        elif op == "delete":
            self.held.pop(key, None)
        elif op == "set" or (op == "add" and not there) or (op in ("replace", "cas") and there):
            self.write(key, fresh)
        elif op in ("append", "prepend") and there:
            self.write(key, (length + size, expires, counter))
        elif op in ("incr", "decr") and there:
            self.write(key, (length, expires, counter + 1 if op == "incr" else max(0, counter - 1)))

    def write(self, key: str, value: tuple[int, int, int]) -> None:
        self.held[key] = value
        self.puts += 1


row7 = st.tuples(
    st.integers(0, 2),  # seconds since the row before
    st.sampled_from(["a", "b", "long:key", "c,d"]),
    st.integers(0, 30),
    st.sampled_from([op.name for op in Op]),
    st.sampled_from([0, 0, 1, 3, 100]),
)


@slow
@given(st.lists(row7, min_size=1, max_size=80), st.integers(1, 25))
def test_operations(pools, rows, batch):
    now, lines, oracle = 0, [], WrittenOutCache()
    for wait, key, size, op, ttl in rows:
        now += wait
        oracle.serve(now, key, size, op, ttl)
        lines.append(f"{now},{key},{len(key)},{size},1,{op},{ttl}\n")
    plan = Plan(written(pools, "".join(lines)), str(pools / "pool"), batch=batch, format="cache7")
    Path(plan.pool).unlink(missing_ok=True)
    done = _player.run(plan)
    assert done.tally.faults == []
    assert (done.tally.hits, done.tally.puts) == (oracle.hits, oracle.puts)
    assert done.tally.deletes == sum(op == "delete" for _, _, _, op, _ in rows)
    check_pool(plan, TraceFormat.cache7, len(rows))
    found = contents(plan.pool)
    heads = {key.decode(): np.frombuffer(value[:32], np.uint64) for key, value in found.items()}
    lengths = {key.decode(): len(value) - 32 for key, value in found.items()}
    assert {key: (lengths[key], *map(int, heads[key][:2])) for key in heads} == oracle.held


@slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Read", "Write"]),
            st.integers(0, 9),
            st.sampled_from([0, 1, 50, 9_000_000]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 20),
)
def test_reads_and_writes_of_a_block_trace(pools, rows, batch):
    """Against a cache written out: a read fills what it misses, a write always puts; what is too
    large is not done."""
    trace = written(pools, "".join(f"1,usr,0,{op},{key},{size},3\n" for op, key, size in rows))
    plan = Plan(trace, str(pools / "pool"), batch=batch, format="msr")
    Path(plan.pool).unlink(missing_ok=True)
    held: dict[int, int] = {}
    hits = puts = too_large = 0
    for op, key, size in rows:
        if op == "Read" and key in held:
            hits += 1
        elif size > 1 << 20:
            too_large += 1
        else:
            held[key] = size
            puts += 1
    tally = _player.run(plan).tally
    assert tally.faults == []
    assert (tally.ops, tally.gets) == (len(rows), sum(op == "Read" for op, _, _ in rows))
    assert (tally.hits, tally.puts, tally.too_large) == (hits, puts, too_large)
    assert {key: len(value) for key, value in contents(plan.pool).items()} == held
    check_pool(plan, TraceFormat.msr, len(rows))


def test_every_block_of_a_request_is_a_key(pools):
    plan = Plan(written(pools, "100 3 0 0\n101 4 0 1\n", "t.lis"), str(pools / "pool"), batch=2)
    done = _player.run(plan)
    assert (done.format, done.tally.ops, done.tally.hits, done.tally.puts) == ("arc", 7, 2, 5)
    assert {key: len(value) for key, value in contents(plan.pool).items()} == dict.fromkeys(
        range(100, 105), 512
    )
    check_pool(plan, TraceFormat.arc, 7)


def test_one_key_a_line(pools):
    trace = written(pools, "/a\n/b\n/a\n\n/c c\n/a\n")
    plan = Plan(trace, str(pools / "pool"), batch=2, value_bytes=77, format="keys")
    done = _player.run(plan)
    assert (done.format, done.tally.hits, done.tally.puts) == ("keys", 2, 3)
    assert {key: len(value) for key, value in contents(plan.pool).items()} == {
        b"/a": 77,
        b"/b": 77,
        b"/c c": 77,
    }
    check_pool(plan, TraceFormat.keys, 5)


def test_a_value_too_large_is_a_miss_every_time(pools):
    trace = written(pools, HEADER + "0, 1, 9000000\n0, 2, 50\n0, 1, 9000000\n0, 2, 50\n")
    done = _player.run(Plan(trace, str(pools / "pool")))
    tally = done.tally
    assert (tally.hits, tally.puts, tally.too_large, tally.fault_count) == (1, 1, 2, 0)
    assert any("2 requests not done" in line for line in done.lines())
    check_pool(done.plan, TraceFormat.cache3, 4)


def test_a_key_too_long_is_skipped(pools):
    pool = str(pools / "pool")
    with perdure.create(pool, None, None) as store:
        longest = store.stats().max_key_bytes
    lines = [b"k" * (longest + 1), b"k" * longest, b"x", b"k" * (longest + 1), b"x"]
    done = _player.run(Plan(written(pools, b"\n".join(lines)), pool))
    assert (done.tally.ops, done.tally.gets, done.tally.too_large, done.tally.hits) == (5, 3, 2, 1)
    check_pool(done.plan, TraceFormat.keys, 5)
