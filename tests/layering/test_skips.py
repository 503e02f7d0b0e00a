"""scripts/skips.py and scripts/test.py: a skip that no entry of tests/skips.toml allows fails its
suite."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    """A module of scripts/, under a name that is no standard module's."""
    spec = importlib.util.spec_from_file_location(
        f"scripts_{name}", ROOT / "scripts" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(ROOT / "scripts"))  # where they import each other from
runner = script("test")
skips = runner.skips

CTEST = '<testcase name="{name}" classname="{name}" status="{status}">{inside}</testcase>'
PASSED = CTEST.format(name="Store.Works", status="run", inside="")


def skipped(name: str, said: str) -> str:
    """As ctest reports a GoogleTest that skips."""
    printed = f"/src/tests/a_test.cpp:12: Skipped\n{said}\n\n[  SKIPPED ] {name} (0 ms)\n"
    inside = (
        f'<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>{printed}</system-out>'
    )
    return CTEST.format(name=name, status="notrun", inside=inside)


def report(tmp_path: Path, *cases: str) -> Path:
    path = tmp_path / "report.xml"
    path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    return path


def read(tmp_path: Path, *cases: str, suite: str = "cpp") -> runner.Counts:
    return runner.read_junit(suite, report(tmp_path, PASSED, *cases), 0)


def test_a_listed_skip_counts_as_one(tmp_path: Path) -> None:
    counts = read(tmp_path, skipped("Conformance.X/word", "all sizes are fixed here"))
    assert (counts.passed, counts.failed, counts.skipped) == (1, 0, 1)


def test_one_that_is_not_listed_fails_the_suite(tmp_path: Path) -> None:
    counts = read(tmp_path, skipped("Store.Gone", "I do not feel like it"))
    assert counts.failed == 1
    assert "Store.Gone" in counts.notes[0] and "I do not feel like it" in counts.notes[0]


def test_one_whose_condition_does_not_hold_fails_the_suite(tmp_path: Path) -> None:
    said = skipped("Mapping.Locks", "sanitizers make mlock do nothing")
    assert read(tmp_path, said, suite="asan").failed == 0
    counts = read(tmp_path, said, suite="cpp")
    assert counts.failed == 1 and "'sanitizers'" in counts.notes[0]


def test_a_program_that_was_not_built_fails_the_suite(tmp_path: Path) -> None:
    gone = CTEST.format(
        name="perdure_gone_NOT_BUILT", status="notrun", inside='<skipped message=""/>'
    )
    assert read(tmp_path, gone).failed == 1


def test_a_skip_inside_a_ctest_of_many_is_seen(tmp_path: Path) -> None:
    printed = (
        "<system-out>/a.cpp:3: Skipped\nno reason\n\n[  SKIPPED ] A.B\n"
        "[  PASSED  ] 7 tests.\n</system-out>"
    )
    assert (
        read(tmp_path, CTEST.format(name="conformance.cpu", status="run", inside=printed)).failed
        == 1
    )


def test_pytests_are_compared_too(tmp_path: Path) -> None:
    case = (
        '<testcase classname="python.tests.test_arrays" name="test_torch">'
        '<skipped message="{}"/></testcase>'
    )
    assert read(tmp_path, case.format("not installed: torch"), suite="python").failed == 0
    assert read(tmp_path, case.format("not installed: torch"), suite="frameworks").failed == 1
    assert read(tmp_path, case.format("flaky"), suite="python").failed == 1


def test_gpu_tests_are_counted_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOGS", tmp_path)
    gpu = '<properties><property name="gpu" value="True"/></properties>'
    of_cpp = [CTEST.format(name=f"conformance.cuda.{n}", status="run", inside="") for n in range(3)]
    of_python = [CTEST.format(name=f"test_{n}", status="run", inside=gpu) for n in range(2)]
    absent = skipped("conformance.cuda.4", "no GPU to run on: none")
    report(tmp_path, PASSED, absent, *of_cpp).rename(tmp_path / "cpp.xml")
    report(tmp_path, PASSED, *of_python).rename(tmp_path / "python.xml")
    counts = runner.gpu_tests_ran("gpu-ran")
    assert (counts.passed, counts.failed) == (5, 1)
    assert counts.notes == ["no GPU test of suite frameworks passed"]


@pytest.mark.parametrize("entry", skips.entries(), ids=lambda one: one.said.strip())
def test_each_entry_is_of_a_skip_that_is_there(entry: skips.Entry) -> None:
    """Where the words are put together as the test runs, a part of them is in the sources."""
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("tests", "python/tests", "scripts", "examples", "src/pm")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".cpp", ".hpp", ".cu", ".py") and path.name != "test_skips.py"
    ]
    said = re.sub(r"cuda: $", "", entry.said)
    assert any(said in text for text in texts), entry.said
    assert entry.why
