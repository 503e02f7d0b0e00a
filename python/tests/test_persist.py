"""What of a B+-tree is durable: records, leaves, all of it."""

import shutil
from pathlib import Path

import numpy as np
import perdure
import pytest

KEYS = np.arange(5000, dtype=np.uint64)


@pytest.mark.parametrize("persist", ["minimal", "index", "full"])
@pytest.mark.parametrize("key_bytes", [8, None])
def test_a_killed_store_is_found_whole_whatever_of_it_is_durable(pool, persist, key_bytes):
    keys = KEYS if key_bytes else [b"a key that is long: %d" % n for n in KEYS]
    store = perdure.create(pool, key_bytes, 8, index="btree", persist=persist)
    store.put(keys, KEYS)
    store.erase(keys[:1000])
    store.put(keys[:10], KEYS[:10] + 7)
    killed = pool + "-killed"
    shutil.copy(pool, killed)
    store.close()
    for path, clean in ((pool, True), (killed, False)):
        with perdure.open(path) as found:
            assert found.recovery().clean is clean and found.stats().persist.name == persist
            assert len(found) == 4010 and found.verify().fault_count == 0
            values, there, _ = found.get(keys, dtype=np.uint64)
            assert there.tolist() == [n < 10 or n >= 1000 for n in KEYS]
            assert (np.asarray(values).ravel()[1000:] == KEYS[1000:]).all()
    Path(killed).unlink()


def test_damaged_leaves_are_refused_and_repaired(pool):
    with perdure.create(pool, 8, 8, index="btree", key_order="unsigned", persist="index") as store:
        store.put(KEYS, KEYS)
    image = bytearray(Path(pool).read_bytes())
    leaf = image.index(b"PRBK") + 256 * 20
    image[leaf + 40] ^= 1  # where an entry leads
    Path(pool).write_bytes(image)
    with pytest.raises(perdure.Corrupt, match=r"leaf.*nothing was changed"):
        perdure.open(pool)
    with perdure.open(pool, repair=True) as store:
        assert "one bit was put right" in "".join(store.recovery().changes)
        assert store.recovery().dropped == 0 and len(store) == len(KEYS)
        store.acknowledge_repair()
    with perdure.open(pool, read_only=True) as store:
        assert (np.asarray(store.get(KEYS, dtype=np.uint64).values).ravel() == KEYS).all()


def test_what_does_not_go_together_is_refused(pool):
    with pytest.raises(perdure.InvalidArgument, match=r"durable itself.*index btree"):
        perdure.create(pool, 8, 8, persist="index")
    with pytest.raises(perdure.Unsupported, match="minimal"):
        perdure.create(pool, 8, 8, index="btree", values="log", persist="full")
    with pytest.raises(
        ValueError, match="persist: 'some' is not one of 'minimal', 'index', 'full'"
    ):
        perdure.create(pool, 8, 8, index="btree", persist="some")
    assert not Path(pool).exists()


def test_the_command_line_makes_and_tells_durable_leaves(pool, cli):
    made = cli("create", pool, "--index", "btree", "--persist", "index", "--key-bytes", "var")
    assert made.status == 0 and "with durable leaves" in made.out
    assert cli("put", pool, "apple", "red").status == 0
    assert cli("get", pool, "apple").out == "red\n"
    assert cli("stats", pool, "--json", "-").json()["persist"] == "index"
    assert "\npersist            index" in cli("stats", pool).out
