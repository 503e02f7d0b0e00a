"""Types of the public surface, by basedpyright: strictly right, complete, and what a user's program
needs.

Two runs of the checker, some five seconds each.
"""

from __future__ import annotations

import ast
import importlib
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
    "perdure.rocks",
    "perdure.store",
    "perdure.typing",
)


def checked(*arguments: str) -> dict[str, Any]:
    if importlib.util.find_spec("basedpyright") is None:
        assert os.environ.get("PERDURE_OFFLINE", "0") != "0", (
            "scripts/setup.sh --test installs basedpyright"
        )
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


def members(node: ast.Module | ast.ClassDef) -> set[str]:
    """What a stub declares, without a leading underscore."""
    declared = {one.name for one in node.body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    declared |= {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    declared |= {
        one.targets[0].id
        for one in node.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    return {name for name in declared if not name.startswith("_")}


@pytest.mark.parametrize("name", ["_native", "_rocks", "_serve"])
def test_the_stub_declares_what_the_extension_module_has(name: str) -> None:
    if importlib.util.find_spec(f"perdure.{name}") is None:
        assert os.environ.get("PERDURE_OFFLINE", "0") != "0", "scripts/setup.sh installs it"
        pytest.skip(f"not packed: what perdure.{name} stands on")
    module = importlib.import_module(f"perdure.{name}")
    stub = ast.parse((ROOT / f"python/perdure/{name}.pyi").read_text("utf-8"))
    assert members(stub) == {name for name in vars(module) if not name.startswith("_")}
    for declared in stub.body:
        if isinstance(declared, ast.ClassDef):
            has = {
                name for name in vars(getattr(module, declared.name)) if not name.startswith("_")
            }
            assert members(declared) == has, declared.name


def test_every_type_of_the_surface_is_known() -> None:
    symbols = checked("--verifytypes", "perdure", "--ignoreexternal")["typeCompleteness"]["symbols"]
    surface = [
        one for one in symbols if one["name"].startswith(SURFACE) or one["name"].count(".") == 1
    ]
    unknown = [one["name"] for one in surface if not one["isTypeKnown"] or one["isTypeAmbiguous"]]
    assert len(surface) > 50 and not unknown
