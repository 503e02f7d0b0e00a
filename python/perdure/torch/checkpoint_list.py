"""Which checkpoints of a folder count, and what is known of each.

Two numbers say which count, the newest and the oldest: a record of `checkpoints.pool`, or of the
pool whose tables the checkpoints belong to, where they can be of one commit with these.

Invariant: the record names a checkpoint only once all ranks have saved their parts and its
metadata is in `checkpoints.pool`; until then the older ones are untouched.
"""

from __future__ import annotations

import os
import pickle
import secrets
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import perdure
from perdure.options import PathLike
from perdure.torch import notes
from perdure.torch.checkpoint_pools import (
    HEAD,
    META,
    META_BYTES,
    STATE,
    Beside,
    Own,
    _open_or_make,
    as_content,
    erase_blob,
    get_blob,
    numbers_in,
    put_blob,
    shared,
)
from perdure.torch.commit_point import between_commits
from perdure.torch.follower import Follower
from perdure.torch.pieces import SEED
from perdure.torch.trainer import trainer_of

Target = perdure.Store | Follower | PathLike
_STATE = struct.Struct(f"<16s{SEED}s")  # of which training, and the seed; then (number, ranks)
_NOBODY = bytes(16)
# What a save lies within; a thread that waits in async_save for its state to be copied is in none.
_SAVER, _SAVES = "torch.distributed.checkpoint.state_dict_saver", "save_state_dict"


@dataclass(frozen=True)
class Checkpoint:
    """One that counts.

    Attributes
    ----------
    number : int
        The first of a folder is 1.
    id : str
        `checkpoint_id` of the save; "" where it had none.
    step : int or None
        Of the tables that it belongs to.
    ranks : int
        That saved it.
    """

    number: int
    id: str
    step: int | None
    ranks: int


@dataclass(frozen=True)
class Where:
    """A folder, and the pool with the tables, if there is one."""

    folder: str
    tables: perdure.Store | Follower | None

    @classmethod
    def of(cls, target: Target, folder: PathLike | None) -> Where:
        if not isinstance(target, (perdure.Store, Follower)):
            if folder is not None:
                raise ValueError("folder: the first argument is one; pass it once")
            return cls(os.fspath(target), None)
        if folder is None and target.path.startswith("memfd:"):
            raise ValueError(f"pool {target.path}: it is no file; pass folder=")
        return cls(os.fspath(folder or target.path + ".checkpoints"), target)

    @property
    def listing(self) -> str:
        return os.path.join(self.folder, "checkpoints.pool")

    def rank_pool(self, rank: int) -> str:
        return os.path.join(self.folder, f"rank-{rank}.pool")

    def owner(self) -> bytes:
        return _NOBODY if self.tables is None else bytes.fromhex(notes.known_training(self.tables))

    def check_owner(self, owner: bytes) -> None:
        if owner == self.owner():
            return
        if owner == _NOBODY:
            raise perdure.InvalidArgument(
                f"{self.folder}: its checkpoints belong to no tables; pass the folder alone"
            )
        raise perdure.InvalidArgument(
            f"{self.folder}: its checkpoints belong to the tables of training {owner.hex()}; pass"
            " the store of that pool, with folder= where they have another name"
        )

    def step(self) -> int | None:
        """Of the tables, as far as their trainer says."""
        trainer = trainer_of(self.tables)
        return None if trainer is None else trainer.ended + trainer.in_step

    def wait(self) -> None:
        """Until the tables are at the last step that ended, with the checkpoint of its commit."""
        trainer = trainer_of(self.tables)
        if trainer is not None:
            trainer.wait()


