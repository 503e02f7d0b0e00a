"""What tables a model has, and what a row of each holds: weights, then the optimizer's state, all
float32.

Invariant: a row's width follows from its table and the optimizer, and is checked against the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import perdure
from perdure._named import KEY_BYTES, LEAST_ROW
from perdure.options import PathLike
from perdure.torch.optimizers import Optimizer

Pooling = Literal["sum", "mean"]


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
    """

    name: str
    dim: int
    features: Sequence[str] = ()
    pooling: Pooling = "sum"
    init_bound: float | None = None

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise ValueError(f"table {self.name!r}: dim {self.dim}; a row has at least one weight")
        if self.pooling not in ("sum", "mean"):
            raise ValueError(f"table {self.name!r}: pooling {self.pooling!r}; pass 'sum' or 'mean'")

    @property
    def of_features(self) -> tuple[str, ...]:
        return tuple(self.features) or (self.name,)

    @property
    def bound(self) -> float:
        return self.dim**-0.5 if self.init_bound is None else self.init_bound


def row_floats(table: TableConfig, optimizer: Optimizer) -> int:
    return table.dim + optimizer.state_floats(table.dim)


def create(
    path: PathLike, tables: Sequence[TableConfig], optimizer: Optimizer, **options: Any
) -> perdure.Store:
    """A pool whose rows hold these tables' weights and their optimizer's states.

    Parameters
    ----------
    path, options
        As in `perdure.create`: expected_records, device, overwrite and so on.
    tables : sequence of TableConfig
    optimizer : SGD, Adagrad, RowWiseAdagrad or Adam

    Returns
    -------
    Store
    """
    widest = max((4 * row_floats(table, optimizer) for table in tables), default=0)
    if widest == 0:
        raise ValueError("tables: there is none")
    # Whole lines of 16 bytes, as the heap has them.
    width = (max(widest, LEAST_ROW) + 15) // 16 * 16
    return perdure.create(path, KEY_BYTES, width, **options)
