"""Stores against a plain dictionary, under generated sequences of batches.

Invariant checked: after every step a store holds exactly what the dictionary holds, and every
status is what the dictionary would answer, operations on one key taking effect in array order.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import perdure
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from perdure import KeyStatus

# Few different keys, so that batches meet keys of earlier batches and of their own.
FIXED_KEYS = st.integers(0, 40).map(
    lambda number: (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little")
)
WIDE_KEYS = st.integers(0, 40).map(lambda number: bytes([number]) * 24)
STRING_KEYS = st.integers(0, 40).map(
    lambda number: b"k" * (number % 7) + str(number).encode() * (number % 5)
)
FIXED_VALUES = st.integers(-(2**63), 2**63 - 1).map(
    lambda number: number.to_bytes(8, "little", signed=True)
)
STRING_VALUES = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"x" * 3000]), FIXED_VALUES)

SETTINGS = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Model(RuleBasedStateMachine):
    """One pool and one dictionary; subclasses say of which sizes."""

    key_bytes: int | None
    value_bytes: int | None
    keys: st.SearchStrategy[bytes]
    values: st.SearchStrategy[bytes]

    @initialize(
        index=st.sampled_from(
            [
                "gphash",
                perdure.GPHash(layout="in_place"),
                perdure.GPHash(layout="log"),
                "dash-eh",
                "dash-lh",
                "btree",
            ]
        ),
        expected=st.sampled_from([1, 64, 4096]),
    )
    def create(self, index, expected):
        self.path = Path("/dev/shm") / f"perdure-model-{uuid.uuid4().hex}"
        self.truth: dict[bytes, bytes] = {}
        self.store = perdure.create(
            self.path,
            self.key_bytes,
            self.value_bytes,
            expected_records=expected,
            threads=2,
            index=index,
        )

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.path.unlink()

    def listed(self, values) -> list[bytes]:
        return values.to_pylist() if self.value_bytes is None else [row.tobytes() for row in values]

    def absent(self) -> bytes | None:
        return None if self.value_bytes is None else bytes(self.value_bytes)

    @rule(data=st.data())
    def put(self, data):
        pairs = data.draw(st.lists(st.tuples(self.keys, self.values), max_size=30))
        done, _ = self.store.put([key for key, _ in pairs], [value for _, value in pairs])
        assert done.all()
        self.truth.update(pairs)

    @rule(data=st.data())
    def get(self, data):
        keys = data.draw(st.lists(self.keys, max_size=30))
        values, found, _ = self.store.get(keys)
        assert self.listed(values) == [self.truth.get(key, self.absent()) for key in keys]
        assert found.tolist() == [key in self.truth for key in keys]

    @rule(data=st.data())
    def erase(self, data):
        keys = data.draw(st.lists(self.keys, max_size=30))
        done, _ = self.store.erase(keys)
        assert done.tolist() == [self.truth.pop(key, None) is not None for key in keys]

    @rule(data=st.data(), op=st.sampled_from(["replace", "add", "min", "max"]))
    def update(self, data, op):
        pairs = data.draw(st.lists(st.tuples(self.keys, FIXED_VALUES), max_size=30))
        keys, operands = [key for key, _ in pairs], [value for _, value in pairs]
        _, statuses = self.store.update(keys, operands, op, element="int64", check=False)
        assert statuses.tolist() == [self.updated(key, operand, op) for key, operand in pairs]

    def updated(self, key: bytes, operand: bytes, op: str) -> KeyStatus:
        stored = self.truth.get(key)
        if stored is None:
            return KeyStatus.not_found
        if op != "replace" and len(stored) != len(operand):
            return KeyStatus.size_mismatch
        self.truth[key] = operand if op == "replace" else combined(stored, operand, op)
        return KeyStatus.ok

    @rule(data=st.data())
    def apply(self, data):
        kinds = ["put", "erase"] if self.value_bytes is None else ["put", "erase", "get"]
        batch = data.draw(
            st.lists(st.tuples(self.keys, st.sampled_from(kinds), self.values), max_size=30)
        )
        keys, kinds, values = ([one[part] for one in batch] for part in range(3))
        got, found, _ = self.store.apply(keys, kinds, values)
        for row, (key, kind, value) in enumerate(batch):
            assert bool(found[row]) == (kind == "put" or key in self.truth), (row, kind)
            if kind == "get" and found[row]:
                assert got[row].tobytes() == self.truth[key]
            elif kind == "put":
                self.truth[key] = value
            elif kind == "erase":
                self.truth.pop(key, None)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = perdure.open(self.path, threads=2)
        assert self.store.recovery().clean
        assert self.store.recovery().records == len(self.truth)

    @rule()
    def verify(self):
        report = self.store.verify()
        assert report.records == len(self.truth) and report.faults == []

    @rule(page=st.integers(1, 50))
    def scan(self, page):
        seen = []
        for keys, values in self.store.scan(page):
            listed = keys.to_pylist() if self.key_bytes is None else [key.tobytes() for key in keys]
            seen += zip(listed, self.listed(values), strict=True)
        assert sorted(seen) == sorted(self.truth.items())

    @invariant()
    def counts(self):
        if hasattr(self, "store"):
            assert len(self.store) == len(self.truth)


def combined(stored: bytes, operand: bytes, op: str) -> bytes:
    left, right = np.frombuffer(stored, np.int64), np.frombuffer(operand, np.int64)
    with np.errstate(over="ignore"):
        return {"add": np.add, "min": np.minimum, "max": np.maximum}[op](left, right).tobytes()


def machine(key_bytes, value_bytes, keys, values):
    kinds = {"key_bytes": key_bytes, "value_bytes": value_bytes, "keys": keys, "values": values}
    case = type(f"Model_{key_bytes}_{value_bytes}", (Model,), kinds).TestCase
    case.settings = SETTINGS
    return case


TestFixed = machine(8, 8, FIXED_KEYS, FIXED_VALUES)
TestWideKeys = machine(24, 8, WIDE_KEYS, FIXED_VALUES)
TestVaryingValues = machine(8, None, FIXED_KEYS, STRING_VALUES)
TestVaryingKeys = machine(None, 8, STRING_KEYS, FIXED_VALUES)
TestVarying = machine(None, None, STRING_KEYS, STRING_VALUES)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_every_key_of_narrow_pools(pool, width):
    """A table keyed by all the numbers of a narrow type, against the identity."""
    keys = np.arange(256 if width == 1 else 2000, dtype=f"uint{8 * width}")
    with perdure.create(pool, width, 2, expected_records=16) as store:
        store.put(keys, keys.astype(np.uint16))
        assert (store.get(keys, dtype=np.uint16, shape=()).values == keys).all()
        assert len(store) == len(keys)
