"""Training steps, each of which is one commit of a pool.

Invariant: after whatever end of the process, the pool has all of some step and of those before it,
and nothing of a later one. That is the last step that ended; of an overlapped training it may be
the one before.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

import perdure
from perdure.options import PathLike
from perdure.torch import eviction, notes
from perdure.torch.admission import PART, Sightings
from perdure.torch.changed import Changed, ids_of, new_of_each
from perdure.torch.dense import Content, Dense, Room, Stateful, room_for
from perdure.torch.embeddings import _Collection, check_collections, device_of
from perdure.torch.keys import Among
from perdure.torch.overlap import Commit, Committer, Kept, wait_for
from perdure.torch.tables import TableConfig

if TYPE_CHECKING:
    from perdure.torch.parts import Part

_DENSE = "perdure_torch_dense"
# Whose steps a store commits: whoever resumed last, or began.
_at_work: weakref.WeakKeyDictionary[perdure.Store, weakref.ref[Trainer]]
_at_work = weakref.WeakKeyDictionary()


def trainer_of(store: object) -> Trainer | None:
    """Who is at work on a store."""
    found = _at_work.get(store) if isinstance(store, perdure.Store) else None
    return None if found is None else found()


class _Rows:
    """How many rows each table has."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}

    def state_dict(self) -> dict[str, int]:
        return dict(self.count)

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = dict(state)


