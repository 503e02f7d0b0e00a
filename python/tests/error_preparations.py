"""What a case of bad input prepares: files that are damaged, cut or held elsewhere, and stores.

Invariant: a preparation works in the working directory; its stack undoes what it changes elsewhere.
"""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import perdure
from perdure.cli import app
from pool_bytes import log_segment, set_version, taken_slot
from typer.testing import CliRunner

NOBODY = 65534

Prepare = Callable[[ExitStack], object]


def nothing(stack: ExitStack) -> None:
    pass


def flip(at: int, path: str = "table.pool") -> Prepare:
    def prepare(stack: ExitStack) -> None:
        with open(path, "r+b") as file:
            file.seek(at)
            octet = file.read(1)[0]
            file.seek(at)
            file.write(bytes([octet ^ 1]))

    return prepare


def flip_both_roots(stack: ExitStack) -> None:
    flip(4096 + 8)(stack)
    flip(8192 + 8)(stack)


def flip_record(stack: ExitStack) -> None:
    flip(Path("table.pool").read_bytes().index(bytes([42]) * 16))(stack)


def flip_entry(stack: ExitStack) -> None:
    flip(log_segment("log.pool") + 99, "log.pool")(stack)


def flip_slot(stack: ExitStack) -> None:
    flip(taken_slot("table.pool"))(stack)


def cut(to: int, path: str = "table.pool") -> Prepare:
    return lambda stack: os.truncate(path, to)


def text(path: str, content: str) -> Prepare:
    return lambda stack: Path(path).write_text(content)


def version(number: int) -> Prepare:
    return lambda stack: set_version("table.pool", number)


def zero_head(stack: ExitStack) -> None:
    with open("table.pool", "r+b") as file:
        file.write(bytes(1 << 14))


def random_bytes(stack: ExitStack) -> None:
    Path("noise").write_bytes(np.random.default_rng(1).bytes(1 << 20))


def gz_of_pool(stack: ExitStack) -> None:
    Path("table.pool.gz").write_bytes(gzip.compress(Path("table.pool").read_bytes(), mtime=0))


def snapshot(stack: ExitStack) -> None:
    with perdure.open("table.pool", read_only=True) as store:
        store.snapshot("snapshot")


def cut_snapshot(stack: ExitStack) -> None:
    snapshot(stack)
    os.truncate("snapshot", os.path.getsize("snapshot") // 4096 // 2 * 4096)


def a_socket(stack: ExitStack) -> None:
    stack.enter_context(socket.socket(socket.AF_UNIX)).bind("socket")


def held(read_only: bool, then: str = "pass") -> Prepare:
    """By a process of its own, which ends when its input does."""
    program = (
        f"import perdure, sys; store = perdure.open('table.pool', read_only={read_only}); {then};"
        " print(flush=True); sys.stdin.read()"
    )

    def prepare(stack: ExitStack) -> None:
        run = [sys.executable, "-c", program]
        holder = stack.enter_context(
            subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        holder.stdout.readline()

    return prepare


IN_A_TRANSACTION = held(False, "t = store.transaction(); t.__enter__()")


def as_nobody(*paths: str) -> Prepare:
    """Without permission: modes hold root for nothing, so root becomes somebody else."""

    def prepare(stack: ExitStack) -> None:
        for path in paths:
            mode = stat.S_IMODE(os.stat(path).st_mode)
            os.chmod(path, 0o555 if os.path.isdir(path) else 0)
            stack.callback(os.chmod, path, mode)
        if os.geteuid() == 0:
            stack.callback(os.seteuid, 0)
            os.seteuid(NOBODY)

    return prepare


def files_end_at(octets: int) -> Prepare:
    """A disk that is full: no file of this process grows past so many bytes."""

    def prepare(stack: ExitStack) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        stack.callback(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_FSIZE, (octets, hard))

    return prepare


def exported_once(stack: ExitStack) -> None:
    """So that every module is there before nobody may read one."""
    CliRunner().invoke(app, ["export", "table.pool", "once.csv"])
    os.remove("once.csv")
    os.chmod("table.pool", 0o644)


def tar(stack: ExitStack) -> None:
    with tarfile.open("rows.tar", "w") as archive:
        archive.add("rows.csv")


def two_logs(stack: ExitStack) -> None:
    for name in ("a", "b"):
        more = {"durability": "power", "log_dir": f"log-{name}", "log_bytes": 1 << 20}
        perdure.create(f"{name}.pool", 8, 16, **more).close()


def open_store(**options: object) -> Prepare:
    """`store` is there for the case's Python."""
    path = options.pop("path", "table.pool")

    def prepare(stack: ExitStack) -> dict[str, object]:
        return {"store": stack.enter_context(perdure.open(path, **options))}

    return prepare


def damaged_store(stack: ExitStack) -> dict[str, object]:
    flip_record(stack)
    return open_store()(stack)


def cut_off_repair(stack: ExitStack) -> None:
    """RepairNote::state, of a repair that has not dropped all yet."""
    with open("log.pool", "r+b") as file:
        file.seek(16384)
        file.write(b"dropping")


def older_log_directory(stack: ExitStack) -> None:
    """Of the close before the last one."""
    durable = {"durability": "power", "log_dir": "log", "log_bytes": 1 << 20}
    with perdure.create("power.pool", 8, 16, **durable) as store:
        store.put(np.arange(4), np.zeros((4, 2)))
    shutil.copytree("log", "older")
    with perdure.open("power.pool", log_dir="log") as store:
        store.put(np.arange(4), np.ones((4, 2)))
    shutil.rmtree("log")
    os.rename("older", "log")
