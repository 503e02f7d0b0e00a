"""Trainings of several processes that test_torch_sharded.py kills.

    python torch_sharded.py FOLDER PLAN

PLAN is JSON: a list of runs, one after another. Each forks `ranks` processes, which train up to
`steps` over FOLDER/NAME-r. To FOLDER/NAME-r.log they write lines "begins RUN" and "resumes n", then
for each step its number and losses as hexadecimal floats, at the end a checksum of the model; or an
error. What else a run may have: "kill" (one process), "fails" (a commit of one), "chunks", "pause",
"idle", "never ahead", "export", "parts", "cuda" (NCCL, a GPU each), "store" ("cuda": on it, too),
"admit" (after how many sightings, and counters; then each step writes a line "has", too), "plain"
(one process, which is a Trainer's), "overlap" (commits beside the next step), "lags" (seconds by
which a commit ends later for each rank), "rests" (seconds between steps), "outsider" (a process of
no group of the training), and what one process has otherwise under "of RANK". How processes end is
written to FOLDER/NAME.ends. Between runs: "reshard", "copy", "snapshot", "restore".
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing as mp
import os
import random
import shutil
import signal
import sys
import time
import warnings
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import perdure
import torch
import torch.distributed as dist
from perdure import torch as pt
from perdure.torch import notes
from perdure.torch.parts import load_parts
from torch import nn

BATCH, CHUNKS = 24, 6


def tables(
    evicting: bool, dim: int = 8, admit: tuple[int | None, int] = (None, 1)
) -> list[pt.TableConfig]:
    rule: dict[str, Any] = dict(zip(("admit_after", "admit_counters"), admit, strict=True))
    most = 60 if evicting else None
    both = ("item", "seen")
    return [
        pt.TableConfig("user", dim, pooling="mean", ttl_steps=3, **rule),
        pt.TableConfig("item", 16, features=both, max_rows=most, evict="lfu", **rule),
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
        self.device = torch.device("cuda", 0) if run.get("cuda") else torch.device("cpu")
        if run.get("cuda"):
            os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)  # nobody has asked for a GPU yet
            torch.cuda.set_device(self.device)
        warnings.simplefilter("ignore")  # of DistributedDataParallel: none is unused
        torch.set_num_threads(1)
        dist.init_process_group(
            "nccl" if run.get("cuda") else "gloo",
            init_method=f"file://{folder}/{run['name']}.{run['number']}.{os.getppid()}",
            rank=rank,
            world_size=self.ranks + run.get("outsider", False),
            timeout=timedelta(seconds=40) if run.get("cuda") else None,
        )
        self.group = dist.new_group(range(self.ranks)) if run.get("outsider") else None
        self.trainer: Any = None
        self.log = (folder / f"{run['name']}-{rank}.log").open("a", buffering=1)
        self.log.write(f"begins {run['number']}\n")
        self.path = folder / run.get("pool", f"{run['name']}-{rank}")
        self.parts = folder / f"{run.get('parts', run['name'])}-{run.get('of parts', rank)}.parts"

    def begin(self) -> None:
        torch.manual_seed(1)
        self.model = Model().to(self.device)
        torch.manual_seed(7 if self.run.get("chunks") else 7 + self.rank)
        rule = pt.Adam(lr=self.run.get("lr", 0.05))
        admit = self.run.get("admit", (None, 1))
        kinds = tables(not self.run.get("chunks"), self.run.get("dim", 8), admit)
        kinds += [pt.TableConfig(name, 8) for name in self.run.get("new tables", ())]
        made = self.path.exists()
        on: dict[str, Any] = {"device": self.run.get("store", "cpu")}
        self.store = (
            perdure.open(self.path, **on) if made else pt.create(self.path, kinds, rule, **on)
        )
        if "parts" in self.run and not made:
            load_parts(self.parts, self.store, kinds, rule)
        if self.run.get("plain"):
            self.bags = pt.EmbeddingBagCollection(self.store, kinds, rule, seed=3)
        else:
            self.bags = pt.ShardedEmbeddingBagCollection(
                self.store, kinds, rule, self.group, seed=3, buckets=self.run.get("buckets", 1024)
            )
        self.bags.train(not self.run.get("eval"))
        self.dense: nn.Module = self.model
        if not self.run.get("chunks"):
            # Else it makes its buckets anew after a first step, and with them the order of sums.
            self.dense = nn.parallel.DistributedDataParallel(
                self.model, find_unused_parameters=True, process_group=self.group
            )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 7, gamma=0.7)
        kind = pt.Trainer if self.run.get("plain") else pt.ShardedTrainer
        self.trainer = kind(
            self.store,
            self.bags,
            self.model,
            self.optimizer,
            overlap=self.run.get("overlap", False),
            scheduler=self.scheduler,
        )
        self._lag(self.rank * self.run.get("lags", 0))
        if not self.run.get("plain"):
            self._tell_of_taking_back()

    def train(self) -> None:
        first = self.trainer.resume()
        self.log.write(f"resumes {first}\n")
        if "admit" in self.run:
            self.log.write(f"evicted {sorted(self.trainer.evicted)}\n")
        for step in range(first, self.run["steps"]):
            with self.trainer.step():
                losses = self._chunks(step) if self.run.get("chunks") else [self._whole(step)]
                self.optimizer.step()
                self.scheduler.step()
                time.sleep(self.run.get("pause", 0))
            time.sleep(self.run.get("rests", 0))
            if "admit" in self.run:
                self.log.write(f"has {step} {self._has()}\n")
            self.log.write(f"{step} {','.join(loss.hex() for loss in losses)}\n")
        state = hashlib.sha256()
        for parameter in self.model.parameters():
            state.update(parameter.detach().cpu().numpy().tobytes())
        self.log.write(f"model {state.hexdigest()}\n")
        if self.run.get("export"):
            self.trainer.export(self.parts)
        self.store.close()
        dist.barrier()
        dist.destroy_process_group()

    def _has(self) -> str:
        """Of each table the ids that have rows here, those that the step evicted here, and how many
        sightings were counted here."""
        has = {}
        for name, sketch in self.bags.sightings.of.items():
            ids = [one for page, _ in self.store.table(name).scan() for one in page.tolist()]
            gone = self.trainer.evicted.get(name)
            has[name] = [sorted(ids), [] if gone is None else gone.tolist(), sketch.total]
        return json.dumps(has)

    def _loss(self, features: dict[str, Any], labels: torch.Tensor) -> torch.Tensor:
        bags = {name: one.to(self.device) for name, one in self.bags(features).items()}
        return nn.functional.binary_cross_entropy_with_logits(
            self.dense(bags), labels.to(self.device), reduction="sum"
        )

    def _whole(self, step: int) -> float:
        features, labels = chunk(step, self.rank, BATCH // self.ranks)
        to = self.store.device
        features = {name: tuple(one.to(to) for one in some) for name, some in features.items()}
        if step % 2 and not self.run.get("never ahead"):
            self.bags.begin(features)
        loss = self._loss(features, labels)
        self.optimizer.zero_grad()
        loss.backward()
        if self.run.get("idle"):  # passes for which one process has nothing, or no ids
            none = {"item": (features["item"][0][:0], features["item"][1][:0])}
            for idle, nothing in ((1, {}), (0, none)):
                pooled = self.bags(nothing if self.rank == idle else features)
                if self.rank != idle:
                    torch.cat([one.reshape(-1) for one in pooled.values()]).sum().backward()
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

    def _lag(self, seconds: float) -> None:
        usual = self.trainer._write_step

        def late(*arguments: Any) -> None:
            usual(*arguments)
            time.sleep(seconds)

        if seconds:
            self.trainer._write_step = late  # type: ignore[method-assign]

    def _tell_of_taking_back(self) -> None:
        usual = self.trainer._take_back

        def told() -> None:
            self.log.write(f"back {self.store.restore_step()}\n")
            usual()

        self.trainer._take_back = told  # type: ignore[method-assign]

    def fail_at(self, step: int, where: str) -> None:
        """The commit of a step, once; or what comes before it."""
        usual = getattr(self.trainer, where)

        def failing(*arguments: Any) -> None:
            usual(*arguments)
            if self.trainer.done == step - 1 and arguments[2:3] in ((), (step,)):
                setattr(self.trainer, where, usual)
                raise perdure.NoSpace("no space is left, says the test")

        setattr(self.trainer, where, failing)

    def die(self, when: str, step: int) -> None:
        """In a step's commit, before the others know that it is prepared, after it and before the
        others know; or in taking one back."""
        if when == "taking back":
            self.store.revert = kill_me  # type: ignore[method-assign]
            return
        name = {"in commit": "_write"}.get(when, "_told")
        doing = {"after commit": 1, "prepared": 4}.get(when)
        usual = getattr(self.trainer, name)

        def dying(*arguments: Any) -> Any:
            if name == "_told" and arguments == (doing, step):
                kill_me()
            answer = usual(*arguments)
            if name == "_write" and arguments[2] == step:
                kill_me()
            return answer

        setattr(self.trainer, name, dying)


def kill_me(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(folder: Path, run: dict[str, Any], rank: int) -> None:
    training = Training(folder, {**run, **run.get(f"of {rank}", {})}, rank)
    if rank == run["ranks"]:  # the outsider
        dist.barrier()
        return
    kill, fails = run.get("kill", {}), run.get("fails")
    if kill.get("when") == "in agreement" and kill["rank"] == rank:
        notes.keep_shard = kill_me
    try:
        training.begin()
        if "when" in kill and kill["rank"] == rank:
            training.die(kill["when"], kill.get("step", 0))
        if fails is None:
            training.train()
            return
        if fails["rank"] == rank:
            training.fail_at(fails["step"], fails.get("where", "_write"))
        try:
            training.train()
        except (RuntimeError, perdure.NoSpace) as error:
            training.log.write(f"failed {error}\n")
            training.train()
    except (RuntimeError, ValueError, perdure.Error) as error:
        training.log.write(f"error {type(error).__name__}: {error}\n")
        if "when" in kill and training.trainer is not None:  # then all others are ahead of who died
            with suppress(Exception):
                training.trainer.wait()
        os._exit(1)  # without goodbyes to processes that are gone


def lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def execute(folder: Path, run: dict[str, Any]) -> None:
    log = folder / f"{run['name']}-0.log"
    seen = lines(log)
    context = mp.get_context("fork")
    numbers = range(run["ranks"] + run.get("outsider", False))
    processes = [context.Process(target=work, args=(folder, run, r)) for r in numbers]
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
    if run.get("cuda") and kill is not None:
        # NCCL waits for a process that is gone; who began them ends the others, as torchrun does.
        # Until then they have the time to commit the step that is to be taken back.
        processes[kill["rank"]].join(until - time.monotonic())
        until = time.monotonic() + 3
    ends = []
    for process in processes:
        process.join(max(0, until - time.monotonic()))
        ends.append(process.exitcode)
    for process in processes:  # all before one is waited for: a driver may hold it that long
        process.kill()
    for process in processes:
        process.join(20)
        assert not process.is_alive(), f"process {process.pid} does not end though it was killed"
    with open(folder / f"{run['name']}.ends", "a") as to:
        to.write(json.dumps(ends) + "\n")


def main(folder: Path, plan: list[dict[str, Any]]) -> None:
    torch.optim.Adam(Model().parameters()).zero_grad()  # imports what each process would
    importlib.import_module("torch._dynamo")
    for number, run in enumerate(plan):
        between = [what for what in ("reshard", "copy", "snapshot", "restore") if what in run]
        if between:
            {"reshard": reshard, "copy": copy, "snapshot": snapshot, "restore": restore}[
                between[0]
            ](folder, run)
        else:
            execute(folder, {**run, "number": number})


def reshard(folder: Path, run: dict[str, Any]) -> None:
    name, old, new = run["reshard"]
    pt.reshard(
        [folder / f"{name}-{r}" for r in range(old)],
        [folder / f"{run['name']}-{r}" for r in range(new)],
    )


def copy(folder: Path, run: dict[str, Any]) -> None:
    for old, new in run["copy"]:
        shutil.copy(folder / old, folder / new)


def snapshot(folder: Path, run: dict[str, Any]) -> None:
    for rank in range(2):
        with perdure.open(folder / f"{run['snapshot']}-{rank}") as store:
            store.snapshot(folder / f"snapshot-{rank}")


def restore(folder: Path, run: dict[str, Any]) -> None:
    for rank in range(2):
        path = folder / f"{run['restore']}-{rank}"
        path.unlink()
        perdure.restore(folder / f"snapshot-{rank}", path).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
