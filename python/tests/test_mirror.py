"""Residency and the record cache from Python: the same answers, fewer accesses, clear refusals."""

from dataclasses import replace

import numpy as np
import perdure
import pytest
from perdure import GPHash, Options

KEYS = np.arange(1000, dtype=np.int64)
VALUES = np.random.default_rng(1).integers(0, 256, (1000, 128), dtype=np.uint8)


def get_all(store):
    store.reset_counts()
    result = store.get(KEYS)
    assert result.found.all()
    assert np.array_equal(result.values, VALUES)
    return store.stats().accesses.pm_reads


@pytest.mark.parametrize("gather", ["automatic", "at_once", "in_order", "by_host", "shared"])
def test_a_mirrored_store_reads_each_record_once_and_none_for_misses(pool, gather):
    options = Options(residency="mirrored", gather=gather, count_accesses=True)
    with perdure.create(pool, 8, 128, options=options) as store:
        store.put(KEYS, VALUES)
        assert store.stats().residency.name == "mirrored"
        assert store.stats().mirror_bytes > 0
        assert get_all(store) == 1000
        store.reset_counts()
        assert not store.get(KEYS + 5000).found.any()
        assert store.stats().accesses.pm_reads == 0


def test_a_cache_that_holds_everything_saves_every_access(pool):
    options = Options(residency="mirrored", cache_bytes=1 << 20, count_accesses=True)
    with perdure.create(pool, 8, 128, options=options) as store:
        store.put(KEYS, VALUES)
        report = store.load_cache()
        assert (report.records, report.corrupt) == (1000, 0)
        assert store.stats().cache_records == 1000
        assert get_all(store) == 0
    with perdure.open(pool, options=replace(options, cache_policy="lru")) as store:
        store.load_cache()
        get_all(store)


def test_a_budget_that_is_too_small_is_reported(pool):
    with perdure.create(
        pool, 8, 128, options=Options(residency="mirrored", memory_budget=1000)
    ) as store:
        store.put(KEYS, VALUES)
        get_all(store)
        assert store.stats().residency.name == "pm"
        assert "1000" in store.stats().residency_note


@pytest.mark.parametrize("by", ["device", "host", "both", "measured"])
def test_gets_are_answered_by_whom_the_options_say_and_alike(pool, by):
    with perdure.create(pool, 8, 128, options=Options(gets_by=by)) as store:
        store.put(KEYS, VALUES)
        for _ in range(3):
            get_all(store)
        missing = store.get(KEYS + 500)
        assert missing.found.sum() == 500 and np.array_equal(missing.values[:500], VALUES[500:])
        sharing = store.stats().sharing
        assert (sharing.shared, sharing.note) == (by != "device", "")
        assert sharing.host_keys + sharing.device_keys == (0 if by == "device" else 4000)
        assert (sharing.device_keys == 0) or by in ("both", "measured")
        if by == "measured":
            (size,) = sharing.sizes
            assert size.batch == 512 and size.by.name == "device" and size.device_share == 0.5
            assert repr(store.stats()).count("SharedSize(") == 1


def test_the_store_says_how_gets_fetch_values_and_what_each_way_took(pool):
    keys = np.arange(1500, dtype=np.uint64)
    values = np.zeros((1500, 128), dtype=np.uint8)
    with perdure.create(
        pool, 8, 128, options=Options(residency="mirrored", gets_by="device")
    ) as store:
        store.put(keys, values)
        for _ in range(2000):
            store.get(keys)
            (size,) = store.stats().gathers
            if not size.learning:
                break
        tried = (size.at_once_us, size.in_order_us, size.by_host_us)
        assert size.batch == 1024 and size.contests >= 1
        assert min(tried) > 0 and size.shared_us == 0, "so few are not parted"
        assert size.by.name in ("at_once", "in_order", "by_host")


def test_gets_of_values_of_any_length_are_the_devices_and_the_store_says_so(pool):
    with perdure.create(pool, options=Options(gets_by="host")) as store:
        assert not store.stats().sharing.shared
        assert "any length" in store.stats().sharing.note


def test_what_cannot_be_is_refused_with_the_way_out(pool):
    with pytest.raises(perdure.InvalidArgument, match="residency pm"):
        perdure.create(
            pool, 8, 8, index=GPHash(layout="in_place"), options=Options(residency="mirrored")
        )
    with (
        perdure.create(pool, 8, 8, overwrite=True) as store,
        pytest.raises(perdure.Unsupported, match="set cache_bytes"),
    ):
        store.load_cache()
