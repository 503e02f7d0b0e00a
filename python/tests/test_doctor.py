"""`perdure doctor --litmus` and `--measure`: tables, JSON, exit status, what is left out."""

from __future__ import annotations

import json
from typing import Any

import perdure
import pytest
from perdure import _native

LINE = {"test", "sides", "order", "scope", "memory", "runs", "seen", "allowed"}
ROW = {"what", "how", "threads", "span_bytes", "access_bytes", "value", "unit"}


@pytest.fixture(autouse=True)
def record(tmp_path, monkeypatch):
    """Where litmus tests are recorded, so that no test changes the user's own record."""
    path = tmp_path / "litmus"
    monkeypatch.setenv("PERDURE_LITMUS", str(path))
    return path


def broken_report(*args: Any) -> dict[str, Any]:
    """As of a machine whose GPU's stores come to the host in another order."""
    line = {"test": "MP", "sides": "gpu -> cpu", "order": "fenced", "scope": "system"}
    line |= {"memory": "pinned", "runs": 1000, "seen": 3, "allowed": False, "verdict": "BROKEN"}
    line |= {"relied_on": "batches on a GPU", "seconds": 0.1}
    report = {"cpu": "a processor", "gpu": "a GPU", "why_no_gpu": "", "sound": False}
    return report | {"recorded": "", "lines": [line]}


def test_litmus_shows_each_test_and_what_is_relied_on(cli, tmp_path):
    told = cli("doctor", "--litmus", "--runs", 200, "--json", tmp_path / "l.json")
    assert told.status == 0, told.err
    found = json.loads((tmp_path / "l.json").read_text())["litmus"]
    assert found["sound"] and found["cpu"]
    assert bool(found["gpu"]) != bool(found["why_no_gpu"])
    for line in found["lines"]:
        assert LINE | {"verdict", "relied_on", "seconds"} == set(line)
        assert line["runs"] >= 200 and line["seen"] <= line["runs"]
        assert line["test"] in told.out and line["sides"] in told.out
        assert line["verdict"] in {"holds", "not seen", "weak"}
    assert {"MP", "SB", "LB", "IRIW", "add", "cas", "swap", "canary"} <= {
        line["test"] for line in found["lines"]
    }
    assert "held   indexes of host threads: MP cpu -> cpu release-acquire" in told.out
    assert found["gpu"] or f"no GPU was tested: {found['why_no_gpu']}" in told.out


def test_what_is_relied_on_and_fails_is_exit_status_1(cli, monkeypatch):
    monkeypatch.setattr(_native, "litmus", broken_report)
    told = cli("doctor", "--litmus")
    assert told.status == 1
    assert "FAILED batches on a GPU: MP gpu -> cpu fenced" in told.out
    assert "1 of 1 thing that Perdure relies on FAILED" in told.out
    assert "with --record stores on this machine refuse what failed" in told.out


def test_results_that_say_little_say_so(cli, monkeypatch):
    report = broken_report()
    (line,) = report["lines"]
    report |= {"sound": True, "lines": [line | {"test": "canary", "seen": 0, "relied_on": ""}]}
    monkeypatch.setattr(_native, "litmus", lambda *args: report)
    told = cli("doctor", "--litmus", "--runs", 2000)
    assert told.status == 0
    assert "canary gpu -> cpu: stores in the wrong order were not seen either" in told.out
    assert "1 test had too little time for 2,000 runs" in told.out


def test_a_record_is_kept_where_asked_for(cli, record):
    assert "recorded" not in cli("doctor", "--litmus", "--runs", 10).out
    assert not record.exists()
    told = cli("doctor", "--litmus", "--runs", 10, "--record")
    assert told.status == 0 and f"recorded in {record}" in told.out
    assert record.read_text().startswith("perdure litmus 1\ncpu ")


