"""Commits beside the training: a thread commits step n while step n + 1 runs.

A lookup takes rows of the step that is under way from memory, and all others from the pool. The
engine keeps readers out while it commits, so a commit begins once the next step has looked up as
often as its own step did; then it runs beside the rest of that step.

Invariants: of a store one commit at most is under way. A lookup sees every row as the step that
ended last left it, whether that is committed or not. What fails in the thread is raised once.
"""

from __future__ import annotations

import os
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

import perdure
from perdure.torch.gathers import rows_at
from perdure.torch.keys import Among
from perdure.torch.passes import Looked

# A commit waits so long for the lookups of the next step: who looks up later waits for the commit,
# and a training that pauses has its last step durable soon.
_PATIENCE_SECONDS = 0.05
_Read = TypeVar("_Read")


class Kept:
    """Rows of a step, as the commit will leave them."""

    def __init__(
        self,
        changed: Sequence[tuple[int, Among, Tensor]],
        gone: Tensor | None,
        device: torch.device,
    ) -> None:
        """`changed`: widths in bytes, keys and rows; `gone`: keys that are evicted."""
        self._changed = list(changed)
        self._gone = None if gone is None else Among(gone)
        self._made = None
        if device.type == "cuda":
            self._made = torch.cuda.Event()
            self._made.record(torch.cuda.current_stream(device))

    def wait_on_device(self) -> None:
        """What the caller's stream does from here on comes after the rows were made."""
        if self._made is not None:
            self._made.wait()

    def lay_over(self, looked: Looked) -> Tensor:
        """Rows that a lookup found, as they will be, in place; and which of them, by their
        positions, begin anew."""
        self.wait_on_device()
        keys, are_numbers = looked.batch.keys, looked.batch.are_numbers
        for width, among, changed in self._changed:
            if width == looked.group.value_bytes:
                _lay(looked, among, changed)
        if self._gone is None:
            return keys.new_empty(0)
        begins, _ = self._gone.find(keys, are_numbers)
        if len(begins):
            looked.rows[begins] = 0
            looked.missing = looked.new
            looked.missing[begins] = True
        return begins


def _host_waits(keys: Tensor) -> bool:
    return keys.is_cuda


def _lay(looked: Looked, among: Among, changed: Tensor) -> None:
    """Changed rows over those that a lookup found. Where the host would wait for how many they are,
    all rows are written."""
    keys, are_numbers = looked.batch.keys, looked.batch.are_numbers
    found = among.mask(keys, are_numbers) if _host_waits(keys) else None
    if found is not None:
        there, at = found
        looked.rows = torch.where(there[:, None], rows_at(changed, at), looked.rows)
        if looked.missing is not None:
            looked.missing &= ~there
        return
    mine, at = among.find(keys, are_numbers)
    looked.rows[mine] = changed[at]
    if looked.missing is not None:
        looked.missing[mine] = False


class Commit:
    """One step's, from the moment that its rows are taken until it is durable or has failed."""

    def __init__(self, step: int, write: Callable[[], None], kept: Kept, lookups: int) -> None:
        self.kept: Kept | None = kept  # None: it is committed
        self.failure: BaseException | None = None
        self._step, self._lookups = step, lookups
        self._write: Callable[[], None] | None = write
        self._lock = threading.Lock()  # guards _write
        self._may_begin, self._ended = threading.Event(), threading.Event()
        self._process = os.getpid()
        if lookups == 0:
            self._may_begin.set()

    def looked_up(self) -> None:
        self._lookups -= 1
        if self._lookups <= 0:
            self._may_begin.set()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def wait(self) -> None:
        """Until it has ended, one way or the other."""
        if self.has_ended:
            return
        if self._process != os.getpid():
            raise perdure.Closed(
                f"the commit of step {self._step} goes on in the process that forked this one; a"
                " store and its trainer belong to that one"
            )
        self._may_begin.set()
        self._ended.wait()

    def run(self, stream: AbstractContextManager[Any]) -> None:
        """In the thread."""
        self._may_begin.wait(_PATIENCE_SECONDS)
        write = self._taken()
        if write is None:
            return
        try:
            with stream:
                if self.kept is not None:
                    self.kept.wait_on_device()
                write()
            self.kept = None
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # which have the step's tensors
            error.add_note(
                f"perdure: in the commit of step {self._step}, beside the training; resume() goes"
                " on after the last step that is committed"
            )
            self.failure = error
        finally:
            write = None  # with the trainer; this frame is of the traceback
            self._ended.set()

    def drop(self) -> None:
        """It will not begin, if it has not."""
        if self._taken() is not None:
            self._ended.set()

    def _taken(self) -> Callable[[], None] | None:
        with self._lock:
            write, self._write = self._write, None
        return write


class Committer:
    """A trainer's thread that commits."""

    def __init__(self, store: perdure.Store, device: torch.device) -> None:
        self._store = weakref.ref(store)
        self._commit: Commit | None = None
        self._process = os.getpid()
        self._thread = ThreadPoolExecutor(1, "perdure-commit")  # ended before the interpreter is
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.closes: Callable[[], None] | None = None  # what else goes with the store
        store._beside.add(self)

    def begin(self, store: perdure.Store, commit: Commit) -> None:
        """None is under way."""
        check_free(store)
        if self._process != os.getpid():
            raise perdure.Closed(
                f"pool {store.path}: this trainer belongs to the process that forked this one"
            )
        stream = nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        try:
            _latest[store] = self._commit = commit
            self._thread.submit(commit.run, stream)
        except BaseException:
            commit.drop()
            raise

    def wait(self) -> None:
        """Until none is under way."""
        store = self._store()
        if self._commit is not None and not self._commit.has_ended and store is not None:
            check_free(store)
            self._commit.wait()

    def failure(self) -> BaseException | None:
        """Why the last commit failed, if that is known and nobody was told."""
        if self._commit is None or self._process != os.getpid():
            return None
        failure, self._commit.failure = self._commit.failure, None
        return failure

    def check_end(self) -> None:
        store = self._store()
        here = self._process == os.getpid()
        if here and store is not None and self._commit is not None and not self._commit.has_ended:
            check_free(store)

    def end(self) -> None:
        """For a store that closes."""
        self.wait()
        store = self._store()
        if self.closes is not None and store is not None and self._process == os.getpid():
            wait_for(store)  # of another trainer, which may have them, too
            self.closes()
        self.tell()

    def tell(self) -> None:
        failure = self.failure()
        if failure is not None:
            raise failure


# --- of a store

_latest: weakref.WeakKeyDictionary[Any, Commit] = weakref.WeakKeyDictionary()


def check_free(store: perdure.Store) -> None:
    """A commit would wait for this thread, and this thread for the commit."""
    if store._mine() is not None:
        raise perdure.Busy(
            f"pool {store.path}: a transaction is open on this thread, for which a commit waits;"
            " end it first"
        )


def wait_for(store: perdure.Store) -> None:
    """Until no commit of the store is under way, whosever it is; its rows are forgotten."""
    commit = _latest.get(store)
    if commit is not None:
        if not commit.has_ended:
            check_free(store)
        commit.wait()
        _latest.pop(store, None)


def reading(store: Any, read: Callable[[], _Read]) -> tuple[_Read, Kept | None]:
    """What `read` reads of the pool at one moment, and what has to be laid over it."""
    while True:
        commit = _latest.get(store)
        kept = None if commit is None else commit.kept
        found = read()
        # Else the next commit, of another thread's step, may have begun before the pool was read.
        if kept is None or _latest.get(store) is commit:
            break
    if commit is not None:
        commit.looked_up()
    return found, kept
