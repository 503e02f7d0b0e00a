"""Milliseconds of a training step over processes with a pool each, beside a Trainer's; and what
keeping old rows takes of it. Medians and least of the second half of the steps, of rank 0.

    .venv-frameworks/bin/python scripts/torch_sharded_steps.py --runs 3 --ranks 1 2
    python scripts/torch_sharded_steps.py --device cuda --tables 1 --batch 262144 --ids 4000000

On GPUs each process has one of its own, all ids have rows, and a cache takes them all.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing as mp
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import perdure
import torch
import torch.distributed as dist
from perdure import torch as pt
from torch import nn


def batch(step: int, rank: int, o: argparse.Namespace, size: int) -> dict[str, Any]:
    chance = torch.Generator(o.device).manual_seed(step * 100 + rank)
    one = torch.ones(size, dtype=torch.int64, device=o.device)

    def ids() -> torch.Tensor:
        return (torch.rand(size, generator=chance, device=o.device) ** o.skew * o.ids).long()

    return {f"t{n}": (ids(), one) for n in range(o.tables)}


def now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def fill(trainer: pt.Trainer, bags: Any, o: argparse.Namespace, ranks: int, rank: int) -> None:
    """Rows of all ids, by steps that look them up."""
    for first in range(0, o.ids, o.batch):
        mine = torch.arange(first + rank, min(first + o.batch, o.ids), ranks, device=o.device)
        one = torch.ones_like(mine)
        with trainer.step():
            pooled = bags({f"t{n}": (mine, one) for n in range(o.tables)})
            torch.stack(list(pooled.values())).sum().backward()


def train(
    kind: str, ranks: int, rank: int, folder: Path, o: argparse.Namespace, answers: Any
) -> None:
    torch.set_num_threads(1)
    more: dict[str, Any] = {}
    if o.device == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)  # before anybody has asked for a GPU
        more = {"device": "cuda", "options": perdure.Options(cache_bytes=8 << 30)}
    tables, rule = [pt.TableConfig(f"t{n}", o.dim) for n in range(o.tables)], pt.Adagrad(lr=0.01)
    store = pt.create(folder / f"{rank}", tables, rule, expected_records=o.tables * o.ids, **more)
    layers = nn.Sequential(nn.Linear(o.tables * o.dim, 256), nn.ReLU(), nn.Linear(256, 1))
    model = layers.to(o.device)
    optimizer = torch.optim.Adam(model.parameters())
    bags: Any
    trainer: pt.Trainer
    if kind == "Trainer":
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        trainer = pt.Trainer(store, bags, model, optimizer)
    else:
        dist.init_process_group(
            "gloo" if o.device == "cpu" else "nccl",
            init_method=f"file://{folder}/group",
            rank=rank,
            world_size=ranks,
        )
        bags = pt.ShardedEmbeddingBagCollection(store, tables, rule)
        trainer = sharded = pt.ShardedTrainer(store, bags, model, optimizer)
        if kind == "without undo":
            sharded._undo.keep = lambda *_: None  # type: ignore[method-assign]
    trainer.resume()
    if o.device == "cuda":
        fill(trainer, bags, o, ranks, rank)
        store.load_cache()
    times = []
    for step in range(o.steps):
        features = batch(step, rank, o, o.batch // ranks)
        start = now(o.device)
        with trainer.step():
            loss = model(torch.cat(list(bags(features).values()), 1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            if ranks > 1:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
            optimizer.step()
        times.append((now(o.device) - start) * 1e3)
    if rank == 0:
        answers.put(times[o.steps // 2 :])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("runs", 3), ("steps", 40), ("tables", 8), ("dim", 32), ("batch", 2048)):
        options.add_argument(f"--{name}", type=int, default=usual)
    options.add_argument("--ids", type=int, default=100_000, help="of a table")
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--skew", type=float, default=3, help="1: each id as often as another")
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    o = options.parse_args()
    torch.optim.Adam(nn.Linear(1, 1).parameters()).zero_grad()  # imports what each process would
    importlib.import_module("torch._dynamo")
    context: Any = mp.get_context("fork" if o.device == "cpu" else "spawn")
    kinds = [("Trainer", 1)]
    kinds += [(k, n) for n in o.ranks for k in ("ShardedTrainer", "without undo")]
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for run in range(o.runs):
        for kind, ranks in kinds:
            answers = context.Queue()
            with tempfile.TemporaryDirectory(dir=memory) as folder:
                given = (Path(folder), o, answers)
                processes = [
                    context.Process(target=train, args=(kind, ranks, rank, *given))
                    for rank in range(ranks)
                ]
                for process in processes:
                    process.start()
                times = answers.get(timeout=300)
                for process in processes:
                    process.join()
            middle, least = statistics.median(times), min(times)
            rate = o.batch // ranks * ranks / middle / 1e3
            print(
                f"{run} {kind:14} {ranks} processes: {middle:6.1f} ms, least {least:.1f};"
                f" {rate:.2f} M samples/s"
            )


if __name__ == "__main__":
    main()
