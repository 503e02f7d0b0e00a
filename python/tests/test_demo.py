"""The demo on the real samples: a short run, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from perdure import cli_support, demo
from perdure.cli import app
from typer.testing import CliRunner

DATA = Path(__file__).resolve().parents[2] / "data"


def run_demo(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["demo", "--data", str(DATA), *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_demo(tmp_path):
    pytest.importorskip("matplotlib")
    plot, out = tmp_path / "plot.png", tmp_path / "out.json"
    status, said, complained = run_demo(
        "--limit", 120_000, "--batch", 512, "--seed", 3, "--plot", plot, "--json", out
    )
    assert (status, complained) == (0, "")
    assert "summary: all good" in said and "survives" in said
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = json.loads(out.read_text())
    assert found["faults"] == 0 and found["same_end"] is True
    assert found["replay"]["ops"] == 120_000
    assert 0 < found["crash"]["acknowledged"] < 120_000
    assert found["table"]["rows"] == 264_346 and found["table"]["lookups"] == 730_100
    assert [pool["fault_count"] for pool in found["verify"].values()] == [0, 0, 0]


def test_the_ids_are_those_of_the_file():
    ids = demo.read_ids(DATA / demo.ROADS)
    assert len(ids) == 2 * 365_050 and ids[:6].tolist() == [1, 2, 1, 12, 1, 1363]
    assert len(np.unique(ids)) == 264_346


def test_a_broken_id_file_is_named(tmp_path):
    import lzma

    path = tmp_path / "broken.gr.xz"
    path.write_bytes(lzma.compress(b"p tw 3 2\n1 2\n"))
    with pytest.raises(cli_support.Failure, match=r"broken\.gr\.xz: not a road network"):
        demo.read_ids(path)


def test_rows_differ_from_key_to_key():
    rows = demo.rows_for(np.arange(1000, dtype=np.uint64))
    assert rows.shape == (1000, 32) and rows.dtype == np.float32
    assert len(np.unique(rows, axis=0)) == 1000
    assert ((rows >= 0) & (rows < 1)).all()


def test_missing_data_says_where_it_looked(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert str(tmp_path) in result.stderr and demo.TRACE in result.stderr


def test_an_impossible_plot_is_refused_before_the_run(tmp_path):
    status, said, complained = run_demo("--plot", tmp_path / "no" / "plot.png")
    assert (status, said) == (2, "")
    assert "--plot" in complained and "no folder" in complained


# --- how it ends before its end -----------------------------------------------------------------


def wait_for(happened: Callable[[], object], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name
)
@pytest.mark.parametrize("pool", ["replay.pool", "crash.pool"])
def test_an_interrupted_demo_leaves_no_pools(tmp_path, number, pool):
    """The signal comes while the demo itself replays, and while its child does."""
    command = [
        sys.executable,
        "-m",
        "perdure.cli",
        "demo",
        "--plot",
        "none",
        "--pool-dir",
        tmp_path,
    ]
    command += ["--data", DATA, "--limit", "200000" if pool == "crash.pool" else "1000000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: list(tmp_path.glob(f"perdure-demo-*/{pool}*")), process)
        process.send_signal(number)
        _, complained = process.communicate(timeout=60)
    assert process.returncode not in (0, -number), "it ended in order, and not well"
    assert list(tmp_path.iterdir()) == [] and "Traceback" not in complained


@pytest.fixture
def endless(tmp_path):
    """A program, and the file that it makes and removes when it is asked to end."""
    made, program = tmp_path / "made", tmp_path / "program"
    program.write_text(
        f"#!/bin/sh\ntrap 'rm {made}; exit 3' TERM\ntouch {made}\nwhile :; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    return program, made


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name
)
def test_an_interrupted_run_of_a_program_lets_it_remove_its_files(endless, number):
    program, made = endless
    code = f"from perdure._ending import run_program; run_program([{str(program)!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(made.exists, process)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode != 0 and not made.exists()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name
)
def test_a_program_ends_though_the_signal_came_as_it_was_started(endless, number):
    program, made = endless
    code = f"""
import os, subprocess, time
from pathlib import Path
from perdure import _ending
class Started(subprocess.Popen):
    def __init__(self, *all, **how):
        super().__init__(*all, **how)
        while not Path({str(made)!r}).exists():
            time.sleep(0.01)
        os.kill(os.getpid(), {int(number)})
subprocess.Popen = Started
_ending.run_program([{str(program)!r}])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, check=False, timeout=60
    )
    assert ended.returncode in (128 + number, -number) and not made.exists()


def test_a_folder_goes_though_a_second_signal_comes(tmp_path):
    code = f"""
import os, shutil, signal
from pathlib import Path
from perdure import _ending
remove = shutil.rmtree
def slowly(folder, **how):
    os.kill(os.getpid(), signal.SIGTERM)
    remove(folder, **how)
shutil.rmtree = slowly
with _ending.temporary_folder("x-", Path({str(tmp_path)!r})) as folder:
    (folder / "file").touch()
    os.kill(os.getpid(), signal.SIGHUP)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == 128 + signal.SIGTERM and not os.listdir(tmp_path)
