"""What a batch answers: values, and how each key fared.

Invariant: every array here has one element (or row) a key of the batch, in the batch's order.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from perdure import errors
from perdure._native import KeyStatus

Statuses = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


class Result(NamedTuple):
    """A read: `values, found, statuses = store.get(keys)`."""

    values: Any  # rows of an array, or a pyarrow.LargeBinaryArray with nulls for absent keys
    found: Mask
    statuses: Statuses  # KeyStatus, one a key


class Outcome(NamedTuple):
    """A write: `done, statuses = store.put(keys, values)`."""

    done: Mask  # the operation took effect (for update and erase: the key was there)
    statuses: Statuses  # KeyStatus, one a key


_EXPLAIN: dict[KeyStatus, tuple[type[errors.Error], str]] = {
    KeyStatus.corrupt: (errors.Corrupt, "its record fails its checksum and was left alone; run verify"),
    KeyStatus.no_space: (errors.NoSpace, "the pool could not grow; the old value stands"),
    KeyStatus.too_large: (errors.InvalidArgument, "key or value is longer than the pool allows (see stats)"),
    KeyStatus.size_mismatch: (errors.InvalidArgument, "operand and stored value differ in length"),
}
_OK = int(KeyStatus.ok)
_LAST_HARMLESS = int(KeyStatus.not_found)  # ok and not_found are the two lowest statuses


def done_mask(statuses: Statuses) -> Mask:
    return np.equal(statuses, _OK)


def raise_for_keys(call: str, answer: Result | Outcome) -> None:
    """Raises when a key failed for any reason but absence; the exception carries the whole answer."""
    failed = answer.statuses > _LAST_HARMLESS
    if failed.any():
        _raise_first(call, answer, np.flatnonzero(failed))


def _raise_first(call: str, answer: Result | Outcome, failed: npt.NDArray[np.intp]) -> NoReturn:
    row = int(failed[0])
    kind, why = _EXPLAIN[KeyStatus(int(answer.statuses[row]))]
    others = f" (and {len(failed) - 1} more keys)" if len(failed) > 1 else ""
    raise kind(
        f"{call}: key {row} of {len(answer.statuses)}{others}: {why}. The other keys took effect;"
        " the exception's .outcome tells key by key, and check=False returns it instead of raising",
        answer,
    )
