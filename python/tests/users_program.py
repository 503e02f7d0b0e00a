"""A user's program, which the type checker reads and nobody runs: what is taken, refused and
answered.

Each line that has to be refused says so; one that is not any more fails the check, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import perdure
import perdure.rocks
from perdure.typing import Keys


def takes_what_it_says(
    store: perdure.Store, keys: npt.NDArray[np.int64], rows: npt.NDArray[np.float32]
) -> None:
    for some in (
        keys,
        [1, 2],
        ["a", b"b"],
        range(3),
        (1, 2),
        bytearray(8),
        7,
        "a",
        b"a",
        np.uint64(7),
    ):
        assert_type(store.get(some), perdure.Result)
    assert_type(store.put(keys, rows, atomic=True), perdure.Outcome)
    assert_type(store.update(keys, rows, "max", check=False), perdure.Outcome)
    assert_type(store.erase(keys), perdure.Outcome)
    assert_type(store.apply(keys, ["get"], dtype="float32", shape=(4, 8)), perdure.Result)
    store.get(keys, out=rows)
    store.get(keys, dtype=np.float32, shape=32)
    with store.transaction(), store.step(1):
        store.register_dense(weights=rows)
    assert_type(store.restore_step(), int | None)


def is_a_dictionary(store: perdure.Store, row: npt.NDArray[np.float32]) -> Iterator[bytes]:
    store[7], store["a"], store[b"b"] = row, 3, "text"
    yield bytes(assert_type(store[np.int64(7)], Any))  # bytes, or a row of a typed pool
    assert_type(7 in store, bool)
    for key, value in store.items():
        assert_type(key, int | bytes)
        assert_type(value, Any)


def answers(store: perdure.Store, keys: Keys) -> float:
    _, found, statuses = store.get(keys)
    assert_type(found, npt.NDArray[np.bool_])
    assert_type(statuses, npt.NDArray[np.uint8])
    stats = assert_type(store.stats(), perdure.Stats)
    return assert_type(stats.load_factor, float)


def is_made() -> perdure.Store:
    options = perdure.Options(residency="mirrored", cache_bytes=1 << 20)
    with perdure.create("p", 8, None, index=perdure.GPHash(slots=4), options=options) as store:
        assert_type(store, perdure.Store)
    return perdure.open("p", read_only=True, device="cuda")


def is_refused(store: perdure.Store) -> None:
    store.get(1.5)  # pyright: ignore[reportArgumentType]
    store.get([1.5])  # pyright: ignore[reportArgumentType]
    store.get({1: 2})  # pyright: ignore[reportArgumentType]
    store.update([1], [1], "subtract")  # pyright: ignore[reportArgumentType]
    store.get([1], stream="fast")  # pyright: ignore[reportArgumentType]
    store[1.5] = 1  # pyright: ignore[reportArgumentType]
    perdure.create("p", index="rtree")  # pyright: ignore[reportArgumentType]
    perdure.create("p", layout="word")  # pyright: ignore[reportCallIssue]
    perdure.Options(gather="fast")  # pyright: ignore[reportArgumentType]
    perdure.Options().grow = False  # pyright: ignore[reportAttributeAccessIssue]
    store.device = "cuda"  # pyright: ignore[reportAttributeAccessIssue]


def works_on_rocksdb(keys: Keys, rows: npt.NDArray[np.float32]) -> Iterator[bytes]:
    with perdure.rocks.open(
        "db", options={"num_levels": 4, "compression": "kZSTD"}, families={"users": None}
    ) as db:
        db.put(keys, rows, sync=True)
        db.merge(["a"], np.array([1]), family="users")
        assert_type(db.get(keys, out=rows), perdure.Result)
        assert_type(db.apply(keys, ["get"]), perdure.Result)
        assert_type(db.range(["a"], ["b"], limit=3), perdure.rocks.Ranges)
        db["a"] = 1
        del db["b"]
        yield assert_type(db["a"], bytes)
        with db.snapshot() as then:
            assert_type("a" in then, bool)
            for key, value in then.scan(prefix="a", reverse=True):
                yield assert_type(key, bytes) + assert_type(value, bytes)
        assert_type(db.families, tuple[str, ...])
        assert_type(db.stats(), dict[str, int])
        assert_type(db.get_property("rocksdb.stats"), str | None)
    perdure.rocks.open("db", device="gpu")  # pyright: ignore[reportArgumentType]
    db.put(1.5, rows)  # pyright: ignore[reportArgumentType]
    then.put(keys, rows)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
