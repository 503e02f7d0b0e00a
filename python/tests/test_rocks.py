"""perdure.rocks against a dictionary: generated sequences of all calls, for few and for many,
across flushes and openings; and what each call says of bad input."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pyarrow as pa
import pytest
from conftest import gpu_available
from prometheus_client.parser import text_string_to_metric_families
from rocks_world import THRESHOLD, World, opened, rocks, says


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_a_dictionary(pools: Path, seed: int) -> None:
    world = World(pools / "db", seed)
    calls = [world.put, world.erase, world.merge, world.apply, world.single, world.read]
    calls += [world.look_back, world.put, world.apply, world.read]
    for _ in range(12):
        for at in world.random.permutation(len(calls)):
            calls[at]()
        (world.flush if world.random.random() < 0.5 else world.reopen)()
    for name, table in world.tables.items():
        world.compare(world.db, name, table)
    world.db.verify_checksums()
    world.db.close()


# --- arrays -------------------------------------------------------------------------------------


def test_arrays_go_in_as_the_package_takes_them(db: rocks.Database) -> None:
    numbers = np.arange(1000, dtype=np.int64)
    rows = np.arange(8000, dtype=np.float32).reshape(1000, 8)
    db.put(numbers, rows)
    out = np.full((1001, 8), -1, np.float32)
    answer = db.get(np.append(numbers, 5000), out=out)
    assert answer.values is out and answer.found.sum() == 1000
    assert (out[:1000] == rows).all() and (out[1000] == -1).all()
    db.put(pa.array(["a", "b"]), pa.array([b"1", b"22"]), family="other")
    assert db.get("b", family="other").values.as_py() == b"22"
    db.put("c", "3", family="other")
    assert [key for key, _ in db.scan(family="other")] == [b"a", b"b", b"c"]
    db.erase(memoryview(b"c"), family="other")
    assert list(db.range("b", "z", family="other").keys.to_pylist()) == [b"b"]
    db.put(rows[::2].astype(np.int32), numbers[::2])  # strided: copied
    assert db.get(rows[:1].astype(np.int32), out=np.zeros(1, np.int64)).found.all()


@pytest.mark.framework("torch")
def test_arrays_of_pytorch(db: rocks.Database) -> None:
    import torch

    keys = torch.arange(500)
    db.put(keys, torch.ones(500, 4))
    out = torch.zeros(500, 4)
    assert db.get(keys, out=out).found.all() and bool((out == 1).all())


def test_an_empty_batch_is_no_error(db: rocks.Database) -> None:
    db.put([], [])
    db.erase(np.zeros(0, np.int64))
    assert len(db.get([]).statuses) == 0 and len(db.apply([], []).statuses) == 0
    assert db.range([]).offsets.tolist() == [0]


def test_families_are_apart_and_have_options_of_their_own(pools: Path) -> None:
    families = {"counts": {"merge_operator": "uint64add"}, "plain": None}
    with opened(pools / "db", families=families) as db:
        db.merge(["a"] * 3, np.array([1, 2, 3], np.uint64), family="counts")
        db.merge(["a"] * 2, ["x", "y"], family="plain")
        assert db.get("a", family="counts").values.as_py() == (6).to_bytes(8, "little")
        assert db.get("a", family="plain").values.as_py() == b"x,y"
        db.drop_family("plain")
        db.create_family("plain", "num_levels=3")
        assert not list(db.scan(family="plain"))
    with opened(pools / "db", families={"counts": "merge_operator=uint64add"}) as db:
        assert db.families == ("counts", "default", "plain")
        db.merge(["a"] * 200, np.ones(200, np.uint64), family="counts")
        assert db.get("a", family="counts").values.as_py() == (206).to_bytes(8, "little")


def test_a_checkpoint_is_a_database_of_its_own(db: rocks.Database, pools: Path) -> None:
    db.put([f"{n}" for n in range(500)], ["x"] * 500)
    db.checkpoint(pools / "copy")
    db.erase([f"{n}" for n in range(500)])
    with opened(pools / "copy", create=False) as copy:
        assert sum(1 for _ in copy) == 500
    assert not list(db)


def test_counts_and_properties(db: rocks.Database) -> None:
    db.put(np.arange(5000), np.arange(5000))
    assert db.stats()["perdure.table-operations"] == 5000
    db.compact()
    stats = db.stats()
    assert stats["perdure.flushed-entries"] == 5000 and stats["perdure.memtables"] == 0
    assert stats["rocksdb.estimate-num-keys"] == 5000
    assert "Level" in (db.get_property("rocksdb.levelstats") or "")
    assert db.device.startswith("cpu") and "cpu" in repr(db)


def test_prometheus_reads_what_the_database_counts(pools: Path) -> None:
    db = opened(pools / 'with "quotes", \\ and a\nline')
    db.put(np.arange(5000), np.arange(5000))
    db.get(np.arange(10))
    families = {one.name: one for one in text_string_to_metric_families(db.prometheus())}
    stats = db.stats()
    own = [name for name in stats if name.startswith("perdure.")]
    assert len(families) == len(own) and all(one.documentation for one in families.values())
    operations = families["perdure_rocks_table_operations"]
    assert operations.type == "counter" and families["perdure_rocks_memtables"].type == "gauge"
    (sample,) = operations.samples
    assert sample.value == stats["perdure.table-operations"] == 5000
    assert sample.labels == {"db": db.path}
    db.close()


DIES_WITH_POWER = """
import os, signal, sys
import numpy as np
import perdure.rocks
db = perdure.rocks.open(sys.argv[1], durability="power", device="cpu", threshold=100,
                        memtable_bytes=1 << 20, merge_operator="uint64add")
