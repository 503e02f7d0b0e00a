"""Ranks that save or load checkpoints, for test_torch_dcp.py:
python torch_checkpoints.py save|load|train FOLDER RENDEZVOUS RANK RANKS FIRST LAST [LOG].

State k is what `whole(k)` has. `save` saves states FIRST to LAST, with a line in LOG after each;
`load` expects state LAST. `train`, of one process, trains a table in the pool FOLDER up to step
LAST; each step has a checkpoint of its own.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import perdure
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from perdure import torch as pt
from perdure.torch.checkpoint import CheckpointReader, CheckpointWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

ROWS, COLUMNS = 67, 1001
PIECE = 16 << 10


def whole(k: int) -> dict[str, Any]:
    """Every element says which state it is of."""
    rows = torch.arange(ROWS * COLUMNS, dtype=torch.float32).reshape(ROWS, COLUMNS)
    return {
        "rows": rows % 1000 + 1000 * k,
        "columns": rows[:9].clone() + 1e6 * k,
        "same": torch.full((5, 3), float(k)),
        "plain": torch.tensor([k, k + 1]),
        "number": k,
    }


def sharded(state: dict[str, Any], ranks: int) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (ranks,))
    kinds = {"rows": Shard(0), "columns": Shard(1), "same": Replicate()}
    spread = {name: distribute_tensor(state[name], mesh, [how]) for name, how in kinds.items()}
    return {**state, **spread}


def empty() -> dict[str, Any]:
    return {
        name: torch.zeros_like(one) if isinstance(one, torch.Tensor) else -1
        for name, one in whole(0).items()
    }


def trained(
    pool: str, *, overlap: bool = False
) -> tuple[perdure.Store, pt.EmbeddingBagCollection, pt.Trainer]:
    tables, rule = [pt.TableConfig("t", 4)], pt.SGD(lr=1.0)
    there = os.path.exists(pool)
    store = perdure.open(pool) if there else pt.create(pool, tables, rule)
    bags = pt.EmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(none.parameters(), lr=0)
    return store, bags, pt.Trainer(store, bags, none, sgd, overlap=overlap)


def train(pool: str, last: int, log: str) -> None:
    store, bags, trainer = trained(pool)
    writer = CheckpointWriter(store, piece_bytes=PIECE)
    for number in range(trainer.resume() + 1, last + 1):
        with trainer.step():
            bags({"t": (torch.arange(3), torch.ones(3, dtype=torch.int64))})["t"].sum().backward()
            dcp.save(whole(number), storage_writer=writer)
        with open(log, "a") as to:
            to.write(f"{number}\n")


def main(what: str, folder: str, meet: str, rank: int, ranks: int, *numbers: int, log: str) -> None:
    torch.set_num_threads(1)
    first, last = numbers
    if what == "train":
        train(folder, last, log)
        return
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=ranks)
    if what == "load":
        state = sharded(empty(), ranks)
        dcp.load(state, storage_reader=CheckpointReader(folder))
        for name, one in sharded(whole(last), ranks).items():
            if isinstance(one, torch.Tensor):
                mine = getattr(state[name], "to_local", lambda kept=state[name]: kept)()
                assert torch.equal(mine, getattr(one, "to_local", lambda kept=one: kept)()), name
            else:
                assert state[name] == one
    else:
        writer = CheckpointWriter(folder, piece_bytes=PIECE)
        for number in range(first, last + 1):
            dcp.save(sharded(whole(number), ranks), storage_writer=writer)
            if rank == 0 and log:
                with open(log, "a") as to:
                    to.write(f"{number}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    _, what, folder, meet, *numbers = sys.argv[:8]
    main(what, folder, meet, *map(int, numbers), log="".join(sys.argv[8:]))
