"""Milliseconds of a training step of perdure.torch, synchronous and durable, and of the same model
over torch.nn.EmbeddingBag, with sparse gradients and nothing durable.

    .venv-frameworks/bin/python scripts/torch_steps.py [RUNS]       default 3

One thread; TABLES tables, BATCH ids of each drawn from IDS, two linear layers above. In turns; a
figure is the median of the runs, each of STEPS steps after 20 that are not counted.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from perdure import torch as pt
from torch import Tensor, nn

TABLES, BATCH, DIM, IDS, STEPS = 8, 1024, 32, 200_000, 100
Lookup = Callable[[dict[str, Tensor]], list[Tensor]]


def measure(step: Callable[[int], None]) -> float:
    """Milliseconds a step."""
    for number in range(20):
        step(number)
    began = time.perf_counter()
    for number in range(20, 20 + STEPS):
        step(number)
    return (time.perf_counter() - began) / STEPS * 1e3


def steps_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, look_up: Lookup, whole: Callable[[], object]
) -> Callable[[int], None]:
    def step(number: int) -> None:
        random = torch.Generator().manual_seed(number)
        ids = {f"t{i}": torch.randint(0, IDS, (BATCH,), generator=random) for i in range(TABLES)}
        with whole():  # type: ignore[attr-defined]
            loss = model(torch.cat(look_up(ids), dim=1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return step


def dense() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(TABLES * DIM, 128), nn.ReLU(), nn.Linear(128, 1))
    return model, torch.optim.Adam(model.parameters())


def ours() -> float:
    rule, one = pt.RowWiseAdagrad(lr=0.05), torch.ones(BATCH, dtype=torch.int64)
    tables = [pt.TableConfig(f"t{i}", DIM) for i in range(TABLES)]
    with pt.create("memfd:steps", tables, rule, expected_records=TABLES * IDS) as store:
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        model, optimizer = dense()
        trainer = pt.Trainer(store, bags, model, optimizer)

        def look_up(ids: dict[str, Tensor]) -> list[Tensor]:
            return list(bags({name: (some, one) for name, some in ids.items()}).values())

        return measure(steps_of(model, optimizer, look_up, trainer.step))


def theirs() -> float:
    bags = nn.ModuleList(nn.EmbeddingBag(IDS, DIM, mode="sum", sparse=True) for _ in range(TABLES))
    sparse, offsets = torch.optim.SGD(bags.parameters(), lr=0.05), torch.arange(BATCH)
    model, optimizer = dense()

    @contextmanager
    def whole() -> Iterator[None]:
        sparse.zero_grad()
        yield
        sparse.step()

    def look_up(ids: dict[str, Tensor]) -> list[Tensor]:
        return [bag(some, offsets) for bag, some in zip(bags, ids.values(), strict=True)]

    return measure(steps_of(model, optimizer, look_up, whole))


def main(runs: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    each = [(ours(), theirs()) for _ in range(runs)]
    mine, other = (statistics.median(column) for column in zip(*each, strict=True))
    print(
        f"a step: {mine:.1f} ms durable, {other:.1f} ms with nn.EmbeddingBag;"
        f" samples a second: {other / mine:.2f}"
    )


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["3"])[0]))
