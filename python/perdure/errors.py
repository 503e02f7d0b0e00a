"""Exceptions, one class a Code of the C++ API.

Invariant: whatever fails in the engine arrives here as one of these, with `.code` and a message
that names what failed and the way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from perdure._native import KeyStatus
    from perdure.results import Outcome, Result


class Error(Exception):
    """A Perdure call failed. All others derive from it.

    Attributes
    ----------
    code : str
        Its name in the C++ API and on the command line, for example "not_found".
    message : str
        What failed, and the way out.
    outcome : Result, Outcome or None
        Set where a batch ran and some of its keys failed: the status of every key.

    Examples
    --------
    >>> import numpy as np, perdure
    >>> store = perdure.create("memfd:outcome", key_bytes=None, value_bytes=None)
    >>> try:
    ...     store.put(["a", "b" * 100_000], ["first", "second"])
    ... except perdure.InvalidArgument as error:
    ...     error.outcome
    <Outcome of 2 keys: 1 ok, 1 too_large>
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, outcome: Result | Outcome | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.outcome = outcome


class InvalidArgument(Error, ValueError):
    """Sizes, types or options that cannot be; a write to a store that is read-only. A ValueError,
    too."""

    code = "invalid_argument"


class NotFound(Error):
    """There is no pool (or snapshot, log or directory) where one was to be opened.

    A key that is absent is another thing, and no error: batches answer it with the status
    `KeyStatus.not_found`, and `store[key]` raises KeyError.

    Examples
    --------
    >>> import perdure
    >>> try:
    ...     perdure.open("/dev/shm/none.pool")
    ... except perdure.NotFound as error:
    ...     print(error.code)
    not_found
    >>> store = perdure.create("memfd:absent", 8, 8)
    >>> perdure.KeyStatus(store.get([1]).statuses[0]).name
    'not_found'
    """

    code = "not_found"


class AlreadyExists(Error):
    """A file is there already, and was not to be replaced."""

    code = "already_exists"


class Busy(Error):
    """The pool is open elsewhere; keys moved during a scan; or a transaction is open on this
    thread."""

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


class Stopped(Error):
    """The call was stopped before its end."""

    code = "stopped"


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
        Stopped,
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
    "not_tried": (Stopped, "the call was stopped before it came to this key"),
    "size_mismatch": (
        InvalidArgument,
        "operand and stored value differ in length, or a value is no row of its table",
    ),
}


def from_code(code: str, message: str) -> Error:
    """The exception for a Status of the C++ API; the extension module calls this."""
    return _BY_CODE[code](message)
