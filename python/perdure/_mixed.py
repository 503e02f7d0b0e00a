"""Mixed batches: gets, puts, updates and erases of one call.

Invariant: as of all batches (perdure._batches), and operations on one key take effect in array
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import _checks, _native, errors
from perdure._columns import Columns
from perdure._deferred import Deferred
from perdure.options import Operation
from perdure.results import Result, checked, done_mask

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _operands
    from perdure.typing import Array, DType, Keys, Kinds, RowShape, Stream, Values
else:
    np, _arrays, _operands = (
        Deferred("numpy"),
        Deferred("perdure._arrays"),
        Deferred("perdure._operands"),
    )


class Mixed(Columns):
    """Mixed batches of a store."""

    def apply(
        self,
        keys: Keys,
        kinds: Kinds,
        values: Values | None = None,
        *,
        op: Operation = "replace",
        element: DType | None = None,
        out: Array | None = None,
        dtype: DType | None = None,
        shape: RowShape | None = None,
        atomic: bool = False,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """A mixed batch: operation i of `kinds` on key i, in array order.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), or list
            As in `get`.
        kinds : array of integers of shape (n,), or list of OpKind or of their names
            "get", "put", "update" or "erase" of each key.
        values : array of n rows, or list, optional
            The operand of each put and update; rows of gets and erases are ignored.
        op, element
            What `update` does, as there.
        out, dtype, shape
            Where the values of gets go, as in `get`.
        atomic, stream, check
            As in `put`.

        Returns
        -------
        Result
            `values, found, statuses`; `values` is None, or `out`, where the batch gets nothing.
            `found` is true where the operation took effect.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or device does not fit the pool, `values` lacks, or gets are asked of a
            pool whose values vary in length; nothing was done.
        InvalidArgument, Corrupt, NoSpace, Unsupported, Closed
            As in `put` and `update`.

        Examples
        --------
        >>> import numpy as np, perdure
        >>> store = perdure.create("memfd:apply", key_bytes=8, value_bytes=8)
        >>> kinds = ["put", "get", "erase", "get"]
        >>> values, found, _ = store.apply([1, 1, 1, 1], kinds, np.array([7, 0, 0, 0]),
        ...                                dtype=np.int64)
        >>> values[1].tolist(), found.tolist()
        ([7], [True, True, True, False])
        """
        handle = _arrays.stream_of(stream, self._device, keys, values, out)
        given = _arrays.keys_column(keys, self._key_width, handle, self._device)
        codes = _operands.kinds_of(kinds, given.count)
        rmw = _checks.named("op", op, _native.Rmw)
        operands, kind = self._operands(values, codes, rmw, element, given.count, handle)
        gathered, column = self._gathered(codes, keys, given, out, dtype, shape, handle)
        statuses = np.zeros(given.count, np.uint8)
        try:
            worst = self._engine.apply(
                given,
                codes.array,
                operands[0] if operands else _native.Column.empty(),
                rmw,
                kind,
                column,
                statuses,
                handle,
                atomic,
                self._mine(),
            )
        except errors.NoSpace as error:
            error.outcome = Result(gathered, done_mask(statuses), statuses)
            raise
        answer = Result(gathered, done_mask(statuses), statuses)
        too_long = self._lengths((given, *operands))
        return checked(self._path, "apply", answer, worst, check, too_long)

    def _gathered(
        self,
        codes: _operands.Codes,
        keys: Any,
        given: _native.Column,
        out: Any,
        dtype: Any,
        shape: Any,
        stream: int,
    ) -> tuple[Any, _native.MutableColumn]:
        if not codes.gets:
            return out, _native.MutableColumn.empty()
        if self._value_width is None:
            raise ValueError(
                "kinds: a mixed batch cannot get values of varying length; call get() for those "
                "keys"
            )
        return self._destination(keys, given, out, dtype, shape, stream)

    def _operands(
        self,
        values: Any,
        codes: _operands.Codes,
        rmw: _native.Rmw,
        element: Any,
        count: int,
        stream: int,
    ) -> tuple[tuple[_native.Column, ...], _native.Element]:
        if values is None:
            if codes.updates or codes.any(_native.OpKind.put):
                raise ValueError("values: the batch has puts or updates; pass one row a key")
            return (), _native.Element.uint8
        rows = self._rows("values", values, count, stream)
        if not codes.updates:
            return (rows,), _native.Element.uint8
        return (rows,), _operands.element_of("values", rows, rmw, self._element(element))
