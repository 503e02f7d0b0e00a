"""Seconds of a checkpoint by torch.distributed.checkpoint into pools: the first one, one of a state
that has not changed, of which 1 % has changed, and all; and of the same state by PyTorch's
FileSystemWriter.

    .venv-frameworks/bin/python scripts/torch_checkpoints.py --gib 1 --in /dev/shm --disk /var/tmp
    python scripts/torch_checkpoints.py --device cuda --gib 10 --without all files load

The state is tensors of 16 MiB, on a GPU with --device cuda; of each 1 % changes, in a row. One
process; a figure is the median of RUNS saves, each from a moment when the GPU is done to one when
it is done again. --without leaves figures out: "all" changed, which needs three times GIB in
/dev/shm (two otherwise), "files" of FileSystemWriter, which need one more, "load", which needs one
beside the state. With --json one object is printed, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from perdure.torch.checkpoint import CheckpointReader, CheckpointWriter
from perdure.torch.pieces import PIECE, Digests, octets_of
from torch import Tensor

ELEMENTS = 4 << 20
State = dict[str, Tensor]


def clocked(run: Callable[[], object]) -> float:
    settle()
    begin = time.perf_counter()
    run()
    settle()
    return time.perf_counter() - begin


def settle() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def median(runs: int, before: Callable[[int], None], run: Callable[[], object]) -> float:
    seconds = []
    for number in range(runs):
        before(number)
        seconds.append(clocked(run))
    return statistics.median(seconds)


def of_pools(state: State, folder: Path, o: argparse.Namespace) -> dict[str, float]:
    def save() -> None:
        dcp.save(state, storage_writer=writer)

    def some(number: int) -> None:
        for tensor in state.values():
            at = (number + 1) * ELEMENTS // (o.runs + 2)
            tensor[at : at + ELEMENTS // 100] += 1

    def every(_: int) -> None:
        for tensor in state.values():
            tensor += 1

    def digest() -> None:
        pieces = [octets_of(one).reshape(-1, PIECE) for one in state.values()]
        digests.of_each(pieces)

    writer, digests = CheckpointWriter(folder), Digests(bytes(32))
    digest()  # what a device does once
    seconds = {"pools, the first": clocked(save)}
    seconds["pools, nothing changed"] = median(o.runs, lambda _: None, save)
    seconds["digests alone"] = median(o.runs, lambda _: None, digest)
    seconds["pools, 1 % changed"] = median(o.runs, some, save)
    if not o.json:
        print(f"{writer.pieces_put} of {writer.pieces_used} pieces put for 1 %")
    if "all" not in o.without:
        seconds["pools, all changed"] = median(o.runs, every, save)
    if "load" not in o.without:
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--in", dest="memory", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--without", nargs="+", default=[], choices=["all", "files", "load"])
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    warnings.simplefilter("ignore")
    tensors = round(o.gib * (1 << 30) / (4 * ELEMENTS))
    state = {f"weights.{n}": torch.randn(ELEMENTS, device=o.device) for n in range(tensors)}
    name = "perdure-torch-checkpoints"
    folders = [o.memory / name, o.memory / f"{name}-files", o.disk / f"{name}-files"]
    try:
        seconds = of_pools(state, folders[0], o)
        shutil.rmtree(folders[0])
        for folder in () if "files" in o.without else folders[1:]:
            seconds[f"FileSystemWriter in {folder.parent}"] = of_files(state, folder, o.runs)
            shutil.rmtree(folder)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    less = seconds["pools, 1 % changed"]
    if o.json:
        options = {what: str(one) for what, one in vars(o).items()}
        print(json.dumps({"options": options, "seconds": seconds}))
        return
    for what, one in seconds.items():
        print(f"{what:36} {one:6.3f} s   {one / less:5.1f}")


if __name__ == "__main__":
    main()
