"""A training that test_torch_training.py and test_torch_overlap.py kill: python torch_training.py
POOL STEPS LOG [pause [overlap]].

A small model over three tables, one of which admits, with dropout, a scheduler and Adam, on ids
that repeat and are new. After each commit a line "step loss" goes to LOG, the loss as hexadecimal
float. At the end a line with a checksum of all rows, of the model and of what was sighted.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time

import perdure
import torch
from perdure import torch as pt
from torch import nn

TABLES = [
    pt.TableConfig("user", 8, pooling="mean", ttl_steps=3),
    pt.TableConfig("item", 16, features=("item", "seen"), max_rows=40, evict="lfu"),
    pt.TableConfig("tag", 4, ttl_steps=9, admit_after=2, admit_counters=64),
]
OPTIMIZER = pt.Adam(lr=0.05)


def batch(number: int) -> tuple[dict[str, tuple[torch.Tensor, ...]], torch.Tensor]:
    random = torch.Generator().manual_seed(number)
    lengths = torch.randint(0, 4, (16,), generator=random)
    users = torch.randint(-5, 30, (int(lengths.sum()),), generator=random)
    items = torch.randint(0, 40 + number, (16,), generator=random)
    one = torch.ones(16, dtype=torch.int64)
    features = {
        "user": (users, lengths),
        "item": (items, one),
        "tag": (torch.randint(number, number + 60, (16,), generator=random), one),
        "seen": (items * 3 % 50, one, torch.rand(16, generator=random)),
    }
    return features, (items % 2).float()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8 + 16 + 16 + 4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
        )

    def forward(self, bags: dict[str, torch.Tensor]) -> torch.Tensor:
        whole = torch.cat([bags[name] for name in ("user", "item", "seen", "tag")], dim=1)
        return self.layers(whole).squeeze(1)


def digest(store: perdure.Store, model: nn.Module, counted: torch.Tensor) -> str:
    whole = hashlib.sha256(counted.numpy().tobytes())
    for name in ("user", "item", "tag"):
        rows = {}
        for ids, values in store.table(name).scan():
            rows.update(zip(ids.tolist(), map(bytes, values), strict=True))
        for one in sorted(rows):
            whole.update(f"{name} {one}".encode() + rows[one])
    for parameter in model.parameters():
        whole.update(parameter.detach().numpy().tobytes())
    return whole.hexdigest()


class Training:
    """Over a pool that is made where there is none."""

    def __init__(self, pool: str, *, overlap: bool = False) -> None:
        torch.manual_seed(1)
        made = os.path.exists(pool)
        self.store = perdure.open(pool) if made else pt.create(pool, TABLES, OPTIMIZER)
        self.bags = pt.EmbeddingBagCollection(self.store, TABLES, OPTIMIZER, seed=3)
        self.model = Model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 7, gamma=0.7)
        self.trainer = pt.Trainer(
            self.store,
            self.bags,
            self.model,
            self.optimizer,
            overlap=overlap,
            scheduler=self.scheduler,
        )

    def step(self, number: int, pause: float = 0) -> str:
        """The loss."""
        with self.trainer.step():
            features, labels = batch(number)
            outputs = self.model(self.bags(features))
            loss = nn.functional.binary_cross_entropy_with_logits(outputs, labels)
            self.optimizer.zero_grad()
            loss.backward()
            time.sleep(pause)
            self.optimizer.step()
            self.scheduler.step()
        return loss.item().hex()

    def digest(self) -> str:
        self.trainer.wait()
        return digest(self.store, self.model, self.bags.sightings.of["tag"].cells)


def main(pool: str, steps: int, log: str, pause: float = 0, overlap: bool = False) -> None:
    torch.set_num_threads(1)
    training = Training(pool, overlap=overlap)
    with open(log, "a", buffering=1) as to:
        first = training.trainer.resume()
        to.write(f"resumes {first}\n")
        for number in range(first, steps):
            to.write(f"{number} {training.step(number, pause)}\n")
        to.write(f"digest {training.digest()}\n")
    training.store.close()


if __name__ == "__main__":
    more = [float(sys.argv[4])] if len(sys.argv) > 4 else []
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], *more, overlap="overlap" in sys.argv[5:])
