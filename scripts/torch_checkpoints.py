"""Seconds of a checkpoint by torch.distributed.checkpoint into pools: the first one, one of a state
that has not changed, of which 1 % has changed, and all; and of the same state by PyTorch's
FileSystemWriter.

    .venv-frameworks/bin/python scripts/torch_checkpoints.py --gib 1 --in /dev/shm --disk /var/tmp

The state is tensors of 16 MiB; of each 1 % changes, in a row. One process; a figure is the median
of RUNS saves. Needs four times GIB of memory.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from perdure.torch.checkpoint import CheckpointReader, CheckpointWriter
from torch import Tensor

ELEMENTS = 4 << 20
State = dict[str, Tensor]


def clocked(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def median(runs: int, before: Callable[[int], None], run: Callable[[], object]) -> float:
    seconds = []
    for number in range(runs):
        before(number)
        seconds.append(clocked(run))
    return statistics.median(seconds)


def of_pools(state: State, folder: Path, runs: int) -> dict[str, float]:
    def save() -> None:
        dcp.save(state, storage_writer=writer)

    def some(number: int) -> None:
        for tensor in state.values():
            at = (number + 1) * ELEMENTS // (runs + 2)
            tensor[at : at + ELEMENTS // 100] += 1

    def every(_: int) -> None:
        for tensor in state.values():
            tensor += 1

    writer = CheckpointWriter(folder)
    seconds = {"pools, the first": clocked(save)}
    seconds["pools, nothing changed"] = median(runs, lambda _: None, save)
    seconds["pools, 1 % changed"] = median(runs, some, save)
    print(f"{writer.pieces_put} of {writer.pieces_used} pieces put for 1 %")
    seconds["pools, all changed"] = median(runs, every, save)
    found = {name: torch.zeros_like(one) for name, one in state.items()}
    reader = CheckpointReader(folder)
    seconds["pools, load"] = clocked(lambda: dcp.load(found, storage_reader=reader))
    assert all(torch.equal(found[name], one) for name, one in state.items())
    return seconds


def of_files(state: State, folder: Path, runs: int) -> float:
    def save() -> None:
        files = dcp.FileSystemWriter(folder, thread_count=torch.get_num_threads())
        dcp.save(state, storage_writer=files)

    return median(runs, lambda _: shutil.rmtree(folder, ignore_errors=True), save)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--in", dest="memory", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"))
    o = parser.parse_args()
    warnings.simplefilter("ignore")
    tensors = round(o.gib * (1 << 30) / (4 * ELEMENTS))
    state = {f"weights.{n}": torch.randn(ELEMENTS) for n in range(tensors)}
    name = "perdure-torch-checkpoints"
    folders = [o.memory / name, o.memory / f"{name}-files", o.disk / f"{name}-files"]
    try:
        seconds = of_pools(state, folders[0], o.runs)
        shutil.rmtree(folders[0])
        for folder in folders[1:]:
            seconds[f"FileSystemWriter in {folder.parent}"] = of_files(state, folder, o.runs)
            shutil.rmtree(folder)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    less = seconds["pools, 1 % changed"]
    for what, one in seconds.items():
        print(f"{what:36} {one:6.3f} s   {one / less:5.1f}")


if __name__ == "__main__":
    main()
