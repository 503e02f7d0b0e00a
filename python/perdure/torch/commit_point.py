"""One commit point for several processes: a step counts when all pools have it.

A step ends so: each process commits its part, so that it can be taken back; then each tells the
others. Who is killed between leaves others one step ahead. So `resume` begins with every process's
last step, and those that are ahead take theirs back (`Store.revert`).

Where commits overlap, a step ends once all processes have its rows ready and the step before is in
all pools. Then each process's thread commits, and tells the others, in a process group of its own:
in that of the training its messages would come between those of the next step, in each process
between others. Who fails says so at one of the two moments, so all raise at the end of one step.

What all do between two calls of `resume` is a run, with a number that they draw together. Each step
keeps its run's, and that of the step before, so pools that trained apart are told from one another
though their last steps have one number.

Invariants: pools of a training are at most one step apart, and one that is ahead can go back: from
its commit until all have told theirs nothing is written to it (`between_commits`). In the group of
commits one thread of a process speaks at a time.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import perdure
from perdure.torch import dense, notes
from perdure.torch.exchange import Exchange
from perdure.torch.overlap import check_free
from perdure.torch.sharded import sharded
from perdure.torch.trainer import Trainer, _at_work

_ENDS, _FAILED, _RESUMES, _PREPARED = 1, 2, 3, 4  # what processes tell one another
_DOING = {
    _ENDS: "committed step",
    _FAILED: "could not commit step",
    _RESUMES: "resumes at step",
    _PREPARED: "is about to commit step",
}


class _LastStep:
    """Of a pool; whoever trains it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held from its commit until all have told theirs
        self.in_doubt = False  # nobody knows whether all have it


_last_steps: weakref.WeakKeyDictionary[perdure.Store, _LastStep] = weakref.WeakKeyDictionary()


@contextmanager
def between_commits(store: perdure.Store) -> Iterator[None]:
    """For a write that belongs to no step, in whatever thread: it is no process's last commit while
    that may have to be taken back."""
    last = _last_steps.get(store, _LastStep())
    with last.lock:
        if last.in_doubt:
            raise perdure.Busy(
                f"pool {store.path}: its last step may have to be taken back, so nothing else is"
                " written to it before resume() in all processes"
            )
        yield


