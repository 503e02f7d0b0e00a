"""Which skips a run may have: tests/skips.toml, against the reports of ctest and pytest.

Invariant: a skip is allowed where an entry names what the test said and the entry's condition holds
in this run, as looked at here, not as the test believes. Whatever else skips is a fault.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "skips.toml"
NOBODY = 65534
# What GoogleTest prints of a test that skips: the place, then what it said.
GTEST_SKIPPED = re.compile(r"^\S*:\d+: Skipped\n(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    said: str
    when: str
    why: str
    test: str = ""

    def names(self, test: str, said: str) -> bool:
        return self.said in said and self.test in test


def gpu_obstacle() -> str:
    """Why no GPU test can run here, or an empty string."""
    if not shutil.which("nvidia-smi"):
        return "nvidia-smi is not here, so neither is a driver"
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    if listed.returncode or not listed.stdout.strip():
        return f"nvidia-smi lists no GPU: {(listed.stdout + listed.stderr).strip()}"
    return ""


def may_mount() -> bool:
    return (
        subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode
        == 0
    )


def may_change_user() -> bool:
    try:
        return subprocess.run(["true"], user=NOBODY, check=False).returncode == 0
    except OSError:
        return False


def mlock_has_a_limit() -> bool:
    """Whether a user who may lock 64 KiB is refused a MiB."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, 64 << 10))
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            memory = mmap.mmap(-1, 1 << 20)
            first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            refused = ctypes.CDLL(None).mlock(ctypes.c_void_p(first), ctypes.c_size_t(1 << 20)) != 0
            os._exit(1 if refused else 0)
        except BaseException:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def in_memory(path: Path) -> bool:
    said = subprocess.run(
        ["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=False
    ).stdout
    return said.strip() in ("tmpfs", "ramfs")


def is_sanitized(suite: str) -> bool:
    return suite.startswith(("asan", "tsan"))


def uses_gpu(suite: str) -> bool:
    """Sanitizers' builds are of host code alone."""
    is_off = os.environ.get("PERDURE_CUDA", "AUTO").upper() in ("OFF", "0", "NO", "FALSE")
    return not is_off and not is_sanitized(suite) and gpu_obstacle() == ""


# Each answers for a suite's name whether its condition holds.
CONDITIONS: dict[str, Callable[[str], bool]] = {
    "always": lambda _: True,
    "no GPU": lambda suite: not uses_gpu(suite),
    "GPU": uses_gpu,
    "not suite frameworks": lambda suite: suite != "frameworks",
    "sanitizers": is_sanitized,
    "offline": lambda _: os.environ.get("PERDURE_OFFLINE", "0") != "0",
    "no mounts": lambda _: not may_mount(),
    "not root": lambda _: os.geteuid() != 0,
    "one user": lambda _: not may_change_user(),
    "mlock without limit": lambda _: not mlock_has_a_limit(),
    "sources in memory": lambda _: in_memory(ROOT),
    "no valgrind or perf": lambda _: not (shutil.which("valgrind") and shutil.which("perf")),
    "no rocksdb-tools": lambda _: shutil.which("db_bench") is None,
    "no AVX2": lambda _: " avx2 " not in Path("/proc/cpuinfo").read_text(),
}


@cache
def entries() -> tuple[Entry, ...]:
    listed = tuple(Entry(**one) for one in tomllib.loads(LIST.read_text(encoding="utf-8"))["skip"])
    if unknown := {one.when for one in listed} - CONDITIONS.keys():
        raise ValueError(f"{LIST}: no such condition: {', '.join(sorted(unknown))}")
    return listed


@cache
def holds(condition: str, suite: str) -> bool:
    return CONDITIONS[condition](suite)


def fault_of(suite: str, test: str, said: str) -> str:
    """Why this skip is none that the run may have; empty where it is."""
    named = [one for one in entries() if one.names(test, said)]
    if any(holds(one.when, suite) for one in named):
        return ""
    said = said.strip().splitlines()[0] if said.strip() else "nothing"
    if not named:
        return f"skipped, and no entry of tests/skips.toml allows it: {test}: {said}"
    conditions = " or ".join(sorted({f"'{one.when}'" for one in named}))
    return f"skipped, which it may where {conditions} holds, and that does not here: {test}: {said}"


def said_by(case: ET.Element) -> list[str]:
    """What a test said as it skipped, and each of the GoogleTests that one ctest runs together."""
    printed = case.findtext("system-out") or ""
    inside = GTEST_SKIPPED.findall(printed)
    skipped = case.find("skipped")
    if skipped is None and case.get("status") not in ("notrun", "disabled"):
        return inside
    if inside:
        return inside
    message = "" if skipped is None else skipped.get("message") or ""
    # ctest says by which rule it took the test for skipped; why, the test printed.
    return [printed if message.startswith("SKIP_") else message or case.get("status") or ""]


def faults_of(suite: str, case: ET.Element) -> list[str]:
    """The skips of one test case of a JUnit report that the run may not have, each once."""
    test = f"{case.get('classname')} {case.get('name')}"
    return list(
        dict.fromkeys(filter(None, (fault_of(suite, test, said) for said in said_by(case))))
    )


if __name__ == "__main__":  # scripts/skips.py SUITE REPORT: the faults of one report
    for one in ET.parse(sys.argv[2]).getroot().iter("testcase"):
        for fault in faults_of(sys.argv[1], one):
            print(fault)
