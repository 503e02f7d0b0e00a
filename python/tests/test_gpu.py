"""Stores on a GPU: device arrays of every library, on their own streams. Skipped where there is
none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import perdure
import pytest

pytestmark = pytest.mark.gpu

COUNT = 20_000


@pytest.fixture
def store(pool) -> Iterator[perdure.Store]:
    with perdure.create(pool, 8, 128, device="cuda", expected_records=COUNT) as opened:
        yield opened


def test_host_arrays(store):
    keys, values = np.arange(COUNT), np.random.default_rng(1).random((COUNT, 32), np.float32)
    assert store.put(keys, values).done.all()
    got, found, _ = store.get(np.arange(COUNT + 10), dtype=np.float32)
    assert (got[:COUNT] == values).all() and found.sum() == COUNT
    assert store.erase(keys[: COUNT // 2]).done.all()
    assert store.get(keys).found.sum() == COUNT // 2
    assert store.verify().fault_count == 0


def test_one_store_after_another_grows(pool):
    """Growing registers more of the pool with the GPU; closing must release all of it, or the
    next store in this process meets addresses that are still registered."""
    keys, values = np.arange(COUNT), np.zeros((COUNT, 128), np.uint8)
    for _ in range(3):
        with perdure.create(
            pool, 8, 128, device="cuda", expected_records=100, overwrite=True
        ) as store:
            for part in np.array_split(keys, 5):
                store.put(part, values[: len(part)])
            assert store.stats().growths > 0
            assert store.get(keys).found.all()


def test_cpu_and_gpu_read_one_pool(pool):
    keys = np.arange(COUNT)
    with perdure.create(pool, 8, 8, device="cuda") as store:
        store.put(keys, keys)
        assert store.stats().device.name == "cuda"
    with perdure.open(pool) as store:
        assert (store.get(keys, dtype=np.int64, shape=()).values == keys).all()
        store.update(keys, keys, "add")
    with perdure.open(pool, device="cuda") as store:
        assert (store.get(keys, dtype=np.int64, shape=()).values == 2 * keys).all()


def test_varying_lengths(pool):
    words = [f"word {number}" * (number % 9) for number in range(500)]
    with perdure.create(pool, None, None, device="cuda") as store:
        store.put([str(number) for number in range(500)], words)
        got = store.get([str(number) for number in range(501)]).values.to_pylist()
        assert got == [word.encode() for word in words] + [None]


@pytest.mark.framework("torch")
def test_torch(store):
    import torch

    keys = torch.arange(COUNT, device="cuda")
    values = torch.rand(COUNT, 32, device="cuda")
    assert store.put(keys, values).done.all()
    got, found, _ = store.get(keys, dtype=torch.float32)
    assert got.is_cuda and torch.equal(got, values) and found.all()
    out = torch.zeros_like(values)
    store.get(keys, out=out)
    assert torch.equal(out, values)
    store.update(keys, values, "add")
    assert torch.equal(store.get(keys, dtype=torch.float32).values, values + values)


@pytest.mark.framework("torch")
def test_torch_on_a_stream_of_its_own(store):
    """Keys and values are still being computed on a side stream when the batch is handed over."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        slow = torch.rand(3000, 3000, device="cuda")
        for _ in range(20):
            slow = slow @ slow / 3000
        values = (
            torch.arange(COUNT * 32, device="cuda").reshape(COUNT, 32) + slow.sum() * 0
        ).float()
        keys = torch.arange(COUNT, device="cuda") + (slow.sum() * 0).long()
        store.put(keys, values)
        got = store.get(keys, dtype=torch.float32).values
        assert torch.equal(got, values)
    again = store.get(keys, dtype=torch.float32, stream=side).values
    torch.cuda.synchronize()
    assert torch.equal(again, values)


@pytest.mark.framework("torch")
def test_steps_of_device_and_host_arrays(pool):
    """Device arrays go to the pool and back where they lie; those of several superblocks in
    pieces."""
    import torch

    weights = torch.rand(3_000_001, device="cuda")
    bias, table = np.zeros(3), torch.rand(COUNT, 32, device="cuda")
    keys = torch.arange(COUNT, device="cuda")
    with perdure.create(pool, 8, 128, device="cuda", expected_records=COUNT) as store:
        store.register_dense(weights=weights, bias=bias)
        assert store.restore_step() is None
        for number in range(3):
            with store.step(number):
                store.put(keys, table + number)
                weights += 1
                bias += 1
        expected = weights.clone()
        weights.zero_()
        assert store.restore_step() == 2
        assert torch.equal(weights, expected)
    weights.zero_()
    bias[:] = 0
    with perdure.open(pool, device="cuda") as store:
        store.register_dense(weights=weights, bias=bias)
        assert store.restore_step() == 2
        assert torch.equal(weights, expected) and (bias == 3).all()
        assert torch.equal(store.get(keys, dtype=torch.float32).values, table + 2)


