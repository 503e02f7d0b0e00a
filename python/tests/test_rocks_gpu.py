"""Databases of perdure.rocks and arrays of a GPU, on their own streams, whichever device memtables
are on. Skipped where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rocks_world import opened, rocks

pytestmark = pytest.mark.gpu

COUNT = 20_000


@pytest.fixture(params=["cpu", "cuda"])
def database(pools: Path, request: pytest.FixtureRequest) -> Iterator[rocks.Database]:
    with opened(pools / "db", device=request.param) as db:
        yield db


@pytest.mark.framework("torch")
def test_torch(database: rocks.Database) -> None:
    import torch

    keys = torch.arange(COUNT, device="cuda")
    values = torch.rand(COUNT, 8, device="cuda")
    database.put(keys, values)
    out = torch.full_like(values, -1)
    got = database.get(keys + 10, out=out)
    assert got.values is out and got.found.sum() == COUNT - 10
    assert torch.equal(out[:-10], values[10:]) and bool((out[-10:] == -1).all())
    texts = database.get(keys[:2]).values.to_pylist()
    assert texts == [values[0].cpu().numpy().tobytes(), values[1].cpu().numpy().tobytes()]
    database.merge(keys[:3], torch.full((3,), ord("x"), dtype=torch.uint8, device="cuda"))
    assert database.get(keys[:1]).values[0].as_py()[-2:] == b",x"
    answer = database.apply(keys[:4], ["get", "erase", "get", "put"], values[:4])
    assert answer.found.all() and answer.values[2].as_py().endswith(b",x")
    mixed = torch.full_like(values[:4], -1)
    database.apply(keys[10:14], ["get", "put", "get", "erase"], values[:4], out=mixed)
    assert torch.equal(mixed[::2], values[10:14:2]) and bool((mixed[1::2] == -1).all())
    database.put(keys[10:14], values[10:14])
    database.erase(keys[::2])  # with strides
    assert database.get(keys).found.sum() == COUNT // 2 - 1
    found = database.range(keys[3:4], keys[4:5])
    assert found.keys[0].as_py() == (3).to_bytes(8, "little")


@pytest.mark.framework("torch")
def test_torch_on_a_stream_of_its_own(database: rocks.Database) -> None:
    """Keys and values are still being computed on a side stream when the batch is handed over."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        slow = torch.rand(3000, 3000, device="cuda")
        for _ in range(20):
            slow = slow @ slow / 3000
        rows = torch.arange(COUNT * 8, device="cuda").reshape(COUNT, 8)
        values = (rows + slow.sum() * 0).float()
        keys = torch.arange(COUNT, device="cuda") + (slow.sum() * 0).long()
        database.put(keys, values)
        keys.zero_()  # what was put is not looked at again
    out = torch.zeros_like(values)
    database.get(np.arange(COUNT), out=out, stream=side)
    torch.cuda.synchronize()
    assert torch.equal(out, values)


@pytest.mark.framework("cupy")
def test_cupy(database: rocks.Database) -> None:
    import cupy

    keys, values = cupy.arange(COUNT), cupy.random.random((COUNT, 4), dtype=cupy.float64)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        doubled = values * 2
        database.put(keys, doubled)
        out = cupy.zeros_like(values)
        database.get(keys, out=out, stream=stream)
        assert bool((out == doubled).all())
    host: Any = np.zeros((COUNT, 4))
    database.get(keys, out=host)
    assert (host == cupy.asnumpy(doubled)).all()


@pytest.mark.framework("jax")
def test_jax(database: rocks.Database) -> None:
    import jax.numpy as jnp

    keys = jnp.arange(2000, dtype=jnp.uint32).reshape(1000, 2)
    values = jnp.arange(8000, dtype=jnp.float32).reshape(1000, 8)
    assert "cuda" in str(keys.device).lower(), "JAX came without its GPU plug-in"
    database.put(keys, values)
    out = np.zeros((1000, 8), np.float32)
    database.get(keys, out=out)
    assert (np.asarray(values) == out).all()
