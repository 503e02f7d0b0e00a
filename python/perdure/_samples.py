"""Where `perdure top` gets its samples: a source looks at one thing again and again.

Invariant: a source says only what it sees; what it cannot see is absent from its sample. So the
view shows a pool's file and, some day, a server alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import perdure


@dataclass(frozen=True)
class Sample:
    """What was seen at a moment.

    `counters` only rise, so that two samples give rates. `facts` are everything else, flat, as
    they go into JSON.
    """

    at: float  # of a clock that never goes back, in seconds
    counters: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Something that can be sampled. `name` is what the user called it."""

    name: str

    def sample(self) -> Sample: ...


class PoolSource:
    """A pool's file, seen from outside: a part of it that does not grow with the pool."""

    def __init__(self, pool: str, log_dir: str | None = None) -> None:
        self.name = pool
        self._log_dir = log_dir

    def sample(self) -> Sample:
        at = time.monotonic()
        found = perdure.glance(self.name).as_dict()
        changes = found.pop("changes")
        counters = {"transactions": found.pop("transactions")}
        if changes is not None:
            counters["changes"] = changes
        facts: dict[str, Any] = {**found, "state": _state(found)}
        if found["process"]:
            facts["process_bytes"] = _resident_bytes(found["process"])
        if self._log_dir is not None:
            facts |= _log_facts(self._log_dir)
        return Sample(at, counters, {k: v for k, v in facts.items() if v is not None})


@contextmanager
def source_of(target: str, log_dir: str | None) -> Iterator[Source]:
    """The source of what the user named, for as long as it is looked at."""
    yield PoolSource(target, log_dir)


def _state(found: dict[str, Any]) -> str:
    repairs = f"; {found['repairs']} lines of a repair wait" if found["repairs"] else ""
    if found["use"] == "writing":
        return f"open for writing (process {found['process']}){repairs}"
    if found["use"] == "reading":
        return f"open for reading (process {found['process']}){repairs}"
    if found["closed_in_order"]:
        return f"closed in order{repairs}"
    return (
        "not closed in order: open in another container, or its process was killed and the next"
        f" opening recovers it{repairs}"
    )


def _resident_bytes(process: int) -> int | None:
    """Memory of the process that has the pool, with the pool's pages that it has mapped."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None  # it has just ended, or is another user's
    return pages * os.sysconf("SC_PAGE_SIZE")


def _log_facts(log_dir: str) -> dict[str, Any]:
    """Of the files of a durable store: sizes, and how old the newer image is."""
    sizes = {one.name: one.stat() for one in Path(log_dir).iterdir() if one.is_file()}
    images = [stat for name, stat in sizes.items() if name.startswith("image-")]
    facts: dict[str, Any] = {"log_dir": log_dir}
    if "redo.log" in sizes:
        facts["log_bytes"] = sizes["redo.log"].st_size
    if images:
        facts["image_bytes"] = sum(stat.st_size for stat in images)
        facts["image_age_seconds"] = max(0.0, time.time() - max(stat.st_mtime for stat in images))
    return facts
