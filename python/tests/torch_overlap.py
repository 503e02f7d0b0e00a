"""A small training that test_torch_overlap.py commits beside itself; and, as a program, one that
ends while its last step is being committed: python torch_overlap.py POOL returns|raises|fails."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import perdure
import torch
from perdure import torch as pt
from perdure.torch import overlap


class Small:
    """One table, and a model without weight of its own."""

    def __init__(self, pool: str = "memfd:overlap", *, rule: Any = None, **options: Any) -> None:
        self.rule = rule or pt.SGD(lr=1.0)
        self.tables = [pt.TableConfig("t", 4)]
        self.store = pt.create(pool, self.tables, self.rule, overwrite=True, **options)
        self.bags = pt.EmbeddingBagCollection(self.store, self.tables, self.rule)
        self.bags.to(self.store.device)
        self.model = torch.nn.Linear(1, 1)
        self.trainer = self.another()

    def another(self, *, overlap: bool = True) -> Any:
        sgd = torch.optim.SGD(self.model.parameters(), lr=0)
        return pt.Trainer(self.store, self.bags, self.model, sgd, overlap=overlap)

    def look_up(self, ids: Any) -> Any:
        whole = torch.as_tensor(ids, device=self.store.device)
        return self.bags({"t": (whole, torch.ones_like(whole))})["t"]

    def step(self, ids: Any) -> None:
        with self.trainer.step():
            self.look_up(ids).sum().backward()

    def in_pool(self, ids: Any) -> Any:
        """How many steps have changed each row, as far as they are committed."""
        rows = self.store.table("t").get(np.asarray(ids), dtype=np.int32).values
        return rows[:, 4].tolist()


def a_failure(small: Small) -> None:
    """A second step, whose commit will fail."""

    def put() -> None:
        raise perdure.SystemFailure("the disk is on fire")

    small.step([1])
    with small.trainer.step():
        small.look_up([1]).sum().backward()
        small.trainer.commit_with_step(put)


def main(pool: str, how: str) -> None:
    overlap._PATIENCE_SECONDS = 0.2  # the program has come to its end by then
    small = Small(pool)
    if how == "fails":
        a_failure(small)
    else:
        small.step([1])
        small.step([1])
    assert small.trainer.done == 1
    if how == "raises":
        raise ZeroDivisionError
    globals()["kept"] = small  # to the end of the interpreter


if __name__ == "__main__":
    main(*sys.argv[1:])
