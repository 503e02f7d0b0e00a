"""Stores from Python: life cycle, batches, statuses, reports and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import perdure
import pytest
from perdure import KeyStatus, OpKind, _operands


def rows(count: int, width: int = 32, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, width), dtype=np.uint8)


def test_puts_and_gets(pool):
    keys, values = np.arange(1000), rows(1000)
    with perdure.create(pool, 8, 32) as store:
        done, statuses = store.put(keys, values)
        assert done.all() and (statuses == KeyStatus.ok).all()
        got, found, statuses = store.get(np.arange(990, 1010))
        assert (got[:10] == values[990:]).all()
        assert (got[10:] == 0).all()
        assert found.tolist() == [True] * 10 + [False] * 10
        assert statuses.dtype == np.uint8 and (statuses[10:] == KeyStatus.not_found).all()
        assert len(store) == 1000


def test_every_eight_byte_key_is_legal(pool):
    keys = np.array([0, 1, 2**63, 2**64 - 1, 2**64 - 2, 2**32], np.uint64)
    with perdure.create(pool, 8, 8) as store:
        store.put(keys, keys)
        assert (store.get(keys, dtype=np.uint64, shape=()).values == keys).all()


def test_last_of_equal_keys_wins(pool):
    with perdure.create(pool, 8, 8) as store:
        store.put(np.array([5, 5, 5]), np.array([1, 2, 3]))
        assert store.get([5], dtype=np.int64, shape=()).values.tolist() == [3]
        assert len(store) == 1


def test_reopens_with_everything(pool):
    keys, values = np.arange(500), rows(500)
    with perdure.create(pool, 8, 32) as store:
        store.put(keys, values)
    with perdure.open(pool, expect_key_bytes=8, expect_value_bytes=32) as store:
        assert store.recovery().clean
        assert store.recovery().records == 500
        assert (store.get(keys).values == values).all()


def test_survives_a_kill(pool):
    """A child is killed in the middle; what it acknowledged is there, and recovery says so."""
    program = f"""
        import numpy as np, os, perdure, signal
        store = perdure.create({pool!r}, 8, 8)
        store.put(np.arange(300), np.arange(300))
        store.erase(np.arange(100))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert child.returncode == -signal.SIGKILL
    with perdure.open(pool) as store:
        assert not store.recovery().clean
        assert store.recovery().records == 200
        found = store.get(np.arange(300)).found
        assert not found[:100].any() and found[100:].all()
        assert store.verify().fault_count == 0