def test_measure_prints_each_row_and_plots_them(cli, tmp_path):
    plot = tmp_path / "m.png"
    told = cli("doctor", "--measure", "--quick", "--json", tmp_path / "m.json", "--plot", plot)
    assert told.status == 0, told.err
    found = json.loads((tmp_path / "m.json").read_text())["measure"]
    for row in found["rows"]:
        assert set(row) == ROW and row["value"] > 0
        assert f"{row['value']:,.1f}" in told.out and row["how"] in told.out
    measured = {row["what"] for row in found["rows"]}
    assert measured >= {"read", "write", "copy", "chase", "random", "sort"}
    if not found["gpu"]:
        left_out = {one["what"] for one in found["left_out"]}
        assert {"launch", "link", "random, over the link", "sort, by a GPU"} <= left_out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert any(number["what"] in told.out for number in found["numbers"])


def test_the_engines_numbers_stand_beside_what_was_measured(cli, monkeypatch):
    row = {"what": "launch", "how": "until the host has waited for it", "threads": 1}
    row |= {"span_bytes": 0, "access_bytes": 0, "value": 9.25, "unit": "us"}
    report = {"cpu": "a processor", "gpu": "", "memory_bytes": 1, "seconds": 1.0, "left_out": []}
    monkeypatch.setattr(_native, "measure", lambda *args: report | {"rows": [row]})
    found = cli("doctor", "--measure", "--json", "-").json()["measure"]["numbers"]
    (beside,) = [one for one in found if one["what"].startswith("gets of fewer keys")]
    assert (beside["value"], beside["measured"], beside["measured_unit"]) == (1024, 9.25, "us")


def test_too_little_memory_leaves_measurements_out_by_name(cli):
    told = cli("doctor", "--measure", "--quick", "--memory-bytes", "1000")
    assert told.status == 0
    assert "left out  chase: needs 16384 bytes, and arrays may take 1000 bytes" in told.out
    assert "left out  read, write, copy: needs 32 MiB" in told.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--plot", "a.png"], "--plot needs --measure"),
        (["--record"], "--record needs --litmus"),
        (["--quick"], "--quick needs --litmus or --measure"),
        (["--litmus", "--runs", 0], "--runs 0: give at least 1"),
        (["--measure", "--seconds", -1], "--seconds -1.0: give more than 0"),
        (["--measure", "--memory-bytes", "0"], "--memory-bytes 0: give more than 0"),
        (["--litmus", "--record", "--memory", "managed"], "--record: pools lie in pinned memory"),
    ],
)
def test_options_that_would_do_nothing_are_refused(cli, arguments, said):
    told = cli("doctor", *arguments)
    assert told.status == 2 and said in told.err


@pytest.mark.gpu
def test_a_gpu_is_tested_beside_the_host(cli):
    told = cli("doctor", "--litmus", "--runs", 20_000, "--json", "-")
    assert told.status == 0, told.err
    found = told.json()["litmus"]
    assert found["gpu"] and not found["why_no_gpu"]
    assert {"gpu -> cpu", "cpu -> gpu", "gpu -> gpu", "cpu -> cpu"} <= {
        line["sides"] for line in found["lines"]
    }
    assert {line["relied_on"] for line in found["lines"]} >= {"batches on a GPU", "device sessions"}


@pytest.mark.gpu
def test_a_recorded_failure_keeps_stores_from_the_gpu(cli, record, pool):
    assert cli("doctor", "--litmus", "--runs", 10, "--record").status == 0
    sound = record.read_text()
    record.write_text(sound + "failed batches on a GPU: MP gpu -> cpu fenced, 3 of 10 runs\n")
    with pytest.raises(perdure.Unsupported, match="MP gpu -> cpu fenced"):
        perdure.create(pool, 8, 8, device="cuda")
    record.write_text(sound)
    perdure.create(pool, 8, 8, device="cuda").close()


@pytest.mark.gpu
def test_the_link_is_measured(cli):
    found = cli("doctor", "--measure", "--quick", "--json", "-").json()["measure"]
    hows = {row["how"] for row in found["rows"]}
    assert {"host to GPU, copy engine", "GPU to host, copy engine"} <= hows
    assert {"GPU reads host memory", "in the GPU's memory"} <= hows
    assert "until the host has waited for it" in hows
