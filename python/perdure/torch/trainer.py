"""Training steps, each of which is one commit of a pool.

Invariant: after whatever end of the process, the pool has all of some step and of those before it,
and nothing of a later one.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

import perdure
from perdure.options import PathLike
from perdure.torch import eviction
from perdure.torch.dense import Dense, Stateful, content_of, fill, room_for
from perdure.torch.embeddings import Changed, _Collection
from perdure.torch.evicted import OURS, OURS_BYTES, evicts, tombstones
from perdure.torch.tables import TableConfig

if TYPE_CHECKING:
    from perdure.torch.parts import Part

_DENSE = "perdure_torch_dense"
# Whose steps a store commits: whoever resumed last, or began.
_at_work: weakref.WeakKeyDictionary[perdure.Store, weakref.ref[Trainer]]
_at_work = weakref.WeakKeyDictionary()
_OURS = (
    "perdure.torch"  # the table that has, at id 0, how many bytes of dense state there is room for
)


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
    model : torch.nn.Module
        The dense part.
    optimizer : torch.optim.Optimizer
        Of the dense part.
    **others : anything with state_dict and load_state_dict
        A scheduler, a sampler: what else has to be of the same step.

    Attributes
    ----------
    evicted : dict of str to int64 array
        Ids that the last step evicted, by table. A row of theirs begins anew.

    Notes
    -----
    A step that raises commits nothing, and leaves the model as the block left it: `resume` before
    you go on.
    """

    evicted: dict[str, Any]

    def __init__(
        self,
        store: perdure.Store,
        embeddings: _Collection | Sequence[_Collection],
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        **others: Stateful,
    ) -> None:
        self.store = store
        self._collections = [embeddings] if isinstance(embeddings, nn.Module) else list(embeddings)
        if any(one.optimizer is None for one in self._collections):
            raise ValueError("embeddings: one has no optimizer, and is for inference alone")
        if any(one.store is not store for one in self._collections):
            raise ValueError("embeddings: they are over another store than the trainer's")
        names = [table.name for one in self._collections for table in one.configs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"embeddings: table {twice[0]!r} is in two collections; share one")
        self._optimizer = optimizer
        self._rows = _Rows()
        parts = {"model": model, "optimizer": optimizer, "rows": self._rows}
        taken = sorted(parts.keys() & others.keys())
        if taken:
            raise ValueError(f"{taken[0]}: the trainer has one of that name; choose another")
        self._dense = Dense({**parts, **others})
        self.evicted: dict[str, Any] = {}
        for config in self._configs():
            if evicts(config):
                tombstones(store, config)  # made now: a transaction makes no tables
        self._bytes: Tensor | None = None
        self._done = 0

    @property
    def done(self) -> int:
        """Steps that are committed."""
        return self._done

    def resume(self) -> int:
        """Brings everything to the last committed step, and answers how many there are; of a new
        pool 0, and nothing changes.

        Raises
        ------
        ValueError
            The pool's steps have other parts than the trainer, or other sizes.
        """
        for one in self._collections:
            one.forget()
        _at_work[self.store] = weakref.ref(self)
        room = self._room()
        number = None
        if room is not None:
            self._register(room)
            number = self.store.restore_step()
        if number is None:
            self._count_rows()
            return 0
        assert self._bytes is not None
        self._dense.load(content_of(self._bytes))
        self._done = number
        return number

    @contextmanager
    def step(self) -> Iterator[None]:
        """One training step: forward, backward and the dense optimizer's step in the block.

        When it ends, the embeddings' rows change by their gradients, and rows, states, model,
        optimizer and all others take effect together.

        Raises
        ------
        NoSpace, Closed
            As of `Store.step`; nothing of the step took effect.
        """
        self._check_turn()
        try:
            yield
        except BaseException:
            for one in self._collections:
                one.forget()
            raise
        counts = self._rows.count
        self._rows.count = dict(counts)
        try:
            self._commit(self._done + 1)
        except BaseException:
            self._rows.count = counts
            raise

    def _commit(self, number: int) -> None:
        changed = [rows for one in self._collections for rows in one.changed(number)]
        evicted = self._evict(changed, number)
        content = self._dense.save()
        if self._bytes is None:
            self._register(self._room() or self._keep_room(room_for(content)))
        assert self._bytes is not None
        fill(self._bytes, content)
        most = 2 * (sum(one.ids.numel() for one in changed) + sum(map(len, evicted.values())))
        with self.store.step(number, max_operations=max(most, 1)):
            self._put(changed)
            for one in changed:
                if evicts(one.config):
                    self._erase(one, evicted.get(one.table.name), number)
        self._done, self.evicted = number, evicted

    def _put(self, changed: Sequence[Changed]) -> None:
        """One batch for all tables of one width."""
        by_width: dict[int, list[Changed]] = {}
        for one in changed:
            by_width.setdefault(one.table.value_bytes, []).append(one)
        for several in by_width.values():
            self.store.put_tables(
                [one.table for one in several],
                torch.cat([one.ids for one in several]),
                torch.cat([one.rows for one in several]),
                np.cumsum([0, *(one.ids.numel() for one in several)]),
            )

    def _check_turn(self) -> None:
        """Steps go on from where the pool is, by one trainer."""
        of_store = _at_work.get(self.store)
        if of_store is None and self._room() is None:
            _at_work[self.store] = weakref.ref(self)
        elif of_store is None:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: it has steps; call resume() before the first one"
            )
        elif of_store() is not self:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: another trainer is at work on it; resume() takes it over"
            )

    def _erase(self, one: Changed, ids: Any, step: int) -> None:
        gone = tombstones(self.store, one.config)
        gone.erase(one.ids[one.new])
        if ids is not None:
            one.table.erase(ids)
            gone.put(ids, np.full((len(ids), 1), step, np.int64))

    def _evict(self, changed: Sequence[Changed], step: int) -> dict[str, Any]:
        """Ids that go with this step, by table; and how many rows each table will have."""
        gone: dict[str, Any] = {}
        for one in changed:
            rows = self._rows.count.get(one.table.name, 0) + int(one.new.sum())
            if eviction.is_due(one.config, rows, step):
                ids = eviction.choose(one.table, one.config, rows, step, one.ids.cpu().numpy())
                rows -= len(ids)
                if len(ids):
                    gone[one.table.name] = ids
            self._rows.count[one.table.name] = rows
        return gone

    def export(self, folder: PathLike, *, keep_evictions: bool = False) -> Part:
        """Writes the next part of a folder: all rows of all tables, or, where the folder has parts,
        what steps changed since the last one and what they evicted. Between two steps.

        Parameters
        ----------
        folder : path
            Made where it is not there.
        keep_evictions : bool
            Other folders get their parts later: remember what was evicted. Else it is forgotten
            once this part has it, and parts of other folders that begin before are refused.

        Returns
        -------
        Part

        Raises
        ------
        ValueError
            Its parts do not follow one another, or have this step.
        InvalidArgument
            Evictions since its last part are forgotten, as another folder has them.
        """
        parts = [(config, one.optimizer) for one in self._collections for config in one.configs]
        optimizers = {id(optimizer) for _, optimizer in parts}
        if len(optimizers) != 1 or parts[0][1] is None:
            raise ValueError("embeddings: collections of one optimizer can be exported")
        from perdure.torch.parts import export_part  # which needs pyarrow

        configs = [config for config, _ in parts]
        return export_part(self.store, configs, parts[0][1], self._done, folder, keep_evictions)

    def _configs(self) -> list[TableConfig]:
        return [config for one in self._collections for config in one.configs]

    def _count_rows(self) -> None:
        """Of a pool without a step: parts may have been loaded into it."""
        for config in self._configs():
            table = self.store.tables()[config.name]
            count = sum(len(ids) for ids, _ in table.scan())
            self._rows.count[config.name] = count

    def _room(self) -> int | None:
        """Bytes of dense state that the pool has room for, once it has seen a step: OURS has them
        at id 0."""
        if OURS not in self.store.tables():
            return None
        rows = self.store.table(OURS).get([0], dtype=np.int64)
        return int(rows.values[0, 0]) if rows.found[0] else None

    def _keep_room(self, room: int) -> int:
        row = np.array([[room, 0]], np.int64)
        self.store.table(OURS, OURS_BYTES).put([0], row)
        return room

    def _register(self, room: int) -> None:
        if self._bytes is None:
            device = "cuda" if self.store.device == "cuda" else "cpu"
            self._bytes = torch.zeros(room, dtype=torch.uint8, device=device)
            self.store.register_dense(**{_DENSE: self._bytes})
