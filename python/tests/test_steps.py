"""Steps from Python: table, dense arrays and a number, all or nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import numpy as np
import perdure
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from perdure import errors

KEYS = np.arange(300, dtype=np.uint64)


@pytest.fixture(params=["word", "log"])
def store(pool: str, request: pytest.FixtureRequest) -> perdure.Store:
    return perdure.create(pool, value_bytes=8, index=perdure.GPHash(layout=request.param))


def values(store: perdure.Store) -> np.ndarray:
    return np.asarray(store.get(KEYS, dtype=np.uint64).values).ravel()


def test_a_step_is_there_after_reopening(store, pool):
    weights, bias = np.zeros((7, 3), np.float32), np.zeros((), np.float64)
    store.register_dense(weights=weights, bias=bias)
    assert store.restore_step() is None
    for number in (0, 9):
        with store.step(number):
            store.put(KEYS, KEYS + number)
            weights += 1
            bias[...] = number
    store.close()
    weights[:], bias[...] = -1, -1
    with perdure.open(pool) as store:
        store.register_dense(bias=bias, weights=weights)
        assert store.restore_step() == 9
        assert (weights == 2).all() and bias == 9
        assert (values(store) == KEYS + 9).all()
        assert store.stats().dense_bytes > 0


def test_a_block_that_raises_leaves_the_step_before(store):
    weights = np.arange(5.0)
    store.register_dense(weights=weights)
    with store.step(1):
        store.put(KEYS, KEYS)

    def fails_in_the_middle():
        with store.step(2):
            store.put(KEYS, KEYS * 2)
            weights[:] = 0
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fails_in_the_middle()
    assert (weights == 0).all(), "arrays stay as the block left them"
    assert store.restore_step() == 1
    assert (weights == np.arange(5.0)).all()
    assert (values(store) == KEYS).all()


def test_every_shape_and_dtype(store):
    arrays = {
        "scalar": np.array(3, np.int16),
        "layer.0.weight": np.arange(24, dtype=np.float16).reshape(2, 3, 4),
        "pairs": np.array([(1, 2.5)], dtype=[("a", "u1"), ("b", "f8")]),
        "a name with spaces": np.array([True, False]),
    }
    expected = {name: array.copy() for name, array in arrays.items()}
    store.register_dense(**arrays)
    with store.step(5):
        pass
    for array in arrays.values():
        array.view(np.uint8 if array.ndim else array.dtype)[...] = 0
    assert store.restore_step() == 5
    for name, array in arrays.items():
        assert array.tobytes() == expected[name].tobytes(), name


def test_other_arrays_are_refused_by_name(store, pool):
    store.register_dense(weights=np.zeros(4), bias=np.zeros(1))
    with pytest.raises(
        errors.InvalidArgument, match='holds dense buffer "bias" of 8 bytes, which was left out'
    ):
        store.register_dense(weights=np.zeros(4))
    with pytest.raises(errors.InvalidArgument, match='"weights" has 40 bytes'):
        store.register_dense(weights=np.zeros(5), bias=np.zeros(1))
    with pytest.raises(errors.InvalidArgument, match='no dense buffer "more"'):
        store.register_dense(weights=np.zeros(4), bias=np.zeros(1), more=np.zeros(1))
    store.register_dense(weights=np.zeros(8, np.float32), bias=np.zeros(1))  # of the same size


def test_arrays_that_cannot_be_filled_are_refused(store):
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="weights: the array is read-only"):
        store.register_dense(weights=frozen)
    with pytest.raises(ValueError, match=r"weights: the array of shape .* is not C-contiguous"):
        store.register_dense(weights=np.zeros((4, 4))[:, 1])
    for wrong in ([1.0, 2.0], 1.0, np.float32(1), b"bytes"):
        with pytest.raises(
            TypeError, match=r"weights: a .* is no array that can be filled in place"
        ):
            store.register_dense(weights=wrong)
    with pytest.raises(errors.InvalidArgument, match='dense buffer "weights" has no bytes'):
        store.register_dense(weights=np.zeros(0))
    with pytest.raises(errors.InvalidArgument, match="no dense buffers were given"):
        store.register_dense()


def test_without_registered_arrays_there_are_no_steps(store):
    with pytest.raises(errors.InvalidArgument, match="call register_dense first"), store.step(1):
        pass
    with pytest.raises(errors.InvalidArgument, match="call register_dense first"):
        store.restore_step()


def test_a_step_of_a_closed_store_says_that_it_is_closed(store):
    """It said that no arrays were registered, which had been."""
    store.register_dense(weights=np.zeros(4))
    store.close()
    with pytest.raises(perdure.Closed, match="open it again"), store.step(1):
        pass
    with pytest.raises(perdure.Closed, match="open it again"):
        store.restore_step()


def test_numbers_out_of_range_are_refused(store):
    store.register_dense(weights=np.zeros(1))
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match="number: "), store.step(wrong):
            pass
    with pytest.raises(errors.InvalidArgument, match="above the highest"), store.step(2**63 - 1):
        pass
    assert store.restore_step() is None


def test_pools_that_cannot_say_so(pool, log_dir):
    with (
        perdure.create(pool, index=perdure.GPHash(layout="in_place")) as store,
        pytest.raises(errors.Unsupported, match="layout word"),
    ):
        store.register_dense(weights=np.zeros(1))
    with (
        perdure.create(
            pool, durability="power", log_dir=log_dir, log_bytes=1 << 20, overwrite=True
        ) as store,
        pytest.raises(errors.Unsupported, match="log does not carry dense buffers"),
    ):
        store.register_dense(weights=np.zeros(1))
    with perdure.open(pool, log_dir=log_dir) as store:
        with pytest.raises(errors.Unsupported, match="has each commit for good"):
            store.revert()
        with (
            pytest.raises(errors.Unsupported, match="has each commit for good"),
            store.transaction(revertible=True),
        ):
            pass
        assert not store.can_revert()


def test_a_step_is_taken_back_by_the_process_that_opens_the_pool_next(store, pool):
    weights = np.zeros(5)
    store.register_dense(weights=weights)
    for number in (1, 2):
        with store.step(number, revertible=True):
            store.put(KEYS[:200], KEYS[:200] + number)
            weights += 1
    store.close()
    with perdure.open(pool, read_only=True) as store:
        assert not store.can_revert()
        with pytest.raises(errors.InvalidArgument, match="read-only"):
            store.revert()
    with perdure.open(pool) as store:
        store.register_dense(weights=weights)
        assert store.restore_step() == 2
        store.revert()
        assert store.restore_step() == 1 and (weights == 1).all()
        assert (values(store)[:200] == KEYS[:200] + 1).all()
        with pytest.raises(errors.InvalidArgument, match="no commit to take back"):
            store.revert()


def test_other_threads_wait_for_a_step(store):
    weights = np.zeros(1)
    store.register_dense(weights=weights)
    with store.step(1):
        store.put(KEYS, KEYS)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(store.restore_step()))
    with store.step(2):
        reader.start()
        reader.join(0.05)
        assert not seen
    reader.join()
    assert seen == [2]


def test_a_snapshot_holds_the_step(store, tmp_path):
    weights = np.full(1000, 1.0)
    store.register_dense(weights=weights)
    with store.step(1):
        store.put(KEYS, KEYS)
    store.snapshot(tmp_path / "snapshot")
    with store.step(2):
        weights[:] = 2
    copy = f"/dev/shm/perdure-test-{uuid.uuid4().hex}"
    try:
        with perdure.restore(tmp_path / "snapshot", copy) as restored:
            restored.register_dense(weights=weights)
            assert restored.restore_step() == 1
        assert (weights == 1).all()
    finally:
        Path(copy).unlink(missing_ok=True)


def test_the_example_resumes_bit_for_bit_after_kills():
    example = Path(__file__).resolve().parents[2] / "examples" / "training_step.py"
    done = subprocess.run(
        [sys.executable, example], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same, bit for bit" in done.stdout


class StepModel(RuleBasedStateMachine):
    """Generated steps, transactions, kills and reopenings against what Python remembers."""

    @initialize(
        kind=st.sampled_from([("word", "pm"), ("word", "mirrored"), ("log", "mirrored")]),
        expected=st.sampled_from([1, 500]),
    )
    def create(self, kind, expected):
        layout, residency = kind
        self.path = Path("/dev/shm") / f"perdure-model-{uuid.uuid4().hex}"
        self.options = {"threads": 2, "options": perdure.Options(residency=residency)}
        self.store = perdure.create(
            self.path,
            8,
            8,
            index=perdure.GPHash(layout=layout),
            expected_records=expected,
            **self.options,
        )
        self.weights, self.bias = np.zeros(333, np.uint8), np.zeros(2, np.uint64)
        self.table: dict[int, int] = {}
        self.step: tuple[int, bytes] | None = None
        self.back: tuple[dict[int, int], tuple[int, bytes] | None] | None = None
        self.register()

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.path.unlink()

    def register(self):
        self.store.register_dense(weights=self.weights, bias=self.bias)

    def change(self, data) -> dict[int, int]:
        """Writes a batch and changes the arrays; what the table would hold with it."""
        batch = data.draw(st.dictionaries(st.integers(0, 60), st.integers(0, 2**63), max_size=40))
        if batch:
            self.store.put(
                np.array(list(batch), np.uint64), np.array(list(batch.values()), np.uint64)
            )
        self.weights[:] = np.random.default_rng(len(batch)).integers(256, size=333)
        self.bias += 1
        return {**self.table, **batch}

    def dense(self) -> bytes:
        return self.weights.tobytes() + self.bias.tobytes()

    @rule(data=st.data(), number=st.integers(0, 2**63 - 2), revertible=st.booleans())
    def commit(self, data, number, revertible):
        with self.store.step(number, 64, revertible=revertible):
            table = self.change(data)
        self.back = (self.table, self.step) if revertible else None
        self.table, self.step = table, (number, self.dense())

    @precondition(lambda self: self.back is not None)
    @rule()
    def take_back(self):
        self.store.revert()
        (self.table, self.step), self.back = self.back, None

    def fail_inside(self, data, number: int, copy: Path | None = None):
        self.back = None
        with self.store.step(number, 64):
            self.change(data)
            if copy is not None:
                shutil.copyfile(self.path, copy)
            raise ZeroDivisionError

    @rule(data=st.data())
    def raise_inside(self, data):
        with pytest.raises(ZeroDivisionError):
            self.fail_inside(data, 7)

    @rule(data=st.data())
    def write_without_a_step(self, data):
        with self.store.transaction(64):
            table = self.change(data)
        self.table, self.back = table, None

    @rule(data=st.data(), number=st.integers(0, 99))
    def kill(self, data, number):
        """Inside a step: what a kill leaves is the file as it is."""
        copy = self.path.with_suffix(".killed")
        with pytest.raises(ZeroDivisionError):
            self.fail_inside(data, number, copy)
        self.store.close()
        copy.rename(self.path)
        self.store = perdure.open(self.path, **self.options)
        self.register()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = perdure.open(self.path, **self.options)
        self.register()

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def all_is_of_one_step(self):
        number = self.store.restore_step()
        assert number == (None if self.step is None else self.step[0])
        if self.step is not None:
            assert self.dense() == self.step[1]
        held = {}
        for keys, rows in self.store.scan(dtype=np.uint64):
            held.update(zip(keys.tolist(), rows.ravel().tolist(), strict=True))
        assert held == self.table
        assert self.store.can_revert() == (self.back is not None)


TestSteps = StepModel.TestCase
TestSteps.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
