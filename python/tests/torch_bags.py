"""Small trainings that the tests of perdure.torch share. PyTorch is imported by those that need
it."""

from __future__ import annotations

from typing import Any


def a_table(optimizer: Any, dim: int = 4, **options: Any) -> Any:
    from perdure import torch as pt

    tables = [pt.TableConfig("t", dim, **options)]
    store = pt.create("memfd:torch", tables, optimizer, overwrite=True)
    return store, tables


class Bags:
    """Ours, and PyTorch's over the same weights."""

    def __init__(self, optimizer: Any, pooling: str = "sum", ids: int = 20) -> None:
        import torch
        from perdure import torch as pt

        self.store, tables = a_table(optimizer, pooling=pooling)
        self.ours = pt.EmbeddingBagCollection(self.store, tables, optimizer)
        self.none = torch.nn.Linear(1, 1)
        self.trainer = pt.Trainer(
            self.store, self.ours, self.none, torch.optim.SGD(self.none.parameters(), lr=0)
        )
        every, one = torch.arange(ids), torch.ones(ids, dtype=torch.int64)
        first = self.ours({"t": (every, one)})["t"].detach()
        self.theirs = torch.nn.EmbeddingBag(
            ids, 4, mode=pooling, sparse=True, _weight=first.clone()
        )

    def weights(self) -> Any:
        import torch

        rows = self.store.table("t").get(torch.arange(20), dtype=torch.float32)
        return rows.values[:, :4], torch.from_numpy(rows.found)
