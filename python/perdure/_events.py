"""What the package has to say beside the engine's own events (perdure._log): what only it knows.

ERROR: acknowledged data is lost or damaged. DEBUG: what the caller learns anyway, by an exception
or a status.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure import _log, errors


@contextmanager
def refusals(path: str) -> Generator[None, None, None]:
    """Tells what opening a database of RocksDB raises, for which the engine has no events."""
    try:
        yield
    except errors.Corrupt as damage:
        _log.tell("error", "damaged", path, damage.message)
        raise
    except errors.Error as refusal:
        _log.tell("debug", "refused", path, f"refused: {refusal.message}")
        raise


def failed_keys(path: str, what: str, *, damaged: bool) -> None:
    """Tells of keys that a call refused, or whose records are damaged, for statuses may go
    unread."""
    _log.tell("error" if damaged else "debug", "failed_keys", path, what)
