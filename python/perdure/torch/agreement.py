"""Whether processes that are to train together have the same tables and rules, and pools that
belong together. Each sees what all have, so all come to the same answer.

Invariant: a pool is given its rank before its first step, and keeps it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

import perdure
from perdure.torch import notes
from perdure.torch.buckets import check_buckets, owners_of
from perdure.torch.exchange import Exchange
from perdure.torch.keys import keys_of
from perdure.torch.reshard import registered
from perdure.torch.tables import TableConfig


@dataclass
class _Said:
    """By one process to all."""

    path: str
    error: str
    shard: notes.Shard | None
    has_steps: bool
    settings: dict[str, str]
    proposal: tuple[int, int]  # a training's number, if there is none yet


class Agreed:
    """What a sharded collection has to know of the others before it is used."""

    def __init__(
        self,
        exchange: Exchange,
        store: perdure.Store,
        tables: Sequence[TableConfig],
        optimizer: Any,
        buckets: int,
        seed: int,
    ) -> None:
        self._exchange, self._store, self._buckets = exchange, store, buckets
        self._names = [one.name for one in tables]
        self._error = ""
        self._settings = {
            "tables": ", ".join(map(repr, tables)),
            "optimizer": repr(optimizer),
            "buckets": repr(buckets),
            "seed": repr(seed),
        }

    @contextmanager
    def trying(self) -> Iterator[None]:
        """What goes wrong in the block goes wrong for all processes, in `check`."""
        try:
            yield
        except (ValueError, perdure.Error, KeyError, AssertionError) as error:
            self._error = str(error) or repr(error)

    def check_new_tables(self) -> None:
        """A table that is made in a pool is its last commit, and a step before that cannot be taken
        back. So none is made while a process has a step that others lack."""
        new, room = [], None
        with self.trying():
            room = notes.dense_room(self._store)
            if room is not None and notes.shard(self._store) is not None:
                there = self._store.tables()
                new = [name for name in self._names if name not in there]
        if not any(count for [count] in self._exchange.numbers([len(new)])):
            return
        step = -1  # of a pool that cannot say; `check` tells why
        with self.trying():
            step = 0 if room is None else self._last_step(room)
        steps = [one for [one] in self._exchange.numbers([step])]
        low, high = min(steps), max(steps)
        if -1 < low < high:
            raise ValueError(
                f"tables: rank {steps.index(high)} has step {high}, and rank {steps.index(low)} has"
                f" step {low}, so none can be added ({', '.join(new)}): call resume() with the"
                " tables of the last run first, which brings the pools together"
            )

    def _last_step(self, room: int) -> int:
        registered(self._store, room)
        return self._store.restore_step() or 0

    def check(self) -> notes.Shard:
        """This process's part, which the pool has from now on."""
        every = self._exchange.objects(self._said())
        wrong = _first_difference(every) or _first_stranger(every)
        if wrong:
            raise ValueError(wrong)
        known = [one.shard for one in every if one.shard is not None]
        mine = every[self._exchange.rank].shard
        if mine is None:
            training = known[0].training if known else every[0].proposal
            mine = notes.Shard(self._exchange.rank, self._exchange.ranks, self._buckets, training)
            notes.keep_shard(self._store, mine)
        return mine

    def _said(self) -> _Said:
        shard, has_steps = None, False
        with self.trying():
            check_buckets(self._buckets, self._exchange.ranks)
            notes.check_loaded(self._store)
            shard = notes.shard(self._store)
            has_steps = notes.dense_room(self._store) is not None
            if shard is None and not self._error:
                self._check_rows(has_steps)
        if not self._error:
            numbers = {name: self._store.table(name).number for name in self._names}
            self._settings["numbers of tables"] = repr(numbers)
        return _Said(
            self._store.path,
            self._error,
            shard,
            has_steps,
            self._settings,
            (secrets.randbits(63), secrets.randbits(63)),
        )

    def _check_rows(self, has_steps: bool) -> None:
        """Parts may have been loaded into a new pool, if they are of its rank."""
        rank, ranks = self._exchange.rank, self._exchange.ranks
        if has_steps:
            raise ValueError(
                f"pool {self._store.path} is of a training of one process; reshard() makes pools"
                " for several"
            )
        for name in self._names:
            table = self._store.table(name)
            for ids, _ in table.scan():
                keys = keys_of(torch.from_numpy(ids), table.number)
                owners = owners_of(keys, self._buckets, ranks)
                if bool((owners != rank).any()):
                    raise ValueError(
                        f"pool {self._store.path}: it has rows of table {name!r} that other ranks"
                        f" of {ranks} have; load the parts that rank {rank} of as many exported"
                    )


def _first_difference(every: Sequence[_Said]) -> str:
    for rank, one in enumerate(every):
        if one.error:
            return f"rank {rank}: {one.error}"
    for what, first in every[0].settings.items():
        for rank, one in enumerate(every):
            if one.settings[what] != first:
                return (
                    f"{what}: rank {rank} has {one.settings[what]}, and rank 0 has {first}; give"
                    " all processes the same"
                )
    return ""


def _first_stranger(every: Sequence[_Said]) -> str:
    known = [one for one in every if one.shard is not None]
    for rank, one in enumerate(every):
        if one.shard is None:
            if any(other.has_steps for other in every):
                return (
                    f"rank {rank}: pool {one.path} is new, and the others have steps; give the pool"
                    f" that rank {rank} had, or restore all pools from snapshots of one step"
                )
            continue
        if one.shard.ranks != len(every):
            return (
                f"rank {rank}: pool {one.path} is of {one.shard.ranks} processes, and there are"
                f" {len(every)}; reshard() makes pools for as many"
            )
        if one.shard.rank != rank:
            return (
                f"rank {rank}: pool {one.path} is of rank {one.shard.rank}; give each process the"
                " pool of its own rank"
            )
        if str(one.shard.buckets) != one.settings["buckets"]:
            return (
                f"rank {rank}: pool {one.path} has {one.shard.buckets} buckets, and"
                f" {one.settings['buckets']} were asked for; they are chosen once"
            )
        first = known[0]
        assert first.shard is not None
        if one.shard.training != first.shard.training:
            return (
                f"rank {rank}: pool {one.path} is of another training than {first.path}; give pools"
                " that were made together"
            )
    return ""
