"""Trainings of several processes that test_torch_sharded.py kills.

    python torch_sharded.py FOLDER PLAN

PLAN is JSON: a list of runs, one after another. Each forks `ranks` processes, which train up to
`steps` over FOLDER/NAME-r and write to FOLDER/NAME-r.log a line "resumes n", then for each step its
number and losses as hexadecimal floats, at the end a checksum of the model. Of a run with "kill"
one process is killed; what the others do then is written to FOLDER/NAME.ends.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing as mp
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import perdure
import torch
import torch.distributed as dist
from perdure import torch as pt
from perdure.torch import notes
from torch import nn

BATCH, CHUNKS = 24, 6
OPTIMIZER = pt.Adam(lr=0.05)


def tables(evicting: bool) -> list[pt.TableConfig]:
    return [
        pt.TableConfig("user", 8, pooling="mean", ttl_steps=3),
        pt.TableConfig(
            "item", 16, features=("item", "seen"), max_rows=60 if evicting else None, evict="lfu"
        ),
    ]


def chunk(step: int, number: int, size: int) -> tuple[dict[str, Any], torch.Tensor]:
    """Samples that follow from the step's number and theirs."""
    chance = torch.Generator().manual_seed(step * 1000 + number)
    lengths = torch.randint(0, 4, (size,), generator=chance)
    users = torch.randint(-5, 30, (int(lengths.sum()),), generator=chance)
    items = torch.randint(0, 40 + step, (size,), generator=chance)
    one = torch.ones(size, dtype=torch.int64)
    features = {
        "user": (users, lengths),
        "item": (items, one),
        "seen": (items * 3 % 50, one, torch.rand(size, generator=chance)),
    }
    return features, (items % 2).float()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8 + 16 + 16, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
        )

    def forward(self, bags: dict[str, torch.Tensor]) -> torch.Tensor:
        whole = torch.cat([bags["user"], bags["item"], bags["seen"]], dim=1)
        return self.layers(whole).squeeze(1)


