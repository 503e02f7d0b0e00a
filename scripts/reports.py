"""What a suite came to, as the JUnit reports of ctest and pytest have it (scripts/test.py)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import skips


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # what the failed tests printed
    build_seconds: float = 0
    waited_seconds: float = 0  # for what another suite was building


class CommandFailed(Exception):
    """A command that had to succeed for the suite to go on did not."""


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
