"""docs/survival.md names the tests that show what it claims: each of them must be there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.findall(r"`([^`\n]+)`", (ROOT / "docs/survival.md").read_text(encoding="utf-8"))
GTEST = re.compile(r"^\s*(?:TEST(?:_[FP])?|RC_GTEST_PROP)\((\w+),\s*(\w+)[,)]", re.MULTILINE)


def test_gtests_named_are_there() -> None:
    there = {
        ".".join(found)
        for path in (ROOT / "tests").rglob("*.cpp")
        for found in GTEST.findall(path.read_text(encoding="utf-8"))
    }
    named = {name for name in NAMED if re.fullmatch(r"[A-Z]\w+\.[A-Z]\w+", name)}
    assert len(named) > 20
    assert named <= there, sorted(named - there)


def test_python_tests_named_are_there() -> None:
    named = {name for name in NAMED if re.fullmatch(r"test_\w+\.py::test_\w+", name)}
    assert len(named) > 3
    for name in named:
        file, test = name.split("::")
        assert f"def {test}(" in (ROOT / "python/tests" / file).read_text(encoding="utf-8"), name
