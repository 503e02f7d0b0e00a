"""A DLRM's training, which may be killed at any moment and goes on where its pool is.

    python examples/dlrm/training.py POOL DATA STEPS BATCH ROWS

train.py starts it. To standard output come a line "resumes STEP", a line "STEP LOSS" for each step
before it is committed, the loss as a hexadecimal float, and at the end "digest SHA256" of all rows
and of the model.
"""

from __future__ import annotations

import hashlib
import os
import sys

import perdure
import torch
from model import DLRM, ROWS, open_store, tables_of, tensors
from perdure import torch as pt
from torch import nn

from data import Clicks, read


def digest(store: perdure.Store, tables: list[pt.TableConfig], model: nn.Module) -> str:
    whole = hashlib.sha256()
    for table in tables:
        rows = {}
        for ids, values in store.table(table.name).scan():
            rows.update(zip(ids.tolist(), map(bytes, values), strict=True))
        for one in sorted(rows):
            whole.update(f"{table.name} {one}".encode() + rows[one])
    for parameter in model.parameters():
        whole.update(parameter.detach().numpy().tobytes())
    return whole.hexdigest()


def train(pool: str, clicks: Clicks, steps: int, size: int) -> None:
    tables = tables_of(clicks)
    with open_store(pool, clicks, new=not os.path.exists(pool)) as store:
        bags = pt.EmbeddingBagCollection(store, tables, ROWS)
        model = DLRM(clicks.numbers, len(clicks.tables))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        trainer = pt.Trainer(store, bags, model, optimizer)
        first = trainer.resume()
        print(f"resumes {first}", flush=True)
        for step in range(first, steps):
            with trainer.step():
                dense, features, labels = tensors(clicks.batch(step, size))
                logits = model(dense, bags(features))
                loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"{step} {loss.item().hex()}", flush=True)
        print(f"digest {digest(store, tables, model)}", flush=True)


def main(pool: str, data: str, steps: str, size: str, rows: str) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)  # sums of other numbers of threads differ in their last bits
    train(pool, read(data, int(rows) or None), int(steps), int(size))


if __name__ == "__main__":
    main(*sys.argv[1:])
