"""What a batch answers: values, and how each key fared.

Invariant: every array here has one element (or row) a key of the batch, in the batch's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from perdure import _events, errors
from perdure._deferred import Deferred
from perdure._native import KeyStatus

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Statuses = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]
else:
    np = Deferred("numpy")


class Result(NamedTuple):
    """A read: `values, found, statuses = store.get(keys)`.

    Attributes
    ----------
    values : array of n rows, or pyarrow.LargeBinaryArray
        Of absent keys zero, or what was in `out`; null in an Arrow array. Of `view` a list.
    found : bool array of shape (n,)
        The key was there (in a mixed batch: the operation took effect).
    statuses : uint8 array of shape (n,)
        A `KeyStatus` a key.
    """

    values: Any
    found: Mask
    statuses: Statuses

    def __repr__(self) -> str:
        return f"<Result of {_counted(self.statuses)}; values: {_described(self.values)}>"


class Outcome(NamedTuple):
    """A write: `done, statuses = store.put(keys, values)`.

    Attributes
    ----------
    done : bool array of shape (n,)
        The operation took effect (for update and erase: the key was there).
    statuses : uint8 array of shape (n,)
        A `KeyStatus` a key.
    """

    done: Mask
    statuses: Statuses

    def __repr__(self) -> str:
        return f"<Outcome of {_counted(self.statuses)}>"


def _counted(statuses: Statuses) -> str:
    """How many keys, and how many of each status."""
    kinds, counts = np.unique(statuses, return_counts=True)
    each = [
        f"{count} {KeyStatus(int(kind)).name}" for kind, count in zip(kinds, counts, strict=True)
    ]
    return f"{statuses.size} key{'' if statuses.size == 1 else 's'}: {', '.join(each) or 'none'}"


def _described(values: Any) -> str:
    if values is None:
        return "none"
    if hasattr(values, "dtype"):
        return f"{values.dtype} of shape {tuple(values.shape)}"
    return f"{getattr(values, 'type', type(values).__name__)}"


Answer = TypeVar("Answer", Result, Outcome)
TooLong = Callable[
    [int], str
]  # says how long the key and value of a row are, and how long they may be

OK, _TOO_LARGE, _CORRUPT = map(int, (KeyStatus.ok, KeyStatus.too_large, KeyStatus.corrupt))
_LAST_HARMLESS = int(KeyStatus.not_found)  # ok and not_found are the two lowest statuses


def done_mask(statuses: Statuses) -> Mask:
    return np.logical_not(statuses)  # ok is 0; comparing with a number takes thrice as long


def worst_of(statuses: Statuses) -> int:
    """The greatest, as the engine's calls answer it of those they fill."""
    return int(statuses.max(initial=OK))


def first(answer: Answer) -> Answer:
    """The answer for one key, as its first row."""
    return type(answer)(*(column[0] for column in answer))


def checked(
    path: str,
    call: str,
    answer: Answer,
    worst: int,
    check: bool,
    too_long: TooLong | None = None,
) -> Answer:
    """The answer of a pool's batch, whose worst status is `worst`. With `check` it raises where a
    key failed for any reason but absence; the exception carries the whole answer."""
    if worst > _LAST_HARMLESS:
        failed = answer.statuses > _LAST_HARMLESS
        damaged = bool((answer.statuses == _CORRUPT).any())
        _events.failed_keys(path, f"{call} of {_counted(answer.statuses)}", damaged=damaged)
        if check:
            _raise_first(call, answer, np.flatnonzero(failed), too_long)
    return answer


def _raise_first(
    call: str, answer: Result | Outcome, failed: npt.NDArray[np.intp], too_long: TooLong | None
) -> NoReturn:
    row = int(failed[0])
    kind, why = errors.of_status(KeyStatus(int(answer.statuses[row])))
    if too_long is not None and answer.statuses[row] == _TOO_LARGE:
        why = too_long(row)
    others = f" (and {len(failed) - 1} more keys)" if len(failed) > 1 else ""
    raise kind(
        f"{call}: key {row} of {len(answer.statuses)}{others}: {why}. The other keys took effect;"
        " the exception's .outcome tells key by key, and check=False returns it instead of raising",
        answer,
    )
