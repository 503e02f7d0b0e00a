"""Python's `assert` is not run under `python -O`. Invariant: what ships asserts nothing that does
something, so a program does the same with it and without."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOKS = {"all", "any", "callable", "isinstance", "issubclass", "len", "set", "sorted", "type"}
FILES = sorted(
    path for folder in ("python/perdure", "examples") for path in (ROOT / folder).rglob("*.py")
)


def calls_in_asserts(source: str) -> list[int]:
    """Lines of asserts that call what may do something."""
    asserts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    return [
        one.lineno
        for one in asserts
        for node in ast.walk(one.test)
        if isinstance(node, ast.NamedExpr)
        or (isinstance(node, ast.Call) and getattr(node.func, "id", "") not in LOOKS)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_asserts_only_look(path: Path) -> None:
    assert not calls_in_asserts(path.read_text())


def test_an_assert_that_does_something_is_found() -> None:
    assert calls_in_asserts("assert len(x) == 1\nassert new.table(name)\nassert (n := 1)") == [2, 3]
