"""One commit point for several processes: a step counts when all pools have it.

A step ends so: each process commits its part, and beside it what the step changed as it was before;
then each tells the others. Who is killed between leaves others one step ahead. So `resume` begins
with every process's last step, and those that are ahead take their last step back, each in one
commit. A pool has, for that,

    perdure.torch/before    row n: the n-th old row of the last step, as wide as the pool's
    perdure.torch/changed   pairs of int64, table and id, several in a row; ~table: it was new
    perdure.torch at 8      the step, and how many pairs

and the dense state of two steps. Rows of both tables are written over by the next step.

Invariant: pools of a training are at most one step apart, and one that is ahead can go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

import perdure
from perdure._named import widened
from perdure.torch import notes
from perdure.torch.embeddings import Changed, device_of
from perdure.torch.exchange import Exchange
from perdure.torch.keys import keys_of
from perdure.torch.sharded import ShardedChanged, sharded
from perdure.torch.trainer import _DENSE, Trainer, _at_work, ids_of

_DENSE_BEFORE = "perdure_torch_dense_before"
_BEFORE, _CHANGED = f"{notes.OURS}/before", f"{notes.OURS}/changed"
_PAIR = 16
_ENDS, _FAILED, _RESUMES = 1, 2, 3  # what processes tell one another
_DOING = {_ENDS: "committed step", _FAILED: "could not commit step", _RESUMES: "resumes at step"}


class ShardedTrainer(Trainer):
    """A Trainer of several processes, each with a pool of its own.

    Each process makes it over its sharded collections, and calls `resume` and `step` as the others
    do. When `step` ends, all processes have committed it. The dense part is the program's: under
    DistributedDataParallel, or with gradients that it sums.

    Parameters
    ----------
    store, embeddings, model, optimizer, dense_bytes, **others
        As of Trainer; `embeddings` are sharded, over one process group. What they hold may differ
        between processes: each pool has its own.

    Notes
    -----
    A process that fails within the block of `step`, or while gradients are exchanged at its end,
    has to end, as with torch.distributed at large: the others wait for it. One whose commit fails
    tells the others, whose `step` raises then. All call `resume`.
    """

    _several = True

    def __init__(self, store: perdure.Store, embeddings: Any, *parts: Any, **others: Any) -> None:
        super().__init__(store, embeddings, *parts, **others)
        self._sharded = sharded(self._collections)
        self._exchange: Exchange = self._sharded[0].exchange
        self._before: Tensor | None = None
        self._undo = Undo(store)

    def _operations(self, rows: int) -> int:
        return 4 * rows + 16  # and their old rows, and their names

    def _commit_or_not(self) -> None:
        number = self.done + 1
        try:
            super()._commit_or_not()
        except Exception:
            _at_work.pop(self.store, None)  # also in a first step: the others are to resume, too
            with suppress(RuntimeError):  # why this process failed is what matters here
                self._told(_FAILED, number)
            raise
        try:
            self._check_told(self._told(_ENDS, number), number)
        except BaseException:
            _at_work.pop(self.store, None)
            raise

    def _commit(self, number: int) -> None:
        if self._bytes is not None:
            assert self._before is not None
            self._before.copy_(self._bytes)
        super()._commit(number)

    def _write(self, changed: Sequence[Changed], evicted: dict[str, Any], number: int) -> None:
        self._undo.keep(changed, evicted, self._evicted, number)
        super()._write(changed, evicted, number)

    def _register(self, room: int) -> None:
        if self._bytes is None:
            both = torch.zeros((2, room), dtype=torch.uint8, device=self._device)
            self._bytes, self._before = both
            self.store.register_dense(**{_DENSE: self._bytes, _DENSE_BEFORE: self._before})

    # --- several processes

    def _check_turn(self) -> None:
        """Also of new pools, for those of other processes may have steps."""
        of_store = _at_work.get(self.store)
        if of_store is None:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: call resume() in all processes before the first step"
            )
        super()._check_turn()

    def _told(self, doing: int, step: int, undo: int = 0) -> list[list[int]]:
        return self._exchange.numbers([doing, step, undo])

    def _check_told(self, told: Sequence[Sequence[int]], step: int) -> None:
        for rank, (doing, number, _) in enumerate(told):
            if (doing, number) != (_ENDS, step):
                raise RuntimeError(
                    f"step {step}: rank {rank} {_DOING.get(doing, 'did something else at')}"
                    f" {number}; call resume() in all processes"
                )

    def _agreed(self, number: int | None) -> int | None:
        for one in self._sharded:
            one.forget_begun()
        mine = number or 0
        can_undo, _ = notes.undo(self.store)
        told = self._told(_RESUMES, mine, can_undo)
        steps = [step for _, step, _ in told]
        low = min(steps)
        for rank, (doing, step, undo) in enumerate(told):
            if doing != _RESUMES:
                raise RuntimeError(
                    f"resume: rank {rank} {_DOING.get(doing, 'does something else at')} {step}; all"
                    " processes resume together"
                )
            if step > low and (step > low + 1 or undo != step):
                raise ValueError(
                    f"resume: pool of rank {rank} has step {step}, and that of rank"
                    f" {steps.index(low)} has step {low}: it is older than the last steps of this"
                    " training; restore all pools from snapshots of one step"
                )
        if mine > low:
            assert self._bytes is not None and self._before is not None
            self._undo.take_back(mine, self._bytes, self._before)
        return low or None


class Undo:
    """What a pool's last step changed, as it was before."""

    def __init__(self, store: perdure.Store) -> None:
        self.store = store
        assert store.value_bytes is not None
        self._width: int = store.value_bytes
        self._rows = store.table(_BEFORE, self._width)
        self._device = device_of(store)
        self._names = store.table(_CHANGED, self._width // _PAIR * _PAIR)

    def keep(
        self,
        changed: Sequence[Changed],
        evicted: dict[str, Any],
        evictions: dict[str, perdure.Table],
        step: int,
    ) -> None:
        """Within the step's commit, before anything is written."""
        there: list[Any] = []  # pairs of numbers of tables and ids
        new: list[Any] = []
        rows: list[Tensor] = []
        for one in changed:
            assert isinstance(one, ShardedChanged)
            there.append(_pairs(one.keys[~one.new]))
            new.append(_pairs(one.keys[one.new], new=True))
            before = one.before[~one.new]
            octets = before.shape[1] * before.element_size()
            rows.append(widened(before, octets, self._width))
        for name, table in evictions.items():
            made = ids_of(changed, self.store.table(name).number, new=True)
            self._found(table, made, there, rows)
        for name, ids in evicted.items():
            self._found(self.store.table(name), torch.from_numpy(ids), there, rows)
            if name in evictions:
                keys = keys_of(torch.from_numpy(ids), evictions[name].number)
                new.append(_pairs(keys, new=True))
        self._keep_checkpoints(there, new, rows)
        pairs = np.concatenate([np.empty((0, 2), np.int64), *there, *new])
        old = [_octets(one).to(self._device) for one in rows if one.shape[0]]
        if old:
            whole = torch.cat(old)
            self._rows.put(torch.arange(whole.shape[0], device=whole.device), whole)
        if len(pairs):
            self._names.put(*self._packed(pairs))
        notes.keep_undo(self.store, step, len(pairs))

    def _keep_checkpoints(self, there: list[Any], new: list[Any], rows: list[Tensor]) -> None:
        """Which checkpoints count, for a step's commit may say so anew."""
        ours, at = self.store.table(notes.OURS), torch.tensor([notes.CHECKPOINTS])
        before = len(there)
        self._found(ours, at, there, rows)
        if not len(there[before]):
            new.append(_pairs(keys_of(at, ours.number), new=True))

    def take_back(self, step: int, dense: Tensor, before: Tensor) -> None:
        """One commit, after which the pool is as the step before left it."""
        noted, count = notes.undo(self.store)
        if noted != step:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: step {step} cannot be taken back, but {noted} could"
            )
        pairs = self._unpacked(count)
        there, new = pairs[pairs[:, 0] >= 0], pairs[pairs[:, 0] < 0]
        rows = self._rows.get(np.arange(len(there)))
        if not rows.found.all():
            raise perdure.Corrupt(f"pool {self.store.path}: old rows of step {step} are missing")
        dense.copy_(before)
        before.zero_()
        with self.store.step(step - 1, max_operations=len(pairs) + 1):
            if len(there):
                self.store.put(_keys(there), rows.values)
            if len(new):
                self.store.erase(_keys(np.stack([~new[:, 0], new[:, 1]], axis=1)))
            notes.keep_undo(self.store, 0, 0)

    def _found(
        self, table: perdure.Table, ids: Tensor, there: list[Any], rows: list[Tensor]
    ) -> None:
        """Rows that the table has of these ids."""
        if not ids.numel():
            return
        held = table.get(ids.to(self._device))
        found = torch.from_numpy(held.found)
        there.append(_pairs(keys_of(ids.cpu()[found], table.number)))
        values = _octets(held.values)[found.to(held.values.device)]
        rows.append(widened(values, table.value_bytes, self._width))

    def _packed(self, pairs: Any) -> tuple[Any, Any]:
        a_row = self._width // _PAIR
        records = -(-len(pairs) // a_row)
        rows = np.zeros((records * a_row, 2), np.int64)
        rows[: len(pairs)] = pairs
        return np.arange(records), rows.reshape(records, a_row * 2)

    def _unpacked(self, count: int) -> Any:
        records = -(-count // (self._width // _PAIR))
        found = self._names.get(np.arange(records), dtype=np.int64)
        if not found.found.all():
            raise perdure.Corrupt(f"pool {self.store.path}: what its last step changed is missing")
        return np.asarray(found.values).reshape(-1, 2)[:count]


def _octets(rows: Tensor) -> Tensor:
    return rows.contiguous().view(torch.uint8)


def _pairs(keys: Tensor, *, new: bool = False) -> Any:
    pairs = keys.cpu().numpy()[:, ::-1].copy()
    if new:
        pairs[:, 0] = ~pairs[:, 0]
    return pairs


def _keys(pairs: Any) -> Any:
    """The pool's: id, then table."""
    return np.ascontiguousarray(pairs[:, ::-1])