class Trainer:
    """Commits training steps, and goes on after the last one.

    Parameters
    ----------
    store : perdure.Store
        Of `perdure.torch.create`, opened by this process.
    embeddings : a collection, or several
        Over that store.
    model : torch.nn.Module, optional
        The dense part; without it, embeddings are the whole model, as in matrix factorisation.
    optimizer : torch.optim.Optimizer, optional
        Of the dense part.
    dense_bytes : int, optional
        Room for all state but the tables, chosen by a pool's first step for good; by default what
        that step takes and twice the model's parameters more.
    overlap : bool
        A thread commits a step while the next one runs: a kill may lose the last step that ended,
        and none before it. What fails there is raised by the next step, by `wait`, `export` or
        `resume`, or by closing the store.
    **others : anything with state_dict and load_state_dict
        A scheduler, a sampler: what else has to be of the same step. Of tensors, numbers, strings,
        lists and dictionaries.

    Attributes
    ----------
    evicted : dict of str to int64 array
        Ids that the last step evicted, by table. A row of theirs begins anew.

    Notes
    -----
    A step that raises commits nothing, and leaves the model as the block left it: `resume` before
    you go on. After one whose commit failed it must.
    """

    evicted: dict[str, Any]
    _several = False  # processes

    def __init__(
        self,
        store: perdure.Store,
        embeddings: _Collection | Sequence[_Collection],
        model: nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        dense_bytes: int | None = None,
        overlap: bool = False,
        **others: Stateful,
    ) -> None:
        self.store = store
        self._collections = [embeddings] if isinstance(embeddings, nn.Module) else list(embeddings)
        check_collections(self._collections, store)
        if (notes.shard(store) is not None) != self._several:
            raise perdure.InvalidArgument(
                f"pool {store.path}: ShardedTrainer trains pools of several processes, with sharded"
                " collections, and Trainer all others"
            )
        self._rows = _Rows()
        self._sightings = Sightings(())  # of all collections
        for one in self._collections:
            self._sightings.of.update(one.sightings.of)
        parts: dict[str, Stateful] = {"rows": self._rows}
        if model is not None:
            parts["model"] = model
        if optimizer is not None:
            parts["optimizer"] = optimizer
        if self._sightings.of:
            parts[PART] = self._sightings
        taken = sorted(parts.keys() & others.keys())
        if taken:
            raise ValueError(f"{taken[0]}: the trainer has one of that name; choose another")
        self._dense = Dense({**parts, **others})
        self._dense_bytes = dense_bytes
        self._device = torch.zeros(0, device=device_of(store)).device  # with its number
        parameters = () if model is None else model.parameters()
        self._parameter_bytes = sum(one.nbytes for one in parameters)
        self._bytes: Tensor | None = None
        self._room: Room | None = None  # over the bytes, since a step was last restored to them
        self._done = self._ended = 0
        self._committer = Committer(store, self._device) if overlap else None
        if self._committer is not None:  # who is never asked again
            weakref.finalize(self, self._committer.tell)
        self.evicted = {}
        self._evicting = [one for one in self._configs() if eviction.evicts(one)]
        self._keeps_evicted = False
        self._evicted: dict[str, perdure.Table] = {}
        self._of_step: list[Callable[[], None]] = []
        self._between_steps = threading.RLock()  # held by exports, and by a step's end

    @property
    def done(self) -> int:
        """Steps that are committed; with `overlap` the last one that ended may still be to come."""
        return self._done

    @property
    def ended(self) -> int:
        """Steps that ended, committed or, with `overlap`, about to be: `done` or one more."""
        return self._ended

    def wait(self) -> None:
        """Returns once every step that ended is committed.

        Raises
        ------
        NoSpace, Closed and others
            With `overlap`: why the last step could not be committed. The model in memory is ahead
            of the pool; `resume` before you go on.
        """
        self._settle()

    def resume(self) -> int:
        """Brings everything to the last committed step, and answers how many there are; of a pool
        without one 0, and nothing changes.

        Raises
        ------
        ValueError
            The pool's steps have other parts than the trainer, or other sizes.
        NoSpace, Closed and others
            With `overlap`: why the last step could not be committed, if nobody was told. Call it
            again.
        """
        _at_work.pop(self.store, None)
        self._settle()
        wait_for(self.store)  # of a trainer before this one, too
        for one in self._collections:
            one.end_step()
        number = self._room = self._bytes = None  # another trainer may have registered its own
        room = notes.dense_room(self.store)
        if room is not None:
            self._register(room)
            number = self.store.restore_step()
        number = self._agreed(number)
        if number is not None:
            assert self._bytes is not None
            self._dense.load(self._bytes)
        self._begin(number)
        return self._done

    @contextmanager
    def step(self) -> Iterator[None]:
        """One training step: forward, backward and the dense optimizer's step in the block.

        When it ends, the embeddings' rows change by their gradients, and rows, states, model,
        optimizer and all others take effect together.

        Raises
        ------
        InvalidArgument
            The pool has steps and `resume` was not called, or another trainer is at work on it.
        TypeError
            In a pool's first step: something that is to be saved cannot be loaded again.
        NoSpace, Closed
            As of `Store.step`; nothing of the step took effect. With `overlap`, nor of this one if
            it was the step before it that failed.
        """
        self._settle(wait=False)
        self._check_turn()
        if self.in_step:
            raise RuntimeError("step: one is under way; end it before the next one begins")
        for one in self._collections:
            one.begin_step()
        self._of_step = []
        try:
            yield
            self._commit_or_not()
        finally:
            for one in self._collections:
                one.end_step()

    @property
    def in_step(self) -> bool:
        """Whether a block of `step` is under way."""
        return any(one.in_step for one in self._collections)

    def commit_with_step(self, put: Callable[[], None]) -> None:
        """Within a step's block: one more write of one key that takes effect with the step. With
        `overlap` it is called in the trainer's thread."""
        self._of_step.append(put)

    def export(
        self, folder: PathLike, *, format: str | None = None, keep_evictions: bool = False
    ) -> Part:
        """Writes the next part of a folder: all rows of all tables, or, where the folder has parts,
        what steps changed since the last one and what they evicted. It is of the last step that
        ended; one that is to end meanwhile, in another thread, waits for it.

        Parameters
        ----------
        folder : path
            Made where it is not there.
        format : "parquet" or "safetensors", optional
            Of a folder's parts, chosen with its first one; by default Parquet.
        keep_evictions : bool
            Other folders get their parts later: remember what was evicted. Else it is forgotten
            once this part has it, and parts of other folders that begin before are refused.

        Returns
        -------
        Part

        Raises
        ------
        ValueError
            Its parts do not follow one another, have this step, or are of another training or
            format.
        InvalidArgument
            Evictions since its last part are forgotten, as another folder has them.
        """
        from perdure.torch.parts import export_part  # which needs pyarrow

        optimizer = self._collections[0].optimizer
        kinds = {type(one.optimizer) for one in self._collections}
        if optimizer is None or len(kinds) != 1:
            raise ValueError("embeddings: collections of one optimizer can be exported")
        tables = self._configs()
        with self._between_steps:
            self._check_turn()
            self._settle()
            try:
                return export_part(
                    self.store, tables, optimizer, self._done, folder, keep_evictions, format
                )
            finally:
                self._look_at_evicted()

    # --- a commit

    def _commit_or_not(self) -> None:
        counts, sightings = self._rows.count, self._sightings.state_dict()
        self._rows.count = dict(counts)
        try:
            with torch.no_grad(), self._between_steps:
                self._commit(self._ended + 1)
        except BaseException:
            self._rows.count = counts
            self._sightings.load_state_dict(sightings)
            if self._bytes is not None:
                _at_work.pop(self.store, None)
            raise

    def _commit(self, number: int) -> None:
        lookups = sum(one.lookups for one in self._collections)
        changed = [rows for one in self._collections for rows in one.changed(number)]
        evicted = self._evict(changed, number)
        if self._bytes is None:
            self._dense.check()
        content = self._dense.save(self._device)
        self._settle()  # the dense state of the step before is the pool's by then
        self._check_goes_on()
        if self._bytes is None:
            self._register(notes.dense_room(self.store) or self._new_room(content))
        self._fill(content)
        write = partial(self._finish, number, changed, evicted, self._of_step)
        beside = self._committer if self._ended else None  # a pool's first step waits
        if beside is None:
            self._prepared(number, beside=False)
            write()
        else:
            kept = Kept(
                [(one.value_bytes, Among(one.keys, one.are_numbers), one.rows) for one in changed],
                eviction.keys_of_all(self.store, evicted, self._device),
                self._device,
            )
            self._prepared(number, beside=True)
            beside.begin(self.store, Commit(number, write, kept, lookups))
        self._ended, self.evicted = number, evicted

    def _fill(self, content: Content) -> None:
        """The pool's dense state, from this step's; what it had is of the step before."""
        assert self._bytes is not None
        if self._room is None:
            self._room = Room(self._bytes)
        self._room.fill(content)

    def _prepared(self, number: int, *, beside: bool) -> None:
        """Of a step that is about to be committed, by this thread or beside it."""

    def _finish(self, number: int, *what: Any) -> None:
        """The commit. With `overlap` in the trainer's thread."""
        self._write_step(number, *what)
        self._done = number

    def _write_step(
        self,
        number: int,
        changed: Sequence[Changed],
        evicted: dict[str, Any],
        others: Sequence[Callable[[], None]],
    ) -> None:
        rows = sum(len(one.keys) for one in changed) + sum(map(len, evicted.values()))
        most = self._operations(rows) + len(others)
        step = self.store.step(number, max_operations=most, revertible=self._several)
        with torch.no_grad(), step:
            self._write(changed, evicted, number, others)

    def _settle(self, *, wait: bool = True) -> None:
        """Waits for the commit under way, or only looks whether it failed, and raises why."""
        if self._committer is None:
            return
        if wait:
            self._committer.wait()
        failure = self._committer.failure()
        if failure is not None:
            if trainer_of(self.store) is self:
                _at_work.pop(self.store, None)
            raise failure

    def _check_goes_on(self) -> None:
        """Of the step before a commit may have failed of which another thread was told, or the
        block, which went on: rows of that step would be lost."""
        if trainer_of(self.store) is not self:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: the step before this one was not committed, or another"
                " trainer took over; call resume()"
            )

    def _operations(self, rows: int) -> int:
        return max(2 * rows, 1)

    def _write(
        self,
        changed: Sequence[Changed],
        evicted: dict[str, Any],
        number: int,
        others: Sequence[Callable[[], None]],
    ) -> None:
        """What a step changes beside the dense state; within its commit."""
        self._put(changed)
        for name, ids in evicted.items():
            self.store.table(name).erase(ids)
        if self._evicted:
            self._note_evicted(changed, evicted, number)
        for put in others:
            put()

    def _put(self, changed: Sequence[Changed]) -> None:
        """One batch for all tables whose rows have one width: all, where the pool's have one."""
        by_width: dict[int, list[Changed]] = {}
        for one in changed:
            by_width.setdefault(one.rows.shape[1] * 4, []).append(one)
        for width, several in by_width.items():
            keys, rows = several[0].keys, several[0].rows
            if len(several) > 1:  # collections
                keys = torch.cat([one.keys for one in several])
                rows = torch.cat([one.rows for one in several])
            if self.store.value_bytes == width:
                self.store._put_whole(keys, rows)
            else:
                self.store._put_rows(keys, rows, width)

    def _evict(self, changed: Sequence[Changed], step: int) -> dict[str, Any]:
        """Ids that go with this step, by table; and how many rows each table will have."""
        gone: dict[str, Any] = {}
        made = new_of_each(changed)
        for config in self._configs() if made else self._evicting:
            table = self.store.table(config.name)
            rows = self._rows.count.get(config.name, 0) + made.get(table.number, 0)
            if eviction.is_due(config, rows, step):
                self._settle()  # for it looks at the pool
                keep = ids_of(changed, table.number).cpu().numpy()
                ids = eviction.choose(table, config, rows, step, keep)
                rows -= len(ids)
                if len(ids):
                    gone[config.name] = ids
            self._rows.count[config.name] = rows
        return gone

    def _note_evicted(self, changed: Sequence[Changed], evicted: dict[str, Any], step: int) -> None:
        for name, table in self._evicted.items():
            again = ids_of(changed, self.store.table(name).number, new=True)
            if len(again):
                table.erase(again)
        for name, ids in evicted.items():
            if self._keeps_evicted:
                self._evicted[name].put(ids, np.full((len(ids), 1), step, np.int64))

    # --- the pool

    def _agreed(self, number: int | None) -> int | None:
        """The step to go on after, where the pool has `number`; several processes agree on one."""
        return number

    def _check_turn(self) -> None:
        """Steps go on from where the pool is, by one trainer."""
        of_store = _at_work.get(self.store)
        at_work = None if of_store is None else of_store()
        if at_work is self:
            return
        if at_work is not None:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: another trainer is at work on it; resume() takes it over"
            )
        if self._bytes is not None or notes.dense_room(self.store) is not None:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: it has steps; call resume() before the first one"
            )
        self._begin(None)

    def _begin(self, number: int | None) -> None:
        notes.check_loaded(self.store)
        if number is None:
            self._count_rows()
            self._sightings.forget()  # of a first step that was taken back
        self._done = self._ended = number or 0
        self._look_at_evicted()
        _at_work[self.store] = weakref.ref(self)

    def _look_at_evicted(self) -> None:
        self._keeps_evicted = notes.pruned_until(self.store) is not None
        if self._keeps_evicted:
            for config in self._configs():
                if eviction.evicts(config):
                    notes.make_evicted(self.store, self.store.table(config.name))
        self._evicted = notes.evicted_tables(self.store)

    def _configs(self) -> list[TableConfig]:
        return [config for one in self._collections for config in one.configs]

    def _count_rows(self) -> None:
        """Of a pool without a step: parts may have been loaded into it."""
        counts = dict.fromkeys((self.store.table(one.name).number for one in self._configs()), 0)
        for keys, _ in self.store.scan(key_dtype=np.int64):
            numbers, several = np.unique(keys[:, 1], return_counts=True)
            for number, count in zip(numbers.tolist(), several.tolist(), strict=True):
                if number in counts:
                    counts[number] += count
        for one in self._configs():
            self._rows.count[one.name] = counts[self.store.table(one.name).number]

    def _new_room(self, content: Content) -> int:
        room = self._dense_bytes or room_for(content, self._parameter_bytes)
        return notes.keep_dense_room(self.store, max(room, content.octets))

    def _register(self, room: int) -> None:
        if self._bytes is None:
            self._bytes = torch.zeros(room, dtype=torch.uint8, device=self._device)
            self.store.register_dense(**{_DENSE: self._bytes})
