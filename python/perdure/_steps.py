"""Transactions, and training steps that end in one: what takes effect together.

Invariant: however a block ends, nothing of its transaction stays open on the thread.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from perdure import _checks, errors
from perdure._deferred import Deferred
from perdure._handle import Handle

if TYPE_CHECKING:
    from perdure import _arrays
    from perdure.typing import Array, Stream
else:
    _arrays = Deferred("perdure._arrays")


class Steps(Handle):
    """Transactions, registered arrays and steps of a store."""

    @contextmanager
    def transaction(
        self, max_operations: int = 1 << 16, *, revertible: bool = False
    ) -> Generator[None, None, None]:
        """The batches that this thread writes in the block take effect together, or not at all.

        They take effect when the block ends; where it raises, or the process dies in it, none does
        (layouts "word" and "log"). Gets of this thread see them; other threads wait.

        Parameters
        ----------
        max_operations : int
            Room is made for so many, of all batches in the block, before it begins.
        revertible : bool
            `revert` can take it back after its commit. What it replaces takes room for as long.

        Raises
        ------
        NoSpace
            There is no room for `max_operations`; or, from a batch in the block, the batch goes
            beyond them: then it has no effect, and leaves the others as they are.
        Unsupported
            Layout or index cannot undo; or `revertible` with durability "power".
        InvalidArgument
            The store is read-only.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:transaction", key_bytes=8, value_bytes=8)
        >>> with store.transaction():
        ...     store[1] = 100
        ...     store[2] = 200
        >>> try:
        ...     with store.transaction():
        ...         del store[1]
        ...         del store[3]
        ... except KeyError:
        ...     print(1 in store)
        True
        """
        operations = _checks.whole("max_operations", max_operations, least=1)
        native = self._engine.begin(operations, bool(revertible))
        mine = self._of_thread
        mine.transaction = native
        try:
            yield
        except BaseException:
            mine.transaction = None
            with suppress(errors.Closed):  # in a forked child it is not open
                native.abort()
            raise
        mine.transaction = None
        native.commit()

    def revert(self) -> None:
        """Takes the last commit back: the store is as it was before it, durably.

        The commit was of a `transaction` or `step` that is `revertible`, and nothing has been
        written since, by this process or by one before it. For stores that commit together, each
        its part of a step: whoever has it while another has not goes back. Killed at any moment,
        it has happened or not. `restore_step` then answers the step before.

        Raises
        ------
        InvalidArgument
            There is nothing to take back (`can_revert`); or the store is read-only.
        Unsupported
            Layout "in_place", other indexes, durability "power".
        Busy
            A transaction is open on this thread.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:revert", key_bytes=8, value_bytes=8)
        >>> with store.transaction(revertible=True):
        ...     store[1] = 100
        >>> store.can_revert()
        True
        >>> store.revert()
        >>> 1 in store, store.can_revert()
        (False, False)
        """
        self._engine.revert()

    def can_revert(self) -> bool:
        """Whether `revert` has a commit to take back.

        Returns
        -------
        bool

        Raises
        ------
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        See `revert`.
        """
        return self._engine.can_revert()

    def register_dense(self, /, **arrays: Array) -> None:
        """Names the arrays that `step` saves and `restore_step` fills: all of them, in one call.

        Their bytes are read and written where they are: change them in place, or register the
        arrays that take their place. The first call that a pool sees makes room in it for two
        copies of each; from then on names and sizes in bytes must be the same (dtypes and shapes
        are not kept).

        Parameters
        ----------
        **arrays : writable, C-contiguous arrays
            Of any shape and dtype: NumPy, or of a library with DLPack (CuPy, PyTorch); in device
            memory where the store runs on a GPU.

        Raises
        ------
        TypeError, ValueError
            One is no array, not contiguous or cannot be written.
        InvalidArgument
            Names or sizes differ from those that the pool has, which names the first that does; or
            the store is read-only.
        Unsupported
            Layout "in_place", Dash's indexes, durability "power".
        NoSpace, Closed
            As in `put`.

        Examples
        --------
        See `step`.
        """
        handle = _arrays.stream_of(None, self._device, *arrays.values())
        columns = {
            name: _arrays.whole(name, array, handle, self._device) for name, array in arrays.items()
        }
        self._engine.register_dense(list(columns.items()))
        self._dense = [(array, columns[name]) for name, array in arrays.items()]

    @contextmanager
    def step(
        self,
        number: int,
        max_operations: int = 1 << 16,
        *,
        stream: Stream | None = None,
        revertible: bool = False,
    ) -> Generator[None, None, None]:
        """A `transaction` that ends with a training step.

        What this thread writes in the block, the registered arrays as they are at its end, and
        `number` take effect together. Where the block raises, or the process dies in it, nothing
        does: the table and `restore_step` are those of the step before. (The arrays themselves stay
        as the block left them.)

        Parameters
        ----------
        number : int
            0 to 2^63 - 2; `restore_step` returns it.
        max_operations : int
            As in `transaction`.
        stream : int, torch.cuda.Stream or cupy.cuda.Stream, optional
            Device arrays are saved once it has come here; by default their library's current
            stream.
        revertible : bool
            As in `transaction`.

        Raises
        ------
        InvalidArgument
            No arrays are registered, or the store is read-only.
        ValueError
            `number` is out of range.
        NoSpace, Unsupported, Closed
            As in `transaction`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:step", key_bytes=8, value_bytes=8)
        >>> weights = np.zeros(4)
        >>> store.register_dense(weights=weights)
        >>> with store.step(1):
        ...     store[7] = 70
        ...     weights += 1
        >>> weights[:] = np.nan
        >>> store.restore_step(), weights.tolist()
        (1, [1.0, 1.0, 1.0, 1.0])
        """
        number = _checks.whole("number", number)
        self._check_registered()
        with self.transaction(max_operations, revertible=revertible):
            yield
            mine = self._mine()
            assert mine is not None
            mine.write_step(number, self._dense_stream(stream))

    def restore_step(self, *, stream: Stream | None = None) -> int | None:
        """Fills the registered arrays with what the last `step` saved.

        Parameters
        ----------
        stream
            As in `step`.

        Returns
        -------
        int or None
            The step's number. None, and the arrays stay as they are, where there has been no step
            yet.

        Raises
        ------
        InvalidArgument
            No arrays are registered.
        Corrupt
            What was saved fails its checksum.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        See `step`.
        """
        self._check_registered()
        return self._engine.restore_step(self._dense_stream(stream))

    def _check_registered(self) -> None:
        if not self._dense:
            path = self._engine.path()  # raises where the store is closed
            raise errors.InvalidArgument(
                f"pool {path}: no dense arrays are registered in this store; call "
                "register_dense first"
            )

    def _dense_stream(self, stream: Stream | None) -> int:
        return _arrays.stream_of(stream, self._device, *(array for array, _ in self._dense))
