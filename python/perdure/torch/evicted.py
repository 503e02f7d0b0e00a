"""Which ids were evicted in which step, for parts that follow: a table NAME/evicted beside each
that evicts. An id that comes again has its row, and no entry there.

Invariant: an entry is of the commit that evicts, and goes with the commit that makes the row anew,
or once a part has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import perdure
from perdure.torch.tables import TableConfig

OURS = "perdure.torch"  # id 0: the trainer's; id 1: the step until which entries are forgotten
OURS_BYTES = 16
_PRUNED = 1


def evicts(config: TableConfig) -> bool:
    return config.max_rows is not None or config.ttl_steps is not None


def tombstones(store: perdure.Store, config: TableConfig) -> perdure.Table:
    return store.table(f"{config.name}/evicted", 8)


def tombstones_of(store: perdure.Store, name: str) -> Iterator[tuple[Any, Any]]:
    """Ids and steps, page by page."""
    table = store.tables().get(f"{name}/evicted")
    if table is not None:
        for ids, rows in table.scan(dtype=np.int64):
            yield ids, rows[:, 0]


def pruned_until(store: perdure.Store) -> int:
    table = store.tables().get(OURS)
    if table is None:
        return 0
    rows = table.get([_PRUNED], dtype=np.int64)
    return int(rows.values[0, 0]) if rows.found[0] else 0


def remember_pruned(store: perdure.Store, step: int) -> None:
    store.table(OURS, OURS_BYTES).put([_PRUNED], np.array([[step, 0]], np.int64))