for _ in range(3):
    db.merge(np.arange(1000), np.ones(1000, np.uint64))
db["few"] = "1"
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_durability_power_is_kept_until_the_database_is_closed(log_dir: str) -> None:
    path = f"{log_dir}/db"
    os.mkdir(log_dir)
    died = subprocess.run([sys.executable, "-c", DIES_WITH_POWER, path], check=False)
    assert died.returncode == -signal.SIGKILL
    assert not os.path.exists(f"{path}.gwal") and os.path.exists(f"{path}.power/redo.log")
    with says(perdure.InvalidArgument, "open it with durability power"):
        rocks.open(path, device="cpu", merge_operator="uint64add")
    for durability in ("power", "process"):  # by the second opening all is RocksDB's
        with rocks.open(
            path, durability=durability, device="cpu", merge_operator="uint64add"
        ) as db:
            counts = np.zeros(1000, np.uint64)
            assert db.get(np.arange(1000), out=counts).found.all()
            assert (counts == 3).all()
            assert db["few"] == b"1"


# --- what is refused ----------------------------------------------------------------------------


def test_bad_arguments_are_named(db: rocks.Database, pools: Path) -> None:
    new = pools / "new"
    for kind, words, options in (
        (ValueError, "threshold: -1", {"threshold": -1}),
        (ValueError, "threads: 0", {"threads": 0}),
        (ValueError, "threads: .*less than", {"threads": 1 << 40}),
        (TypeError, "memtable_bytes: .*'64M'", {"memtable_bytes": "64M"}),
        (ValueError, "memtable_value_bytes: -1", {"memtable_value_bytes": -1}),
        (perdure.InvalidArgument, "bytes is 1025; give at most", {"memtable_value_bytes": 1025}),
        (ValueError, "immutable_memtables: -5", {"immutable_memtables": -5}),
        (TypeError, "block_cache_bytes: .*'1G'", {"block_cache_bytes": "1G"}),
        (perdure.InvalidArgument, "block_cache_bytes is 1000; give", {"block_cache_bytes": 1000}),
        (perdure.InvalidArgument, "multiple of 64", {"block_cache_entry_bytes": 100}),
        (ValueError, "idle_millis: .*less than", {"idle_millis": 1 << 32}),
        (ValueError, "hand_overs_a_second: 0", {"hand_overs_a_second": 0}),
        (ValueError, "device: 'gpu' is not one of 'auto', 'cpu', 'cuda'", {"device": "gpu"}),
        (ValueError, "log_dir: .*in the database's directory", {"log_dir": new / "log"}),
        (ValueError, "power_log_dir: .*in the database's", {"power_log_dir": new / "log"}),
        (ValueError, "durability: 'disk' is not one of 'process', 'power'", {"durability": "disk"}),
        (TypeError, "create: ", {"create": "no"}),
        (TypeError, "families: 'other' is one name", {"families": "other"}),
        (TypeError, "options: .*not 5", {"options": 5}),
        (TypeError, r"options\['a'\]: ", {"options": {"a": [1]}}),
        (perdure.InvalidArgument, "option nope: .*options.h", {"options": {"nope": 1}}),
        (perdure.InvalidArgument, "option num_levels=x: ", {"options": "num_levels=x"}),
        (perdure.InvalidArgument, "options: .*NAME=VALUE", {"options": "num_levels"}),
        (perdure.InvalidArgument, "family a: option nope", {"families": {"a": {"nope": 1}}}),
        (perdure.InvalidArgument, "merge_operator: .*nope.*uint64add", {"merge_operator": "nope"}),
        (perdure.NotFound, "is not there; make it", {"create": False}),
    ):
        with says(kind, words):
            opened(new, **options)
        assert not new.exists(), words
    with says(perdure.NotFound, "No such file"):
        opened(pools / "no" / "such")
    with says(perdure.SystemFailure, "not a directory"):
        opened(Path("/dev/null"))


