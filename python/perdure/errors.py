"""Exceptions, one class a Code of the C++ API.

Invariant: whatever fails in the engine arrives here as one of these, with `.code` and a message that
names what failed and the way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from perdure._native import KeyStatus
    from perdure.results import Outcome, Result


class Error(Exception):
    """A Perdure call failed.

    `outcome` is set when the batch ran and some of its keys failed: the Result or Outcome with the
    status of every key.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, outcome: Result | Outcome | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.outcome = outcome


class InvalidArgument(Error, ValueError):
    """Sizes, types or options that cannot be."""

    code = "invalid_argument"


class NotFound(Error):
    """No such pool."""

    code = "not_found"


class AlreadyExists(Error):
    """A pool is there already."""

    code = "already_exists"


class Busy(Error):
    """The pool is open for writing elsewhere, or keys moved during a scan."""

    code = "busy"


class NoSpace(Error):
    """The medium, or the pool's max_bytes, is full."""

    code = "no_space"


class LockedMemory(Error):
    """The pool could not be pinned in memory (RLIMIT_MEMLOCK, or the driver)."""

    code = "locked_memory"


class Corrupt(Error):
    """Truncated, of a foreign format, or a checksum does not match."""

    code = "corrupt"


class Unsupported(Error):
    """This build, machine or medium cannot do it."""

    code = "unsupported"


class SystemFailure(Error):
    """The operating system failed (input or output)."""

    code = "io_error"


class DeviceFailure(Error):
    """The GPU failed."""

    code = "device_error"


class Closed(Error):
    """The store was closed, or failed earlier and refuses further writes."""

    code = "closed"


_BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        NotFound,
        AlreadyExists,
        Busy,
        NoSpace,
        LockedMemory,
        Corrupt,
        Unsupported,
        SystemFailure,
        DeviceFailure,
        Closed,
    )
}


def of_status(status: KeyStatus) -> tuple[type[Error], str]:
    """The exception for a key that failed otherwise than by being absent, and what to say."""
    kind, why = _BY_STATUS[status.name]
    return kind, why


_BY_STATUS: dict[str, tuple[type[Error], str]] = {
    "corrupt": (Corrupt, "its record fails its checksum and was left alone; run verify"),
    "no_space": (NoSpace, "the pool could not grow; the old value stands"),
    "too_large": (InvalidArgument, "too long for this pool"),
    "size_mismatch": (InvalidArgument, "operand and stored value differ in length"),
}


def from_code(code: str, message: str) -> Error:
    """The exception for a Status of the C++ API; the extension module calls this."""
    return _BY_CODE[code](message)
