"""Milliseconds of a training step over processes with a pool each, beside a Trainer's; and what it
is where commits overlap. Medians and least of the second half of the steps, of rank 0.

    .venv-frameworks/bin/python scripts/torch_sharded_steps.py --runs 3 --ranks 1 2
    .venv-frameworks/bin/python scripts/torch_sharded_steps.py --runs 1 --profile
    python scripts/torch_sharded_steps.py --device cuda --tables 1 --batch 262144 --ids 4000000

On GPUs each process has one of its own, all ids have rows, and a cache takes them all. With
--pause a step waits so many milliseconds, as for a device that computes, and leaves its core. With
--profile milliseconds by section follow, each without the sections within it; the GPU is waited for
at both ends of a section, so a profiled step takes longer. With --json nothing else is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing as mp
import os
import queue
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
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


class Sections:
    """Milliseconds of parts of a step, each without the parts within it."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.of_step: dict[str, float] = {}
        self.steps: list[dict[str, float]] = []
        self._within: list[float] = []  # of each section that is open

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            start = now(self.device)
            self._within.append(0.0)
            try:
                return call(*arguments, **named)
            finally:
                took = (now(self.device) - start) * 1e3
                mine = took - self._within.pop()
                self.of_step[name] = self.of_step.get(name, 0.0) + mine
                if self._within:
                    self._within[-1] += took

        return wrapped

    def watch(self, name: str, owner: Any, *methods: str) -> None:
        for method in methods:
            setattr(owner, method, self.timed(name, getattr(owner, method)))

    def end_step(self, whole: float) -> None:
        named, self.of_step = self.of_step, {}
        self.steps.append({**named, "model and all else": whole - sum(named.values())})

    def medians(self) -> dict[str, float]:
        half = self.steps[len(self.steps) // 2 :]
        return {name: statistics.median(one.get(name, 0.0) for one in half) for name in half[-1]}


def watch(sections: Sections, trainer: Any, bags: Any) -> None:
    """Wraps what a step goes through."""
    sections.watch("ids, each once", bags, "_batches")
    sections.watch("lookup in the pool", bags, "_from_pool")
    sections.watch("gradients added, rows updated", bags, "changed")
    sections.watch("dense state", trainer._dense, "save")
    sections.watch("commit, but for its puts", trainer, "_write_step")
    sections.watch("puts", trainer.store, "_put_whole")
    if not isinstance(trainer, pt.ShardedTrainer):
        return
    sections.watch("exchange of ids and weights", bags, "_rows_of")
    sections.watch("agreement", trainer, "_told")
    send = bags._send_gradients

    def sent(passes: Any) -> Callable[[], Any]:
        return sections.timed("exchange of gradients", send(passes))

    bags._send_gradients = sections.timed("exchange of gradients", sent)


def train(
    kind: str, ranks: int, rank: int, folder: Path, o: argparse.Namespace, answers: Any
) -> None:
    torch.set_num_threads(1)
    more: dict[str, Any] = {"index": perdure.GPHash(layout=o.layout)}
    if o.device == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)  # before anybody has asked for a GPU
        more |= {"device": "cuda", "options": perdure.Options(cache_bytes=8 << 30)}
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
        overlap = kind == "overlapped"
        trainer = pt.ShardedTrainer(store, bags, model, optimizer, overlap=overlap)
    trainer.resume()
    if o.device == "cuda":
        fill(trainer, bags, o, ranks, rank)
        store.load_cache()
    sections = Sections(o.device)
    if o.profile:
        watch(sections, trainer, bags)
    times = []
    for step in range(o.steps):
        features = batch(step, rank, o, o.batch // ranks)
        start = now(o.device)
        with trainer.step():
            loss = model(torch.cat(list(bags(features).values()), 1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            time.sleep(o.pause / 1e3)
            if ranks > 1:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
            optimizer.step()
        times.append((now(o.device) - start) * 1e3)
        sections.end_step(times[-1])
    trainer.wait()
    if rank == 0:
        answers.put((times[o.steps // 2 :], sections.medians() if o.profile else {}))
    if kind != "Trainer":
        dist.destroy_process_group()


def answer_of(processes: list[Any], answers: Any) -> Any:
    """Once there is one; if a process fails, at once."""
    until = time.monotonic() + 300
    while time.monotonic() < until and not any(process.exitcode for process in processes):
        with suppress(queue.Empty):
            return answers.get(timeout=1)
    raise SystemExit(f"processes ended with {[process.exitcode for process in processes]}")


def measured(kind: str, ranks: int, o: argparse.Namespace, context: Any) -> dict[str, Any]:
    answers = context.Queue()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        given = (Path(folder), o, answers)
        processes = [
            context.Process(target=train, args=(kind, ranks, rank, *given)) for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        try:
            times, sections = answer_of(processes, answers)
            for process in processes:
                process.join(30)
        finally:  # with NCCL, who waits for a process that is gone does not end by itself
            for process in processes:
                process.kill()
                process.join()
    middle = statistics.median(times)
    return {
        "kind": kind,
        "ranks": ranks,
        "ms": middle,
        "least_ms": min(times),
        "samples_per_s": o.batch // ranks * ranks / middle * 1e3,
        "sections_ms": sections,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    for name, usual in (
        ("runs", 3),
        ("steps", 40),
        ("tables", 8),
        ("dim", 32),
        ("batch", 2048),
        ("pause", 0),
    ):
        options.add_argument(f"--{name}", type=int, default=usual)
    options.add_argument("--ids", type=int, default=100_000, help="of a table")
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--layout", choices=["word", "log"], default="word")
    options.add_argument("--skew", type=float, default=3, help="1: each id as often as another")
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    options.add_argument("--profile", action="store_true", help="milliseconds by section, too")
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    torch.optim.Adam(nn.Linear(1, 1).parameters()).zero_grad()  # imports what each process would
    importlib.import_module("torch._dynamo")
    context: Any = mp.get_context("fork" if o.device == "cpu" else "spawn")
    kinds = [("Trainer", 1)]
    kinds += [(k, n) for n in o.ranks for k in ("ShardedTrainer", "overlapped")]
    found = []
    for run in range(o.runs):
        for kind, ranks in kinds:
            one = measured(kind, ranks, o, context)
            found.append({"run": run, **one})
            if o.json:
                continue
            print(
                f"{run} {kind:14} {ranks} processes: {one['ms']:6.1f} ms, least"
                f" {one['least_ms']:.1f}; {one['samples_per_s'] / 1e6:.2f} M samples/s"
            )
            for name, ms in one["sections_ms"].items():
                print(f"    {name:30} {ms:7.2f}")
    if o.json:
        print(json.dumps({"options": vars(o), "runs": found}))


if __name__ == "__main__":
    main()
