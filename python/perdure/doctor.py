"""`perdure doctor`: what this machine offers a store, and what would survive on each medium; and,
where asked for, what memory here does (_doctor_litmus) and how fast (_doctor_measure).

Invariant: it reports what it reads from the system and from the engine, and changes nothing but the
files that it is asked for.
"""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

import perdure
from perdure import _doctor_litmus, _doctor_measure, _native
from perdure.cli_support import (
    FAULTS,
    Failure,
    JsonOption,
    JsonResult,
    OverwriteOption,
    answers_to,
    report,
    show_size,
)

VECTOR_ISA = (
    "sse4_2",
    "pclmulqdq",
    "avx2",
    "bmi2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "asimd",
    "sve",
)  # as Linux names them


def _cpu() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(
        line.split(":", 1) for line in reversed(lines) if ":" in line
    )  # the first processor's win
    named = {name.strip(): value.strip() for name, value in fields.items()}
    flags = (named.get("flags") or named.get("Features") or "").split()
    return {
        "model": named.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "isa": [flag for flag in VECTOR_ISA if flag in flags],
    }


def _limit(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


def _memory_limit() -> int | None:
    """The container's, where there is one: tmpfs pages count against it."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.is_file():
            text = path.read_text().strip()
            return int(text) if text.isdecimal() and int(text) < 1 << 60 else None
    return None


def _limits() -> dict[str, Any]:
    return {
        "memlock_bytes": _limit(resource.RLIMIT_MEMLOCK),
        "file_size_bytes": _limit(resource.RLIMIT_FSIZE),
        "address_space_bytes": _limit(resource.RLIMIT_AS),
        "memory_bytes": _memory_limit(),
    }


def _mounts(kind: str) -> list[str]:
    entries = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    points = (entry[1].replace("\\040", " ") for entry in entries if entry[2] == kind)
    return list(dict.fromkeys(points))  # a place mounted over is listed twice


def _place(
    medium: _native.Medium, path: str | None, size: int | None, free: int | None, note: str
) -> dict[str, Any]:
    return {
        "medium": medium.name,
        "path": path,
        "size_bytes": size,
        "free_bytes": free,
        "survives": _native.survives(medium).as_dict(),
        "note": note,
    }


def _on_file_system(medium: _native.Medium, path: str, note: str) -> dict[str, Any]:
    facts = os.statvfs(path)
    writable = "" if os.access(path, os.W_OK) else "not writable by this user; "
    free = facts.f_bavail * facts.f_frsize
    return _place(medium, path, facts.f_blocks * facts.f_frsize, free, writable + note)


def _hugetlbfs() -> list[dict[str, Any]]:
    pools = [
        f"{(entry / 'free_hugepages').read_text().strip()} of "
        f"{(entry / 'nr_hugepages').read_text().strip()}"
        f" pages of {entry.name.removeprefix('hugepages-')} free"
        for entry in sorted(Path("/sys/kernel/mm/hugepages").glob("hugepages-*"))
    ]
    note = "; ".join(pools) or "this kernel has no huge pages"
    mounts = _mounts("hugetlbfs")
    if not mounts:
        return [_place(_native.Medium.hugetlbfs, None, None, None, f"not mounted; {note}")]
    return [_on_file_system(_native.Medium.hugetlbfs, mount, note) for mount in mounts]


def _media() -> list[dict[str, Any]]:
    usual = "/dev/shm"
    others = [
        mount
        for mount in _mounts("tmpfs")
        if mount != usual and not mount.startswith("/sys/") and os.access(mount, os.W_OK)
    ]
    shared = (
        [_on_file_system(_native.Medium.tmpfs, usual, "the usual place of pools")]
        if usual in _mounts("tmpfs")
        else []
    )
    return [
        *shared,
        *(_on_file_system(_native.Medium.tmpfs, mount, "") for mount in others),
        *_hugetlbfs(),
        _place(
            _native.Medium.memfd,
            "memfd:NAME",
            None,
            None,
            "anonymous memory, gone with the process",
        ),
        _on_file_system(
            _native.Medium.file, str(Path.cwd()), "CPU only: a GPU cannot map files of a disk"
        ),
    ]


def _show_limit(number: int | None) -> str:
    return "unlimited" if number is None else show_size(number)


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"perdure   {facts['version']}, {'with' if facts['cuda_build'] else 'without'} CUDA",
        f"cpu       {facts['cpu']['model']}, {facts['cpu']['cores']} cores, "
        f"{' '.join(facts['cpu']['isa'])}",
    ]
    for device in facts["devices"]:
        state = (
            device["description"] if device["available"] else f"not available: {device['why_not']}"
        )
        lines.append(f"device    {device['device']}: {state}")
    for medium in facts["media"]:
        size = (
            ""
            if medium["size_bytes"] is None
            else f", {show_size(medium['free_bytes'])} of {show_size(medium['size_bytes'])} free"
        )
        note = f" ({medium['note']})" if medium["note"] else ""
        lines.append(f"medium    {medium['medium']} {medium['path'] or ''}{size}{note}")
        lines.append(f"          survives {medium['survives']['description']}")
    limits = facts["limits"]
    lines.append(
        f"memlock   {_show_limit(limits['memlock_bytes'])} (needed to lock a pool, and to give "
        "it to a GPU)"
    )
    lines.append(
        f"memory    {_show_limit(limits['memory_bytes'])} for this container; files at most"
        f" {_show_limit(limits['file_size_bytes'])}"
    )
    return lines


class LitmusMemory(StrEnum):
    pinned = "pinned"
    managed = "managed"
    system = "system"


def _facts() -> dict[str, Any]:
    return {
        "version": perdure.__version__,
        "cuda_build": perdure.built_with_cuda,
        "cpu": _cpu(),
        "devices": [device.as_dict() for device in perdure.devices()],
        "media": _media(),
        "limits": _limits(),
    }


# The name of what it finds, how to find it, and the module that tells it.
_Test = tuple[str, Callable[[], dict[str, Any]], ModuleType]


def _check(asked: dict[str, Any], needs: str, given: bool) -> None:
    """Options that would do nothing are refused."""
    for option, value in asked.items():
        if value not in (None, False) and not given:
            raise Failure(f"{option} needs {needs}")


def _examine(
    say: Callable[[str], None],
    facts: dict[str, Any],
    tests: list[_Test],
    stream: Any,
) -> str:
    """Runs what was asked for; answers the summary."""
    if not tests:
        for line in _lines(facts):
            say(line)
        usable = [device["device"] for device in facts["devices"] if device["available"]]
        return f"stores can run on: {', '.join(usable)}"
    summaries = []
    for name, run, module in tests:
        facts[name] = run()
        module.tell(facts[name], stream)
        summaries.append(module.summary(facts[name]))
    return "; ".join(summaries)


_LitmusOption = Annotated[
    bool, typer.Option("--litmus", help="Test which orders and atomics hold between CPU and GPU.")
]
_MeasureOption = Annotated[
    bool, typer.Option("--measure", help="Measure memory, the GPU's memory, and the link.")
]
_QuickOption = Annotated[
    bool, typer.Option("--quick", help="Two seconds of each, for a look at it.")
]
_SecondsOption = Annotated[
    float | None,
    typer.Option("--seconds", metavar="S", help="Of all litmus tests, or measurements; 60."),
]
_RunsOption = Annotated[
    int | None, typer.Option("--runs", metavar="N", help="Of each litmus test; 10,000,000.")
]
_MemoryOption = Annotated[
    LitmusMemory, typer.Option("--memory", help="Where the words of litmus tests lie.")
]
_RecordOption = Annotated[
    bool,
    typer.Option(
        "--record", help="Keep what litmus tests found: stores refuse what was seen to fail."
    ),
]
_MemoryBytesOption = Annotated[
    str | None,
    typer.Option(
        "--memory-bytes",
        metavar="SIZE",
        help="What measured arrays may take; half of what is free.",
    ),
]
_OversubscribeOption = Annotated[
    bool,
    typer.Option(
        "--oversubscribe",
        help="Also sort more managed memory than the GPU has free; that hangs some GPUs.",
    ),
]
_PlotOption = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Plot measurements to a PNG file.")
]


def doctor(
    litmus: _LitmusOption = False,
    measure: _MeasureOption = False,
    quick: _QuickOption = False,
    seconds: _SecondsOption = None,
    runs: _RunsOption = None,
    memory: _MemoryOption = LitmusMemory.pinned,
    record: _RecordOption = False,
    memory_bytes: _MemoryBytesOption = None,
    oversubscribe: _OversubscribeOption = False,
    plot: _PlotOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Tell what this machine offers: devices, media and what survives on them, limits; what holds
    between CPU and GPU (--litmus), and how fast memory is (--measure)."""
    elsewhere = memory is not LitmusMemory.pinned
    _check({"--runs": runs, "--memory": elsewhere, "--record": record}, "--litmus", litmus)
    of_measuring = {
        "--memory-bytes": memory_bytes,
        "--oversubscribe": oversubscribe,
        "--plot": plot,
    }
    _check(of_measuring, "--measure", measure)
    _check({"--quick": quick, "--seconds": seconds}, "--litmus or --measure", litmus or measure)
    result = JsonResult(json_file, overwrite)
    picture = _doctor_measure.picture(plot, overwrite)
    facts = _facts()
    tests: list[_Test] = []
    if litmus:
        run = partial(_doctor_litmus.run, runs, seconds, memory.value, quick, record)
        tests.append(("litmus", run, _doctor_litmus))
    if measure:
        run = partial(_doctor_measure.run, seconds, memory_bytes, quick, oversubscribe)
        tests.append(("measure", run, _doctor_measure))
    summary = _examine(answers_to(result), facts, tests, result.stream)
    if picture is not None:
        with picture.writing() as unfinished:
            _doctor_measure.plot(facts["measure"], unfinished)
    report(result, facts, summary)
    if litmus and not facts["litmus"]["sound"]:
        raise typer.Exit(FAULTS)


def register(app: typer.Typer) -> None:
    app.command()(doctor)
