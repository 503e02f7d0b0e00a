"""What a training keeps in its pool beside rows and dense state: small numbers in the table
"perdure.torch", and the ids that were evicted, for exports that follow, in a table NAME/evicted
each; where names of the pool are too short for that, in /n/evicted, by the number of table NAME.

An id that was evicted and comes again has its row, and no entry in NAME/evicted. Entries are kept
from the first export on, and go once a part has them.

Invariant: an entry is of the commit that evicts, and goes with the commit that makes the row anew.
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import perdure

OURS, BYTES = "perdure.torch", 16
EVICTED = "/evicted"
_BY_NUMBER = re.compile(r"/(\d+)")
HASH_VERSION = 1  # of buckets.py
# Ids of that table; table n has its dim and optimizer at _FIRST_TABLE + n, its seed at
# _FIRST_SEED + n.
_DENSE_ROOM, _PRUNED, _TRAINING, _LOADING, CHECKPOINTS, _FIRST_TABLE = 0, 1, 2, 3, 4, 1000
_FIRST_SEED = 1 << 32
_SHARD, _SHARDED_TRAINING, _BUCKETS = 5, 6, 7  # of a training over several processes


def is_reserved(name: str) -> bool:
    ours = name == OURS or name.startswith(f"{OURS}/") or name.endswith(EVICTED)
    return ours or _BY_NUMBER.fullmatch(name) is not None


def _get(store: Any, at: int) -> tuple[int, int] | None:
    table = store.tables().get(OURS)
    if table is None:
        return None
    rows = table.get([at], dtype=np.int64)
    return (int(rows.values[0, 0]), int(rows.values[0, 1])) if rows.found[0] else None


def _put(store: perdure.Store, at: int, first: int, second: int = 0) -> None:
    store.table(OURS, BYTES).put([at], np.array([[first, second]], np.int64))


def dense_room(store: perdure.Store) -> int | None:
    """Bytes of dense state that the pool has room for, once it has seen a step."""
    found = _get(store, _DENSE_ROOM)
    return None if found is None else found[0]


def keep_dense_room(store: perdure.Store, room: int) -> int:
    _put(store, _DENSE_ROOM, room)
    return room


def training_id(store: perdure.Store) -> str:
    """Of this pool's training, made when it is first asked for."""
    if _get(store, _TRAINING) is None:
        _put(store, _TRAINING, secrets.randbits(63), secrets.randbits(63))
    return known_training(store)


def known_training(store: Any) -> str:
    """As `training_id`, of a pool that is only read; "" where none was made."""
    found = _get(store, _TRAINING)
    return "" if found is None else f"{found[0]:016x}{found[1]:016x}"


def checkpoints(store: Any) -> tuple[int, int]:
    """The newest and the oldest checkpoint that count with this pool's tables; (0, 1): none."""
    return _get(store, CHECKPOINTS) or (0, 1)


def keep_checkpoints(store: perdure.Store, newest: int, oldest: int) -> None:
    _put(store, CHECKPOINTS, newest, oldest)


def set_loading(store: perdure.Store, loading: bool) -> None:
    _put(store, _LOADING, int(loading))


def check_loaded(store: perdure.Store) -> None:
    if (_get(store, _LOADING) or (0, 0))[0]:
        raise perdure.InvalidArgument(
            f"pool {store.path}: rows were being loaded into it when that ended; load them into a"
            " new pool"
        )


def optimizer_note(optimizer: object) -> int:
    return zlib.crc32(type(optimizer).__name__.encode())


def kind_of(store: Any, table: perdure.Table) -> tuple[int, int] | None:
    """What a table's rows hold: its dim, and its optimizer's note."""
    return _get(store, _FIRST_TABLE + table.number)


def keep_kind(store: perdure.Store, table: perdure.Table, dim: int, optimizer: object) -> None:
    copy_kind(store, table, (dim, optimizer_note(optimizer)))


