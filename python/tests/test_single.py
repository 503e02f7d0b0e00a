"""A store used as a dictionary of bytes, one key at a time."""

import subprocess
import sys

import numpy as np
import perdure
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def store(pool):
    with perdure.create(pool, 8, 16) as store:
        yield store


@pytest.fixture
def varying(pool):
    with perdure.create(pool, None, None) as store:
        yield store


def test_reads_writes_and_erases_like_a_dictionary(varying):
    varying["a"] = b"1"
    varying[b"bc"] = "two"
    varying["a"] = bytearray(b"3")
    assert varying["a"] == b"3" and varying[b"bc"] == b"two"
    assert "a" in varying and b"x" not in varying
    del varying["a"]
    assert "a" not in varying and len(varying) == 1
    for gone in (lambda: varying["a"], lambda: varying.__delitem__("a")):
        with pytest.raises(KeyError, match="'a'"):
            gone()


def test_integers_stand_for_keys_and_values_of_their_width(pool):
    with perdure.create(pool, 8, 4) as store:
        store[-1] = 7
        store[np.uint16(3)] = np.float32(1.5)
        store[4] = np.arange(2, dtype=np.uint16)
        assert store[(1 << 64) - 1] == (7).to_bytes(4, "little")
        assert dict(store.items()) == {
            (1 << 64) - 1: b"\7\0\0\0",
            3: np.float32(1.5).tobytes(),
            4: b"\0\0\1\0",
        }
        assert set(store) == set(store.keys()) == {(1 << 64) - 1, 3, 4}
        assert sorted(store.values()) == sorted(dict(store.items()).values())


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (1 << 64, ValueError, "key: 18446744073709551616 does not fit in 8 bytes"),
        (b"abc", ValueError, "key: has 3 bytes, but this pool's keys have 8"),
        (True, TypeError, "key: a bool is not one key"),
        (None, TypeError, "key: a NoneType is not one key; pass bytes, str or int, or call get"),
        ([1, 2], TypeError, "key: a list is not one key"),
        (np.arange(2), ValueError, "key: has 16 bytes, but this pool's keys have 8"),
    ],
)
def test_keys_that_are_none(store, key, error, message):
    for call in (
        lambda: store[key],
        lambda: key in store,
        lambda: store.__setitem__(key, bytes(16)),
        lambda: store.__delitem__(key),
    ):
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(ValueError, match="value: has 3 bytes, but this pool's values have 16"):
        store[1] = b"abc"
    assert len(store) == 0


def test_a_value_that_is_too_long_is_refused_with_its_length(varying):
    limit = varying.stats().max_value_bytes
    with pytest.raises(
        perdure.InvalidArgument, match=f"the value has {limit + 1} bytes, at most {limit} fit"
    ):
        varying["a"] = bytes(limit + 1)
    with pytest.raises(
        perdure.InvalidArgument, match=f"put: key 1 of 2: the value has {limit + 1} bytes, at most"
    ):
        varying.put(["a", "b"], [b"", bytes(limit + 1)])
    assert varying["a"] == b""


def test_belongs_to_the_transaction_of_its_thread(varying):
    def fails_in_the_midst():
        with varying.transaction():
            varying["a"] = b"1"
            assert varying["a"] == b"1"
            raise RuntimeError("of mine")

    with pytest.raises(RuntimeError, match="of mine"):
        fails_in_the_midst()
    assert "a" not in varying


def test_a_closed_store_has_no_keys(pool):
    store = perdure.create(pool, None, None)
    store.close()
    for call in (lambda: store["a"], lambda: "a" in store, lambda: list(store)):
        with pytest.raises(perdure.Closed):
            call()


@pytest.mark.parametrize("index", ["gphash", "dash-eh", "dash-lh", "btree"])
@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("pde"), st.binary(max_size=3), st.binary(max_size=9)), max_size=40
    )
)
def test_goes_like_a_dictionary(index, steps):
    model: dict[bytes, bytes] = {}
    with perdure.create("memfd:single", None, None, index=index, expected_records=64) as store:
        for step, key, value in steps:
            if step == "p":
                store[key] = model[key] = value
            elif step == "d" and key in model:
                del store[key], model[key]
            assert (key in store) == (key in model)
            assert key not in model or store[key] == model[key]
        assert dict(store.items()) == model


def test_importing_and_single_keys_need_no_numpy(pool):
    """What makes `import perdure` and `perdure get` quick (docs/benchmarks/first-hour.md)."""
    code = f"""
import sys, perdure
with perdure.create({pool!r}, 8, None) as store:
    store[1] = b"one"
    assert store[1] == b"one" and 1 in store and 2 not in store
import perdure.cli
heavy = {{"numpy", "pyarrow", "rich.progress", "matplotlib", "pydantic"}} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
