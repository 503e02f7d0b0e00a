"""Runs what CI checks, suite by suite, and ends with one line: 'N passed, N failed'.

    scripts/test.py [--all] [--gpu] [--only NAME ...] [--list]

Each push runs the suites without `--all` (make test); `--all` (make test-all) adds what takes hours
and says at its end what that was. docs/testing.md has the table. Each suite builds what it needs,
so that none can test what is stale.

Counts are the test programs' own (their JUnit reports); a check that is one command counts as one
test. A suite that cannot run because its build failed counts as one failure, and so does each skip
that tests/skips.toml does not allow. Each command's output goes to build/test/NAME.log, and the end
of it to the terminal where it failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import skips

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "test"
VENV = ROOT / ".venv" / "bin"
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"  # scripts/setup.sh --frameworks
DOCS = ROOT / ".venv-docs" / "bin" / "python"  # scripts/docs.sh
JOBS = str(os.cpu_count() or 2)
RELEASE = ROOT / "build" / "release"
WHOLE = "^whole$"  # the label of tests that only make test-all runs: see tests/CMakeLists.txt


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # what the failed tests printed
    build_seconds: float = 0


@dataclass
class Suite:
    name: str
    what: str
    run: Callable[[str], Counts]
    only_in_all: bool = False


class CommandFailed(Exception):
    """A command that had to succeed for the suite to go on did not."""


def log_of(name: str) -> Path:
    return LOGS / f"{name}.log"


def call(name: str, *command: str | Path, env: dict[str, str] | None = None) -> int:
    """Runs a command with its output appended to the suite's log."""
    with log_of(name).open("a") as log:
        print("$", *command, file=log, flush=True)
        whole = {**os.environ, **(env or {})}
        return subprocess.run(
            command, cwd=ROOT, env=whole, stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode


def must(name: str, *command: str | Path, env: dict[str, str] | None = None) -> None:
    if status := call(name, *command, env=env):
        raise CommandFailed(f"exit status {status}: {' '.join(map(str, command))}")


def checks(*commands: list[str], env: dict[str, str] | None = None) -> Callable[[str], Counts]:
    """A suite of which each command is one test."""

    def run(name: str) -> Counts:
        failures = [" ".join(command) for command in commands if call(name, *command, env=env)]
        return Counts(len(commands) - len(failures), len(failures), notes=failures)

    return run


def check_format(name: str) -> Counts:
    commands = [["scripts/format.sh", what] for what in ("cpp", "lint", "python")]
    absent = [tool for tool in ("clang-format", "ruff") if not (VENV / tool).exists()]
    if absent and os.environ.get("PERDURE_OFFLINE", "0") != "0":
        fault = skips.fault_of(name, "layout and lint", f"not packed: {', '.join(absent)}")
        return Counts(skipped=len(commands), failed=bool(fault), notes=[fault])
    return checks(*commands)(name)


def check_docs(name: str) -> Counts:
    absent = [] if shutil.which("doxygen") else ["doxygen"]
    absent += [] if DOCS.exists() else ["sphinx"]
    if absent and os.environ.get("PERDURE_OFFLINE", "0") != "0":
        fault = skips.fault_of(name, "documentation", f"not packed: {', '.join(absent)}")
        return Counts(skipped=1, failed=bool(fault), notes=[fault])
    return checks(["scripts/docs.sh"])(name)


def check_locks(name: str) -> Counts:
    """What clang knows of the annotations of locks; it needs no more of the release tree than how
    each source is compiled."""
    clang = subprocess.run(["scripts/clang.sh"], cwd=ROOT, capture_output=True, check=False)
    if clang.returncode and os.environ.get("PERDURE_OFFLINE", "0") != "0":
        fault = skips.fault_of(name, "annotations of locks", "not packed: clang")
        return Counts(skipped=1, failed=bool(fault), notes=[fault])
    return checks([str(VENV / "python"), "scripts/thread_safety.py", str(RELEASE)])(name)


def read_junit(name: str, report: Path, status: int) -> Counts:
    """The counts of a suite's JUnit report, whichever of ctest and pytest wrote it."""
    if not report.exists():
        raise CommandFailed(f"exit status {status} and no report")
    counts = Counts()
    wrongly_skipped = []
    for case in ET.parse(report).getroot().iter("testcase"):
        wrongly_skipped += skips.faults_of(name, case)
        failure = next(
            (case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None
        )
        if failure is not None or case.get("status") == "fail":
            counts.failed += 1
            counts.notes.append(f"{case.get('classname')}: {case.get('name')}")
            counts.said += [f"{case.get('name')}:", *last_words(case, failure)]
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            counts.skipped += 1
        else:
            counts.passed += 1
    if counts.passed + counts.failed == 0:
        raise CommandFailed("no test ran")
    if status and not counts.failed:
        raise CommandFailed(f"exit status {status}, though no test failed")
    counts.failed += len(wrongly_skipped)
    counts.notes += wrongly_skipped
    return counts


def last_words(case: ET.Element, failure: ET.Element | None) -> list[str]:
    """The lines of a failed test's output that name its failed assertions, or its last lines."""
    printed = case.findtext("system-out") or (failure.text if failure is not None else "") or ""
    lines = printed.splitlines()
    telling = [i for i, line in enumerate(lines) if line.endswith(": Failure") or "ERROR: " in line]
    if not telling:
        return lines[-25:]
    return [line for i in telling[:4] for line in lines[i : i + 8]]


def passed_gpu_tests(report: Path) -> list[str]:
    """C++ tests that run on a GPU have `cuda` in their name; Python tests are marked in the
    report."""

    def on_gpu(case: ET.Element) -> bool:
        return (
            "cuda" in (case.get("name") or "")
            or case.find("properties/property[@name='gpu']") is not None
        )

    return [
        f"{case.get('classname')} {case.get('name')}"
        for case in ET.parse(report).getroot().iter("testcase")
        if on_gpu(case)
        and all(case.find(tag) is None for tag in ("skipped", "failure", "error"))
        and case.get("status") not in ("notrun", "disabled", "fail")
    ]


def ctest(
    name: str, build: Path, *options: str, preset: str = "", prefix: tuple[str, ...] = ()
) -> Counts:
    report = LOGS / f"{name}.xml"
    report.unlink(missing_ok=True)
    where = (
        ("--preset", preset)
        if preset
        else ("--test-dir", build, "--timeout", "900", "--output-on-failure")
    )
    # Else reports have the first 1024 bytes that a test prints, and not every skip of a test that
    # runs many.
    whole = ("--test-output-size-passed", "1000000")
    command = (
        "ctest",
        *where,
        "-j",
        JOBS,
        "--no-tests=error",
        "--output-junit",
        report,
        *whole,
        *options,
    )
    status = call(name, *prefix, *command)
    return read_junit(name, report, status)


def pytest(
    *arguments: str, env: dict[str, str] | None = None, python: Path = VENV / "python"
) -> Callable[[str], Counts]:
    def run(name: str) -> Counts:
        report = LOGS / f"{name}.xml"
        report.unlink(missing_ok=True)
        status = call(
            name, python, "-m", "pytest", "-q", f"--junitxml={report}", *arguments, env=env
        )
        return read_junit(name, report, status)

    return run


def frameworks(name: str) -> Counts:
    """Arrays and tables of other libraries, none of which may be absent here (tests/skips.toml)."""
    offline = os.environ.get("PERDURE_OFFLINE", "0") != "0"
    python = VENV / "python" if offline else FRAMEWORKS
    if not python.exists():
        raise CommandFailed(f"no {python}: run scripts/setup.sh --frameworks")
    return pytest("-m", "framework", "python/tests", python=python)(name)


def built(build: Callable[[str], None], run: Callable[[str], Counts]) -> Callable[[str], Counts]:
    """A suite that builds first, and says how long that took."""

    def both(name: str) -> Counts:
        begin = time.monotonic()
        build(name)
        seconds = time.monotonic() - begin
        counts = run(name)
        counts.build_seconds = seconds if seconds > 1 else 0  # built for another suite already
        return counts

    return both


@cache
def build_release(trap_programs: bool) -> None:
    """The release tree with all tests, and the Python package from it in .venv; once a run."""
    # Set-up brought an nvcc where there was none, so GPU code must compile unless it is off.
    given = os.environ.get("PERDURE_CUDA", "AUTO")
    cuda = "ON" if given.upper() == "AUTO" else given
    options = ["PERDURE_TESTS=ON", "PERDURE_BENCH=ON", "PERDURE_SHARED=ON"]
    # What is measured elsewhere takes a fifth of the time to compile, and is tested here.
    options.append("PERDURE_UNMEASURED=ON")
    if trap_programs:
        options.append("PERDURE_TRAP_PROGRAMS=ON")
    if not shutil.which("nvidia-smi"):
        # Without a GPU, GPU code has to compile and no more: for one architecture, unoptimised, and
        # for a push only as far as PTX.
        options.append(f"CMAKE_CUDA_ARCHITECTURES=90-{'real' if trap_programs else 'virtual'}")
        options.append("CMAKE_CUDA_FLAGS_RELEASE=-O1 -DNDEBUG -Xcicc=-O1 -Xptxas=-O1")
    log_of("build").unlink(missing_ok=True)
    must("build", "scripts/build.sh", *options, env={"PERDURE_CUDA": cuda})
    must("build", "cmake", "--build", RELEASE, "-j", JOBS)


def unrandomised() -> tuple[str, ...]:
    """ThreadSanitizer cannot place its shadow where the kernel randomises addresses too widely."""
    prefix = ("setarch", os.uname().machine, "-R")
    if (
        shutil.which("setarch")
        and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    ):
        return prefix
    return ()


def sanitized(preset: str, whole: bool) -> Callable[[str], Counts]:
    """Builds C++ tests with sanitizers, without CUDA, and runs them: of each push, or the
    others."""
    prefix = unrandomised() if preset == "tsan" else ()

    def build(name: str) -> None:
        must(name, "cmake", "--preset", preset)
        target = "all" if whole else "perdure_push_tests"
        must(name, *prefix, "cmake", "--build", "--preset", preset, "-j", JOBS, "--target", target)

    def run(name: str) -> Counts:
        # What is whole is not built for a push: each of its programs is then a test NAME_NOT_BUILT.
        which = ("-L", WHOLE) if whole else ("-LE", WHOLE, "-E", "_NOT_BUILT$")
        return ctest(name, ROOT / "build" / preset, *which, preset=preset, prefix=prefix)

    return built(build, run)


def shared_library(name: str) -> Counts:
    """The library as a shared object, each source with all that it includes, installed and used."""
    tree = ROOT / "build" / "shared"
    options = [
        "CMAKE_BUILD_TYPE=Release",
        "BUILD_SHARED_LIBS=ON",
        "CMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
        "PERDURE_TOGETHER=OFF",
    ]
    options += ["PERDURE_CUDA=OFF", "PERDURE_TESTS=ON", "PERDURE_BENCH=ON"]
    must(
        name, "cmake", "-G", "Ninja", "-S", ROOT, "-B", tree, *(f"-D{option}" for option in options)
    )
    must(name, "cmake", "--build", tree, "-j", JOBS)
    return checks(["scripts/check_package.sh", str(tree)])(name)


def gpu_tests_ran(name: str) -> Counts:
    """Counts the GPU tests that passed; each suite that has some must have passed some.

    One that skipped for want of a GPU has failed its suite already: tests/skips.toml does not allow
    it here.
    """
    counts = Counts()
    for suite in ("cpp", "python", "frameworks"):
        report = LOGS / f"{suite}.xml"
        ran = passed_gpu_tests(report) if report.exists() else []
        with log_of(name).open("a") as log:
            print(f"{suite}: {len(ran)} GPU tests passed", *ran, sep="\n    ", file=log)
        counts.passed += len(ran)
        if not ran:
            counts.failed += 1
            counts.notes.append(f"no GPU test of suite {suite} passed")
    return counts


def all_suites(gpu: bool, trap_programs: bool) -> list[Suite]:
    built_release = {"PERDURE_LIBRARY": str(RELEASE / "src" / "libperdure.a")}

    def on_release(run: Callable[[str], Counts]) -> Callable[[str], Counts]:
        return built(lambda _: build_release(trap_programs), run)

    def cpp(*which: str) -> Callable[[str], Counts]:
        return on_release(lambda name: ctest(name, RELEASE, *which, WHOLE))

    layering = pytest("tests/layering", env=built_release)
    package = checks(["scripts/check_package.sh", str(RELEASE)])
    suites = [
        Suite("format", "layout of C++ and Python, lint", check_format),
        Suite("docs", "the documentation's site, without a warning", check_docs),
        Suite("cpp", "C++ tests, explorer", cpp("-LE")),
        Suite(
            "layering",
            "who includes whom, what documents claim, build options",
            on_release(layering),
        ),
        Suite("locks", "clang -Wthread-safety over the library", on_release(check_locks)),
        Suite("python", "Python tests", on_release(pytest("-n", JOBS, "python/tests"))),
        Suite(
            "package", "installed C++ package, symbols, README's C++, examples", on_release(package)
        ),
        Suite(
            "asan", "ASan and UBSan over what they found faults in", sanitized("asan", whole=False)
        ),
        Suite("tsan", "TSan over tests of several threads", sanitized("tsan", whole=False)),
    ]
    more = [
        Suite("cpp-whole", "longer C++ tests, mutants, exhaustive schedules", cpp("-L")),
        Suite("wheel", "wheels without CUDA, in clean venvs", checks(["scripts/check_wheel.sh"])),
        Suite("shared", "shared library, no precompiled headers", shared_library),
        Suite(
            "frameworks",
            "arrays of PyTorch, JAX, CuPy; tables of pandas, polars",
            on_release(frameworks),
        ),
        Suite("asan-whole", "ASan and UBSan over the rest", sanitized("asan", whole=True)),
        Suite("tsan-whole", "TSan over the rest", sanitized("tsan", whole=True)),
        Suite("fuzz", "a minute of each fuzz target", checks(["scripts/fuzz.sh", "60"])),
        Suite("soak", "1,000 kills", checks(["scripts/soak.sh", "1000"])),
        Suite(
            "rocks",
            "a million operations as plain RocksDB, 200 kills, other versions' headers",
            checks(["scripts/rocks.sh", "1000000", "200"], ["scripts/rocksdb_versions.sh"]),
        ),
        Suite(
            "explore",
            "a million crash states of each kind",
            checks(["scripts/explore.sh", "1000000"]),
        ),
    ]
    for suite in more:
        suite.only_in_all = not (gpu and suite.name == "frameworks")
    suites += more
    if gpu:
        suites.append(Suite("gpu-ran", "GPU tests that passed", gpu_tests_ran))
        tools = (["scripts/check_gpu_memory.sh", tool] for tool in ("memcheck", "racecheck"))
        suites.append(Suite("gpu-memory", "compute-sanitizer", checks(*tools)))
    return suites


def run_suite(suite: Suite) -> Counts:
    """Runs one suite and says how it fared, with the end of its log where it failed."""
    log_of(suite.name).unlink(missing_ok=True)
    if sys.stdout.isatty():
        print(f"{suite.name:<12} ...", end="\r", flush=True)
    begin = time.monotonic()
    try:
        counts = suite.run(suite.name)
    except CommandFailed as failure:
        counts = Counts(failed=1, notes=[str(failure)])
    seconds = time.monotonic() - begin
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    spent = f"{seconds - counts.build_seconds:.1f} s"
    if counts.build_seconds:
        spent = f"{counts.build_seconds:.1f} s of building and {spent}"
    print(
        f"{suite.name:<12} {counts.passed} passed, {counts.failed} failed{skipped} in {spent}",
        flush=True,
    )
    if counts.failed:
        for note in counts.notes:
            print(f"    FAILED {note}")
        log = log_of(suite.name)
        tail = log.read_text(errors="replace").splitlines()[-60:] if log.exists() else []
        for line in (counts.said or tail)[:120]:
            print(f"    | {line}")
    return counts


def ccache_hits() -> str:
    """What the compiler cache says of itself, in few words; empty where there is none."""
    if not shutil.which("ccache"):
        return ""
    said = subprocess.run(["ccache", "-s"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Hits:\s+(\d+) /\s+(\d+)", said)
    return f"; compiler cache, ever: {found[1]} of {found[2]} hits" if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs what CI checks.")
    parser.add_argument("--all", action="store_true", help="what takes hours, too")
    parser.add_argument(
        "--gpu", action="store_true", help="require a GPU, and run the GPU tests too"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these suites alone")
    parser.add_argument("--list", action="store_true", help="name the suites")
    options = parser.parse_args()

    suites = all_suites(options.gpu, options.all)
    if options.list:
        for suite in suites:
            print(f"{suite.name:<12} {suite.what}{' (make test-all)' if suite.only_in_all else ''}")
        return 0
    if unknown := set(options.only or ()) - {suite.name for suite in suites}:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    if options.gpu and (obstacle := skips.gpu_obstacle()):
        print(
            f"make test-gpu needs a GPU: {obstacle}. Without one, run `make test`.", file=sys.stderr
        )
        return 1

    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    total = Counts()
    broken_suites = []
    more = []
    for suite in suites:
        if (
            suite.name not in options.only
            if options.only
            else suite.only_in_all and not options.all
        ):
            continue
        counts = run_suite(suite)
        total.passed += counts.passed
        total.failed += counts.failed
        total.skipped += counts.skipped
        total.build_seconds += counts.build_seconds
        if counts.failed:
            broken_suites.append(suite.name)
        if suite.only_in_all:
            more.append(f"{suite.name} ({suite.what})")

    minutes = (time.monotonic() - begin) / 60
    building = total.build_seconds / 60
    print(
        f"\n{total.skipped} skipped; {minutes:.1f} min, {building:.1f} of it "
        f"building{ccache_hits()};"
        f" failed suites: {', '.join(broken_suites) or 'none'}"
    )
    if more:
        print(f"beyond make test: {', '.join(more)}")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
