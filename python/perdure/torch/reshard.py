"""The rows of a training in another number of pools: buckets move, and nothing else changes.

Old pools are read page by page and new ones are written page by page, so memory is that of a page,
16 MiB, and of what the system caches. A new pool counts once it is whole.

Sightings of ids without a row cannot be told apart by id: a new pool has, of each counter, the most
of the pools that had its buckets.

Invariant: whoever trains on has the same rows, states, scores and dense part at the same step, and
no id has been seen less often.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

import perdure
from perdure._named import KEY_BYTES
from perdure.options import PathLike
from perdure.torch import admission, dense, notes
from perdure.torch.buckets import BUCKETS, check_buckets, owners_before, owners_of
from perdure.torch.trainer import _DENSE

_PAGE_BYTES = 16 << 20


def reshard(
    old_paths: Sequence[PathLike], new_paths: Sequence[PathLike], **options: Any
) -> int | None:
    """Makes pools for another number of processes of what a training's pools have.

    Nobody trains meanwhile. A pool that a kill left one step ahead of the others goes back first.

    Parameters
    ----------
    old_paths : sequence of path
        All pools of the training, in the order of ranks; or one pool of a Trainer.
    new_paths : sequence of path
        Pools to make, in the order of ranks. Their dense part is that of old rank
        r * len(old_paths) // len(new_paths); where tables admit, with the sightings of all old
        pools that had its ids: none is counted less often than before.
    **options
        As in `perdure.create`, of each new pool: expected_records, overwrite and so on.

    Returns
    -------
    int or None
        The step that the training goes on after; None: there has been none.

    Raises
    ------
    NotFound
        Pools are missing, which it names.
    ValueError
        They are of several trainings, or runs of one, in another order, or too far apart; or no new
        one is named.
    TypeError
        One path stands where a list of them has to.
    AlreadyExists, NoSpace
        As in `perdure.create`.
    """
    _check_lists(old_paths, new_paths)
    _check_there(old_paths)
    with ExitStack() as closing:
        stores = [closing.enter_context(perdure.open(path)) for path in old_paths]
        olds = [_Old(store, len(stores)) for store in stores]
        _check_together(olds)
        buckets = olds[0].shard.buckets
        check_buckets(buckets, len(new_paths))
        step = min(old.step for old in olds)
        _check_run(olds, step)
        for old in olds:
            old.go_back_to(step)
        with _removed_if_failed() as made:
            news = []
            for rank, path in enumerate(new_paths):
                like = olds[rank * len(olds) // len(new_paths)]
                news.append(closing.enter_context(_like(like.store, path, options)))
                made.append(path)
                notes.set_loading(news[-1], True)
            counts = _move(olds, news)
            for rank, new in enumerate(news):
                like = olds[rank * len(olds) // len(news)]
                having = owners_before(rank, len(news), len(olds), buckets)
                _finish(like, new, counts[rank], [olds[old] for old in having], step)
                shard = notes.Shard(rank, len(news), buckets, like.shard.training)
                notes.keep_shard(new, shard)
            for new in news:  # all are whole
                notes.set_loading(new, False)
    return step or None


class _Old:
    """A pool that rows come from."""

    def __init__(self, store: perdure.Store, pools: int) -> None:
        self.store = store
        notes.check_loaded(store)
        shard = notes.shard(store)
        if shard is None and pools > 1:
            raise ValueError(f"pool {store.path}: it is of no training over several processes")
        self.shard = shard or notes.Shard(
            0, 1, BUCKETS, (secrets.randbits(63), secrets.randbits(63))
        )
        self.step = 0
        room = notes.dense_room(store)
        self.dense: Tensor | None = None
        if room is not None:
            self.dense = registered(store, room)
            self.step = store.restore_step() or 0

    def go_back_to(self, step: int) -> None:
        if self.step == step:
            return
        if self.step > step + 1 or not self.store.can_revert():
            raise ValueError(
                f"pool {self.store.path}: it has step {self.step}, and another has step {step}:"
                " that is older than the last steps of this training; restore all pools from"
                " snapshots of one step"
            )
        self.store.revert()
        if self.store.restore_step() is None and self.dense is not None:
            self.dense.zero_()
        self.step = step

    @cached_property
    def sightings(self) -> Any:
        """By table, at the step that this pool is at by now; None: no table admits."""
        if self.dense is None or not dense.is_filled(self.dense):
            return None
        return dense.parts_in(self.dense).get(admission.PART)

    def tables(self) -> dict[str, perdure.Table]:
        """Those with rows, by name."""
        every = self.store.tables().items()
        return {name: table for name, table in every if not notes.is_reserved(name)}


def _check_lists(*several: Any) -> None:
    for paths in several:
        if isinstance(paths, (str, bytes, os.PathLike)):
            raise TypeError(f"reshard: {os.fspath(paths)!r} is one path; pass lists of them")
    if not several[-1]:
        raise ValueError("reshard: no new pool is named; pass a path for each process")


def _check_there(paths: Sequence[PathLike]) -> None:
    missing = [os.fspath(path) for path in paths if not os.path.exists(path)]
    if missing or not paths:
        raise perdure.NotFound(
            f"reshard: {', '.join(missing) or 'no pool'}: not there, and it has rows that no other"
            f" pool has; give all pools, in the order of ranks, or restore what is missing"
        )


def _check_together(olds: Sequence[_Old]) -> None:
    first = olds[0]
    for rank, old in enumerate(olds):
        if old.shard.training != first.shard.training:
            raise ValueError(
                f"pool {old.store.path}: it is of another training than {first.store.path}"
            )
        if old.shard.ranks != len(olds):
            raise ValueError(
                f"pool {old.store.path}: it is of {old.shard.ranks} pools, and {len(olds)} were"
                " given; give all of them"
            )
        if old.shard.rank != rank:
            raise ValueError(
                f"pool {old.store.path}: it is of rank {old.shard.rank}, and stands at {rank}; give"
                " pools in the order of ranks"
            )


def _check_run(olds: Sequence[_Old], step: int) -> None:
    """All came to that step in one run of the training."""
    near = [old for old in olds if old.dense is not None and old.step <= step + 1]
    made = [dense.run_of(step, old.step, dense.runs_in(old.dense)) for old in near]
    for old, run in zip(near, made, strict=True):
        if run != made[0]:
            raise ValueError(
                f"pool {old.store.path}: it came to step {step} in another run of the training than"
                f" {near[0].store.path}, so their rows do not belong together; restore all pools"
                " from snapshots of one step of one run"
            )


@contextmanager
def _removed_if_failed() -> Iterator[list[PathLike]]:
    made: list[PathLike] = []
    try:
        yield made
    except BaseException:
        for path in made:
            if os.path.exists(path):
                os.unlink(path)
        raise


def _like(old: perdure.Store, path: PathLike, options: dict[str, Any]) -> perdure.Store:
    """A pool with the same tables, of the same numbers."""
    if "expected_records" not in options:
        options = {**options, "expected_records": max(1024, len(old))}
    new = perdure.create(path, KEY_BYTES, old.value_bytes, **options)
    tables = old.tables()
    for name, table in tables.items():
        made = new.table(name, table.value_bytes)
        assert made.number == table.number
    for table in tables.values():
        kind = notes.kind_of(old, table)
        if kind is not None:
            notes.copy_kind(new, table, kind)
        notes.copy_seed(new, old, table)
    return new


def registered(store: perdure.Store, room: int) -> Tensor:
    """Dense state of a pool that has room for so much, for `restore_step` to fill."""
    device = "cuda" if store.device == "cuda" else "cpu"
    dense = torch.zeros(room, dtype=torch.uint8, device=device)
    store.register_dense(**{_DENSE: dense})
    return dense


def _move(olds: Sequence[_Old], news: Sequence[perdure.Store]) -> list[dict[str, int]]:
    """How many rows of each table each new pool has got."""
    tables, buckets = olds[0].tables(), olds[0].shard.buckets
    counts = [dict.fromkeys(tables, 0) for _ in news]
    for old in olds:
        width = old.store.value_bytes
        widest = width or max((table.value_bytes for table in tables.values()), default=1)
        page = max(1, _PAGE_BYTES // (KEY_BYTES + widest))
        for _, octets, ends, values in old.store._raw_pages(page, None, None, None, False):
            keys, lengths = octets.view(np.int64).reshape(-1, 2), np.diff(ends)
            for name, table in tables.items():
                of_table = keys[:, 1] == table.number
                if not of_table.any():
                    continue
                mine = keys[of_table]
                if width is not None:
                    rows = values.reshape(-1, width)[of_table]
                else:
                    rows = values[np.repeat(of_table, lengths)].reshape(len(mine), -1)
                owners = owners_of(torch.from_numpy(mine), buckets, len(news)).numpy()
                for rank in np.unique(owners):
                    chosen = owners == rank
                    news[rank].put(mine[chosen], rows[chosen])
                    counts[rank][name] += int(chosen.sum())
    return counts


def _finish(
    like: _Old, new: perdure.Store, counts: dict[str, int], having: Sequence[_Old], step: int
) -> None:
    """The dense part, with as many rows as this pool has, and with what those who had its buckets
    have seen."""
    if like.dense is None:
        return
    notes.keep_dense_room(new, like.dense.numel())
    to = registered(new, like.dense.numel())
    if step and dense.is_filled(like.dense):
        parts: dict[str, Any] = {"rows": counts}
        if like.sightings is not None:
            seen = [old.sightings for old in having]
            assert None not in seen, "processes of a training have the same tables"
            parts[admission.PART] = admission.together(seen)
        dense.fill(to, dense.with_parts(like.dense, parts, to.device))
    with new.step(step, max_operations=1):
        pass
