"""Seconds from a `kill -9` of a training to the next process's first committed step.

    python scripts/torch_restart.py --device cuda --rows 100000000
    .venv-frameworks/bin/python scripts/torch_restart.py --rows 1000000

One table with rows of 128 bytes: 29 float32, a number of row-wise Adagrad's, the score. A process
fills it, trains three steps and is killed; the next one, with its modules imported and its GPU
begun, opens the pool, resumes and trains a step. Mapping the pool is told apart: it depends on the
medium alone.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing as mp
import os
import signal
import time
from pathlib import Path
from typing import Any

import perdure
import torch
from perdure import torch as pt
from torch import nn

DIM, BATCH = 29, 4096
TABLES, RULE = [pt.TableConfig("t", DIM)], pt.RowWiseAdagrad(lr=0.05)


def trainer_of(store: perdure.Store, device: str) -> tuple[pt.Trainer, pt.EmbeddingBagCollection]:
    torch.manual_seed(1)
    bags = pt.EmbeddingBagCollection(store, TABLES, RULE)
    model = nn.Linear(DIM, 1).to(device)
    return pt.Trainer(store, bags, model, torch.optim.Adam(model.parameters())), bags


def step(trainer: pt.Trainer, bags: pt.EmbeddingBagCollection, rows: int, device: str) -> None:
    ids = torch.randint(rows, (BATCH,), device=device)
    with trainer.step():
        bags({"t": (ids, torch.ones_like(ids))})["t"].square().sum().backward()


def train(path: Path, options: argparse.Namespace, ready: Any) -> None:
    more = {"device": "cuda"} if options.device == "cuda" else {}
    store = pt.create(path, TABLES, RULE, expected_records=options.rows, **more)
    trainer, bags = trainer_of(store, options.device)
    table = store.table("t")
    assert table.value_bytes == 128
    for first in range(0, options.rows, 1 << 20):
        ids = torch.arange(first, min(first + (1 << 20), options.rows), device=options.device)
        store.put_tables([table], ids, torch.zeros(len(ids), 32, device=options.device))
    for _ in range(3):
        step(trainer, bags, options.rows, options.device)
    ready.set()
    time.sleep(3600)


def go_on(path: Path, options: argparse.Namespace, ready: Any, answers: Any) -> None:
    layer = nn.Linear(1, 1).to(options.device)
    importlib.import_module("torch._dynamo")  # as an optimizer does when it is made
    layer(torch.zeros(1, 1, device=options.device)).sum().backward()
    torch.optim.Adam(layer.parameters()).step()
    ready.set()
    answers.get()  # it was killed
    began = time.perf_counter()
    store = perdure.open(path, device=options.device)
    opened = time.perf_counter()
    trainer, bags = trainer_of(store, options.device)
    done = trainer.resume()
    resumed = time.perf_counter()
    step(trainer, bags, options.rows, options.device)
    ended = time.perf_counter()
    mapped = store.recovery().map_seconds
    print(f"{store.stats().machine}, {len(store):,} rows, {done} steps were there")
    print(
        f"open {opened - began:.2f} s, of it mapping {mapped:.2f}; resume {resumed - opened:.2f};"
        f" the first step {ended - resumed:.2f}; beyond mapping {ended - began - mapped:.2f} s"
    )
    assert done == 3 and trainer.done == 4
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pool", type=Path, default=Path("/dev/shm/perdure-torch-restart"))
    options = parser.parse_args()
    context = mp.get_context("spawn")
    answers, trained, begun = context.SimpleQueue(), context.Event(), context.Event()
    try:
        first = context.Process(target=train, args=(options.pool, options, trained), daemon=True)
        first.start()
        while not trained.wait(1):
            assert first.is_alive(), "the training failed"
        after = (options.pool, options, begun, answers)
        second = context.Process(target=go_on, args=after, daemon=True)
        second.start()
        begun.wait()
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        first.join()
        answers.put(None)
        second.join()
        assert second.exitcode == 0
    finally:
        options.pool.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