class Training:
    """One process's. `chunks`: the batch has CHUNKS parts, whose gradients are summed in their
    order whoever has them, so that losses do not depend on the number of processes; else the dense
    part is under DistributedDataParallel."""

    def __init__(self, folder: Path, run: dict[str, Any], rank: int) -> None:
        self.run, self.rank, self.ranks = run, rank, run["ranks"]
        warnings.simplefilter("ignore")  # of DistributedDataParallel: none is unused
        torch.set_num_threads(1)
        torch.manual_seed(1)
        rendezvous = f"file://{folder}/{run['name']}.{run['number']}"
        dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=self.ranks)
        torch.manual_seed(7 if run.get("chunks") else 7 + rank)
        path = folder / f"{run['name']}-{rank}"
        self.tables = tables(not run.get("chunks"))
        made = path.exists()
        self.store = perdure.open(path) if made else pt.create(path, self.tables, OPTIMIZER)
        self.bags = pt.ShardedEmbeddingBagCollection(
            self.store, self.tables, OPTIMIZER, seed=3, buckets=run.get("buckets", 1024)
        )
        self.model = Model()
        dense: nn.Module = self.model
        if not run.get("chunks"):
            # Else it makes its buckets anew after a first step, and with them the order of sums.
            dense = nn.parallel.DistributedDataParallel(self.model, find_unused_parameters=True)
        self.dense = dense
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 7, gamma=0.7)
        self.trainer = pt.ShardedTrainer(
            self.store, self.bags, self.model, self.optimizer, scheduler=self.scheduler
        )
        self.log = open(f"{path}.log", "a", buffering=1)
        self._tell_of_undo()

    def train(self) -> None:
        first = self.trainer.resume()
        self.log.write(f"resumes {first}\n")
        for step in range(first, self.run["steps"]):
            with self.trainer.step():
                losses = self._chunks(step) if self.run.get("chunks") else [self._whole(step)]
                self.optimizer.step()
                self.scheduler.step()
                time.sleep(self.run.get("pause", 0))
            self.log.write(f"{step} {','.join(loss.hex() for loss in losses)}\n")
        state = hashlib.sha256()
        for parameter in self.model.parameters():
            state.update(parameter.detach().numpy().tobytes())
        self.log.write(f"model {state.hexdigest()}\n")
        self.store.close()
        dist.barrier()
        dist.destroy_process_group()

    def _loss(self, features: dict[str, Any], labels: torch.Tensor) -> torch.Tensor:
        answer = self.dense(self.bags(features))
        return nn.functional.binary_cross_entropy_with_logits(answer, labels, reduction="sum")

    def _whole(self, step: int) -> float:
        features, labels = chunk(step, self.rank, BATCH // self.ranks)
        if step % 2:
            self.bags.begin(features)
        loss = self._loss(features, labels)
        self.optimizer.zero_grad()
        loss.backward()
        return loss.item()

    def _chunks(self, step: int) -> list[float]:
        each = CHUNKS // self.ranks
        losses, gradients = [], []
        for number in range(self.rank * each, (self.rank + 1) * each):
            torch.manual_seed(step * 100 + number)  # of dropout
            loss = self._loss(*chunk(step, number, BATCH // CHUNKS))
            self.optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item())
            gradients.append(
                torch.cat([one.grad.reshape(-1) for one in self.model.parameters()])  # type: ignore[union-attr]
            )
        every = [torch.empty(each, gradients[0].numel()) for _ in range(self.ranks)]
        dist.all_gather(every, torch.stack(gradients))
        summed = torch.zeros_like(gradients[0])
        for one in torch.cat(every):
            summed += one
        sizes = [one.numel() for one in self.model.parameters()]
        for parameter, part in zip(self.model.parameters(), summed.split(sizes), strict=True):
            parameter.grad = part.reshape(parameter.shape)
        return losses

    def _tell_of_undo(self) -> None:
        undo = self.trainer._undo
        usual = undo.take_back

        def told(step: int, *arguments: Any) -> None:
            self.log.write(f"back {step}\n")
            usual(step, *arguments)

        undo.take_back = told  # type: ignore[method-assign]

    def die(self, when: str, step: int) -> None:
        """In a step's commit; after it and before the others know; or in taking one back."""
        if when == "in undo":
            notes.keep_undo = kill_me  # the last thing in that commit
            return
        name = {"in commit": "_write", "after commit": "_told"}[when]
        usual = getattr(self.trainer, name)

        def dying(*arguments: Any) -> Any:
            if name == "_told" and arguments == (1, step):
                kill_me()
            answer = usual(*arguments)
            if name == "_write" and arguments[2] == step:
                kill_me()
            return answer

        setattr(self.trainer, name, dying)


def kill_me(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(folder: Path, run: dict[str, Any], rank: int) -> None:
    training = Training(folder, run, rank)
    kill = run.get("kill", {})
    if "when" in kill and kill["rank"] == rank:
        training.die(kill["when"], kill.get("step", 0))
    training.train()


def lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def execute(folder: Path, run: dict[str, Any]) -> None:
    log = folder / f"{run['name']}-0.log"
    seen = lines(log)
    context = mp.get_context("fork")
    processes = [context.Process(target=work, args=(folder, run, r)) for r in range(run["ranks"])]
    for process in processes:
        process.start()
    kill = run.get("kill")
    until = time.monotonic() + 60
    if kill is not None:
        chosen = processes[kill["rank"]]
        if "lines" in kill:
            chance = random.Random(kill["seed"])
            while lines(log) < seen + kill["lines"] and chosen.is_alive():
                assert time.monotonic() < until, "no progress"
                time.sleep(0.001)
            time.sleep(chance.random() * kill["within"])
            chosen.kill()
    ends = []
    for process in processes:
        process.join(until - time.monotonic())
        ends.append(process.exitcode)
        process.kill()
        process.join()
    with open(folder / f"{run['name']}.ends", "a") as to:
        to.write(json.dumps(ends) + "\n")


def main(folder: Path, plan: list[dict[str, Any]]) -> None:
    for number, run in enumerate(plan):
        if "reshard" in run:
            name, old, new = run["reshard"]
            pt.reshard(
                [folder / f"{name}-{r}" for r in range(old)],
                [folder / f"{run['name']}-{r}" for r in range(new)],
            )
        else:
            execute(folder, {**run, "number": number})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
