"""What to do about the writes at a line of code: demote, clean, skip, or leave (3.6.2.3 of the
thesis), with the numbers that say so.

Invariant: each advice follows from the counts of one `Site` alone, by `advise`; the thresholds are
the constants here, and the report shows what is compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from perdure.dirtbuster import decoding, tool

SEQUENTIAL = 0.3  # of the writes, in contexts of more than a line: then the code writes in sequence
FENCED = 0.25  # of the passes, with a fence soon after: then a fence waits for the writes
REWRITTEN = 0.25  # of the passes over lines: then cleaning would write in vain
REREAD = 0.25  # of the pieces of contexts: then skipping would read from memory
_LINE_BYTES, _INTERNAL_BYTES = 64, 256
_RIDES = 0.1  # of its bytes are in passes of its own: else a line of code follows another's


class Choice(StrEnum):
    demote = "demote"
    clean = "clean"
    skip = "skip"
    leave = "leave"


@dataclass
class Site:
    """The writes of one function at neighbouring lines of code, from one caller."""

    counts: dict[str, Any]
    lines: list[int]

    @property
    def sequential(self) -> float:
        return _share(self.counts["sequential_writes"], self.counts["writes"])

    @property
    def fenced(self) -> float:
        return _share(self.counts["fenced"], self.counts["passes"])

    @property
    def rewritten(self) -> float:
        return _share(self.counts["rewritten"], self.counts["passes"])

    @property
    def reread(self) -> float:
        return _share(self.counts["reread_pieces"], self.counts["pieces"])

    @property
    def reread_distance(self) -> float | None:
        """In instructions; None: never, as far as the cache can tell."""
        return _mean(self.counts["reread_sum"], self.counts["reread"], self.reread >= REREAD)

    @property
    def rewrite_distance(self) -> float | None:
        return _mean(
            self.counts["rewritten_sum"], self.counts["rewritten"], self.rewritten >= REWRITTEN
        )

    @property
    def context_bytes(self) -> int:
        """The size that most of the bytes were written in, as a power of two."""
        sizes = self.counts["context_bytes"]
        return 1 << sizes.index(max(sizes)) if sizes and max(sizes) else 0

    @property
    def amplification(self) -> float:
        """Bytes the memory writes for each byte evicted, if each context's lines leave together:
        the internal lines that it covers, to its own lines (3.4.1). Where each line leaves alone,
        it is 4."""
        lines, blocks = self.counts["context_lines"], self.counts["context_blocks"]
        return blocks * _INTERNAL_BYTES / (lines * _LINE_BYTES) if lines else 4.0


@dataclass
class Advice:
    choice: Choice
    why: str
    effect: str
    site: Site


def _share(part: int, whole: int) -> float:
    return min(1.0, part / whole) if whole else 0.0


def _mean(total: int, count: int, counts: bool) -> float | None:
    return total / count if count and counts else None


def advise(site: Site) -> Advice:
    choice, why = _choose(site)
    if choice is Choice.skip and decoding.is_non_temporal(
        site.counts["object"], site.counts["address"]
    ):
        choice, why = Choice.leave, "it skips the cache already"
    return Advice(choice, why, _effect(site, choice), site)


def _choose(site: Site) -> tuple[Choice, str]:
    sequential, fenced = site.sequential >= SEQUENTIAL, site.fenced >= FENCED
    if not sequential and not fenced:
        return Choice.leave, "scattered writes, and no fence soon after"
    if site.rewritten >= REWRITTEN:
        if site.counts["on_stack"]:
            return Choice.leave, "a stack's lines, rewritten in the cache"
        if fenced:
            return Choice.demote, "rewritten, and a fence waits for the writes"
        return Choice.leave, "rewritten while it is in the cache"
    if site.reread >= REREAD:
        return Choice.clean, "read again soon, not rewritten"
    if site.context_bytes < _LINE_BYTES:
        return Choice.clean, "not used again; too small to skip the cache by whole lines"
    return Choice.skip, "neither read nor rewritten soon"


def _effect(site: Site, choice: Choice) -> str:
    if choice is Choice.leave:
        return ""
    if choice is Choice.demote:
        return f"a fence {site.counts['fenced_min']} instructions later finds the lines written"
    if site.sequential < SEQUENTIAL:
        return "a fence has less to wait for; evictions stay scattered"
    return f"write amplification from up to 4.0 to {site.amplification:.1f}"


def sites_of(groups: Sequence[dict[str, Any]]) -> list[Site]:
    """The groups, with those that only follow another line's passes added to it."""
    by_function: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for group in groups:
        key = (
            group["symbol"],
            group["object"],
            group["caller"],
            group["on_stack"],
            group["line"] if group["is_call"] else 0,
        )
        by_function.setdefault(key, []).append(group)
    return [site for some in by_function.values() for site in _folded(some)]


def _folded(groups: list[dict[str, Any]]) -> list[Site]:
    def leads(group: dict[str, Any]) -> bool:
        return group["passes"] * _LINE_BYTES >= _RIDES * group["bytes"]

    leaders = [group for group in groups if leads(group)] or groups[:1]
    sites = [Site(group, [group["line"]]) for group in leaders]
    for group in groups:
        if any(group is leader for leader in leaders):
            continue
        near = min(
            sites,
            key=lambda site: (
                site.counts["file"] != group["file"],
                abs(site.lines[0] - group["line"]),
            ),
        )
        near.counts = tool.summed(near.counts, group)
        near.lines.append(group["line"])
    return sites


def all_of(groups: Sequence[dict[str, Any]]) -> list[Advice]:
    """Those that write most first. Lines of one function with the same advice are one."""
    merged: dict[tuple[Any, ...], Advice] = {}
    for advice in (advise(site) for site in sites_of(groups)):
        counts = advice.site.counts
        key = (
            counts["symbol"],
            counts["object"],
            counts["file"],
            counts["caller"],
            counts["on_stack"],
            counts["line"] if counts["is_call"] else 0,
            advice.choice,
            advice.why,
        )
        if key not in merged:
            merged[key] = advice
            continue
        site = merged[key].site
        both = Site(tool.summed(site.counts, counts), sorted({*site.lines, *advice.site.lines}))
        merged[key] = Advice(advice.choice, advice.why, _effect(both, advice.choice), both)
    return sorted(merged.values(), key=lambda one: -one.site.counts["bytes"])
