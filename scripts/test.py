"""Runs everything CI checks, suite by suite, and ends with one line: 'N passed, N failed'.

Counts are the test programs' own (their JUnit reports); a check that is one command counts as one
test. A suite that cannot run because its build failed counts as one failure. Each command's output
goes to build/test/NAME.log, and the end of it to the terminal where it failed.

    scripts/test.py [--gpu] [--only NAME ...] [--list]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "test"
VENV = ROOT / ".venv" / "bin"
JOBS = str(os.cpu_count() or 2)
RELEASE = ROOT / "build" / "release"

SANITIZER_ENV = {
    "ASAN_OPTIONS": "halt_on_error=1:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}

# The release tree and that of the wheel hold mostly the same objects, which ccache compiles once. It takes
# paths relative to a tree, so that precompiled headers are the same too: both trees lie equally deep.
COMPILE_ONCE = {
    "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    "CCACHE_DIR": str(ROOT / "build" / "ccache"),
    "CCACHE_BASEDIR": str(ROOT),
    "CCACHE_NOHASHDIR": "1",
    "CCACHE_DEPEND": "1",
    "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime",
}
if not shutil.which("ccache"):
    COMPILE_ONCE = {}


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # what the failed tests printed


@dataclass
class Suite:
    name: str
    run: Callable[[str], Counts]


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
        return Counts(skipped=len(commands), notes=[f"not packed: {', '.join(absent)}"])
    return checks(*commands)(name)


def read_junit(report: Path, status: int) -> Counts:
    """The counts of a JUnit report, whichever of ctest and pytest wrote it."""
    if not report.exists():
        raise CommandFailed(f"exit status {status} and no report")
    counts = Counts()
    for case in ET.parse(report).getroot().iter("testcase"):
        failure = next((case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None)
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
    """GPU tests say so in their name or in that of their class or file."""
    names = [
        f"{case.get('classname')} {case.get('name')}"
        for case in ET.parse(report).getroot().iter("testcase")
        if case.find("skipped") is None and case.find("failure") is None and case.get("status") != "notrun"
    ]
    return [name for name in names if any(word in name.lower() for word in ("cuda", "gpu"))]


def ctest(name: str, build: Path, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> Counts:
    report = LOGS / f"{name}.xml"
    report.unlink(missing_ok=True)
    # fmt: off
    status = call(name, *prefix, "ctest", "--test-dir", build, "-j", JOBS, "--timeout", "900",
                  "--output-on-failure", "--no-tests=error", "--output-junit", report, env=env)
    # fmt: on
    return read_junit(report, status)


def pytest(*paths: str, env: dict[str, str] | None = None) -> Callable[[str], Counts]:
    def run(name: str) -> Counts:
        report = LOGS / f"{name}.xml"
        report.unlink(missing_ok=True)
        status = call(name, VENV / "pytest", "-q", f"--junitxml={report}", *paths, env=env)
        return read_junit(report, status)

    return run


def build_release(name: str) -> Counts:
    # Set-up brought an nvcc where there was none, so GPU code must compile unless it is unwanted.
    wanted = os.environ.get("PERDURE_CUDA", "AUTO")
    cuda = "ON" if wanted.upper() == "AUTO" else wanted
    options = ["PERDURE_TESTS=ON"]
    if not shutil.which("nvidia-smi"):
        # Without a GPU, GPU code has to compile and no more: for any one architecture, and unoptimised.
        options += ["CMAKE_CUDA_ARCHITECTURES=90-real", "PERDURE_CUDA_UNOPTIMISED=ON"]
    must(name, "scripts/build.sh", *options, env={"PERDURE_CUDA": cuda, **COMPILE_ONCE})
    must(name, "cmake", "--build", RELEASE, "-j", JOBS, env=COMPILE_ONCE)
    return Counts()


def unrandomised() -> tuple[str, ...]:
    """ThreadSanitizer cannot place its shadow where the kernel randomises addresses too widely."""
    prefix = ("setarch", os.uname().machine, "-R")
    if (
        shutil.which("setarch")
        and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    ):
        return prefix
    return ()


def sanitized(sanitizers: str, folder: str) -> Callable[[str], Counts]:
    """Builds the C++ tests with sanitizers, without CUDA, and runs them."""

    def run(name: str) -> Counts:
        build = ROOT / "build" / folder
        prefix = unrandomised() if sanitizers == "thread" else ()
        # fmt: off
        must(name, "cmake", "-G", "Ninja", "-S", ROOT, "-B", build, f"-DPERDURE_SANITIZE={sanitizers}",
             "-DPERDURE_CUDA=OFF", "-DPERDURE_TESTS=ON", "-DPERDURE_BENCH=OFF", "-DPERDURE_PYTHON=OFF")
        # fmt: on
        must(name, *prefix, "cmake", "--build", build, "-j", JOBS, env=SANITIZER_ENV)
        return ctest(name, build, env=SANITIZER_ENV, prefix=prefix)

    return run


def gpu_obstacle() -> str:
    """Why no GPU test can run here, or an empty string."""
    if not shutil.which("nvidia-smi"):
        return "nvidia-smi is not here, so neither is a driver"
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    if listed.returncode or not listed.stdout.strip():
        return f"nvidia-smi lists no GPU: {(listed.stdout + listed.stderr).strip()}"
    return ""


def gpu_tests_ran(name: str) -> Counts:
    """GPU tests skip themselves where there is no GPU; here some of each suite must have passed."""
    idle = []
    for suite in ("cpp", "python"):
        report = LOGS / f"{suite}.xml"
        ran = passed_gpu_tests(report) if report.exists() else []
        with log_of(name).open("a") as log:
            print(f"{suite}: {len(ran)} GPU tests passed", *ran, sep="\n    ", file=log)
        if not ran:
            idle.append(f"no GPU test of suite {suite} passed")
    return Counts(2 - len(idle), len(idle), notes=idle)


def all_suites(gpu: bool) -> list[Suite]:
    weak_symbols = {"PERDURE_LIBRARY": str(RELEASE / "src" / "libperdure.a")}
    suites = [
        Suite("format", check_format),
        Suite("build", build_release),
        Suite("layering", pytest("tests/layering", env=weak_symbols)),
        Suite("cpp", lambda name: ctest(name, RELEASE)),
        Suite("python", pytest("python/tests")),
        Suite("package", checks(["scripts/check_package.sh", str(RELEASE)])),
        Suite("wheel", checks(["scripts/check_wheel.sh"], env=COMPILE_ONCE)),
        Suite("asan", sanitized("address;undefined", "asan")),
        Suite("tsan", sanitized("thread", "tsan")),
    ]
    if gpu:
        suites.append(Suite("gpu-ran", gpu_tests_ran))
        suites.append(
            Suite(
                "gpu-memory",
                checks(*(["scripts/check_gpu_memory.sh", tool] for tool in ("memcheck", "racecheck"))),
            )
        )
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
    print(
        f"{suite.name:<12} {counts.passed} passed, {counts.failed} failed{skipped} in {seconds:.1f} s",
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


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs everything CI checks.")
    parser.add_argument("--gpu", action="store_true", help="require a GPU, and run the GPU tests too")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these suites alone")
    parser.add_argument("--list", action="store_true", help="name the suites")
    options = parser.parse_args()

    suites = all_suites(options.gpu)
    if options.list:
        print(*(suite.name for suite in suites), sep="\n")
        return 0
    if unknown := set(options.only or ()) - {suite.name for suite in suites}:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    if options.gpu and (obstacle := gpu_obstacle()):
        print(f"make test-gpu needs a GPU: {obstacle}. Without one, run `make test`.", file=sys.stderr)
        return 1

    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    total = Counts()
    broken_suites = []
    for suite in suites:
        if options.only and suite.name not in options.only:
            continue
        counts = run_suite(suite)
        total.passed += counts.passed
        total.failed += counts.failed
        total.skipped += counts.skipped
        if counts.failed:
            broken_suites.append(suite.name)

    minutes = (time.monotonic() - begin) / 60
    print(
        f"\n{total.skipped} skipped; {minutes:.1f} min; failed suites: {', '.join(broken_suites) or 'none'}"
    )
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
