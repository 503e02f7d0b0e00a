"""Which rows of a table go: those that have not changed for long, or of too many the least.

Invariant: what goes follows from the table's rows and the step's number, so a training that is
resumed evicts what it would have evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

import perdure
from perdure.torch.keys import keys_of
from perdure.torch.tables import SCORE_BYTES, TableConfig

_SLACK = 16  # one in so many rows more than needed goes, so that the pool is looked through rarely
_LOOKS = 8  # at rows that are too old, within the steps that they may have


def evicts(config: TableConfig) -> bool:
    return config.max_rows is not None or config.ttl_steps is not None


def is_due(config: TableConfig, rows: int, step: int) -> bool:
    """Whether anything may have to go in this step; `rows` as it will leave them."""
    if config.max_rows is not None and rows > config.max_rows:
        return True
    return config.ttl_steps is not None and step % max(1, config.ttl_steps // _LOOKS) == 0


def choose(table: perdure.Table, config: TableConfig, rows: int, step: int, keep: Any) -> Any:
    """Ids that go, ascending. `rows`: that the step will leave, with those it makes; `keep`: ids
    that it changes."""
    ids, seen, last = _scores(table)
    kept = np.isin(ids, keep, assume_unique=True)
    if config.ttl_steps is not None:
        old = ~kept & (last + config.ttl_steps <= step)
    else:
        old = np.zeros(len(ids), bool)
    gone = ids[old]
    left = rows - len(gone)
    if config.max_rows is not None and left > config.max_rows:
        surplus = left - (config.max_rows - config.max_rows // _SLACK)
        may = ~kept & ~old
        score = (seen if config.evict == "lfu" else last)[may]
        order = np.lexsort((ids[may], score))  # ties by the id
        gone = np.concatenate([gone, ids[may][order[:surplus]]])
    return np.sort(gone)


def _scores(table: perdure.Table) -> tuple[Any, Any, Any]:
    for _ in range(1000):
        try:
            pages = list(_pages(table))
            break
        except perdure.Busy:  # keys moved: from the beginning
            continue
    else:
        raise perdure.Busy(f"table {table.name!r}: its keys move all the while")
    ids = np.concatenate([page[0] for page in pages] or [np.empty(0, np.int64)])
    scores = np.concatenate([page[1] for page in pages] or [np.empty((0, 2), np.int32)])
    return ids, scores[:, 0].astype(np.int64), scores[:, 1].astype(np.int64)


def _pages(table: perdure.Table) -> Iterator[tuple[Any, Any]]:
    for ids, rows in table.scan():
        scores = np.ascontiguousarray(rows[:, table.value_bytes - SCORE_BYTES :])
        yield ids, scores.view(np.int32)


def keys_of_all(
    store: perdure.Store, evicted: dict[str, Any], device: torch.device
) -> Tensor | None:
    """Ids of tables as keys, ascending, as the ids of each table are; None: of nothing."""
    if not evicted:
        return None
    found: list[Tensor] = []
    tables = [(store.table(name), ids) for name, ids in evicted.items()]
    for table, ids in sorted(tables, key=lambda one: one[0].number):
        found.append(keys_of(torch.from_numpy(ids), table.number))
    return torch.cat(found).to(device)
