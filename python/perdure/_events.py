"""What a store did that its caller may not have asked for, told to the logger `perdure`.

ERROR: acknowledged data is lost or damaged. WARNING: something was dropped or mended, or room is
too little.
INFO: a recovery went well, or a log goes a slower way. DEBUG: what the caller learns anyway, by an
exception or a status. Nothing is printed: whoever wants to see it adds a handler.
Invariant: Python's logging is imported once there is something to tell, for it takes as long as
half of perdure does.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure import errors
from perdure._deferred import Deferred

if TYPE_CHECKING:
    from perdure import _log
    from perdure._native import CacheReport, RecoveryReport, Stats, VerifyReport
else:
    _log = Deferred("perdure._log")


@contextmanager
def refusals() -> Generator[None, None, None]:
    """Tells what opening or making a pool raises: damage as an error, whatever the caller does
    about it."""
    try:
        yield
    except errors.Corrupt as damage:
        _log.error("%s", damage.message)
        raise
    except errors.Error as refusal:
        _log.debug("refused: %s", refusal.message)
        raise


def opened(path: str, found: RecoveryReport) -> None:
    """Tells what opening a pool came to, unless all was as the last close left it."""
    if found.lost_acknowledged:
        _log.error("%s: acknowledged batches are lost: %s", path, found.log_report)
    if not found.clean:
        _log.info("%s: was not closed in order; recovered %s", path, _recovered(found))
    if found.dropped:
        _log.warning("%s: dropped %d slots: %s", path, found.dropped, found.why_dropped)
    if found.repaired:
        _log.warning("%s: was damaged, and has been repaired", path)
    for change in found.changes:
        (_log.warning if found.repaired or found.dropped else _log.info)("%s: %s", path, change)


def _recovered(found: RecoveryReport) -> str:
    records = f"{found.records} records" if found.counted else "its records (not yet counted)"
    parts = (
        (found.undone, "slots undone"),
        (found.duplicates, "duplicates removed"),
        (found.replayed, "batches replayed"),
    )
    done = [f"{count} {what}" for count, what in parts if count]
    done += ["a growth goes on"] * found.resize_resumed
    seconds = found.replay_seconds + found.map_seconds + found.recover_seconds
    return f"{', '.join([records, *done])} in {seconds:.3f} s"


def placed(path: str, stats: Stats) -> None:
    """Tells where an index or a log has to do with less than the machine could have."""
    if stats.residency_note:
        _log.warning("%s: the mirror lacks a part: %s", path, stats.residency_note)
    if stats.log_method and not stats.log_method.startswith("io_uring, O_DIRECT"):
        _log.info("%s: the log falls back to %s", path, stats.log_method)


def verified(path: str, found: VerifyReport) -> None:
    """Tells that a pool has faults."""
    if found.fault_count:
        _log.error("%s: %d faults, the first: %s", path, found.fault_count, found.faults[0])


def acknowledged(path: str) -> None:
    """Tells that somebody has seen to what a repair changed."""
    _log.info("%s: what repairs changed is acknowledged", path)


def cached(path: str, found: CacheReport) -> None:
    """Tells that a load of the cache met damage."""
    if found.corrupt:
        _log.error("%s: %d records fail their checksum, and are not cached", path, found.corrupt)


def full(refusal: errors.NoSpace) -> None:
    """Tells that a pool could not take a batch."""
    _log.warning("%s", refusal.message)


def failed_keys(path: str, what: str, *, damaged: bool) -> None:
    """Tells of keys that a call refused, or whose records are damaged, for statuses may go
    unread."""
    (_log.error if damaged else _log.debug)("%s: %s", path, what)