@pytest.mark.framework("cupy")
def test_cupy(store):
    import cupy

    keys, values = cupy.arange(COUNT), cupy.random.random((COUNT, 32), dtype=cupy.float32)
    assert store.put(keys, values).done.all()
    got, found, _ = store.get(keys, dtype=np.float32)
    assert isinstance(got, cupy.ndarray) and bool((got == values).all()) and found.all()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        doubled = values * 2
        store.put(keys, doubled)
        out = cupy.zeros_like(values)
        store.get(keys, out=out, stream=stream)
        assert bool((out == doubled).all())
    strided = store.get(cupy.arange(2 * COUNT)[::2], dtype=np.float32)
    assert strided.found.tolist() == [True] * (COUNT // 2) + [False] * (COUNT - COUNT // 2)
    assert bool((strided.values[: COUNT // 2] == doubled[::2]).all())


@pytest.mark.framework("jax", "cupy")
def test_jax(store):
    import cupy
    import jax.numpy as jnp

    keys = jnp.arange(2000, dtype=jnp.uint32).reshape(1000, 2)
    values = jnp.arange(32_000, dtype=jnp.float32).reshape(1000, 32)
    assert "cuda" in str(keys.device).lower(), "JAX came without its GPU plug-in"
    assert store.put(keys, values).done.all()
    out = cupy.zeros((1000, 32), cupy.float32)
    store.get(keys, out=out)
    assert (np.asarray(values) == out.get()).all()
    with pytest.raises(TypeError, match="out: cannot make a jax"):
        store.get(keys)


@pytest.fixture
def powered(pool, log_dir) -> Iterator[perdure.Store]:
    with perdure.create(
        pool, 8, 128, device="cuda", durability="power", log_dir=log_dir, log_bytes=64 << 20
    ) as opened:
        yield opened


@contextmanager
def after_a_power_loss(log_dir) -> Iterator[perdure.Store]:
    """What the disk holds now, opened elsewhere, on the CPU."""
    copy, elsewhere = f"{log_dir}-copy", f"/dev/shm/{Path(log_dir).name}-elsewhere"
    try:
        shutil.copytree(log_dir, copy)
        with perdure.open(elsewhere, log_dir=copy) as store:
            yield store
    finally:
        shutil.rmtree(copy, ignore_errors=True)
        Path(elsewhere).unlink(missing_ok=True)


@pytest.mark.framework("torch")
def test_device_batches_outlive_a_power_loss(powered, log_dir):
    import torch

    keys = torch.arange(COUNT, device="cuda")
    values = torch.rand(COUNT, 32, device="cuda")
    expected = values.cpu().numpy()
    assert powered.put(keys, values).done.all()
    values.zero_()  # an acknowledged batch is not looked at again
    powered.update(keys[:100], torch.ones(100, 32, device="cuda"), "add")
    expected[:100] += 1
    # Only some of it takes effect, and only that is logged.
    assert powered.erase(torch.arange(COUNT - 10, COUNT + 500, device="cuda")).done.sum() == 10
    with after_a_power_loss(log_dir) as store:
        assert store.recovery().replayed == 3 and store.recovery().records == COUNT - 10
        got = store.get(np.arange(COUNT), dtype=np.float32)
        assert got.found.tolist() == [True] * (COUNT - 10) + [False] * 10
        assert (got.values[:-10] == expected[:-10]).all()
        assert store.verify().fault_count == 0


@pytest.mark.framework("torch")
def test_what_a_side_stream_computes_is_logged_as_computed(powered, log_dir):
    import torch

    with torch.cuda.stream(torch.cuda.Stream()):
        slow = torch.rand(3000, 3000, device="cuda")
        for _ in range(20):
            slow = slow @ slow / 3000
        values = (
            torch.arange(COUNT * 32, device="cuda").reshape(COUNT, 32) + slow.sum() * 0
        ).float()
        keys = torch.arange(COUNT, device="cuda") + (slow.sum() * 0).long()
        powered.put(keys, values)
        keys.zero_()
        values.zero_()
    with after_a_power_loss(log_dir) as store:
        got = store.get(np.arange(COUNT), dtype=np.float32)
        assert (got.values == np.arange(COUNT * 32, dtype=np.float32).reshape(COUNT, 32)).all()


@pytest.mark.framework("torch")
def test_transactions_of_device_batches_outlive_a_power_loss(powered, log_dir):
    import torch

    keys = torch.arange(1000, device="cuda")
    rows = torch.rand(1000, 32, device="cuda")
    powered.put(keys, rows, atomic=True)
    with powered.transaction():
        powered.put(keys[:500], rows[500:])
        powered.erase(keys[900:].cpu().numpy())  # host and device batches in one
        with after_a_power_loss(log_dir) as store:
            assert (store.get(np.arange(1000), dtype=np.float32).values == rows.cpu().numpy()).all()
    with after_a_power_loss(log_dir) as store:
        got = store.get(np.arange(900), dtype=np.float32).values
        assert (got[:500] == rows[500:].cpu().numpy()).all() and (
            got[500:] == rows[500:900].cpu().numpy()
        ).all()
        assert not store.get(np.arange(900, 1000)).found.any()


@pytest.mark.framework("torch")
def test_gpu_arrays_on_a_cpu_store(pool):
    import torch

    with perdure.create(pool, 8, 8) as store:
        with pytest.raises(
            TypeError, match="keys: the array lies on cuda:0, but this store runs on the cpu"
        ):
            store.get(torch.arange(5, device="cuda"))
        with pytest.raises(TypeError, match="out: the array lies on cuda:0"):
            store.get(np.arange(5), out=torch.zeros(5, dtype=torch.int64, device="cuda"))


def test_command_line(cli, pool):
    assert cli("create", pool, "--value-bytes", 8).status == 0
    assert cli("put", pool, 1, 2, "--device", "cuda").status == 0
    assert cli("get", pool, 1, "--device", "cuda").out == "2\n"
    assert "cuda" in cli("doctor").out
