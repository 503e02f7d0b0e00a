"""Tests of the plugins of perdure.kv, each with its engine's own code around it; `make test-kv`."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = Path("/dev/shm") / f"perdure-kv-{tmp_path.name}-{id(tmp_path)}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def parameters_of(method: Any) -> list[tuple[str, Any, Any]]:
    return [
        (one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()
    ]


def differing(plugin: type, interface: type) -> list[str]:
    """Methods of the plugin that take other parameters than the interface's."""
    wrong = []
    for name, method in vars(plugin).items():
        theirs = getattr(interface, name, None)
        if name.startswith("_") or theirs is None or not callable(theirs):
            continue
        if parameters_of(method) != parameters_of(theirs):
            wrong.append(f"{name}{inspect.signature(method)}, not {inspect.signature(theirs)}")
        if inspect.iscoroutinefunction(method) != inspect.iscoroutinefunction(theirs):
            wrong.append(f"{name} is a coroutine on one side alone")
    return wrong
