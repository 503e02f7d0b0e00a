"""Batches of arrays in, arrays out: get, put, update, erase, and mixtures of them.

Invariant: a call either did what it says for every key, or raises; statuses are for those who ask
with check=False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure import _checks, _native
from perdure._deferred import Deferred
from perdure._handle import Handle
from perdure._scan import refuse_rows
from perdure.options import Operation
from perdure.results import Outcome, Result, checked, done_mask, first, with_outcome

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _arrow, _operands
    from perdure.results import Statuses, TooLong
else:
    np, _arrays, _arrow = Deferred("numpy"), Deferred("perdure._arrays"), Deferred("perdure._arrow")
    _operands = Deferred("perdure._operands")


class Batches(Handle):
    """Batches of a store."""

    def get(
        self,
        keys: Any,
        *,
        out: Any = None,
        dtype: Any = None,
        shape: Any = None,
        stream: Any = None,
        check: bool = True,
    ) -> Result:
        """The values of `keys`.

        Fixed-width values come as rows of `dtype` (uint8) and row shape `shape`, in `out` or in a
        new array of the keys' library; rows of absent keys are left as they are (zero in a new
        array). Values of varying length come as a pyarrow.LargeBinaryArray, null where absent.
        One key instead of an array is answered by one row, here as in the calls below.
        """
        if _arrays.is_scalar(keys):
            return first(self.get([keys], out=out, dtype=dtype, shape=shape, stream=stream, check=check))
        handle = _arrays.stream_of(stream, keys, out)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        statuses = np.zeros(given.count, np.uint8)
        if self._value_width is None:
            refuse_rows(out=out, dtype=dtype, shape=shape)
            offsets, data = self._engine.get_variable(given.column, statuses, handle)
            found = done_mask(statuses)
            answer = Result(_arrow.to_array(offsets, data, found), found, statuses)
        else:
            values, column = self._destination(given, out, dtype, shape, handle)
            self._engine.get(given.column, column, statuses, handle)
            answer = Result(values, done_mask(statuses), statuses)
        return checked("get", answer, check)

    def put(
        self, keys: Any, values: Any, *, atomic: bool = False, stream: Any = None, check: bool = True
    ) -> Outcome:
        """Inserts each key with its value, or replaces the value that is there.

        With `atomic`, here and in `update`, `erase` and `apply`, the batch takes effect whole or not at
        all, whatever happens meanwhile (layout "word").
        """
        if _arrays.is_scalar(keys):
            return first(self.put([keys], _arrays.one_row(values), atomic=atomic, stream=stream, check=check))
        handle = _arrays.stream_of(stream, keys, values)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        rows = _arrays.values_input("values", values, self._value_width, given.count, handle, self._device)
        return self._write(
            "put",
            (given, rows),
            check,
            lambda statuses: self._engine.put(
                given.column, rows.column, statuses, handle, atomic, self._mine()
            ),
        )

    def update(
        self,
        keys: Any,
        operands: Any,
        op: Operation = "add",
        *,
        element: Any = None,
        atomic: bool = False,
        stream: Any = None,
        check: bool = True,
    ) -> Outcome:
        """Combines each stored value with its operand; absent keys stay absent (`done` is false).

        Values are seen as arrays of the operands' dtype: uint8, int32, uint32, int64, uint64,
        float32 or float64. `element` names it where the operands are bytes. "min" and "max" treat NaN as
        NumPy's minimum and maximum do: it stays, and it takes effect.
        """
        if _arrays.is_scalar(keys):
            row = _arrays.one_row(operands)
            return first(
                self.update([keys], row, op, element=element, atomic=atomic, stream=stream, check=check)
            )
        handle = _arrays.stream_of(stream, keys, operands)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        rows = _arrays.values_input(
            "operands", operands, self._value_width, given.count, handle, self._device
        )
        rmw = _checks.named("op", op, _native.Rmw)
        kind = _operands.element_of("operands", rows, rmw, element)
        return self._write(
            "update",
            (given, rows),
            check,
            lambda statuses: self._engine.update(
                given.column, rows.column, rmw, kind, statuses, handle, atomic, self._mine()
            ),
        )

    def erase(self, keys: Any, *, atomic: bool = False, stream: Any = None, check: bool = True) -> Outcome:
        """Removes each key; `done` is false where it was absent."""
        if _arrays.is_scalar(keys):
            return first(self.erase([keys], atomic=atomic, stream=stream, check=check))
        handle = _arrays.stream_of(stream, keys)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        return self._write(
            "erase",
            (given,),
            check,
            lambda statuses: self._engine.erase(given.column, statuses, handle, atomic, self._mine()),
        )

    def apply(
        self,
        keys: Any,
        kinds: Any,
        values: Any = None,
        *,
        op: Operation = "replace",
        element: Any = None,
        out: Any = None,
        dtype: Any = None,
        shape: Any = None,
        atomic: bool = False,
        stream: Any = None,
        check: bool = True,
    ) -> Result:
        """A mixed batch: operation i of `kinds` (OpKind, or its name) on key i, in array order.

        `values` holds the operand of every put and update; rows of gets and erases are ignored.
        What `update` does is `op`. Gets need a pool of fixed-width values; theirs arrive as in `get`.
        """
        handle = _arrays.stream_of(stream, keys, values, out)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        codes = _operands.kinds_of(kinds, given.count)
        rmw = _checks.named("op", op, _native.Rmw)
        operands, kind = self._operands(values, codes, rmw, element, given.count, handle)
        gathered, column = self._gathered(codes, given, out, dtype, shape, handle)
        statuses = np.zeros(given.count, np.uint8)

        def answer() -> Result:
            return Result(gathered, done_mask(statuses), statuses)

        with_outcome(
            answer,
            lambda: self._engine.apply(
                given.column,
                codes,
                operands[0].column if operands else _native.Column.empty(),
                rmw,
                kind,
                column,
                statuses,
                handle,
                atomic,
                self._mine(),
            ),
        )
        return checked("apply", answer(), check, self._lengths((given, *operands)))

    def _write(
        self, call: str, columns: tuple[_arrays.Input, ...], check: bool, run: Callable[[Statuses], None]
    ) -> Outcome:
        statuses = np.zeros(columns[0].count, np.uint8)

        def answer() -> Outcome:
            return Outcome(done_mask(statuses), statuses)

        with_outcome(answer, lambda: run(statuses))
        return checked(call, answer(), check, self._lengths(columns))

    def _lengths(self, columns: tuple[_arrays.Input, ...]) -> TooLong:
        """Of a row of keys, or of keys and values."""
        return lambda row: self._too_long(*(column.length(row) for column in columns))

    def _destination(
        self, keys: _arrays.Input, out: Any, dtype: Any, shape: Any, stream: int
    ) -> tuple[Any, _native.MutableColumn]:
        assert self._value_width is not None
        if out is None:
            out = _arrays.zeros(keys.rows, keys.count, self._value_width, dtype, shape)
        elif dtype is not None or shape is not None:
            raise ValueError("out: has its own dtype and shape; pass either out=, or dtype= and shape=")
        return out, _arrays.output(out, self._value_width, keys.count, stream, self._device)

    def _gathered(
        self, codes: Any, keys: _arrays.Input, out: Any, dtype: Any, shape: Any, stream: int
    ) -> tuple[Any, _native.MutableColumn]:
        if not (codes == int(_native.OpKind.get)).any():
            return out, _native.MutableColumn.empty()
        if self._value_width is None:
            raise ValueError(
                "kinds: a mixed batch cannot get values of varying length; call get() for those keys"
            )
        return self._destination(keys, out, dtype, shape, stream)

    def _operands(
        self, values: Any, codes: Any, rmw: _native.Rmw, element: Any, count: int, stream: int
    ) -> tuple[tuple[_arrays.Input, ...], _native.Element]:
        updates = bool((codes == int(_native.OpKind.update)).any())
        if values is None:
            if updates or (codes == int(_native.OpKind.put)).any():
                raise ValueError("values: the batch has puts or updates; pass one row a key")
            return (), _native.Element.uint8
        rows = _arrays.values_input("values", values, self._value_width, count, stream, self._device)
        kind = _operands.element_of("values", rows, rmw, element) if updates else _native.Element.uint8
        return (rows,), kind
