"""Checkpoints of `torch.distributed.checkpoint` in pools, of which only what changed is written.

>>> import torch.distributed.checkpoint as dcp                     # doctest: +SKIP
>>> from perdure.torch.checkpoint import CheckpointReader, CheckpointWriter  # doctest: +SKIP
>>> writer = CheckpointWriter("/dev/shm/run")                      # doctest: +SKIP
>>> dcp.save(state, storage_writer=writer)                         # doctest: +SKIP
>>> dcp.load(state, storage_reader=CheckpointReader("/dev/shm/run"))  # doctest: +SKIP

Invariant: a checkpoint counts once all ranks have saved their parts, by one write; its metadata
names every piece by what is in it, so that pieces of two checkpoints never mix.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

import perdure
from perdure.options import PathLike
from perdure.torch import notes
from perdure.torch.checkpoint_list import Catalogue, Checkpoint, Listing, Target, Where
from perdure.torch.checkpoint_pools import RankPool, shared
from perdure.torch.checkpoint_reads import Reads
from perdure.torch.checkpoint_saves import Saving
from perdure.torch.follower import Follower
from perdure.torch.pieces import PIECE, ROW, Digests

__all__ = ["Checkpoint", "CheckpointReader", "CheckpointWriter"]


@dataclass
class _Save:
    """One save, by the coordinator's thread that makes it: another thread may begin one meanwhile,
    which is refused and must change nothing of this one."""

    id: str
    step: int | None
    number: int = 0
    kept: Sequence[int] = ()


@dataclass(frozen=True)
class _Part:
    """What the coordinator tells a rank."""

    folder: str
    rank: int
    number: int
    kept: list[int]
    seed: bytes
    piece: int
    token: bytes  # of this save


class CheckpointWriter(StorageWriter):
    """Saves checkpoints into a folder of pools, one pool for each rank.

    Parameters
    ----------
    target : path or Store
        A folder, made where it is not there. Or the store of a training, whose tables the
        checkpoints belong to: the folder is then beside its pool, NAME.checkpoints.
    folder : path, optional
        Of the checkpoints of a store, if it has another name.
    keep : int
        So many checkpoints are kept, the newest ones. While one is saved there is one more.
    step : int, optional
        Of the tables; by default what the store's trainer says.
    piece_bytes : int
        Tensors are cut into pieces of so many, a multiple of 16 KiB up to 512 KiB. A rank's pool
        has the size that it was made with.
    max_bytes : int, optional
        A new pool of this rank never grows past it.

    Attributes
    ----------
    pieces_put, pieces_used : int
        Of this rank's last save: those that were written, and those that it is made of.

    Notes
    -----
    Keep one writer for all saves: who makes another opens the pools anew. `close` releases them, as
    losing the writer does.
    """

    pieces_put: int
    pieces_used: int

    def __init__(
        self,
        target: Target,
        *,
        folder: PathLike | None = None,
        keep: int = 2,
        step: int | None = None,
        piece_bytes: int = PIECE,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__()
        if keep < 1:
            raise ValueError(f"keep: {keep}; at least one checkpoint is kept")
        if piece_bytes % ROW or not ROW <= piece_bytes <= 32 * ROW:
            raise ValueError(
                f"piece_bytes: {piece_bytes}; pass a multiple of {ROW} up to {32 * ROW}"
            )
        self._where = Where.of(target, folder)
        if isinstance(target, perdure.Store):
            notes.training_id(target)  # made now: it is no part of a step
        self._keep, self._piece, self._max_bytes = keep, piece_bytes, max_bytes
        self._given_step, self._step = step, self._where.step()
        self._thread = threading.get_ident()
        self._ids: dict[int, str] = {}  # of saves that begin, by thread
        self._saves: dict[int, _Save] = {}  # the coordinator's, by thread
        self._catalogue: Catalogue | None = None
        self._pool: RankPool | None = None
        self.pieces_put = self.pieces_used = 0

    @property
    def checkpoint_id(self) -> str:
        return self._ids.get(threading.get_ident(), "")

    def close(self) -> None:
        """Releases the pools, once no save is under way; a later save opens them again."""
        self._catalogue = self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        """For a process that saves in this one's stead; it opens the pools itself."""
        if isinstance(self._where.tables, perdure.Store):
            raise perdure.Unsupported(
                f"{self._where.folder}: this writer has the store, which another process cannot"
                " write; save by a thread, or make the writer with the folder alone"
            )
        return {**self.__dict__, "_catalogue": None, "_pool": None, "_ids": {}, "_saves": {}}

    # --- what torch.distributed.checkpoint calls, in this order

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._ids[threading.get_ident()] = "" if checkpoint_id is None else os.fspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        me = threading.get_ident()
        taken = self._ids.pop(me, "")  # of this save alone
        if not kwargs.get("use_collectives", True):
            raise perdure.Unsupported(
                f"{self._where.folder}: a checkpoint counts once all ranks have their parts, which"
                " takes collectives; save with use_collectives=True"
            )
        if is_coordinator:
            if isinstance(self._where.tables, Follower):
                raise perdure.InvalidArgument(
                    f"pool {self._where.tables.path}: the coordinator writes it; pass the store"
                )
            if not self._beside():
                self._step = self._where.step()
            step = self._step if self._given_step is None else self._given_step
            self._saves[me] = _Save(taken, step)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        where, save = self._where, self._saves[threading.get_ident()]
        self._catalogue = Catalogue.of(where)
        number, kept = self._catalogue.begin(where, len(plans))
        save.number, save.kept = number, kept
        token, seed = secrets.token_bytes(8), self._catalogue.seed
        folder = os.path.abspath(where.folder)
        return [
            replace(plan, storage_data=_Part(folder, rank, number, kept, seed, self._piece, token))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        part = plan.storage_data
        assert isinstance(part, _Part)
        path = Where(part.folder, None).rank_pool(part.rank)
        self._pool = shared(RankPool, path, lambda: RankPool(path, part.piece, self._max_bytes))
        self._pool.begin(part.number, part.kept, part.token)
        try:
            saving = Saving(self._pool, part.rank, Digests(part.seed))
            results = saving.all(plan.items, planner)
            used = self._pool.end()
        except BaseException:
            with suppress(perdure.Error):
                self._pool.abandon()
            self._ended()
            raise
        self.pieces_put, self.pieces_used = saving.put, used
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        assert self._catalogue is not None
        save = self._saves[threading.get_ident()]
        number = save.number
        metadata.storage_data = {one.index: one.storage_data for of in results for one in of}
        metadata.storage_meta = StorageMeta(checkpoint_id=save.id)
        try:
            self._catalogue.check_mine(self._where)
            known = Checkpoint(number, save.id, save.step, len(results))
            self._catalogue.keep(number, known, metadata)
            oldest = max(min([*save.kept, number]), number - self._keep + 1)
            self._catalogue.publish(self._where, number, oldest, not self._beside())
        finally:
            self._ended()

    def _ended(self) -> None:
        """This thread's save, which may have been the coordinator's."""
        save = self._saves.pop(threading.get_ident(), None)
        if save is not None and self._catalogue is not None:
            self._catalogue.end()

    def _beside(self) -> bool:
        """An asynchronous save: the training goes on meanwhile."""
        return threading.get_ident() != self._thread

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=self.checkpoint_id)


