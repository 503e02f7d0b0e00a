"""Types of the public surface, by basedpyright: strictly right, complete, and what a user's program needs.

Two runs of the checker, some five seconds each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SURFACE = (
    "perdure.errors",
    "perdure.options",
    "perdure.pools",
    "perdure.results",
    "perdure.store",
    "perdure.typing",
)


def checked(*arguments: str) -> dict[str, Any]:
    if importlib.util.find_spec("basedpyright") is None:
        assert os.environ.get("PERDURE_OFFLINE", "0") != "0", "scripts/setup.sh --test installs basedpyright"
        pytest.skip("not packed: basedpyright")
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        *arguments,
    ]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


def test_the_surface_and_a_users_program_are_strictly_right() -> None:
    report = checked()
    said = [
        f"{one['file']}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in report["generalDiagnostics"]
    ]
    assert not said, "\n".join(said)
    assert report["summary"]["filesAnalyzed"] > 15


def test_every_type_of_the_surface_is_known() -> None:
    symbols = checked("--verifytypes", "perdure", "--ignoreexternal")["typeCompleteness"]["symbols"]
    surface = [one for one in symbols if one["name"].startswith(SURFACE) or one["name"].count(".") == 1]
    unknown = [one["name"] for one in surface if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    assert len(surface) > 50 and not unknown
