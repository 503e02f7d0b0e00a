"""What a step leaves of its tables' rows: by their keys, new ones apart.

Invariant: a table's number and an id stand once in all that a step changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from perdure.torch.keys import of_table
from perdure.torch.passes import none_of


@dataclass
class Changed:
    """Rows of tables of one width as a step leaves them."""

    value_bytes: int
    keys: Tensor  # (n, 2) ascending: ids, numbers of tables
    are_numbers: bool | None  # of Keys
    rows: Tensor  # as wide as the pool's, where those have one width
    missing: Tensor | None  # bool: the pool had no row of the key; None: it had all

    @property
    def new(self) -> Tensor:
        """bool: the pool had no row of the key."""
        return none_of(self.keys) if self.missing is None else self.missing


def new_of_each(changed: Sequence[Changed]) -> dict[int, int]:
    """How many rows a step makes, by the table's number."""
    made: dict[int, int] = {}
    for one in changed:
        if one.missing is not None:
            counts = torch.bincount(one.keys[one.missing, 1]).tolist()
            made.update({number: count for number, count in enumerate(counts) if count})
    return made


def ids_of(changed: Sequence[Changed], number: int, *, new: bool = False) -> Tensor:
    """Ids of a table that a step changes, or makes."""
    found = [torch.empty(0, dtype=torch.int64)]
    for one in changed:
        if new and one.missing is None:
            continue
        mine = of_table(one.keys, number)
        found.append(one.keys[mine & one.new if new else mine, 0])
    device = found[-1].device
    return torch.cat([ids.to(device) for ids in found])
