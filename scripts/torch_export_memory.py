"""Host memory that an export of embeddings takes, beside what the training had before it.

    .venv-frameworks/bin/python scripts/torch_export_memory.py --rows 80000000 --folder /tmp/parts

One table with rows of 128 bytes, as in torch_restart.py; the pool's own memory does not count, it
is the table. What counts is the process's private memory (RssAnon), looked at every 5 ms.
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from pathlib import Path

import torch
from perdure import torch as pt
from torch_restart import RULE, TABLES, step, trainer_of


def private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


class Most:
    """The most private memory there was while it is entered."""

    def __enter__(self) -> Most:
        self.before = self.bytes = private_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, private_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--format", default="parquet", choices=["parquet", "safetensors"])
    parser.add_argument("--pool", type=Path, default=Path("/dev/shm/perdure-torch-export"))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/perdure-torch-parts"))
    options = parser.parse_args()
    more = {"device": "cuda"} if options.device == "cuda" else {}
    store = pt.create(options.pool, TABLES, RULE, expected_records=options.rows, **more)
    try:
        trainer, bags = trainer_of(store, options.device)
        table = store.table("t")
        for first in range(0, options.rows, 1 << 20):
            ids = torch.arange(first, min(first + (1 << 20), options.rows), device=options.device)
            store.put_tables([table], ids, torch.rand(len(ids), 32, device=options.device))
        for _ in range(3):
            step(trainer, bags, options.rows, options.device)
        began = time.perf_counter()
        with Most() as most:
            trainer.export(options.folder, format=options.format)
        took = time.perf_counter() - began
        size = sum(file.stat().st_size for file in options.folder.rglob("*") if file.is_file())
        print(
            f"{options.rows:,} rows, {options.rows * 128 / 1e9:.1f} GB, as {options.format} of"
            f" {size / 1e9:.1f} GB in {took:.0f} s: {(most.bytes - most.before) / 2**20:.0f} MiB"
            f" above the {most.before / 2**20:.0f} MiB that the training took"
        )
    finally:
        store.close()
        options.pool.unlink(missing_ok=True)
        shutil.rmtree(options.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
