"""Runs what CI checks, suite by suite, and ends with one line: 'N passed, N failed'.

    scripts/test.py [--all] [--gpu] [--only NAME ...] [--list]

Each push runs the suites without `--all` (make test); `--all` (make test-all) adds what takes hours
and says at its end what that was. docs/testing.md has the table. Each suite builds what it needs,
so that none can test what is stale. Those that keep one core busy at most run beside the others.

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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import seeds
import skips
from reports import CommandFailed, Counts, passed_gpu_tests, read_junit

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "test"
VENV = ROOT / ".venv" / "bin"
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"  # scripts/setup.sh --frameworks
DOCS = ROOT / ".venv-docs" / "bin" / "python"  # scripts/docs.sh
JOBS = str(os.cpu_count() or 2)
RELEASE = ROOT / "build" / "release"
WHOLE = "^whole$"  # the label of tests that only make test-all runs: see tests/CMakeLists.txt
# A sanitizer looks at what each input runs through: for that, fewer do than for the answers.
FEWER_INPUTS = 30


@dataclass
class Suite:
    name: str
    what: str
    run: Callable[[str], Counts]
    beside: bool = False  # the suites that are not
    only_in_all: bool = False


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


def ctest(
    name: str,
    build: Path,
    *options: str,
    preset: str = "",
    prefix: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
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
    status = call(name, *prefix, *command, env=env)
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


def built(build: Callable[[str], float], run: Callable[[str], Counts]) -> Callable[[str], Counts]:
    """A suite that builds first, and says how long that took."""

    def both(name: str) -> Counts:
        begin = time.monotonic()
        building = build(name)
        waited = time.monotonic() - begin - building
        counts = run(name)
        counts.build_seconds = building if building > 1 else 0
        counts.waited_seconds = waited
        return counts

    return both


class Release:
    """The release tree, built once a run, by the first suite that asks for it."""

    def __init__(self, trap_programs: bool) -> None:
        self.trap_programs = trap_programs
        self.lock = Lock()
        self.is_built = False
        self.failure = ""

    def build(self, _suite: str) -> float:
        """How many seconds this call built; one that finds it built, or waits for that, none."""
        with self.lock:
            if self.failure:
                raise CommandFailed(self.failure)
            if self.is_built:
                return 0
            begin = time.monotonic()
            try:
                build_release(self.trap_programs)
            except CommandFailed as failure:
                self.failure = str(failure)
                raise
            self.is_built = True
            return time.monotonic() - begin


def build_release(trap_programs: bool) -> None:
    """The release tree with all tests, and the Python package from it in .venv."""
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

    def build(name: str) -> float:
        begin = time.monotonic()
        must(name, "cmake", "--preset", preset)
        target = "all" if whole else "perdure_push_tests"
        must(name, *prefix, "cmake", "--build", "--preset", preset, "-j", JOBS, "--target", target)
        return time.monotonic() - begin

    def run(name: str) -> Counts:
        # What is whole is not built for a push: each of its programs is then a test NAME_NOT_BUILT.
        which = ("-L", WHOLE) if whole else ("-LE", WHOLE, "-E", "_NOT_BUILT$")
        inputs = {} if whole else seeds.with_fewer_inputs(FEWER_INPUTS)
        return ctest(
            name, ROOT / "build" / preset, *which, preset=preset, prefix=prefix, env=inputs
        )

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


def whole_suites(
    on_release: Callable[[Callable[[str], Counts]], Callable[[str], Counts]],
    cpp: Callable[[str], Counts],
) -> list[Suite]:
    """What make test-all adds."""
    return [
        Suite("cpp-whole", "longer C++ tests, mutants, exhaustive schedules", cpp),
        Suite("wheel", "wheels without CUDA, in clean venvs", checks(["scripts/check_wheel.sh"])),
        Suite("shared", "shared library, no precompiled headers", shared_library),
        Suite(
            "frameworks",
            "arrays of PyTorch, JAX, CuPy; tables of pandas, polars",
            on_release(frameworks),
        ),
        Suite("asan-whole", "ASan and UBSan over the rest", sanitized("asan", whole=True)),
        Suite("tsan-whole", "TSan over the rest", sanitized("tsan", whole=True)),
        Suite(
            "bindings",
            "Rust and Go over the C interface",
            on_release(checks(["scripts/example_bindings.sh", str(RELEASE)])),
        ),
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


def all_suites(gpu: bool, trap_programs: bool) -> list[Suite]:
    built_release = {"PERDURE_LIBRARY": str(RELEASE / "src" / "libperdure.a")}

    release = Release(trap_programs)

    def on_release(run: Callable[[str], Counts]) -> Callable[[str], Counts]:
        return built(release.build, run)

    def cpp(*which: str) -> Callable[[str], Counts]:
        return on_release(lambda name: ctest(name, RELEASE, *which, WHOLE))

    layering = pytest("tests/layering", env=built_release)
    python = pytest("-n", JOBS, *seeds.for_hypothesis(), "python/tests")
    package = checks(["scripts/check_package.sh", str(RELEASE)])
    suites = [
        Suite("format", "layout of C++ and Python, lint", check_format),
        Suite("docs", "the documentation's site, without a warning", check_docs, beside=True),
        Suite("cpp", "C++ tests, explorer", cpp("-LE")),
        Suite(
            "layering",
            "who includes whom, what documents claim, build options",
            on_release(layering),
            beside=True,
        ),
        Suite("locks", "clang -Wthread-safety over the library", on_release(check_locks)),
        Suite("python", "Python tests", on_release(python)),
        Suite(
            "package",
            "installed C++ package, symbols, README's C++, examples",
            on_release(package),
            beside=True,
        ),
        Suite(
            "asan", "ASan and UBSan over what they found faults in", sanitized("asan", whole=False)
        ),
        Suite("tsan", "TSan over tests of several threads", sanitized("tsan", whole=False)),
    ]
    more = whole_suites(on_release, cpp("-L"))
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
    if sys.stdout.isatty() and not suite.beside:
        print(f"{suite.name:<12} ...", end="\r", flush=True)
    begin = time.monotonic()
    try:
        counts = suite.run(suite.name)
    except CommandFailed as failure:
        counts = Counts(failed=1, notes=[str(failure)])
    tell(suite, counts, time.monotonic() - begin - counts.build_seconds - counts.waited_seconds)
    return counts


def tell(suite: Suite, counts: Counts, seconds: float) -> None:
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    spent = f"{seconds:.1f} s" + (" beside the others" if suite.beside else "")
    if counts.build_seconds:
        spent = f"{counts.build_seconds:.1f} s of building and {spent}"
    lines = [f"{suite.name:<12} {counts.passed} passed, {counts.failed} failed{skipped} in {spent}"]
    if counts.failed:
        lines += [f"    FAILED {note}" for note in counts.notes]
        log = log_of(suite.name)
        tail = log.read_text(errors="replace").splitlines()[-60:] if log.exists() else []
        lines += [f"    | {line}" for line in (counts.said or tail)[:120]]
    sys.stdout.write("\n".join(lines) + "\n")  # at once: two suites may end together
    sys.stdout.flush()


def run_suites(suites: list[Suite]) -> list[Counts]:
    """What each came to, in their order; those that run beside the others one after the other."""
    with ThreadPoolExecutor(1) as pool:
        try:
            beside = {one.name: pool.submit(run_suite, one) for one in suites if one.beside}
            others = {one.name: run_suite(one) for one in suites if not one.beside}
            return [
                others[one.name] if one.name in others else beside[one.name].result()
                for one in suites
            ]
        finally:
            pool.shutdown(cancel_futures=True)


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

    if not options.all and (seed := seeds.of_sources(ROOT)) is not None:
        seeds.fix(seed)
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
    chosen = [
        suite
        for suite in suites
        if (suite.name in options.only if options.only else options.all or not suite.only_in_all)
    ]
    broken_suites = []
    for suite, counts in zip(chosen, run_suites(chosen), strict=True):
        total.passed += counts.passed
        total.failed += counts.failed
        total.skipped += counts.skipped
        total.build_seconds += counts.build_seconds
        if counts.failed:
            broken_suites.append(suite.name)
    more = [f"{suite.name} ({suite.what})" for suite in chosen if suite.only_in_all]

    minutes = (time.monotonic() - begin) / 60
    building = total.build_seconds / 60
    print(
        f"\n{total.skipped} skipped; {minutes:.1f} min, {building:.1f} of it "
        f"building{ccache_hits()};"
        f" failed suites: {', '.join(broken_suites) or 'none'};"
        f" seed of generated inputs: {os.environ.get(seeds.VARIABLE, 'drawn anew')}"
    )
    if more:
        print(f"beyond make test: {', '.join(more)}")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
