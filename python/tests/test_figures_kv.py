"""`perdure bench figure kv-*`: tiny figures end to end, and `perdure-bench kv`: exact counts, and
those of the thesis's conclusions that counts or recovery show on any machine."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from perdure import _native

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench"

pytestmark = pytest.mark.skipif(
    not BENCH.is_file(), reason="this package was built without perdure-bench"
)
needs_plots = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def kv(*arguments: str | int) -> Any:
    command = [BENCH, "kv", "--repeats", "1", "--json", "-", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def by_design(result: Any, workload: str) -> dict[str, Any]:
    return {row["design"]: row for row in result["rows"] if row["workload"] == workload}


@needs_plots
@pytest.mark.parametrize("name", ["kv-1", "kv-2", "kv-5", "kv-6", "kv-7", "kv-table-1"])
def test_a_tiny_figure_of_designs(cli, tmp_path, name):
    sizes = ["--quick", "--records", 2048]
    done = cli("bench", "figure", name, *sizes, "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert found["checked"] > 0 and found["panels"] and found["claims"]
    assert all(one["ours"] for one in found["claims"])
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_counts_of_each_design_are_exact():
    """Lines read, written and flushed, and fences, of an operation on values of 248 bytes, whose
    records fill lines: the index in DRAM counts as nothing."""
    result = kv(
        *("--host", "counted", "--records", 4000, "--ops", 400, "--value-bytes", 256),
        *("--workload", "insert,update,delete,get", "--design", "heap,log"),
    )
    assert all(row["faults"] == 0 for row in result["rows"])
    what = ("lines_read", "lines_written", "lines_flushed", "fences")
    counts = {
        (row["workload"], row["design"]): [row[one] for one in what] for row in result["rows"]
    }
    assert counts == {
        ("insert", "heap"): [0, 5, 6, 1],
        ("insert", "log"): [0, 5, 5, 1],
        ("update", "heap"): [1, 6, 7, 2],  # the older record is freed in storage
        ("update", "log"): [0, 5, 5, 1],
        ("delete", "heap"): [0, 1, 1, 1],
        ("delete", "log"): [0, 1, 1, 1],  # a tombstone
        ("get", "heap"): [5, 0, 0, 0],
        ("get", "log"): [5, 0, 0, 0],
    }


def test_leaves_in_the_pool_are_read_on_the_way_to_a_record():
    result = kv(
        *("--host", "counted", "--records", 4000, "--ops", 400, "--value-bytes", 256),
        *("--workload", "get,update", "--design", "heap,heap-index,heap-full"),
    )
    for workload in ("get", "update"):
        rows = by_design(result, workload)
        assert rows["heap-index"]["lines_read"] > rows["heap"]["lines_read"] + 1
        assert rows["heap-full"]["lines_read"] > rows["heap-index"]["lines_read"] + 1


def test_a_transaction_logs_lines_before_it_writes_them():
    result = kv(
        *("--host", "counted", "--records", 4000, "--ops", 400, "--value-bytes", 64),
        *("--workload", "update", "--design", "heap,heap-full"),
    )
    rows = by_design(result, "update")
    assert rows["heap-full"]["lines_flushed"] > 1.5 * rows["heap"]["lines_flushed"]
    assert rows["heap-full"]["fences"] > rows["heap"]["fences"]


def test_a_log_makes_media_write_less_than_an_allocator():
    result = kv(
        *("--host", "emulated", "--records", 4000, "--ops", 2000, "--value-bytes", "64,256"),
        *("--workload", "update", "--design", "heap,log"),
    )
    written = {(row["design"], row["value_bytes"]): row["media_bytes"] for row in result["rows"]}
    assert 2 * written["log", 64] < written["heap", 64]
    assert 1.3 * written["log", 256] < written["heap", 256]
    assert written["log", 64] >= 96, "a record has 96 bytes"


def test_caches_that_are_kept_are_flushed_by_nobody():
    result = kv(
        *("--host", "counted", "--records", 4000, "--ops", 400, "--value-bytes", 64),
        *("--workload", "update", "--design", "heap,log", "--caches", "kept"),
    )
    for row in result["rows"]:
        assert row["lines_written"] > 0
        assert row["lines_flushed"] == row["fences"] == 0


def test_a_sustained_log_has_collected_what_it_outdated():
    result = kv(
        *("--records", 20_000, "--ops", 200_000, "--value-bytes", 256, "--workload", "update"),
        *("--mode", "sustained", "--most-queued", 2),
    )
    rows = by_design(result, "update")
    assert rows["log"]["collected_segments"] > 0 and rows["heap"]["collected_segments"] == 0
    assert all(row["faults"] == 0 for row in result["rows"])


def test_each_design_recovers_all_records_after_a_kill():
    """And where leaves are durable, it reads no record."""
    result = kv(
        *("--records", 20_000, "--value-bytes", 64, "--workload", "recover"),
        *("--design", "heap,log,heap-index,heap-full"),
    )
    rows = by_design(result, "recover")
    assert set(rows) == {"heap", "log", "heap-index", "heap-full"}
    for design, row in rows.items():
        assert row["faults"] == 0 and row["recovery"]["records"] == 20_000
        assert (row["recovery"]["read_seconds"] > 0) == (design in {"heap", "log"})


@pytest.mark.parametrize("workload", list("abcde"))
@pytest.mark.parametrize("keys", ["uniform", "zipf"])
def test_a_workload_of_ycsb_finds_what_it_should(workload, keys):
    result = kv(
        *("--records", 3000, "--ops", 1500, "--value-bytes", 64, "--workload", workload),
        *("--keys", keys, "--threads", 2, "--design", "heap,log,heap-index,heap-full"),
    )
    assert len(result["rows"]) == 4
    assert all(row["faults"] == 0 and row["mops"] > 0 for row in result["rows"])
