"""The figures of docs/benchmarks/kv-cache.md: blocks stored and loaded beside a memcpy of the same
blocks by as many threads, in turns, or, with --gpu, beside copies over the GPU's link; and how long
after the start of a process that finds a full cache the first block is answered.

    .venv/bin/python scripts/kv_cache_figures.py --directory /dev/shm/kv --blocks 20000

The cache is removed in the end. Answers are checked against a sum that was made before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from perdure.kv import BlockCache, BlockReader

RESTART = """
import json, os, signal, sys, time
began = float(sys.argv[1])
import numpy as np
from perdure.kv import BlockCache
imported = time.time()
cache = BlockCache(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
opened = time.time()
out = np.zeros((1, int(sys.argv[4])), np.uint8)
assert cache.get([sys.argv[5]], out).all()
hit = time.time()
assert int(out.view("<u8").sum(dtype=np.uint64)) == int(sys.argv[6]), "another block"
print(json.dumps({"import": imported - began, "open": opened - imported, "get": hit - opened,
                  "first_hit": hit - began, "blocks": len(cache)}), flush=True)
if sys.argv[7] == "close":
    cache.close()
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of the processors."""
    begin, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - cpu


def copier(pool: ThreadPoolExecutor, to: np.ndarray, source: np.ndarray) -> Callable[[], object]:
    """A memcpy a block."""
    return lambda: list(pool.map(np.copyto, to, source, chunksize=-(-len(to) // 8)))


def store_and_load_gpu(args: argparse.Namespace, cache: BlockCache) -> tuple[dict, dict[str, int]]:
    """In turns: a batch of a GPU's memory copied to pinned memory in one piece, and stored; another
    copied from there to the GPU, and a random one of those stored lately loaded to it. The cache is
    filled before, so that each batch takes the room of one that it evicts."""
    import torch

    n, size = args.batch, args.block_bytes
    rows = torch.randint(0, 255, (n, size), dtype=torch.uint8, device="cuda")
    numbers = rows.view(torch.int64)[:, 0]
    out, pinned = torch.zeros_like(rows), torch.empty(n, size, dtype=torch.uint8, pin_memory=True)
    rng = np.random.default_rng(1)
    times: dict[str, list[tuple[float, float]]] = {
        kind: [] for kind in ("link down", "store", "link up", "load")
    }
    sums: dict[str, int] = {}

    def clocked(kind: str, work: Callable[[], object]) -> None:
        times[kind].append(timed(lambda: (work(), torch.cuda.synchronize())))

    def load(asked: list[str]) -> None:
        assert cache.get(asked, out).all()

    for first in range(0, 2 * args.blocks, n):
        numbers.copy_(torch.arange(first, first + n, device="cuda"))
        torch.cuda.synchronize()
        names = [f"block {first + i}" for i in range(n)]
        if first < args.blocks:
            cache.put(names, rows)
            continue
        clocked("link down", lambda: pinned.copy_(rows, non_blocking=True))
        clocked("store", lambda names=names: cache.put(names, rows))
        sums[names[0]] = int(pinned[0].numpy().view("<u8").sum(dtype=np.uint64))
        clocked("link up", lambda: out.copy_(pinned, non_blocking=True))
        chosen = torch.from_numpy(rng.integers(first - args.blocks // 2, first + n, n))
        asked = [f"block {i}" for i in chosen.tolist()]
        clocked("load", lambda asked=asked: load(asked))
        assert out.view(torch.int64)[:, 0].tolist() == chosen.tolist()
        assert torch.equal(out[:, 8:], rows[chosen % n, 8:])
    return summary(times, n * size), sums


def store_and_load(args: argparse.Namespace, cache: BlockCache) -> tuple[dict, dict[str, int]]:
    """In turns: the batch copied to where nobody has been for long, and stored; a batch that nobody
    has read for long copied, and a random one loaded."""
    rng = np.random.default_rng(1)
    n, size = args.batch, args.block_bytes
    rows = rng.integers(0, 2**63, (n, size // 8), np.uint64).view(np.uint8)
    cold = np.ones((-(-args.cold // (n * size)), n, size), np.uint8)
    out = np.zeros_like(rows)
    pool = ThreadPoolExecutor(args.threads)
    times: dict[str, list[tuple[float, float]]] = {
        kind: [] for kind in ("memcpy in", "store", "memcpy out", "load")
    }
    sums: dict[str, int] = {}
    for first in range(0, args.blocks, n):
        for i, row in enumerate(rows):  # each block is another one
            row[:8] = np.frombuffer((first + i).to_bytes(8, "little"), np.uint8)
        names = [f"block {first + i}" for i in range(n)]
        turn = first // n % len(cold)
        times["memcpy in"].append(timed(copier(pool, cold[turn], rows)))
        times["store"].append(timed(lambda names=names: cache.put(names, rows)))
        sums[names[0]] = int(rows[0].view("<u8").sum(dtype=np.uint64))
        times["memcpy out"].append(timed(copier(pool, out, cold[turn - len(cold) // 2])))
        asked = [f"block {i}" for i in rng.integers(0, first + n, n)]
        found: list[np.ndarray] = []
        times["load"].append(timed(lambda a=asked, f=found: f.append(cache.get(a, out))))
        assert found[0].all()
        numbers = out[:, :8].copy().view("<u8")[:, 0].tolist()
        assert [f"block {number}" for number in numbers] == asked
    pool.shutdown()
    return summary(times, n * size), sums


def summary(times: dict[str, list[tuple[float, float]]], octets: int) -> dict:
    figures: dict = {}
    for kind, pairs in times.items():
        figures[kind] = {
            "gb_s": octets / statistics.median(wall for wall, _ in pairs) / 1e9,
            "gb_cpu_s": octets / statistics.median(cpu for _, cpu in pairs) / 1e9,
        }
        if kind in ("store", "load"):
            beside = list(times.values())[0 if kind == "store" else 2]
            both = list(zip(beside, pairs, strict=True))
            figures[kind]["of_memcpy"] = statistics.median(m[0] / p[0] for m, p in both)
            figures[kind]["of_memcpy_cpu"] = statistics.median(m[1] / p[1] for m, p in both)
    return figures


def restarts(args: argparse.Namespace, sums: dict[str, int], how: str) -> dict:
    """The median one, and the first, which finds the system's caches as the writer left them. Each
    ends as the one before did."""
    all_ = [restart(args, sums, how) for _ in range(args.restarts)]
    middle = sorted(all_, key=lambda one: one["first_hit"])[len(all_) // 2]
    return {**middle, "of_the_first": all_[0]["first_hit"]}


def restart(args: argparse.Namespace, sums: dict[str, int], how: str) -> dict:
    name = max(sums, key=lambda key: int(key.split()[1]))
    command = [str(args.directory), str(args.budget), str(args.block_bytes), name, str(sums[name])]
    done = subprocess.run(
        [sys.executable, "-c", RESTART, str(time.time()), *command, how],
        capture_output=True,
        text=True,
    )
    if done.returncode != (0 if how == "close" else -signal.SIGKILL):
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def filled_by_a_child_that_is_killed(args: argparse.Namespace) -> tuple[dict, dict[str, int]]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        cache = BlockCache(
            args.directory, args.budget, args.block_bytes, threads=args.threads, device=args.device
        )
        answer = (store_and_load_gpu if args.gpu else store_and_load)(args, cache)
        os.write(writing, json.dumps(answer).encode())
        os.close(writing)
        signal.pause()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.loads(pipe.read())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.sync()  # what the next process reads does not wait for what this one wrote
    return answer[0], answer[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("/dev/shm/perdure-kv-figures"))
    parser.add_argument("--blocks", type=int, default=20_000)
    parser.add_argument("--block-bytes", type=int, default=256 << 10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--cold", type=int, default=1 << 30, help="bytes that memcpy walks")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--gpu", action="store_true", help="blocks of a GPU's memory (PyTorch)")
    parser.add_argument("--device", default="cpu", help="where batches of the pool run")
    args = parser.parse_args()
    args.blocks = -(-args.blocks // args.batch) * args.batch
    args.budget = int(args.blocks * args.block_bytes * 1.05) + (32 << 20)
    try:
        figures, sums = filled_by_a_child_that_is_killed(args)
        figures["reader_first_hit_s"] = time_reader(args, sums)
        figures["after_a_kill"] = restarts(args, sums, "kill")
        restart(args, sums, "close")
        figures["after_a_close"] = restarts(args, sums, "close")
        print(json.dumps({"blocks": args.blocks, "threads": args.threads, **figures}, indent=2))
    finally:
        shutil.rmtree(args.directory, ignore_errors=True)


def time_reader(args: argparse.Namespace, sums: dict[str, int]) -> float:
    """Of a reader's opening and first block, with nobody writing."""
    out = np.zeros((1, args.block_bytes), np.uint8)
    begin = time.perf_counter()
    assert BlockReader(args.directory).get([next(reversed(sums))], out).all()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
