"""DLRM (Naumov and others, 2019): dense numbers through one perceptron, ids through embedding bags,
the dot products of all pairs of what comes out through another.

Invariant: the embeddings are in the pool, and `DLRM` is the dense part alone, so its `state_dict`
has no row of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import perdure
import torch
from perdure import torch as pt
from torch import Tensor, nn

from data import Batch, Clicks

DIM = 16
ROWS = pt.RowWiseAdagrad(lr=0.02)  # how the embeddings' rows change


def tables_of(clicks: Clicks) -> list[pt.TableConfig]:
    features: dict[str, list[str]] = {}
    for feature, table in clicks.tables.items():
        features.setdefault(table, []).append(feature)
    return [pt.TableConfig(table, DIM, features=tuple(of)) for table, of in features.items()]


def open_store(path: str, clicks: Clicks, *, new: bool) -> perdure.Store:
    """The pool of a training: a new one, or the one that a process before this left."""
    if not new:
        return perdure.open(path)
    return pt.create(path, tables_of(clicks), ROWS, expected_records=clicks.distinct_ids() + 1024)


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for of, to in pairwise(widths):
        layers += [nn.Linear(of, to), nn.ReLU()]
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    """The dense part.

    Parameters
    ----------
    numbers : int
        Dense numbers of a row.
    features : int
        Bags of a row.
    """

    def __init__(self, numbers: int, features: int) -> None:
        super().__init__()
        vectors = features + 1
        self.bottom = perceptron([numbers, 64, DIM])
        self.top = perceptron([DIM + vectors * (vectors - 1) // 2, 64, 32])
        self.last = nn.Linear(32, 1)
        pairs = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("_pairs", pairs, persistent=False)

    def forward(self, dense: Tensor, bags: dict[str, Tensor]) -> Tensor:
        """The logit of a click, for each row."""
        below = self.bottom(dense)
        vectors = torch.stack([below, *bags.values()], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        interactions = products[:, self._pairs[0], self._pairs[1]]
        return self.last(self.top(torch.cat([below, interactions], dim=1))).squeeze(1)


def tensors(batch: Batch) -> tuple[Tensor, dict[str, tuple[Tensor, ...]], Tensor]:
    """Dense numbers, features as an EmbeddingBagCollection takes them, and labels."""
    features = {}
    for name, bags in batch.features.items():
        parts = (bags.ids, bags.lengths, *([] if bags.weights is None else [bags.weights]))
        features[name] = tuple(torch.from_numpy(part) for part in parts)
    return torch.from_numpy(batch.dense), features, torch.from_numpy(batch.labels)
