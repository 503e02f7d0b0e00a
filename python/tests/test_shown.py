"""What public objects look like where they are printed, and reports as plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import perdure
import pytest


@pytest.fixture
def store(pool: str) -> Iterator[perdure.Store]:
    with perdure.create(pool, 8, 8) as opened:
        opened.put([1, 2], [10, 20])
        yield opened


def test_a_store_says_where_it_is_and_what_it_holds(store: perdure.Store, pool: str) -> None:
    assert repr(store) == f"<perdure.Store {pool!r}: keys of 8 bytes, values of 8 bytes, on cpu>"
    store.close()
    assert repr(store) == f"<perdure.Store {pool!r}: keys of 8 bytes, values of 8 bytes, closed>"
    with perdure.create("memfd:x", None, 1) as other:
        assert (
            repr(other)
            == "<perdure.Store 'memfd:x': keys of varying length, values of 1 byte, on cpu>"
        )


def test_answers_say_how_their_keys_fared(store: perdure.Store) -> None:
    got = store.get([1, 2, 9], dtype=np.float32)
    assert repr(got) == "<Result of 3 keys: 2 ok, 1 not_found; values: float32 of shape (3, 2)>"
    assert repr(store.get(1)) == "<Result of 1 key: 1 ok; values: uint8 of shape (8,)>"
    assert repr(store.erase([1, 9])) == "<Outcome of 2 keys: 1 ok, 1 not_found>"
    assert repr(store.erase([])) == "<Outcome of 0 keys: none>"
    assert repr(store.apply([2], ["erase"])) == "<Result of 1 key: 1 ok; values: none>"
    with perdure.create("memfd:x", None, None) as other:
        assert repr(other.get(["a"])) == "<Result of 1 key: 1 not_found; values: large_binary>"


def test_a_result_is_still_a_tuple(store: perdure.Store) -> None:
    values, found, statuses = store.get([1, 9])
    assert (values.shape, found.tolist(), statuses.tolist()) == ((2, 8), [True, False], [0, 1])


def test_short_reports_take_a_line_and_long_ones_a_line_a_field(store: perdure.Store) -> None:
    assert repr(store.verify()) == "VerifyReport(records=2, dropped=0, faults=[], fault_count=0)"
    lines = repr(store.stats()).splitlines()
    assert lines[0] == "Stats(" and lines[-1] == ")" and max(map(len, lines)) < 100
    assert (
        "    records=2," in lines
        and "    index=gphash," in lines
        and "    residency_note=''," in lines
    )
    fields = [line for line in lines[1:-1] if re.match("    [a-z]", line)]
    assert [line.strip().partition("=")[0] for line in fields] == list(store.stats().as_dict())
    within = [line for line in lines if line.startswith("        ")]  # a report in the report
    log = store.stats().value_log.as_dict()
    assert [line.strip().partition("=")[0] for line in within] == list(log)


def test_reports_as_plain_data_have_every_field(store: perdure.Store) -> None:
    for report in (
        store.stats(),
        store.recovery(),
        store.survives(),
        store.verify(),
        *perdure.devices(),
    ):
        plain = report.as_dict()
        assert json.loads(json.dumps(plain)) == plain
        public = [name for name in dir(report) if not name.startswith("_") and name != "as_dict"]
        assert sorted(plain) == sorted(public)
    stats = store.stats().as_dict()
    assert (stats["records"], stats["index"], stats["shape"]) == (2, "gphash", "2L-2H-8S")
    assert stats["accesses"] == {"pm_reads": 0, "pm_writes": 0, "orders": 0, "cache_hits": 0}
