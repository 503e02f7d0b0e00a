"""One commit point for several processes: a step counts when all pools have it.

A step ends so: each process commits its part, and beside it what the step changed as it was before;
then each tells the others. Who is killed between leaves others one step ahead. So `resume` begins
with every process's last step, and those that are ahead take their last step back, each in one
commit. A pool has, for that, what `undo` keeps, and the dense state of two steps.

Invariant: pools of a training are at most one step apart, and one that is ahead can go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

import perdure
from perdure.torch import notes
from perdure.torch.embeddings import Changed
from perdure.torch.exchange import Exchange
from perdure.torch.sharded import sharded
from perdure.torch.trainer import _DENSE, Trainer, _at_work
from perdure.torch.undo import Kept, Undo

_DENSE_BEFORE = "perdure_torch_dense_before"
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

    Attributes
    ----------
    evicted : dict of str to int64 array
        Ids that the last step evicted from this process's pool, by table; after a step that was
        taken back, none.

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
        self._beside: Kept | None = None  # within a commit

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
        saying = bool(self._of_step)  # which checkpoints count
        self._beside = self._undo.of(changed, evicted, self._evicted, number, saying)
        super()._write(changed, evicted, number)

    def _put(self, changed: Sequence[Changed]) -> None:
        """New rows and old ones in one batch, whatever their widths."""
        beside, self._beside = self._beside, None
        assert beside is not None
        self.store.put(*self._undo.whole(changed, beside))

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
            self.evicted = {}
        return low or None
