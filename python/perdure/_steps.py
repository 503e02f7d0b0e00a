"""Transactions, and training steps that end in one: what takes effect together.

Invariant: however a block ends, nothing of its transaction stays open on the thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from perdure import _checks, errors
from perdure._deferred import Deferred
from perdure._handle import Handle

if TYPE_CHECKING:
    from perdure import _arrays
else:
    _arrays = Deferred("perdure._arrays")


class Steps(Handle):
    """Transactions, registered arrays and steps of a store."""

    @contextmanager
    def transaction(self, max_operations: int = 1 << 16) -> Iterator[None]:
        """The batches that this thread writes in the block take effect together, or, where the block raises,
        not at all; a kill in between leaves none of them (layout "word").

        Gets of this thread see them; other threads wait. Room for `max_operations` in all is made first: a
        batch beyond it raises NoSpace, has no effect, and leaves the others as they are.
        """
        native = self._engine.begin(_checks.whole("max_operations", max_operations, least=1))
        mine = self._of_thread
        mine.transaction = native
        try:
            yield
        except BaseException:
            mine.transaction = None
            native.abort()
            raise
        mine.transaction = None
        native.commit()

    def register_dense(self, /, **arrays: Any) -> None:
        """Names the arrays that `step` saves and `restore_step` fills: all of them, in one call.

        Each is a C-contiguous, writable array of any shape and dtype: NumPy, or of a library with DLPack
        (CuPy, PyTorch), in device memory where the store runs on a GPU. Their bytes are read and written
        where they are: change them in place, or register the arrays that take their place. The first call
        that a pool sees makes room in it for two copies of each; from then on names and sizes in bytes must
        be the same, else InvalidArgument names the first array that differs (dtypes and shapes are not
        kept). Unsupported with layout "in_place" and with durability "power".
        """
        handle = _arrays.stream_of(None, *arrays.values())
        columns = {name: _arrays.whole(name, array, handle, self._device) for name, array in arrays.items()}
        self._engine.register_dense(list(columns.items()))
        self._dense = [(array, columns[name]) for name, array in arrays.items()]

    @contextmanager
    def step(self, number: int, max_operations: int = 1 << 16, *, stream: Any = None) -> Iterator[None]:
        """A `transaction` that ends with a training step: what this thread writes in the block, the
        registered arrays as they are at its end, and `number` (0 to 2^63 - 2) take effect together.

        Where the block raises, or the process dies in it, nothing does: the table and `restore_step` are
        those of the step before. (The arrays themselves stay as the block left them.) Device arrays are
        saved once `stream`, by default their library's current one, has come here. Raises InvalidArgument
        without registered arrays.
        """
        number = _checks.whole("number", number)
        self._check_registered()
        with self.transaction(max_operations):
            yield
            mine = self._mine()
            assert mine is not None
            mine.write_step(number, self._dense_stream(stream))

    def restore_step(self, *, stream: Any = None) -> int | None:
        """Fills the registered arrays with what the last `step` saved, and returns its number.

        None, and the arrays stay as they are, where there has been no step yet. Raises InvalidArgument
        without registered arrays.
        """
        self._check_registered()
        return self._engine.restore_step(self._dense_stream(stream))

    def _check_registered(self) -> None:
        if not self._dense:
            raise errors.InvalidArgument(
                f"pool {self._path}: no dense arrays are registered in this store; call register_dense first"
            )

    def _dense_stream(self, stream: Any) -> int:
        return _arrays.stream_of(stream, *(array for array, _ in self._dense))
