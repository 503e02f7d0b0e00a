"""examples/dlrm/train.py on real clicks: a DLRM that is killed has the same losses as another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.framework("torch")

PROGRAM = Path(__file__).parents[2] / "examples" / "dlrm" / "train.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_dlrm_that_is_killed_twice_has_the_same_losses(pools: Path) -> None:
    pool = pools / "kept"
    ran = run("--steps", 80, "--batch", 64, "--kills", 2, "--rows", 2000, "--pool", pool)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = dict(line.split(maxsplit=1) for line in ran.stdout.splitlines())
    assert list(said) == ["data", "undisturbed", "killed", "resumed", "result"]
    assert said["data"].startswith("2,000 rows, 8 clicks; 7 features in 6 tables")
    assert said["killed"].startswith("2 times") and said["resumed"].count(",") == 1
    assert said["result"].startswith("all 80 losses") and said["result"].endswith("the last bit")
    assert pool.exists() and ran.stderr == ""
    again = run("--pool", pool)
    assert again.returncode == 2 and "it is there already" in again.stderr


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    ran = run("--data", path)
    assert ran.returncode == 1 and ran.stdout == ""
    assert ran.stderr.startswith(f"{path}, line 1: ") and ran.stderr.count("\n") == 1


def test_more_kills_than_steps_are_refused() -> None:
    ran = run("--steps", 3, "--kills", 3)
    assert ran.returncode == 2 and "3 steps are too few" in ran.stderr