class Catalogue:
    """The coordinator's: `checkpoints.pool`, open for writing."""

    def __init__(self, path: str, owner: bytes) -> None:
        self.store = _open_or_make(path, META_BYTES, None)
        self._own = Own(self.store)
        state = get_blob(self._own, STATE, 0)
        if state is None:
            state = _STATE.pack(owner, secrets.token_bytes(SEED))
            put_blob(self.store, STATE, 0, state)
        self._lock = threading.Lock()  # guards _saver
        self._saver: threading.Thread | None = None  # whose save is under way
        self.owner, self.seed = _STATE.unpack(state[: _STATE.size])
        pairs = numbers_in(state[_STATE.size :])
        self._ranks = dict(zip(pairs[::2], pairs[1::2], strict=True))

    @classmethod
    def of(cls, where: Where) -> Catalogue:
        os.makedirs(where.folder, exist_ok=True)
        made = shared(cls, where.listing, lambda: cls(where.listing, where.owner()))
        where.check_owner(made.owner)
        return made

    def begin(self, where: Where, ranks: int) -> tuple[int, list[int]]:
        """The number of a new checkpoint, and those that are kept meanwhile. What no other needs
        goes.

        Raises
        ------
        Busy
            Another thread saves: both would have one number, and what one names the other erases.
        """
        self._enter(where)
        try:
            return self._begin(where, ranks)
        except BaseException:
            self.end()
            raise

    def check_mine(self, where: Where) -> None:
        """Whether what this thread saved may count."""
        if self._saver is not threading.current_thread():
            raise _busy(where)

    def end(self) -> None:
        """Of this thread's save."""
        with self._lock:
            if self._saver is threading.current_thread():
                self._saver = None

    def _enter(self, where: Where) -> None:
        """Nobody tells the coordinator of a save that failed on another rank; but then its thread
        is in none any more."""
        me = threading.current_thread()
        with self._lock:
            before = self._saver
            if before is not None and before is not me and _is_saving(before):
                raise _busy(where)
            self._saver = me

    def _begin(self, where: Where, ranks: int) -> tuple[int, list[int]]:
        newest, oldest = self.head(where)
        # Of tables whose folder was another one before, or was removed, this one lacks some.
        kept = [one for one in range(oldest, newest + 1) if one in self._ranks]
        for number in [one for one in self._ranks if one not in kept]:
            erase_blob(self.store, META, number)
            del self._ranks[number]
        self._ranks[newest + 1] = ranks
        pairs = [one for pair in self._ranks.items() for one in pair]
        state = _STATE.pack(self.owner, self.seed) + as_content(pairs)
        put_blob(self.store, STATE, 0, state)
        self._unlink_from(where, max(self._ranks.values()))
        return newest + 1, kept

    def head(self, where: Where) -> tuple[int, int]:
        return head_of(where, self._own)

    def keep(self, number: int, checkpoint: Checkpoint, metadata: Any) -> None:
        """All that is known of one, before it counts."""
        inner = pickle.dumps(metadata, pickle.HIGHEST_PROTOCOL)
        put_blob(self.store, META, number, pickle.dumps((self.owner, checkpoint, inner)))

    def publish(self, where: Where, newest: int, oldest: int, with_step: bool) -> None:
        """From here on it counts; or, with a step of the tables that this thread has under way,
        once that is committed."""
        tables = where.tables
        if tables is None:
            put_blob(self.store, HEAD, 0, as_content([newest, oldest]))
            return
        assert isinstance(tables, perdure.Store)
        trainer = trainer_of(tables)
        if with_step and trainer is not None and trainer.in_step:
            trainer.commit_with_step(lambda: notes.keep_checkpoints(tables, newest, oldest))
            return
        if with_step and trainer is not None:
            trainer.wait()
        with between_commits(tables):
            notes.keep_checkpoints(tables, newest, oldest)

    def _unlink_from(self, where: Where, rank: int) -> None:
        """Pools of ranks that no checkpoint has."""
        while os.path.lexists(where.rank_pool(rank)):
            os.unlink(where.rank_pool(rank))
            rank += 1


def _is_saving(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        name = frame.f_code.co_name
        if name.endswith(_SAVES) and frame.f_globals.get("__name__") == _SAVER:
            return True
        frame = frame.f_back
    return False


def _busy(where: Where) -> perdure.Busy:
    return perdure.Busy(f"{where.folder}: another save is under way; let it end first")


def head_of(where: Where, source: Beside | Own) -> tuple[int, int]:
    if where.tables is not None:
        where.wait()
        return notes.checkpoints(where.tables)
    newest, oldest = numbers_in(get_blob(source, HEAD, 0) or as_content([0, 1]))
    return newest, oldest


class Listing:
    """A reader's, beside whoever writes."""

    def __init__(self, where: Where) -> None:
        self.where = where
        try:
            self._source = Beside(where.listing)
        except (perdure.NotFound, FileNotFoundError) as error:
            raise self._none() from error

    def kept(self) -> range:
        newest, oldest = head_of(self.where, self._source)
        return range(oldest, newest + 1)

    def all(self) -> list[tuple[Checkpoint, bytes]]:
        """With the pickled metadata of each, the oldest first. One that goes meanwhile is left
        out."""
        kept = self.kept()
        found = [(number, get_blob(self._source, META, number)) for number in kept]
        still = self.kept()
        for number, content in found:
            if content is None and number in still:
                raise perdure.NotFound(
                    f"{self.where.folder}: checkpoint {number} is not in it, though it counts; pass"
                    " the folder that it was saved to as folder="
                )
        known = [pickle.loads(content) for _, content in found if content is not None]
        for owner, _, _ in known:
            self.where.check_owner(owner)
        return [(checkpoint, metadata) for _, checkpoint, metadata in known]

    def find(self, id: str | None, number: int | None) -> tuple[Checkpoint, Any]:
        every = self.all()
        if not every:
            raise self._none()
        for checkpoint, metadata in reversed(every):
            if (id is None or checkpoint.id == id) and number in (None, checkpoint.number):
                return checkpoint, pickle.loads(metadata)
        asked = f"with the id {id!r}" if id is not None else f"of number {number}"
        raise perdure.NotFound(
            f"{self.where.folder}: no checkpoint {asked} is kept; there are"
            f" {_names([one for one, _ in every])}"
        )

    def _none(self) -> perdure.NotFound:
        return perdure.NotFound(
            f"{self.where.folder}: there is no checkpoint; dcp.save with a CheckpointWriter makes"
            " one, and it counts once all ranks have saved their parts"
        )


def _names(several: Sequence[Checkpoint]) -> str:
    return ", ".join(f"{one.number} ({one.id!r})" if one.id else f"{one.number}" for one in several)
