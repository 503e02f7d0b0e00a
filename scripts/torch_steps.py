"""Milliseconds of a training step of perdure.torch, durable, and of the same model over
torch.nn.EmbeddingBag, with sparse gradients and nothing durable; and microseconds of a lookup in 32
tables at once. With --overlap also of steps that are committed beside the next one.

    .venv-frameworks/bin/python scripts/torch_steps.py --runs 3
    python scripts/torch_steps.py --device cuda --tables 26 --batch 4096 --ids 200000

One thread on the CPU; TABLES tables, BATCH ids of each drawn from IDS, two linear layers above. In
turns; a figure is the median of the runs, each of STEPS steps after 20 that are not counted. Rows
that are there already are most of those that a step meets with --seen. With --compile inductor
compiles the forward pass of ours, with its layers. On a GPU the pool is in host memory, and its
cache takes all rows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import perdure
import torch
from perdure import torch as pt
from torch import Tensor, nn

Lookup = Callable[[dict[str, Tensor]], list[Tensor]]
Step = Callable[[int], None]
SKIPPED = 20
# Inductor joins more tensors than these by a kernel each.
JOINED = {"max_pointwise_cat_inputs": 64}


def now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Model:
    """Two linear layers above rows of all tables, and random ids of each."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        width = options.tables * options.dim
        layers = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 1))
        self.layers = layers.to(options.device)
        self.optimizer = torch.optim.Adam(self.layers.parameters())

    def ids(self, number: int) -> dict[str, Tensor]:
        o = self.options
        random = torch.Generator(o.device).manual_seed(number)
        all_ids = torch.randint(0, o.ids, (o.tables, o.batch), generator=random, device=o.device)
        return {f"t{i}": ids for i, ids in enumerate(all_ids)}

    def step(self, look_up: Lookup, whole: Callable[[], object], compiled: bool = False) -> Step:
        def loss_of(ids: dict[str, Tensor]) -> Tensor:
            return self.layers(torch.cat(look_up(ids), dim=1)).square().mean()

        forward = torch.compile(loss_of, fullgraph=True, options=JOINED) if compiled else loss_of

        def step(number: int) -> None:
            with whole():  # type: ignore[attr-defined]
                loss = forward(self.ids(number))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        return step

    def measure(self, step: Step, wait: Callable[[], None] | None = None) -> float:
        """Milliseconds a step, until all are committed."""
        for number in range(SKIPPED):
            step(number)
        began = now(self.options.device)
        for number in range(SKIPPED, SKIPPED + self.options.steps):
            step(number)
        if wait is not None:
            wait()
        return (now(self.options.device) - began) / self.options.steps * 1e3


def pool_of(options: argparse.Namespace, cached: bool) -> dict[str, Any]:
    """What a pool is made with."""
    pool: dict[str, Any] = {"index": perdure.GPHash(layout=options.layout)}
    if options.device == "cuda":
        cache = 16 << 30 if cached else None
        pool |= {"device": "cuda", "options": perdure.Options(cache_bytes=cache)}
    return pool


def ours(options: argparse.Namespace, *, overlap: bool = False) -> float:
    rule = pt.RowWiseAdagrad(lr=0.05)
    one = torch.ones(options.batch, dtype=torch.int64, device=options.device)
    tables = [pt.TableConfig(f"t{i}", options.dim) for i in range(options.tables)]
    records = options.tables * options.ids
    more = pool_of(options, cached=True)
    with pt.create("memfd:steps", tables, rule, expected_records=records, **more) as store:
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        bags.to(options.device)
        model = Model(options)

        def look_up(ids: dict[str, Tensor]) -> list[Tensor]:
            return list(bags({name: (some, one) for name, some in ids.items()}).values())

        if options.seen:
            fill(store, bags, options)
            if options.device == "cuda":
                store.load_cache()
        trainer = pt.Trainer(store, bags, model.layers, model.optimizer, overlap=overlap)
        step = model.step(look_up, trainer.step, options.compile)
        return model.measure(step, trainer.wait)


def fill(
    store: perdure.Store, bags: pt.EmbeddingBagCollection, options: argparse.Namespace
) -> None:
    """Rows of all ids."""
    ids = torch.arange(options.ids, device=options.device)
    for config in bags.configs:
        table = store.table(config.name)
        rows = torch.rand(options.ids, table.value_bytes // 4, device=options.device)
        for part in range(0, options.ids, 1 << 17):
            here = slice(part, part + (1 << 17))
            store.put_tables([table], ids[here], rows[here])


def theirs(options: argparse.Namespace) -> float:
    bags = nn.ModuleList(
        nn.EmbeddingBag(options.ids, options.dim, mode="sum", sparse=True)
        for _ in range(options.tables)
    ).to(options.device)
    sparse = torch.optim.SGD(bags.parameters(), lr=0.05)
    offsets = torch.arange(options.batch, device=options.device)
    model = Model(options)

    @contextmanager
    def whole() -> Iterator[None]:
        sparse.zero_grad()
        yield
        sparse.step()

    def look_up(ids: dict[str, Tensor]) -> list[Tensor]:
        return [bag(some, offsets) for bag, some in zip(bags, ids.values(), strict=True)]

    return model.measure(model.step(look_up, whole))


def lookups(options: argparse.Namespace) -> float:
    """Microseconds of 4,096 ids of each of 32 tables, rows of 256 bytes, in one call."""
    ids_of_each, taken = 100_000, []
    more = pool_of(options, options.cached)
    with perdure.create("memfd:tables", 16, 256, expected_records=3_300_000, **more) as store:
        tables = [store.table(f"t{i}", 256) for i in range(32)]
        ids = torch.arange(ids_of_each, device=options.device)
        for number, table in enumerate(tables):
            rows = torch.full((ids_of_each, 64), float(number), device=options.device)
            store.put_tables([table], ids, rows)
        if options.device == "cuda" and options.cached:
            store.load_cache()
        which = torch.arange(32, device=options.device).repeat_interleave(4096).float()
        offsets = [4096 * i for i in range(33)]
        for _ in range(60):
            asked = torch.randint(0, ids_of_each, (32 * 4096,), device=options.device)
            began = now(options.device)
            rows = store.get_tables(tables, asked, offsets, dtype=torch.float32).values
            taken.append((now(options.device) - began) * 1e6)
            assert torch.equal(rows[:, 7], which), "a wrong value"
    return statistics.median(taken[20:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    for name, usual in ("tables", 8), ("batch", 1024), ("dim", 32), ("ids", 200_000):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--layout", default="word", choices=["word", "log"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seen", action="store_true", help="rows of all ids are there")
    parser.add_argument("--overlap", action="store_true", help="overlapped steps, too")
    parser.add_argument("--compile", action="store_true", help="ours, by torch.compile")
    parser.add_argument("--cached", action="store_true", help="lookups, too, in cached rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kinds = {"durable": ours}
    if options.overlap:
        kinds["durable, overlapped"] = partial(ours, overlap=True)
    each = [[one(options) for one in (theirs, *kinds.values())] for _ in range(options.runs)]
    other, *mine = (statistics.median(column) for column in zip(*each, strict=True))
    print(f"a step: {other:.2f} ms with nn.EmbeddingBag")
    for name, taken in zip(kinds, mine, strict=True):
        print(f"        {taken:.2f} ms {name}; samples a second: {other / taken:.2f}")
    print(f"32 tables of 4,096 ids: {lookups(options):.0f} us")


if __name__ == "__main__":
    main()
