"""The command `perdure replay`, and its crash runs on real pools."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import perdure
import pytest
from perdure import _player, crash
from perdure._cache import Op
from perdure._player import Limits, Plan
from perdure.traces import Trace, TraceFormat
from replaying import HEADER, contents, perdure_command, written

# --- the command --------------------------------------------------------------------------------


def test_the_command_and_its_json(pools):
    trace = written(pools, HEADER + "0, 1, 20\n0, x, 20\n0, 1, 20\n0, 2, 20\n")
    out = pools / "out.json"
    status, said, complained = perdure_command(
        "replay", trace, "--pool", pools / "p", "--json", out, "--batch", 2
    )
    assert status == 0
    assert "replayed 3 requests" in said and "1 hits (33.33% of gets)" in said
    assert f"{trace}:3: skipped: object 'x' is not a whole number" in complained
    found = json.loads(out.read_text())
    assert {key: found[key] for key in ("ops", "gets", "puts", "deletes", "hits", "malformed")} == {
        "ops": 3, "gets": 3, "puts": 2, "deletes": 0, "hits": 1, "malformed": 1,
    }  # fmt: skip
    assert found["mops"] > 0 and found["p99_us"] >= found["p50_us"] > 0
    assert found["survives"]["process_kill"] is True


def test_what_is_no_trace_is_refused_before_a_pool_is_made(pools):
    trace = written(pools, '[{"time": 1, "object": 2, "size": 3}]\n', "trace.json")
    status, said, complained = perdure_command("replay", trace, "--pool", pools / "p")
    assert (status, said) == (2, "")
    assert complained.startswith(
        f"perdure: error: {trace}: no trace that is recognised: it looks like JSON;"
    )
    assert (
        complained.count("\n") == 1 and "--format" in complained and "oraclegeneral" in complained
    )
    assert not (pools / "p").exists()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_trace_may_come_through_a_pipe(pools, pack):
    pipe, text = pools / "pipe", pack(HEADER.encode() + b"0, 1, 20\n0, 2, 20\n0, 1, 20\n")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    status, said, complained = perdure_command("replay", pipe, "--pool", pools / "p")
    writer.join()
    assert (status, complained) == (0, "") and "replayed 3 requests" in said and "(cache3)" in said


def test_columns_of_a_csv_are_named(pools):
    trace = written(
        pools, "op_time,key,key_size,op,size\n1,ab,2,GET,70\n2,cd,2,GET,9\n3,ab,2,GET,70\n"
    )
    status, _, complained = perdure_command("replay", trace, "--pool", pools / "p")
    assert status == 2 and "CSV of 5 columns" in complained and "--columns" in complained
    status, said, _ = perdure_command(
        "replay",
        trace,
        "--pool",
        pools / "p",
        "--columns",
        "key=key,size=size",
        "--json",
        pools / "out.json",
    )
    assert status == 0 and "replayed 3 requests" in said and "(csv)" in said
    found = json.loads((pools / "out.json").read_text())
    assert (found["format"], found["columns"], found["hits"]) == ("csv", "key=key,size=size", 1)
    assert {key: len(value) for key, value in contents(str(pools / "p")).items()} == {
        b"ab": 68,
        b"cd": 7,
    }
    status, _, complained = perdure_command(
        "replay",
        trace,
        "--pool",
        pools / "p",
        "--columns",
        "key=1,obj-id-is-num=1",
        "--format",
        "csv",
    )
    assert status == 2 and "name another pool" in complained


def test_the_progress_bar_needs_a_terminal(pools):
    trace = written(pools, HEADER + "0, 1, 20\n")
    status, said, complained = perdure_command(
        "replay", trace, "--pool", pools / "p", "--json", "-"
    )
    assert (status, json.loads(said)["ops"]) == (0, 1)
    assert "%" not in re.sub(r"\(\d.*of gets\)", "", complained)


def test_a_pool_of_other_sizes_is_refused(pools):
    trace, pool = written(pools, HEADER + "0, 1, 20\n"), pools / "p"
    perdure.create(pool, 16, 64).close()
    status, _, complained = perdure_command("replay", trace, "--pool", pool)
    assert status == 2
    assert (
        str(pool) in complained
        and "keys of 16 B" in complained
        and "name another pool" in complained
    )


def test_a_pool_filled_by_something_else_is_a_fault_that_names_the_key(pools):
    trace, pool = written(pools, HEADER + "0, 41, 20\n0, 42, 20\n"), pools / "p"
    with perdure.create(pool, 8, None) as store:
        store.put(np.array([42], np.uint64), [b"something else"])
    status, _, complained = perdure_command("replay", trace, "--pool", pool)
    assert status == 1
    assert "fault: key 42: its value is not what a replay puts there" in complained
    assert perdure_command("replay", trace, "--pool", pool, "--no-check")[0] == 0


@pytest.mark.parametrize("arguments", [["none.csv"], ["--format", "cache4"], ["--batch", "0"]])
def test_wrong_usage(pools, arguments):
    trace = [] if arguments == ["none.csv"] else [written(pools, HEADER + "0, 1, 20\n")]
    status, _, complained = perdure_command("replay", *trace, *arguments, "--pool", pools / "p")
    assert status == 2
    assert arguments[0] in complained
    assert not (pools / "p").exists()


def test_cuda_where_there_is_none(pools):
    if any(info.device.name == "cuda" and info.available for info in perdure.devices()):
        pytest.skip("there is a GPU")
    trace = written(pools, HEADER + "0, 1, 20\n")
    status, _, complained = perdure_command(
        "replay", trace, "--pool", pools / "p", "--device", "cuda"
    )
    assert status == 2 and "cuda" in complained.lower()


# --- crash runs ---------------------------------------------------------------------------------


def long_trace(folder: Path, form: str, requests: int = 60_000) -> str:
    random = np.random.default_rng(7)
    keys, sizes = random.zipf(1.2, requests) % 20_000, random.integers(8, 300, requests)
    if form == "cache3":
        rows = zip(keys, sizes, strict=True)
        return written(folder, HEADER + "".join(f"0, {key}, {size}\n" for key, size in rows))
    if form == "msr":
        ops = random.choice(["Read", "Write"], requests)
        rows = zip(ops, keys, sizes, strict=True)
        return written(folder, "".join(f"1,usr,0,{op},{key},{size},9\n" for op, key, size in rows))
    if form == "csv":
        rows = zip(keys, sizes, strict=True)
        return written(folder, "key,size\n" + "".join(f"k{key},{size}\n" for key, size in rows))
    if form == "keys":
        return written(folder, "".join(f"/key/{key}\n" for key in keys))
    ops = random.choice([op.name for op in Op], requests, p=[0.4] + [0.06] * 10)
    ttls = random.choice([0, 1, 5], requests)
    columns = zip(keys, sizes, ops, ttls, strict=True)
    return written(
        folder,
        "".join(
            f"{i // 2000},k{key},8,{size},1,{op},{ttl}\n"
            for i, (key, size, op, ttl) in enumerate(columns)
        ),
    )


@pytest.mark.parametrize(
    ("form", "seed"),
    [
        *((form, seed) for form in ("cache3", "cache7", "keys") for seed in range(3)),
        ("msr", 0),
        ("csv", 1),
    ],
)
def test_nothing_acknowledged_is_lost_to_a_kill(pools, form, seed):
    columns = "key=key,size=size" if form == "csv" else None
    plan = Plan(
        long_trace(pools, form), str(pools / "pool"), batch=64, records=256, columns=columns
    )
    done = crash.run(plan, 3000 + 5000 * seed, seed)
    assert done.faults == []
    assert 3000 + 5000 * seed <= done.acknowledged < 60_000
    assert done.acknowledged % 64 == 0 and done.in_flight == 64
    assert not done.recovery["clean"]
    assert done.keys_checked >= done.keys_found == done.records == done.verify_records > 0
    assert _player.run(plan).tally.faults == []  # and the pool goes on serving


def test_a_parent_that_sleeps_holds_the_child_up_and_kills_it_in_time(pools, monkeypatch):
    """The trace would be over long before it wakes."""
    plan = Plan(long_trace(pools, "keys", 30_000), str(pools / "pool"), batch=64, value_bytes=8)
    monkeypatch.setattr(crash.time, "sleep", lambda _, sleep=time.sleep: sleep(2))
    done = crash.run(plan, 64, 0)
    assert done.faults == [] and done.acknowledged < 64 * 40


def tampered(pools: Path, change) -> crash.Report:
    """The check of a pool that a replay has filled and that `change` has then spoiled."""
    plan = Plan(long_trace(pools, "cache3", 2000), str(pools / "pool"), batch=100, limit=1000)
    _player.run(plan)
    with perdure.open(plan.pool) as store:
        change(store)
    return crash.check(replace(plan, limit=None), TraceFormat.cache3, 1000)


def key_of(report: crash.Report) -> int:
    found = re.match(r"key (\d+): holds ", report.faults[0])
    assert found, report.faults
    return int(found[1])


def test_an_untouched_pool_passes(pools):
    assert tampered(pools, lambda store: None).faults == []


def test_a_lost_key_is_found(pools):
    lost = tampered(pools, lambda store: store.erase(np.array([1], np.uint64)))
    assert lost.fault_count == 1 and key_of(lost) == 1
    assert "holds nothing (not_found)" in lost.faults[0]


def test_a_wrong_value_is_found(pools):
    wrong = tampered(pools, lambda store: store.put(np.array([2], np.uint64), [b"wrong"]))
    assert wrong.fault_count == 1 and key_of(wrong) == 2


def test_a_key_from_nowhere_is_found(pools):
    more = tampered(pools, lambda store: store.put(np.array([1 << 40], np.uint64), [b"?"]))
    assert more.fault_count == 1 and "but only" in more.faults[0]


def test_the_unacknowledged_batch_may_be_there_or_not_but_not_garbled(pools):
    plan = Plan(long_trace(pools, "cache3", 2000), str(pools / "pool"), batch=100, limit=1100)
    _player.run(plan)  # eleven batches in the pool, ten acknowledged
    whole = crash.check(replace(plan, limit=None), TraceFormat.cache3, 1000)
    assert whole.faults == [] and whole.from_in_flight > 0
    with Trace(plan.trace) as trace:
        reference = crash.Reference(TraceFormat.cache3, Limits(8, 1 << 20), None)
        batches = list(trace.batches(100, 1100))
    for batch in batches[:10]:
        reference.play(batch)
    fresh = next(key for key in batches[10].keys.to_pylist() if key not in reference.states)
    with perdure.open(plan.pool) as store:
        store.erase(np.array([fresh], np.uint64))
    assert crash.check(replace(plan, limit=None), TraceFormat.cache3, 1000).faults == []
    with perdure.open(plan.pool) as store:
        store.put(np.array([fresh], np.uint64), [b"half"])
    garbled = crash.check(replace(plan, limit=None), TraceFormat.cache3, 1000)
    assert key_of(garbled) == fresh


def test_a_kill_needs_an_empty_pool_and_a_long_enough_trace(pools):
    trace, pool = written(pools, HEADER + "0, 1, 20\n0, 2, 20\n"), pools / "p"
    status, _, complained = perdure_command("replay", trace, "--pool", pool, "--kill-after", 5)
    assert status == 2 and "the trace ended after 2 requests" in complained
    status, _, complained = perdure_command("replay", trace, "--pool", pool, "--kill-after", 1)
    assert status == 2 and "needs an empty pool" in complained


def test_the_crash_command(pools):
    trace, out = long_trace(pools, "cache3"), pools / "out.json"
    status, said, _ = perdure_command(
        "replay",
        trace,
        "--pool",
        pools / "p",
        "--batch",
        64,
        "--kill-after",
        2000,
        "--seed",
        1,
        "--json",
        out,
    )
    assert status == 0
    assert "every acknowledged operation is there" in said and "recovery: unclean pool" in said
    found = json.loads(out.read_text())
    assert (
        found["acknowledged"] >= 2000
        and found["fault_count"] == 0
        and found["recovery"]["clean"] is False
    )
