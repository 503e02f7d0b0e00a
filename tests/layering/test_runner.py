"""scripts/test.py: what runs beside what, and what is built once for several suites."""

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_skips import runner


@pytest.fixture(autouse=True)
def logs_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOGS", tmp_path)


def test_some_suites_run_beside_the_others_and_are_counted_in_their_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long_one_runs = threading.Event()

    def short(_name: str) -> runner.Counts:
        assert long_one_runs.wait(60), "nothing ran meanwhile"
        return runner.Counts(passed=2)

    def long(_name: str) -> runner.Counts:
        long_one_runs.set()
        return runner.Counts(passed=3)

    suites = [
        runner.Suite("pages", "", short, beside=True),
        runner.Suite("tests", "", long),
        runner.Suite("more-pages", "", lambda _: runner.Counts(failed=1), beside=True),
    ]
    assert [one.passed for one in runner.run_suites(suites)] == [2, 3, 0]
    printed = capsys.readouterr().out
    assert "pages        2 passed, 0 failed in 0." in printed
    assert "more-pages   0 passed, 1 failed" in printed


def of_release(monkeypatch: pytest.MonkeyPatch, fails: bool) -> tuple[list[int], list]:
    """How often the release tree was built for two suites, and what these came to."""
    built: list[int] = []

    def build(_trap_programs: bool) -> None:
        built.append(1)
        if fails:
            raise runner.CommandFailed("exit status 1: scripts/build.sh")

    monkeypatch.setattr(runner, "build_release", build)
    release = runner.Release(trap_programs=False)
    suites = [
        runner.Suite(
            name, "", runner.built(release.build, lambda _: runner.Counts(passed=1)), beside=beside
        )
        for name, beside in (("cpp", False), ("package", True))
    ]
    return built, runner.run_suites(suites)


def test_what_several_suites_need_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built, counts = of_release(monkeypatch, fails=False)
    assert built == [1]
    assert [one.passed for one in counts] == [1, 1]


def test_a_build_that_fails_fails_each_suite_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    built, counts = of_release(monkeypatch, fails=True)
    assert built == [1], "it is not tried again"
    assert [(one.passed, one.failed) for one in counts] == [(0, 1), (0, 1)]
    assert all("scripts/build.sh" in one.notes[0] for one in counts)