def test_bad_batches_are_refused_and_change_nothing(db: rocks.Database) -> None:
    db["a"] = "1"
    for kind, words, call in (
        (ValueError, "values: 1 rows for 2 keys", lambda: db.put(["x", "y"], ["1"])),
        (TypeError, "keys: .*not float64", lambda: db.put(np.ones(2), ["1", "2"])),
        (TypeError, "keys: float is one element", lambda: db.get(1.5)),
        (TypeError, "keys: a list of NoneType", lambda: db.erase([None])),
        (ValueError, "element 1 is null", lambda: db.put(pa.array(["x", None]), ["1", "2"])),
        (ValueError, "kinds: shape", lambda: db.apply(["x"], ["put", "put"], ["1"])),
        (ValueError, "kinds: 'put it'", lambda: db.apply(["x"], ["put it"], ["1"])),
        (ValueError, "values: the batch has puts", lambda: db.apply(["x"], ["put"])),
        (ValueError, "sync: .*in no log", lambda: db.put(["x"], ["1"], sync=True, log=False)),
        (TypeError, "sync: ", lambda: db.put(["x"], ["1"], sync=3)),
        (ValueError, "ends: 1 for 2 begins", lambda: db.range(["a", "b"], ["c"])),
        (ValueError, "limit: 0", lambda: db.range(["a"], limit=0)),
        (ValueError, "limit: -1", lambda: db.scan(limit=-1)),
        (TypeError, "begin: a float", lambda: db.scan(1.5)),
        (ValueError, "out: .*read-only", lambda: db.get(["a"], out=np.frombuffer(b"1", np.uint8))),
        (ValueError, "out: 2 rows", lambda: db.get(["a"], out=np.zeros((2, 1), np.uint8))),
        (TypeError, "out: a list", lambda: db.get(["a"], out=[0])),
        (perdure.NotFound, "no column family x; it has default", lambda: db.get("a", family="x")),
        (perdure.NotFound, "no column family x", lambda: db.put("x", "1", family="x")),
        (perdure.NotFound, "no column family x", lambda: db.drop_family("x")),
        (perdure.AlreadyExists, "other already", lambda: db.create_family("other")),
        (perdure.InvalidArgument, "default", lambda: db.drop_family("default")),
        (KeyError, "nope", lambda: db["nope"]),
        (KeyError, "nope", lambda: db.__delitem__("nope")),
        (perdure.InvalidArgument, "exists", lambda: db.checkpoint(db.path)),
    ):
        with says(kind, words):
            call()
    assert list(db) == [b"a"] and not list(db.scan(family="other"))