class _Unreadable(Metadata):
    """Metadata that could not be read: raises why once it is used.

    What read_metadata() itself raises, PyTorch up to 2.11 at least drops without a word, and later
    ones make an AssertionError of it.
    """

    def __init__(self, why: perdure.Error) -> None:
        self.why = why

    def __getattr__(self, name: str) -> Any:
        raise self.why


class CheckpointReader(StorageReader):
    """Loads checkpoints that a `CheckpointWriter` saved, on any number of ranks. It takes no lock,
    and may read beside the training that saves.

    Parameters
    ----------
    target : path, Store or Follower
        As of the writer. Ranks without the training's store pass a `Follower` of its pool.
    folder : path, optional
        As of the writer.
    number : int, optional
        Of the checkpoint; by default the newest one, or the newest with the `checkpoint_id` that
        `dcp.load` was given.
    step : int, optional
        That the tables are at; by default what the store's trainer says, after its `resume`.
    any_step : bool
        Load also what belongs to tables of another step.

    Attributes
    ----------
    checkpoint : Checkpoint or None
        Which one the last load found.
    """

    checkpoint: Checkpoint | None

    def __init__(
        self,
        target: Target,
        *,
        folder: PathLike | None = None,
        number: int | None = None,
        step: int | None = None,
        any_step: bool = False,
    ) -> None:
        super().__init__()
        self._where = Where.of(target, folder)
        self._number, self._step, self._any_step = number, step, any_step
        self._id: str | None = None
        self.checkpoint = None

    @property
    def checkpoint_id(self) -> str | None:
        return self._id

    def checkpoints(self) -> list[Checkpoint]:
        """Those that can be loaded, the oldest first.

        Raises
        ------
        NotFound
            There is no folder of checkpoints.
        """
        return [known for known, _ in Listing(self._where).all()]

    # --- what torch.distributed.checkpoint calls, in this order

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._id = None if checkpoint_id is None else os.fspath(checkpoint_id)

    def read_metadata(self) -> Metadata:  # no rank has metadata of its own
        try:
            return self._found()
        except perdure.Error as error:
            return _Unreadable(error)

    def _found(self) -> Metadata:
        asked, self._id = self._id, None  # for this load alone
        self.checkpoint, metadata = Listing(self._where).find(asked, self._number)
        step = self._where.step() if self._step is None else self._step
        of = self.checkpoint.step
        if not self._any_step and None not in (step, of) and step != of:
            raise perdure.InvalidArgument(
                f"{self._where.folder}: checkpoint {self.checkpoint.number} belongs to step {of} of"
                f" the tables, which are at step {step}: save one with each step that may be"
                " resumed, or pass any_step=True to load it all the same"
            )
        return metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        if isinstance(metadata, _Unreadable):
            raise metadata.why
        self._stored = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        assert self.checkpoint is not None
        return replace(plan, storage_data=self.checkpoint.number)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        numbers = sorted({plan.storage_data for plan in plans})
        if len(numbers) > 1:
            raise perdure.Busy(
                f"{self._where.folder}: while the ranks looked, checkpoint {numbers[-1]} was saved,"
                f" and some found {numbers[0]}; load again, or pass number="
            )
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        assert self.checkpoint is not None
        reads = Reads(Listing(self._where), self.checkpoint.number)
        for item in plan.items:
            reads.one(item, self._stored[item.storage_index], planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))
