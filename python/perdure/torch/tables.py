"""What tables a model has, and what a row of each holds: weights and the optimizer's state, float32
all of them, then its score, two int32: how many steps have changed it, and which was the last.

Invariant: a row's width follows from its table and the optimizer, and is checked against the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import perdure
from perdure._named import KEY_BYTES, LEAST_ROW
from perdure.options import PathLike
from perdure.torch.notes import is_reserved
from perdure.torch.optimizers import Optimizer

Pooling = Literal["sum", "mean"]
SCORE_BYTES = 8


@dataclass(frozen=True)
class TableConfig:
    """A table, and which features look it up.

    Attributes
    ----------
    name : str
        Of the pool's table.
    dim : int
        Weights of a row.
    features : sequence of str
        Whose ids these are; by default one of the table's name.
    pooling : "sum" or "mean"
        What an EmbeddingBagCollection makes of a bag's rows; an empty bag is zeros.
    init_bound : float, optional
        Weights of a new id are uniform in [-init_bound, init_bound); by default 1 / sqrt(dim).
    max_rows : int, optional
        A step that would leave more evicts some, by `evict`.
    ttl_steps : int, optional
        Rows that no step has changed for so many are evicted, an eighth of that later at most.
    evict : "lru" or "lfu"
        Of too many rows those go that were changed longest ago, or in the fewest steps.
    admit_after : int, optional
        An id gets a row in the first step that begins after so many sightings, 255 at most; until
        then it reads as a new id's weights, and its gradients change nothing. Of several processes
        the sightings of all count.
    admit_counters : int
        Sightings are counted in four times so many bytes, of each process, and halved whenever
        there were so many.
    """

    name: str
    dim: int
    features: Sequence[str] = ()
    pooling: Pooling = "sum"
    init_bound: float | None = None
    max_rows: int | None = None
    ttl_steps: int | None = None
    evict: Literal["lru", "lfu"] = "lru"
    admit_after: int | None = None
    admit_counters: int = 1 << 16

    def __post_init__(self) -> None:
        if is_reserved(self.name):
            raise ValueError(f"table {self.name!r}: the trainer has tables of such names")
        if self.dim < 1:
            raise ValueError(f"table {self.name!r}: dim {self.dim}; a row has at least one weight")
        if isinstance(self.features, str):
            raise TypeError(
                f"table {self.name!r}: features {self.features!r}; pass a list of names"
            )
        if self.pooling not in ("sum", "mean"):
            raise ValueError(f"table {self.name!r}: pooling {self.pooling!r}; pass 'sum' or 'mean'")
        if self.evict not in ("lru", "lfu"):
            raise ValueError(f"table {self.name!r}: evict {self.evict!r}; pass 'lru' or 'lfu'")
        for what, limit in (("max_rows", self.max_rows), ("ttl_steps", self.ttl_steps)):
            if limit is not None and limit < 1:
                raise ValueError(f"table {self.name!r}: {what} {limit}; pass 1 at least, or None")
        if self.admit_after is not None and not 1 <= self.admit_after <= 255:
            raise ValueError(
                f"table {self.name!r}: admit_after {self.admit_after}; pass 1 to 255, or None"
            )
        if self.admit_counters < 1:
            raise ValueError(
                f"table {self.name!r}: admit_counters {self.admit_counters}; pass more"
            )

    @property
    def of_features(self) -> tuple[str, ...]:
        return tuple(self.features) or (self.name,)

    @property
    def bound(self) -> float:
        return self.dim**-0.5 if self.init_bound is None else self.init_bound


def row_bytes(table: TableConfig, optimizer: Optimizer) -> int:
    return 4 * (table.dim + optimizer.state_floats(table.dim)) + SCORE_BYTES


def create(
    path: PathLike, tables: Sequence[TableConfig], optimizer: Optimizer, **options: Any
) -> perdure.Store:
    """A pool whose rows hold these tables' weights and their optimizer's states.

    Parameters
    ----------
    path, options
        As in `perdure.create`: expected_records, device, overwrite and so on. On a GPU the layout
        is "log", by which steps take less there, where neither an index, nor durability "power",
        nor a residency or memory budget is named.
    tables : sequence of TableConfig
    optimizer : SGD, Adagrad, RowWiseAdagrad or Adam

    Returns
    -------
    Store
    """
    return create_pool(path, (row_bytes(table, optimizer) for table in tables), **options)


def create_pool(path: PathLike, rows: Iterable[int], **options: Any) -> perdure.Store:
    """Of the widest table's rows."""
    widest = max(rows, default=0)
    if widest == 0:
        raise ValueError("tables: there is none")
    # Whole lines of 16 bytes, as the heap has them.
    width = (max(widest, LEAST_ROW) + 15) // 16 * 16
    if _log_is_faster(options):
        options["index"] = perdure.GPHash(layout="log")
    return perdure.create(path, KEY_BYTES, width, **options)


def _log_is_faster(made: Mapping[str, Any]) -> bool:
    """Of a pool that is to be made: where rows are a GPU's, and nothing asks for what layout log
    lacks, a table that need not fit the device's memory, or does worse, checkpoints."""
    if made.get("device") != "cuda" or "index" in made or made.get("durability") == "power":
        return False
    options = made.get("options") or perdure.Options()
    return options.residency == "automatic" and options.memory_budget is None
