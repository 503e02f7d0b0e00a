"""Fixtures of the Python tests. Pools are small and lie in /dev/shm, each test's under its own
name."""

from __future__ import annotations

import gc
import importlib.util
import json
import logging
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perdure
import pytest
from typer.testing import CliRunner

# Under nohup, or behind a shell's `&`, some signals are ignored, and programs of tests would
# inherit that.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


try:
    from hypothesis import settings
except ImportError:  # as beside frameworks, where the tests that need it are not run
    pass
else:
    # A thread may lose its core for longer than any deadline; benchmarks say what is slow.
    settings.register_profile("perdure", deadline=None)
    settings.load_profile("perdure")


def gpu_available() -> bool:
    return any(device.device.name == "cuda" and device.available for device in perdure.devices())


def absent_frameworks(item: pytest.Item) -> list[str]:
    """Of the libraries that a test is marked to need, those that are not installed."""
    needed = [name for marker in item.iter_markers("framework") for name in marker.args]
    return [name for name in needed if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu = gpu_available()
    for item in items:
        on_gpu = item.get_closest_marker("gpu") is not None
        if on_gpu:
            item.user_properties.append(("gpu", True))  # scripts/test.py counts those that ran
        if on_gpu and not gpu:
            item.add_marker(pytest.mark.skip(reason="no GPU that this build can use"))
        elif absent := absent_frameworks(item):
            item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(absent)}"))


@pytest.fixture
def pool() -> Iterator[str]:
    """The path of a pool that is not there yet."""
    path = Path("/dev/shm") / f"perdure-test-{uuid.uuid4().hex}"
    yield str(path)
    path.unlink(missing_ok=True)


@pytest.fixture
def pools() -> Iterator[Path]:
    """A folder for pools, in memory where there is one."""
    memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="perdure-test-", dir=memory))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def db(pools: Path) -> Iterator[Any]:
    """A database of perdure.rocks with a second column family. Its memtables stay until they are
    flushed, however long a test sleeps."""
    from rocks_world import opened

    with opened(pools / "db", families=["other"], idle_millis=1_000_000) as made:
        yield made


@pytest.fixture
def log_dir() -> Iterator[str]:
    """The path of a log directory that is not there yet, on a disk: /tmp may lie in memory."""
    path = Path("/var/tmp") / f"perdure-test-{uuid.uuid4().hex}"
    yield str(path)
    shutil.rmtree(path, ignore_errors=True)


@dataclass
class Answer:
    """What one run of the command line did."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cli():
    """Runs `perdure ARGUMENTS` in this process, as if it were alone there.

    Stores that earlier tests left in cycles are closed before: their events would be logged by the
    command. Its log's handler goes with it: the stream that it writes to does.
    """
    from perdure.cli import app

    logger = logging.getLogger("perdure")

    def run(*arguments: object) -> Answer:
        gc.collect()
        handlers, level = logger.handlers[:], logger.level
        try:
            result = CliRunner().invoke(app, [str(one) for one in arguments], prog_name="perdure")
        finally:
            logger.handlers[:] = handlers
            logger.setLevel(level)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run
