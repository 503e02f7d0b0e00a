"""What the tests of perdure.rocks share: databases that are quick to open, and one that is changed
by the same calls as a dictionary.

Invariant: `World.compare` finds any difference between what a database or a snapshot answers and
what it has to hold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

try:
    from perdure import rocks
except ImportError:
    if os.environ.get("PERDURE_OFFLINE", "0") == "0":
        raise
    pytest.skip("not packed: librocksdb-dev", allow_module_level=True)

THRESHOLD = 100
OPTIONS = {"allow_fallocate": False, "keep_log_file_num": 2}  # memory is the medium here
KINDS = ["get", "put", "erase", "update"]
KEYS = [f"k{number:03}".encode() for number in range(250)] + [b"", b"\xff\xff", b"k\0", b"l" * 300]


def opened(path: Path, **more: Any) -> rocks.Database:
    return rocks.open(
        path,
        **{
            "options": OPTIONS,
            "merge_operator": "stringappend",
            "device": "cpu",
            "threads": 2,
            "threshold": THRESHOLD,
            "memtable_bytes": 1 << 20,
        }
        | more,
    )


Table = dict[bytes, bytes]


class World:
    """A database and what it has to hold, changed by the same calls."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random = path, np.random.default_rng(seed)
        self.db = opened(path, families=["other"])
        self.tables: dict[str, Table] = {"default": {}, "other": {}}
        self.snapshots: list[tuple[rocks.Snapshot, dict[str, Table]]] = []

    def family(self) -> str:
        return str(self.random.choice(list(self.tables)))

    def keys(self) -> list[bytes]:
        many = self.random.random() < 0.4
        count = int(self.random.integers(THRESHOLD, 600) if many else self.random.integers(1, 6))
        return [KEYS[at] for at in self.random.integers(0, len(KEYS), count)]

    def value(self) -> bytes:
        return self.random.bytes(int(self.random.integers(0, 40)))

    def put(self) -> None:
        name, keys = self.family(), self.keys()
        values = [self.value() for _ in keys]
        self.db.put(keys, values, family=name, sync=bool(self.random.random() < 0.2))
        self.tables[name] |= dict(zip(keys, values, strict=True))

    def erase(self) -> None:
        name, keys = self.family(), self.keys()
        self.db.erase(keys, family=name)
        for key in keys:
            self.tables[name].pop(key, None)

    def merge(self) -> None:
        name, keys = self.family(), self.keys()
        operands = [self.value() for _ in keys]
        self.db.merge(keys, operands, family=name)
        for key, operand in zip(keys, operands, strict=True):
            merge_into(self.tables[name], key, operand)

    def apply(self) -> None:
        name, keys = self.family(), self.keys()
        kinds = [
            ("get", "put", "erase", "update")[at] for at in self.random.integers(0, 4, len(keys))
        ]
        values = [self.value() for _ in keys]
        answer = self.db.apply(keys, kinds, values, family=name)
        table, expected = self.tables[name], []
        for key, kind, value in zip(keys, kinds, values, strict=True):
            expected.append(table.get(key) if kind == "get" else None)
            if kind == "put":
                table[key] = value
            elif kind == "erase":
                table.pop(key, None)
            elif kind == "update":
                merge_into(table, key, value)
        assert answer.values.to_pylist() == expected

    def single(self) -> None:
        key, value, table = self.keys()[0], self.value(), self.tables["default"]
        if key in table and self.random.random() < 0.5:
            del self.db[key], table[key]
        else:
            self.db[key] = table[key] = value
        assert (key in self.db) == (key in table)
        assert self.db[key] == table[key] if key in table else True

    def read(self) -> None:
        name = self.family()
        self.compare(self.db, name, self.tables[name])

    def look_back(self) -> None:
        if self.snapshots and self.random.random() < 0.6:
            at = int(self.random.integers(len(self.snapshots)))
            state, tables = self.snapshots[at]
            for name, table in tables.items():
                self.compare(state, name, table)
            if self.random.random() < 0.5:
                self.snapshots.pop(at)[0].release()
        else:
            tables = {name: dict(table) for name, table in self.tables.items()}
            self.snapshots.append((self.db.snapshot(), tables))

    def flush(self) -> None:
        self.db.flush(family=self.family())

    def reopen(self) -> None:
        self.snapshots.clear()
        self.db.close()
        self.db = opened(self.path)  # families are found there
        assert set(self.db.families) == set(self.tables)

    def compare(self, state: rocks.Database | rocks.Snapshot, name: str, table: Table) -> None:
        keys = self.keys()
        assert state.get(keys, family=name).values.to_pylist() == [table.get(key) for key in keys]
        assert dict(state.scan(family=name)) == table
        begin, end = sorted(KEYS[at] for at in self.random.integers(0, len(KEYS), 2))
        prefix = KEYS[int(self.random.integers(len(KEYS)))][:3]
        inside = sorted(pair for pair in table.items() if begin <= pair[0] < end)
        assert list(state.scan(begin, end, family=name)) == inside
        assert list(state.scan(begin, end, family=name, reverse=True)) == inside[::-1]
        limited = state.scan(family=name, prefix=prefix, limit=7)
        assert list(limited) == sorted(p for p in table.items() if p[0].startswith(prefix))[:7]
        found = state.range([begin, b"k1"], [end, b"k2"], limit=9, family=name)
        first = slice(found.offsets[0], found.offsets[1])
        pairs = zip(found.keys[first].to_pylist(), found.values[first].to_pylist(), strict=True)
        assert list(pairs) == inside[:9]


def merge_into(table: Table, key: bytes, operand: bytes) -> None:
    table[key] = table[key] + b"," + operand if key in table else operand


def says(kind: type[Exception], *words: str) -> Any:
    return pytest.raises(kind, match="(?s)" + ".*".join(words))