class ShardedTrainer(Trainer):
    """A Trainer of several processes, each with a pool of its own.

    Each process makes it over its sharded collections, and calls `resume` and `step` as the others
    do. When `step` ends, all processes have committed it; with `overlap`, all have committed the
    one before. The dense part is the program's: under DistributedDataParallel, or with gradients
    that it sums.

    Parameters
    ----------
    store, embeddings, model, optimizer, dense_bytes, **others
        As of Trainer; `embeddings` are sharded, over one process group. What they hold may differ
        between processes: each pool has its own. All have the same `overlap`; with it `resume`
        makes a second process group, over gloo.

    Attributes
    ----------
    evicted : dict of str to int64 array
        Ids that the last step evicted from this process's pool, by table; after a step that was
        taken back, none.

    Notes
    -----
    A process that fails within the block of `step`, or while gradients are exchanged at its end,
    has to end, as with torch.distributed at large: the others wait for it. One whose commit fails
    tells the others, whose `step` raises then; with `overlap` the next one, in all at its end. All
    call `resume`.
    """

    _several = True

    def __init__(self, store: perdure.Store, embeddings: Any, *parts: Any, **others: Any) -> None:
        super().__init__(store, embeddings, *parts, **others)
        self._sharded = sharded(self._collections)
        self._exchange: Exchange = self._sharded[0].exchange
        self._of_commits = self._exchange  # which all commits are told in
        self._owes = False  # the others wait to hear what becomes of this process's part
        self._last = _last_steps.setdefault(store, _LastStep())

    # --- the end of a step

    def _commit_or_not(self) -> None:
        number, self._owes = self._ended + 1, True
        try:
            super()._commit_or_not()
        except BaseException as error:
            _at_work.pop(self.store, None)  # also in a first step: the others are to resume, too
            if isinstance(error, Exception) and self._owes:
                self._settle()  # whose failure all have: then they do not wait
                self._tell_failure(number)
            raise

    def _prepared(self, number: int, *, beside: bool) -> None:
        if beside:
            check_free(self.store)  # from here on nothing may fail but the commit
        self._owes = False
        if beside:
            self._check_told(_PREPARED, number)

    def _finish(self, number: int, *what: Any) -> None:
        with self._last.lock:
            self._last.in_doubt = True
            try:
                self._write_step(number, *what)
            except Exception:
                self._last.in_doubt = False  # the pool has the step before, as all have
                self._tell_failure(number)
                raise
            self._check_told(_ENDS, number)
            self._last.in_doubt = False
        self._done = number

    def _settle(self, *, wait: bool = True) -> None:
        """All processes learn that a commit failed where each of them waits for it: who raised
        before would leave the others alone in their step."""
        if not wait:
            return
        try:
            super()._settle()
        except BaseException:
            self._owes = False
            raise

    def _check_goes_on(self) -> None:
        """The others were told, too, and do not wait."""
        try:
            super()._check_goes_on()
        except perdure.InvalidArgument:
            self._owes = False
            raise

    # --- several processes

    def _check_turn(self) -> None:
        """Also of new pools, for those of other processes may have steps."""
        of_store = _at_work.get(self.store)
        if of_store is None:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: call resume() in all processes before the first step"
            )
        super()._check_turn()

    def _told(self, doing: int, step: int) -> list[list[int]]:
        """What all processes say of a commit."""
        return self._of_commits.numbers([doing, step, 0, 0])

    def _check_told(self, mine: int, step: int) -> None:
        """All say the same of the step, or all raise."""
        for rank, (doing, number, *_) in enumerate(self._told(mine, step)):
            if (doing, number) != (mine, step):
                raise RuntimeError(
                    f"step {step}: rank {rank} {_DOING.get(doing, 'did something else at')}"
                    f" {number}; call resume() in all processes"
                )

    def _tell_failure(self, number: int) -> None:
        with suppress(RuntimeError):  # why this process failed is what matters here
            self._told(_FAILED, number)

    def _agreed(self, number: int | None) -> int | None:
        for one in self._sharded:
            one.forget_begun()
        mine = number or 0
        overlaps = self._committer is not None
        runs = (0, 0) if self._bytes is None else dense.runs_in(self._bytes)
        told = self._exchange.numbers(
            [_RESUMES, mine, self.store.can_revert(), overlaps, *runs, secrets.randbits(62)]
        )
        _check_overlap([bool(one[3]) for one in told])
        steps = [one[1] for one in told]
        low = min(steps)
        for rank, (doing, step, can_revert, *_) in enumerate(told):
            if doing != _RESUMES:
                raise RuntimeError(
                    f"resume: rank {rank} {_DOING.get(doing, 'does something else at')} {step}; all"
                    " processes resume together"
                )
            if step > low and (step > low + 1 or not can_revert):
                raise ValueError(
                    f"resume: pool of rank {rank} has step {step}, and that of rank"
                    f" {steps.index(low)} has step {low}: it is older than the last steps of this"
                    " training; restore all pools from snapshots of one step"
                )
        last = _common_run(low, [(step, runs) for _, step, _, _, *runs, _ in told])
        self._dense.begin_run(last, told[0][-1])
        if self._committer is not None:
            self._of_commits = self._exchange.beside()
            self._committer.closes = self._exchange.close_beside
        if mine > low:
            self._take_back()
        self._last.in_doubt = False
        notes.training_id(self.store)  # made now, when no step may have to be taken back
        return low or None

    def _take_back(self) -> None:
        self.store.revert()
        self.store.restore_step()
        self.evicted = {}


def _common_run(step: int, told: Sequence[tuple[int, Sequence[int]]]) -> int:
    """Which run made that step; each rank told its last step, and the runs of it and of the step
    before."""
    made = [dense.run_of(step, last, runs) for last, runs in told]
    for rank, run in enumerate(made):
        if run != made[0]:
            raise ValueError(
                f"resume: the pools of ranks 0 and {rank} have step {step}, but they came to it in"
                " different runs of this training, so their rows do not belong together; restore"
                " all pools from snapshots of one step of one run"
            )
    return made[0]


def _check_overlap(each: Sequence[bool]) -> None:
    """Of all ranks."""
    do, do_not = (
        [rank for rank, one in enumerate(each) if one == which] for which in (True, False)
    )
    if do and do_not:
        raise ValueError(
            f"overlap: ranks {do} commit beside the next step, and ranks {do_not} do not; pass the"
            " same overlap= to the trainers of all processes"
        )