@pytest.mark.parametrize(
    "dtype", ["uint8", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_updates_by_element_type(pool, dtype):
    width = 4 * np.dtype(dtype).itemsize
    keys = np.arange(10)
    base = (np.arange(40).reshape(10, 4) + 10).astype(dtype)
    operand = np.full((10, 4), 20, dtype)
    with perdure.create(pool, 8, width) as store:
        for op, expected in (
            ("add", base + operand),
            ("min", np.minimum(base, operand)),
            ("max", np.maximum(base, operand)),
            ("replace", operand),
        ):
            store.put(keys, base)
            assert store.update(keys, operand, op).done.all()
            assert (store.get(keys, dtype=dtype).values == expected).all(), op


def test_update_tells_absent_keys(pool):
    with perdure.create(pool, 8, 8) as store:
        store.put([1], np.array([10]))
        done, statuses = store.update([1, 2], np.array([1, 1]))
        assert done.tolist() == [True, False]
        assert statuses.tolist() == [KeyStatus.ok, KeyStatus.not_found]
        assert len(store) == 1


def test_erase_tells_absent_keys(pool):
    with perdure.create(pool, 8, 8) as store:
        store.put([1, 2], np.array([1, 2]))
        assert store.erase([2, 3]).done.tolist() == [True, False]
        assert len(store) == 1


def test_mixed_batch_runs_in_array_order(pool):
    keys = [7, 7, 7, 7, 7]
    kinds = ["put", "update", "get", "erase", "get"]
    values = np.array([10, 5, 0, 0, 0])
    with perdure.create(pool, 8, 8) as store:
        got, found, _ = store.apply(keys, kinds, values, op="add", dtype=np.int64, shape=())
        assert got[2] == 15
        assert found.tolist() == [True, True, True, True, False]
        numbers = np.array([OpKind.put, OpKind.get], np.uint8)
        assert (
            store.apply([1, 1], numbers, np.array([3, 0]), dtype=np.int64, shape=()).values[1] == 3
        )


def test_mixed_batch_without_gets_has_no_values(pool):
    with perdure.create(pool, 8, 8) as store:
        assert store.apply([1, 2], ["put", "erase"], np.array([1, 0])).values is None


def test_mixed_batch_of_bad_kinds(pool):
    with perdure.create(pool, 8, 8) as store:
        with pytest.raises(
            ValueError, match=r"kinds: 'push' is not one of 'get', 'put', 'erase', 'update'"
        ):
            store.apply([1], ["push"])
        with pytest.raises(ValueError, match="kinds: shape"):
            store.apply([1, 2], ["get"])
        with pytest.raises(ValueError, match="kinds: numbers must be"):
            store.apply([1], np.array([9]))
        with pytest.raises(TypeError, match="kinds: dtype float64"):
            store.apply([1], np.array([1.0]))
        with pytest.raises(ValueError, match="values: the batch has puts or updates"):
            store.apply([1], ["put"])


@pytest.mark.parametrize("step", [1, 2, -1])
def test_kinds_that_change_under_a_batch_change_nothing_of_it(step):
    kinds = np.zeros(6, np.uint8)[::step]
    codes = _operands.kinds_of(kinds, len(kinds)).array
    kinds[:] = int(OpKind.put)
    assert codes.flags.c_contiguous and not codes.any()


def test_scan_gives_every_record_once(pool):
    keys, values = np.arange(1000, dtype=np.uint64), rows(1000, 8)
    with perdure.create(pool, 8, 8) as store:
        store.put(keys, values)
        pages = list(store.scan(64))
        seen = np.concatenate([page for page, _ in pages])
        assert seen.dtype == np.uint64
        assert all(len(page) <= 64 for page, _ in pages)
        assert sorted(seen.tolist()) == keys.tolist()
        for page, found in pages:
            assert (found == values[page.astype(np.int64)]).all()
        signed, numbers = next(store.scan(key_dtype=np.int64, dtype=np.uint32, shape=(2,)))
        assert signed.dtype == np.int64 and numbers.shape == (1000, 2)


def test_scan_of_an_empty_store(pool):
    with perdure.create(pool, 8, 8) as store:
        assert list(store.scan()) == []


def test_scan_stops_when_the_table_grows(pool):
    with perdure.create(pool, 8, 8, expected_records=64) as store:
        store.put(np.arange(50), np.arange(50))
        pages = store.scan(10)
        next(pages)
        store.put(np.arange(20000), np.arange(20000))
        assert store.stats().growths > 0
        with pytest.raises(perdure.Busy, match="start it again"):
            list(pages)


def test_growth_needs_nothing_of_the_user(pool):
    keys = np.arange(30000)
    with perdure.create(pool, 8, 8, expected_records=100) as store:
        for part in np.array_split(keys, 7):
            store.put(part, part)
        assert (store.get(keys, dtype=np.int64, shape=()).values == keys).all()
        assert store.stats().growths > 0 and store.verify().records == 30000


def test_full_pool_raises_and_keeps_what_was(pool):
    with perdure.create(pool, 8, 128, expected_records=1000, max_bytes=4 << 20) as store:
        store.put(np.arange(1000), rows(1000, 128))
        with pytest.raises(perdure.NoSpace, match=r"max_bytes|grow|full") as raised:
            store.put(np.arange(1000, 100_000), rows(99_000, 128))
        assert len(raised.value.outcome.statuses) == 99_000
        assert (store.get(np.arange(1000)).values == rows(1000, 128)).all()
        assert store.verify().fault_count == 0


def test_counts_accesses_when_asked(pool):
    with perdure.create(pool, 8, 8, options=perdure.Options(count_accesses=True)) as store:
        store.put(np.arange(100), np.arange(100))
        accesses = store.stats().accesses
        assert accesses.orders == 2
        assert 100 <= accesses.pm_writes <= 200
        store.reset_counts()
        assert store.stats().accesses.orders == 0


@pytest.mark.parametrize("layout", ["word", "in_place"])
@pytest.mark.parametrize("shape", [(2, 2, 8), (1, 2, 16), (3, 2, 4), (2, 1, 8)])
def test_layouts_and_shapes(pool, layout, shape):
    keys = np.arange(3000)
    levels, hashes, slots = shape
    index = perdure.GPHash(layout=layout, levels=levels, hashes=hashes, slots=slots)
    with perdure.create(pool, 8, 8, index=index, expected_records=3000) as store:
        store.put(keys, keys)
        assert store.get(keys, dtype=np.int64, shape=()).values.tolist() == keys.tolist()
        stats = store.stats()
        assert stats.layout.name == layout
        assert (stats.shape.levels, stats.shape.hashes, stats.shape.slots) == shape


def test_memfd_pool_dies_with_the_store():
    with perdure.create("memfd:test", 8, 8) as store:
        store.put([1], np.array([2]))
        assert store.stats().medium.name == "memfd"
        assert not store.survives().process_kill
    with pytest.raises(perdure.NotFound):
        perdure.open("memfd:test")


def test_file_pool(tmp_path):
    with perdure.create(tmp_path / "pool", 8, 8) as store:
        store.put([1], np.array([2]))
        assert store.path == str(tmp_path / "pool")
    with perdure.open(tmp_path / "pool", read_only=True) as store:
        assert store.get([1], dtype=np.int64, shape=()).values.tolist() == [2]
        with pytest.raises(perdure.InvalidArgument, match="read-only"):
            store.put([1], np.array([3]))


def test_survival_is_said_in_full(pool):
    with perdure.create(pool, 8, 8) as store:
        survives = store.survives()
        assert survives.process_kill and not survives.power_loss
        assert survives.basis.name == "declared"
        assert "process kill" in survives.description


def test_closed_store(pool):
    store = perdure.create(pool, 8, 8)
    store.close()
    store.close()
    assert store.closed and "closed" in repr(store)
    with pytest.raises(perdure.Closed, match=r"is closed; open it again"):
        store.get([1])


def test_threads_share_a_store(pool):
    """Eight threads write their own keys and read everyone's; each batch is whole or absent."""
    torn: list[str] = []
    with perdure.create(pool, 8, 8, expected_records=8000) as store:

        def work(number: int) -> None:
            keys = np.arange(number * 100, number * 100 + 100)
            for turn in range(20):
                store.put(keys, np.full(100, turn))
                seen = store.get(
                    np.arange((number + 1) % 8 * 100, (number + 1) % 8 * 100 + 100),
                    dtype=np.int64,
                    shape=(),
                )
                if seen.found.any() and len(np.unique(seen.values)) != 1:
                    torn.append(f"thread {number}, turn {turn}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torn == []
        assert (store.get(np.arange(800), dtype=np.int64, shape=()).values == 19).all()


# --- bad input ----------------------------------------------------------------------------------


def test_missing_pool(pool):
    with pytest.raises(perdure.NotFound, match=pool):
        perdure.open(pool)


def test_pool_that_is_there_already(pool):
    perdure.create(pool, 8, 8).close()
    with pytest.raises(perdure.AlreadyExists, match=pool):
        perdure.create(pool, 8, 8)
    perdure.create(pool, 8, 16, overwrite=True).close()
    with perdure.open(pool) as store:
        assert store.value_bytes == 16


def test_pool_of_other_sizes(pool):
    perdure.create(pool, 8, 8).close()
    with pytest.raises(perdure.InvalidArgument, match="key_bytes 8, not 16"):
        perdure.open(pool, expect_key_bytes=16)
    with pytest.raises(perdure.InvalidArgument, match="value_bytes 8, not 9"):
        perdure.open(pool, expect_value_bytes=9)


def test_pool_opened_twice_for_writing(pool):
    with perdure.create(pool, 8, 8), pytest.raises(perdure.Busy, match=pool):
        perdure.open(pool)
    with (
        perdure.open(pool, read_only=True),
        perdure.open(pool, read_only=True),
        pytest.raises(perdure.Busy),
    ):
        perdure.open(pool)


@pytest.mark.parametrize("length", [0, 7, 100, 5000, (1 << 20) + 17])
def test_truncated_pool(pool, length):
    with perdure.create(pool, 8, 8) as store:
        store.put(np.arange(100), np.arange(100))
    os.truncate(pool, length)
    with pytest.raises(perdure.Corrupt, match=pool):
        perdure.open(pool)


def test_foreign_file(pool):
    with open(pool, "wb") as file:
        file.write(b"not a pool at all" * 100_000)
    with pytest.raises(perdure.Corrupt, match=pool):
        perdure.open(pool)


def flip(pool: str, offset: int, bit: int = 0) -> None:
    with open(pool, "r+b") as file:
        file.seek(offset)
        octet = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([octet ^ 1 << bit]))


def test_other_format_version(pool):
    perdure.create(pool, 8, 8).close()
    flip(pool, 8, bit=3)
    with pytest.raises(perdure.Corrupt, match="format version 12"):
        perdure.open(pool)


@pytest.mark.parametrize("offset", [0, 16, 40, 60, 74, 100, 124])
def test_flipped_bit_in_the_header(pool, offset):
    perdure.create(pool, 8, 8).close()
    flip(pool, offset)
    with pytest.raises(perdure.Corrupt, match=pool):
        perdure.open(pool)


def value_offset(pool: str, value: bytes) -> int:
    with open(pool, "rb") as file:
        return file.read().index(value)


def test_flipped_bit_in_a_record(pool):
    values = rows(100, 64)
    with perdure.create(pool, 8, 64) as store:
        store.put(np.arange(100), values)
    flip(pool, value_offset(pool, values[42].tobytes()))
    with perdure.open(pool) as store:
        with pytest.raises(perdure.Corrupt, match="get: key 42 of 100") as raised:
            store.get(np.arange(100))
        assert raised.value.outcome.found.sum() == 99
        _, found, statuses = store.get(np.arange(100), check=False)
        assert np.flatnonzero(~found).tolist() == [42] and statuses[42] == KeyStatus.corrupt
        report = store.verify()
        assert report.fault_count == 1 and report.records == 99
        assert "checksum" in report.faults[0]
        store.put([42], values[42:43])
        assert (store.get(np.arange(100)).values == values).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_bytes": 0}, "key_bytes: 0 is out of range"),
        ({"key_bytes": 129}, "key_bytes 129"),
        ({"key_bytes": 8.5}, "key_bytes: expected a whole number"),
        ({"value_bytes": -1}, "value_bytes: -1 is out of range"),
        ({"value_bytes": 1 << 31}, "value_bytes"),
        ({"index": perdure.GPHash(slots=16)}, "at most 32|1 to 32"),
        ({"index": perdure.GPHash(slots=3)}, "power of two"),
        (
            {"index": ["gphash"]},
            "index: .* is not one of 'gphash', 'dash-eh', 'dash-lh', 'btree', and no perdure.GP.*",
        ),
        ({"overwrite": "no"}, "overwrite: expected True or False, not 'no'"),
        ({"threads": 0}, "threads: 0 is out of range; pass at least 1"),
        ({"options": {"grow": False}}, "options: expected perdure.Options"),
        ({"log_bytes": 1 << 20}, "log_bytes needs log_dir"),
        ({"durability": "forever"}, "durability: 'forever' is not one of"),
        ({"device": "tpu"}, "device: 'tpu' is not one of 'cpu', 'cuda'"),
        ({"max_bytes": 4096, "value_bytes": 8}, "max_bytes"),
    ],
)
def test_options_that_cannot_be(pool, options, message):
    with pytest.raises((ValueError, TypeError, perdure.NoSpace), match=message):
        perdure.create(pool, **options)
    assert not os.path.exists(pool)


