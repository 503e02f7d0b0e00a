"""Trainings of which one is compiled and one is not, and keys, for test_torch_ops.py and
test_torch_compile.py. PyTorch is imported by those that need it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

_names = itertools.count()


def tables_of(dims: dict[str, int] | None = None, **options: Any) -> Any:
    from perdure import torch as pt

    each = dims or {"a": 4, "b": 8, "c": 4}
    pooling = {"a": "mean"}
    return [
        pt.TableConfig(t, dim, pooling=pooling.get(t, "sum"), **options) for t, dim in each.items()
    ]


def batch(number: int, samples: int, bags: bool, device: str = "cpu") -> dict[str, Any]:
    """Of each feature ids, and lengths of bags from 0 to 3; the same for a number."""
    import torch

    random = torch.Generator().manual_seed(number)
    features: dict[str, Any] = {}
    for name in "abc":
        lengths = torch.randint(0, 4, (samples,), generator=random)
        count = int(lengths.sum()) if bags else samples
        ids = torch.randint(0, 20, (count,), generator=random).to(device)
        features[name] = (ids, lengths.to(device)) if bags else (ids,)
    return features


class Training:
    """A collection of three tables, and a layer over it."""

    def __init__(self, optimizer: str, bags: bool, device: str = "cpu", **options: Any) -> None:
        import torch
        from perdure import torch as pt

        rule, tables = getattr(pt, optimizer)(lr=0.1), tables_of(**options)
        kind = pt.EmbeddingBagCollection if bags else pt.EmbeddingCollection
        self.store = pt.create(f"memfd:ops{next(_names)}", tables, rule, device=device)
        self.collection = kind(self.store, tables, rule)
        self.device = device
        torch.manual_seed(1)

        class Model(torch.nn.Module):
            def __init__(self, collection: Any) -> None:
                super().__init__()
                self.collection = collection
                self.linear = torch.nn.Linear(16, 1)

            def forward(self, features: Any) -> Any:
                answer = self.collection(features)
                whole = torch.cat([answer["a"], answer["b"], answer["c"]], dim=1)
                return self.linear(whole).square().mean()

        self.model = Model(self.collection).to(device)
        self.optimizer = torch.optim.SGD(self.model.linear.parameters(), lr=0.1)
        self.trainer = pt.Trainer(self.store, self.collection, self.model.linear, self.optimizer)

    def step(self, loss_of: Any, features: Any) -> float:
        with self.trainer.step():
            loss = loss_of(features)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return float(loss.detach())


def rows_of(training: Training) -> Any:
    """Of ids 0 to 19 in all tables, with their states."""
    import torch

    ids = torch.arange(20)
    every = [training.store.table(name).get(ids, dtype=torch.float32).values for name in "abc"]
    return torch.cat([one.cpu() for one in every], dim=1)


def compilations() -> Any:
    """A backend that counts what is compiled."""
    from torch._dynamo.testing import CompileCounterWithBackend

    return CompileCounterWithBackend("aot_eager")


def one_thread() -> Iterator[None]:
    """Of PyTorch, so that tests beside each other do not wait for each other's threads; and nothing
    is compiled yet."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    yield
    torch.set_num_threads(before)


def keys_of(store: Any, table: str, *ids: int) -> Any:
    import torch

    return torch.tensor([[one, store.table(table).number] for one in ids], dtype=torch.int64)


def get_rows(*arguments: Any) -> Any:
    import torch

    return torch.ops.perdure.get_rows(*arguments)
