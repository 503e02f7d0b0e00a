"""Names of pieces, many at a time: a row for each, of two u64 that are the bytes of its digest.

Nothing here takes a step of Python for each name.

Invariant: a set of names is ascending, and has each once; both halves count, though of most names
the first is another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Names = np.ndarray[Any, np.dtype[np.uint64]]
NONE: Names = np.empty((0, 2), "<u8")


def names_in(digests: bytes) -> Names:
    return np.frombuffer(digests, "<u8").reshape(-1, 2)


def each_once(names: Names) -> tuple[Names, Any]:
    """The set of these names; and of each where it comes first."""
    if not len(names):
        return names, np.empty(0, np.int64)
    order = np.argsort(names[:, 0])
    ascending = names[order]
    alike = ascending[1:, 0] == ascending[:-1, 0]
    if (alike & (ascending[1:, 1] != ascending[:-1, 1])).any():
        order = np.lexsort((names[:, 1], names[:, 0]))
        ascending = names[order]
    begins = np.flatnonzero(np.append(True, (ascending[1:] != ascending[:-1]).any(axis=1)))
    return ascending[begins], np.minimum.reduceat(order, begins)


def are_among(names: Names, some: Names) -> Any:
    """Of each of `some` whether the set `names` has it: a mask."""
    found = np.zeros(len(some), bool)
    if not len(names):
        return found
    first, second = np.ascontiguousarray(names[:, 0]), names[:, 1]
    at = np.searchsorted(first, some[:, 0])
    looking = np.arange(len(some))
    while len(looking):  # twice only where two names have one first half
        looking = looking[at[looking] < len(names)]
        looking = looking[first[at[looking]] == some[looking, 0]]
        found[looking] = second[at[looking]] == some[looking, 1]
        looking = looking[~found[looking]]
        at[looking] += 1
    return found


def union(*sets: Names) -> Names:
    there = [one for one in sets if len(one)]
    if len(there) < 2:
        return there[0] if there else NONE
    return each_once(np.concatenate(there))[0]


def without(names: Names, others: Names) -> Names:
    return names[~are_among(others, names)]