def copy_kind(store: perdure.Store, table: perdure.Table, kind: tuple[int, int]) -> None:
    _put(store, _FIRST_TABLE + table.number, *kind)


def seed_of(store: Any, table: perdure.Table) -> int | None:
    """Of a table's new rows, its last 63 bits; None: no collection has trained it."""
    kept = _get(store, _FIRST_SEED + table.number)
    return None if kept is None else kept[0]


def check_seed(store: perdure.Store, table: perdure.Table, seed: int) -> None:
    """Of a table's new rows: the one that its first collection had."""
    kept, ours = seed_of(store, table), seed % (1 << 63)
    if kept is None:
        _put(store, _FIRST_SEED + table.number, ours)
    elif kept != ours:
        raise ValueError(
            f"pool {store.path}: new rows of table {table.name!r} begin by seed {kept}, not"
            f" {seed}; pass that one"
        )


def copy_seed(new: perdure.Store, old: perdure.Store, table: perdure.Table) -> None:
    """Of a table that has one number in both pools."""
    kept = _get(old, _FIRST_SEED + table.number)
    if kept is not None:
        _put(new, _FIRST_SEED + table.number, *kept)


# --- training over several processes


@dataclass(frozen=True)
class Shard:
    """Which part of a training's rows a pool has."""

    rank: int
    ranks: int
    buckets: int
    training: tuple[int, int]  # the same in all pools of it


def shard(store: Any) -> Shard | None:
    """None: the pool is of no training over several processes."""
    which, training, buckets = (_get(store, at) for at in (_SHARD, _SHARDED_TRAINING, _BUCKETS))
    if which is None or training is None or buckets is None:
        return None
    if buckets[1] != HASH_VERSION:
        raise perdure.Unsupported(
            f"pool {store.path}: its ids have buckets by hash {buckets[1]}; a later perdure reads"
            " it"
        )
    return Shard(*which, buckets[0], training)


def keep_shard(store: perdure.Store, shard: Shard) -> None:
    """All of it, or nothing."""
    store.table(OURS, BYTES)
    with store.transaction(8):
        _put(store, _SHARD, shard.rank, shard.ranks)
        _put(store, _SHARDED_TRAINING, *shard.training)
        _put(store, _BUCKETS, shard.buckets, HASH_VERSION)


# --- evicted ids


def pruned_until(store: perdure.Store) -> int | None:
    """Evictions from this step on are known; None: nobody has exported, so none is kept."""
    found = _get(store, _PRUNED)
    return None if found is None else found[0]


def remember_pruned(store: perdure.Store, step: int) -> None:
    _put(store, _PRUNED, step)


def evicted_tables(store: perdure.Store) -> dict[str, perdure.Table]:
    """By the name of the table whose ids they have."""
    tables = store.tables()
    names = {f"/{table.number}": name for name, table in tables.items()}
    found = {}
    for name, table in tables.items():
        if name.endswith(EVICTED):
            whose = name.removesuffix(EVICTED)
            found[names[whose] if _BY_NUMBER.fullmatch(whose) else whose] = table
    return found


def make_evicted(store: perdure.Store, table: perdure.Table) -> None:
    """Where it is not there, the table for ids that are evicted from this one."""
    if table.name in evicted_tables(store):
        return
    try:
        store.table(table.name + EVICTED, 8)
    except perdure.InvalidArgument:  # the name is too long: how long one may be is the engine's
        store.table(f"/{table.number}{EVICTED}", 8)


def evicted_of(store: perdure.Store, name: str) -> Iterator[tuple[Any, Any]]:
    """Ids and the steps that evicted them, page by page."""
    table = evicted_tables(store).get(name)
    if table is not None:
        for ids, rows in table.scan(dtype=np.int64):
            yield ids, rows[:, 0]


def forget_evicted(store: perdure.Store, name: str) -> None:
    table = evicted_tables(store).get(name)
    if table is not None:
        for ids, _ in table.scan(dtype=np.int64):  # an erasure moves no key
            table.erase(ids)