def test_durability_that_the_medium_cannot_give(pool):
    with pytest.raises(perdure.Unsupported, match="power"):
        perdure.create(pool, 8, 8, durability="power")


def test_no_gpu_is_said(pool):
    if any(device.device.name == "cuda" and device.available for device in perdure.devices()):
        pytest.skip("there is a GPU")
    with pytest.raises((perdure.Unsupported, perdure.DeviceFailure), match=r"CUDA|GPU|device"):
        perdure.create(pool, 8, 8, device="cuda")


def test_devices_lists_the_cpu():
    cpu = perdure.devices()[0]
    assert cpu.device.name == "cpu" and cpu.available and cpu.description


def test_full_tmpfs_is_an_error_at_create(pool):
    with pytest.raises(perdure.NoSpace, match=pool):
        perdure.create(pool, 8, 1 << 16, expected_records=1 << 30)
    assert not os.path.exists(pool)


@pytest.mark.parametrize(("op", "numpy_has"), [("min", np.minimum), ("max", np.maximum)])
def test_nan_in_min_and_max_is_as_in_numpy(pool, op, numpy_has):
    numbers = np.array([np.nan, -np.inf, -1.5, 0, 2, np.inf])
    stored, operands = (column.ravel() for column in np.meshgrid(numbers, numbers))
    keys = np.arange(len(stored))
    with perdure.create(pool, 8, 8) as store:
        store.put(keys, stored)
        store.update(keys, operands, op)
        got = store.get(keys, dtype=np.float64).values[:, 0]
    np.testing.assert_array_equal(got, numpy_has(stored, operands))
