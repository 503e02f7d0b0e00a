"""`perdure bench figure kv-*`: tiny figures end to end, and `perdure-bench kv`: exact counts, and
those of the thesis's conclusions that counts or recovery show on any machine."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from perdure import _native

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench"

DESIGNS = "heap,log,heap-index,log-index,heap-full"

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
@pytest.mark.parametrize("name", ["kv-1", "kv-2", "kv-4", "kv-5", "kv-6", "kv-7", "kv-table-1"])
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
        *("--design", DESIGNS),
    )
    rows = by_design(result, "recover")
    assert ",".join(rows) == DESIGNS
    for design, row in rows.items():
        assert row["faults"] == 0 and row["recovery"]["records"] == 20_000
        assert (row["recovery"]["read_seconds"] > 0) == (design in {"heap", "log", "log-index"})


def test_several_threads_recover_what_one_does():
    result = kv(
        *("--records", 30_000, "--value-bytes", 64, "--workload", "recover", "--share"),
        *("--design", DESIGNS, "--threads", 2, "--recovery-threads", "1,3"),
    )
    assert [row["recovery"]["threads"] for row in result["rows"]] == [1, 3] * 5
    for row in result["rows"]:
        assert row["faults"] == 0 and row["recovery"]["records"] == 30_000


def test_a_log_with_durable_leaves_counts_what_is_outdated_as_one_without():
    """Both recover, and are written on and collected: what is outdated has to be known for that."""
    result = kv(
        *("--records", 20_000, "--value-bytes", 256, "--workload", "recover,update"),
        *("--design", "log,log-index", "--share", "--mode", "sustained", "--most-queued", 2),
        *("--ops", 60_000),
    )
    assert all(row["faults"] == 0 for row in result["rows"])
    for row in result["rows"]:
        if row["workload"] == "update":
            assert row["collected_segments"] > 0


def test_a_store_is_shared_by_workloads_and_deletes_come_last():
    result = kv(
        *("--records", 4000, "--ops", 2000, "--value-bytes", 64, "--share"),
        *("--workload", "delete,a,d,e,recover", "--design", DESIGNS),
    )
    assert result["shared_stores"]
    order = [row["workload"] for row in result["rows"]]
    assert order == ["a", "d", "e", "recover", "delete"] * 5
    assert all(row["faults"] == 0 for row in result["rows"])
    for row in by_design(result, "recover").values():
        assert row["recovery"]["records"] > 4000, "d and e inserted some"


def test_a_workload_ends_after_its_seconds():
    result = kv(
        *("--records", 2000, "--ops", 100_000_000, "--seconds", 0.1, "--value-bytes", 64),
        *("--workload", "get", "--design", "heap"),
    )
    (row,) = result["rows"]
    assert row["cut_short"] and 0 < row["ops"] < 100_000_000
    assert 0.1 <= row["seconds"] < 5


def test_what_there_is_no_time_for_is_left_out_and_named():
    result = kv(
        *("--records", 2000, "--ops", 100_000_000, "--seconds", 0.3, "--value-bytes", 64),
        *("--workload", "get", "--design", "heap,log", "--max-minutes", 0.002),
    )
    assert [row["design"] for row in result["rows"]] == ["heap"]
    assert result["left_out"] == ["get uniform burst flushed 64 B 1 threads log"]


def test_a_run_that_is_cut_has_written_the_rows_that_it_had(tmp_path):
    file = tmp_path / "rows.json"
    command = [BENCH, "kv", "--records", "2000", "--ops", "100000000", "--value-bytes", "64"]
    command += ["--workload", "get", "--keys", "uniform,zipf", "--share", "--repeats", "1"]
    command += ["--design", DESIGNS, "--seconds", "1", "--json", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert b"uniform" in running.stdout.readline()
        while not file.exists():
            time.sleep(0.01)
        running.terminate()  # in the midst of the second row of ten, or later if this one slept
        said = 1 + len(running.stdout.readlines())
    rows = json.loads(file.read_text())["rows"]
    assert rows[0]["keys"] == "uniform" and said - 1 <= len(rows) <= said < 10


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--design", "index-log"], "index-log"),
        (["--design", "log-full"], "log-full"),
        (["--share", "--workload", "insert"], "store of its own"),
        (["--host", "emulated", "--recovery-threads", "2"], "choose 1"),
        (["--records", "1000000000", "--value-bytes", "65536"], "GiB of memory are needed where"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(arguments, says):
    done = subprocess.run([BENCH, "kv", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("workload", list("abcde"))
@pytest.mark.parametrize("keys", ["uniform", "zipf"])
def test_a_workload_of_ycsb_finds_what_it_should(workload, keys):
    result = kv(
        *("--records", 3000, "--ops", 1500, "--value-bytes", 64, "--workload", workload),
        *("--keys", keys, "--threads", 2, "--design", DESIGNS),
    )
    assert len(result["rows"]) == 5
    assert all(row["faults"] == 0 and row["mops"] > 0 for row in result["rows"])
