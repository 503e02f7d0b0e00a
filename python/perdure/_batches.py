"""Batches of arrays in, arrays out: get, put, update, erase.

Invariant: a call either did what it says for every key, or raises; statuses are for those who ask
with check=False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from perdure import _checks, _native
from perdure._columns import Columns
from perdure._deferred import Deferred
from perdure._scan import refuse_rows
from perdure.options import Operation
from perdure.results import OK, Outcome, Result, checked, done_mask, first, worst_of

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _arrow, _made, _operands
    from perdure.typing import Array, DType, Keys, RowShape, Stream, Values
else:
    np, _arrays, _arrow = Deferred("numpy"), Deferred("perdure._arrays"), Deferred("perdure._arrow")
    _made, _operands = Deferred("perdure._made"), Deferred("perdure._operands")


class Batches(Columns):
    """Batches of a store."""

    def get(
        self,
        keys: Keys,
        *,
        out: Array | None = None,
        dtype: DType | None = None,
        shape: RowShape | None = None,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """The values of `keys`.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), list, or one key
            A row a key, `key_bytes` long: integers or bytes, never floats. Arrays of NumPy, CuPy,
            PyTorch and JAX, Arrow arrays, lists of bytes, str or int. Where keys vary in length: an
            Arrow array of binary or string, or a list.
        out : writable array of n rows, optional
            Takes the values, of whatever dtype; rows of absent keys are left as they are.
        dtype : dtype, by default the pool's, or uint8
            Of the array that is made where `out` is not given. Where the pool knows its values'
            dtype, it is that one, or uint8 for their bytes; so it is with `out`.
        shape : tuple of int, optional
            Of one of its rows; by default the pool's, or (value_bytes / itemsize,). `()` makes a
            plain column of shape (n,).
        stream : int, torch.cuda.Stream or cupy.cuda.Stream, optional
            Where device arrays are being made ready; by default their library's current stream.
        check : bool
            Raise where a key failed otherwise than by being absent; without it, its status says so.

        Returns
        -------
        Result
            `values, found, statuses`: `values` is `out`, or an array of shape `(n, *shape)` of the
            keys' library, zero where a key is absent; where values vary in length a
            pyarrow.LargeBinaryArray, null where a key is absent. `found` is bool of shape (n,),
            `statuses` uint8 of shape (n,). For one key instead of an array each of them is one
            element.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or device does not fit the pool; nothing was read.
        Corrupt
            With `check`: a record fails its checksum. `.outcome` has the whole Result.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:get", key_bytes=8, value_bytes=4)
        >>> done, _ = store.put(np.arange(3), np.float32([0, 10, 20]))
        >>> values, found, statuses = store.get([2, 7], dtype=np.float32, shape=())
        >>> values.tolist(), found.tolist()
        ([20.0, 0.0], [True, False])
        >>> perdure.KeyStatus(statuses[1]).name
        'not_found'
        """
        if _arrays.is_scalar(keys):
            return first(
                self.get([keys], out=out, dtype=dtype, shape=shape, stream=stream, check=check)
            )
        handle = _arrays.stream_of(stream, self._device, keys, out)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        statuses = np.zeros(given.count, np.uint8)
        if self._value_width is None:
            refuse_rows(out=out, dtype=dtype, shape=shape)
            offsets, data, worst = self._engine.get_variable(given, statuses, handle, self._mine())
            found = done_mask(statuses)
            values = _arrow.to_array(offsets, data, found)
        else:
            values, column = self._destination(keys, given, out, dtype, shape, handle, zeros=False)
            worst = self._engine.get(given, column, statuses, handle, self._mine())
            found = done_mask(statuses)
            if worst != OK and out is None:
                _made.clear_absent(values, found)
        return checked(self._path, "get", Result(values, found, statuses), worst, check)

    def view(self, keys: Keys, *, dtype: DType | None = None, check: bool = True) -> Result:
        """The values of `keys` where they lie in the pool, without a copy.

        As long as one of the arrays lives, none of them changes: reads go on, and whatever would
        write raises `Busy`. `close` leaves the pool mapped, and its file in use, to arrays that are
        left; in a forked child it is not mapped, and to touch one is an error that ends the child
        (SIGSEGV). Open the pool `read_only`, and no writer is kept waiting. Index gphash.

        Parameters
        ----------
        keys
            As in `get`; in host memory.
        dtype : dtype, optional
            Of the arrays; by default uint8, for bytes.
        check
            As in `get`.

        Returns
        -------
        Result
            `values` is a list: of each key a read-only NumPy array of shape (items,), or None where
            it is absent. For one key, one of them.

        Raises
        ------
        Busy
            A transaction of this thread is open.
        Unsupported
            The pool's index is another.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:view", key_bytes=8, value_bytes=16)
        >>> done, _ = store.put(np.arange(2), np.float32([[1, 2, 3, 4], [5, 6, 7, 8]]))
        >>> values, found, _ = store.view([1, 9], dtype=np.float32)
        >>> values
        [array([5., 6., 7., 8.], dtype=float32), None]
        """
        if _arrays.is_scalar(keys):
            return first(self.view([keys], dtype=dtype, check=check))
        given = _arrays.keys_column(keys, self._key_width, 0, self._device)
        statuses = np.zeros(given.count, np.uint8)
        kind = np.dtype(np.uint8 if dtype is None else cast("Any", dtype))
        octets = self._engine.view(given, statuses)
        shown = [None if one is None else one.view(kind) for one in octets]
        answer = Result(shown, done_mask(statuses), statuses)
        return checked(self._path, "view", answer, worst_of(statuses), check)

    def put(
        self,
        keys: Keys,
        values: Values,
        *,
        atomic: bool = False,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Outcome:
        """Inserts each key with its value, or replaces the value that is there.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), list, or one key
            As in `get`. Of a key that comes twice the last value stays.
        values : array of n rows, list, or the value of one key
            Of any dtype and shape whose rows are `value_bytes` long. Where the pool knows their
            dtype and
            shape: of these, or of another dtype whose numbers this one holds exactly; lists of
            floats round; bytes as long as a value are taken as they are. Where values vary in
            length: an Arrow array of binary or string, or a list of bytes or str.
        atomic : bool
            The batch takes effect whole or not at all, whatever happens meanwhile (layouts
                "word" and "log").
        stream, check
            As in `get`.

        Returns
        -------
        Outcome
            `done, statuses`: `done` is bool of shape (n,), `statuses` uint8 of shape (n,). What is
            done is durable when the call returns.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or device does not fit the pool; nothing was written.
        InvalidArgument
            With `check`: a key or value is too long for the pool, and the others took effect.
            Always: the store is read-only.
        NoSpace
            The pool could not grow. `.outcome` says which keys took effect.
        Unsupported
            `atomic`, where layout or index cannot undo.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:put", key_bytes=None, value_bytes=None)
        >>> done, statuses = store.put(["a", "b"], ["first", "second"])
        >>> done.tolist()
        [True, True]
        >>> store.get(["b", "c"]).values.to_pylist()
        [b'second', None]
        """
        if _arrays.is_scalar(keys):
            return first(
                self.put([keys], self._one_row(values), atomic=atomic, stream=stream, check=check)
            )
        handle = _arrays.stream_of(stream, self._device, keys, values)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        rows = self._rows("values", values, given.count, handle)
        return self._write("put", self._engine.put, (given, rows), check, handle, atomic)

    def _put_whole(self, keys: Keys, values: Values) -> None:
        """`put` within a transaction, which takes a batch whole or not at all: nobody asks how each
        key fared, and of millions that takes a millisecond."""
        transaction = self._mine()
        assert transaction is not None, "else nobody would hear of a key that is refused"
        handle = _arrays.stream_of(None, self._device, keys, values)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        rows = self._rows("values", values, given.count, handle)
        nothing = np.empty(0, np.uint8)
        self._engine.put(given, rows, nothing, handle, False, transaction)

    def update(
        self,
        keys: Keys,
        operands: Values,
        op: Operation = "add",
        *,
        element: DType | None = None,
        atomic: bool = False,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Outcome:
        """Combines each stored value with its operand; absent keys stay absent.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), list, or one key
            As in `get`. A key that comes twice is updated twice, in array order.
        operands : array of n rows, list, or the operand of one key
            Rows as long as the values. Their dtype says what the values hold: uint8, int32, uint32,
            int64, uint64, float32 or float64.
        op : {"add", "min", "max", "replace"}
            Integers wrap around. "min" and "max" treat NaN as NumPy's minimum and maximum do: it
            stays.
        element : dtype, optional
            What the values hold, where the operands are bytes, and the pool does not know it.
        atomic, stream, check
            As in `put`.

        Returns
        -------
        Outcome
            `done, statuses`; `done` is false where a key was absent.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or device does not fit the pool; nothing was written.
        InvalidArgument
            With `check`: operand and stored value differ in length (pools of varying length).
        Corrupt
            With `check`: a record fails its checksum, and was left as it is.
        NoSpace, Unsupported, Closed
            As in `put`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:update", key_bytes=8, value_bytes=8)
        >>> _ = store.put([1], np.array([40]))
        >>> done, _ = store.update([1, 1, 9], np.array([1, 1, 1]))
        >>> done.tolist(), store.get([1], dtype=np.int64).values.tolist()
        ([True, True, False], [[42]])
        """
        if _arrays.is_scalar(keys):
            row = self._one_row(operands)
            return first(
                self.update(
                    [keys], row, op, element=element, atomic=atomic, stream=stream, check=check
                )
            )
        handle = _arrays.stream_of(stream, self._device, keys, operands)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        rows = self._rows("operands", operands, given.count, handle)
        rmw = _checks.named("op", op, _native.Rmw)
        kind = _operands.element_of("operands", rows, rmw, self._element(element))
        return self._write(
            "update", self._engine.update, (given, rows), check, handle, atomic, rmw, kind
        )

    def erase(
        self, keys: Keys, *, atomic: bool = False, stream: Stream | None = None, check: bool = True
    ) -> Outcome:
        """Removes each key.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), list, or one key
            As in `get`.
        atomic, stream, check
            As in `put`.

        Returns
        -------
        Outcome
            `done, statuses`; `done` is false where a key was absent.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or device does not fit the pool; nothing was erased.
        InvalidArgument, Unsupported, Closed
            As in `put`.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:erase", key_bytes=8, value_bytes=8)
        >>> store[1] = 5
        >>> store.erase([1, 2]).done.tolist()
        [True, False]
        """
        if _arrays.is_scalar(keys):
            return first(self.erase([keys], atomic=atomic, stream=stream, check=check))
        handle = _arrays.stream_of(stream, self._device, keys)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        return self._write("erase", self._engine.erase, (given,), check, handle, atomic)