class OnDevice:
    """An array of a host that says that it lies on a GPU, as DLPack lends it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None) -> Any:
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 2  # its device type
        return capsule


@pytest.mark.skipif(gpu_available(), reason="there is a GPU")
def test_arrays_of_a_device_are_refused_without_one(db: rocks.Database) -> None:
    keys = OnDevice(np.arange(200))
    for words, call in (
        ("keys are in device memory; copy", lambda: db.get(keys)),
        ("keys are in device memory; copy", lambda: db.erase(keys)),
        ("values are in device memory; copy", lambda: db.put(np.arange(200), keys)),
        ("values are in device memory; copy", lambda: db.merge(np.arange(200), keys)),
        ("begins are in device memory; copy", lambda: db.range(keys)),
        ("keys are in device memory; copy", lambda: db.apply(keys, ["get"] * 200)),
        ("values are in device memory; copy", lambda: db.get(np.arange(200), out=keys)),
    ):
        with says(perdure.Unsupported, words, "to the host first: "):
            call()
    assert not list(db)


def test_a_mixed_batch_answers_into_an_array(db: rocks.Database) -> None:
    for count in (4, 4 * THRESHOLD):  # RocksDB's, and memtables'
        keys = np.arange(count) // 4 + count
        kinds = ["put", "get", "erase", "get"] * (count // 4)
        out = np.full((count, 2), -1, np.int32)
        answer = db.apply(keys, kinds, np.arange(2 * count, dtype=np.int32).reshape(-1, 2), out=out)
        assert answer.values is out
        assert answer.found.tolist() == [True, True, True, False] * (count // 4)
        assert (out[1::4] == np.arange(2 * count).reshape(-1, 2)[::4]).all()
        assert (out[::2] == -1).all() and (out[3::4] == -1).all()
    with says(ValueError, "out: 3 rows for 4 keys"):
        db.apply(range(4), ["get"] * 4, out=np.zeros(3))


def test_values_of_another_length_than_out(db: rocks.Database) -> None:
    db.put(["a", "b", "c"], ["1", "22", "3"])
    out = np.zeros(4, np.uint8)
    with says(perdure.InvalidArgument, "get: key 1 of 4: .*as long as a row of out") as caught:
        db.get(["a", "b", "c", "d"], out=out)
    assert caught.value.outcome is not None
    statuses = db.get(["a", "b", "c", "d"], out=out, check=False).statuses
    assert [perdure.KeyStatus(one).name for one in statuses] == [
        *("ok", "size_mismatch", "ok", "not_found")
    ]
    assert out.tobytes() == b"1\x003\x00"


def test_a_merge_without_an_operator_is_refused(pools: Path) -> None:
    with opened(pools / "db", merge_operator=None) as db:
        for count in (1, THRESHOLD):
            with says(perdure.InvalidArgument, "no merge operator; name one"):
                db.merge(["a"] * count, ["1"] * count)
        assert not list(db)


@pytest.mark.skipif(gpu_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(pools: Path) -> None:
    with says((perdure.Unsupported, perdure.DeviceFailure), "device cuda: .*use device cpu"):  # type: ignore[arg-type]
        opened(pools / "db", device="cuda")
    assert not (pools / "db").exists()
    with opened(pools / "db", device="auto") as db:
        assert db.device.startswith("cpu")


def test_a_closed_database_says_so(pools: Path) -> None:
    db = opened(pools / "db")
    db.put(["a", "b"], ["1", "2"])
    state, walk = db.snapshot(), db.scan()
    assert next(walk) == (b"a", b"1")
    pages = db.pages(1)
    next(pages)
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    for call in (
        lambda: db["a"],
        lambda: db.get(["a"]),
        lambda: db.put(["a"], ["1"]),
        lambda: db.families,
        lambda: db.scan(),
        lambda: db.snapshot(),
        lambda: db.stats(),
        lambda: state["a"],
        lambda: next(pages),
    ):
        with says(perdure.Closed, "is closed; open it again with perdure.rocks.open"):
            call()
    state.release()
    with opened(pools / "db") as again:
        assert list(again) == [b"a", b"b"]


def test_a_released_snapshot_says_so(db: rocks.Database) -> None:
    with db.snapshot() as state:
        assert list(state) == []
    state.release()
    with says(perdure.Closed, "this snapshot was released"):
        state.get(["a"])


def test_damage_is_said(pools: Path) -> None:
    with opened(pools / "db") as db:
        db.put(np.arange(2000), np.arange(2000))
        db.flush()
    table = next((pools / "db").glob("*.sst"))
    octets = bytearray(table.read_bytes())
    octets[len(octets) // 4] ^= 1
    table.write_bytes(octets)
    with opened(pools / "db") as db:
        with says(perdure.Corrupt, "checksum"):
            db.verify_checksums()
        with says(perdure.Corrupt, "checksum"):
            list(db.scan())
