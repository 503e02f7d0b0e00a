"""What batches have in common: columns for the engine, where values go, and what a write answers.

Invariant: a status a key, whatever becomes of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure import _native, _typed, errors
from perdure._deferred import Deferred
from perdure._handle import Handle
from perdure.results import Outcome, checked, done_mask

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _streams
    from perdure.results import TooLong
else:
    np, _arrays = Deferred("numpy"), Deferred("perdure._arrays")
    _streams = Deferred("perdure._streams")


class Columns(Handle):
    """Parts of the batches of a store."""

    def _write(
        self,
        call: str,
        engines: Callable[..., int],
        columns: tuple[_native.Column, ...],
        check: bool,
        stream: int,
        atomic: bool,
        *how: Any,
    ) -> Outcome:
        """`engines`: the engine's own call, which takes `how` after the columns. When the pool ran
        out of space the exception tells key by key how far it came."""
        statuses = np.zeros(columns[0].count, np.uint8)
        try:
            worst = engines(*columns, *how, statuses, stream, atomic, self._mine())
        except errors.NoSpace as error:
            error.outcome = Outcome(done_mask(statuses), statuses)
            raise
        answer = Outcome(done_mask(statuses), statuses)
        return checked(self._path, call, answer, worst, check, self._lengths(columns))

    def _rows(self, what: str, values: Any, count: int, stream: int) -> _native.Column:
        if self._row_type is not None:
            values = _typed.fitting(what, values, self._row_type)
        return _arrays.values_column(what, values, self._value_width, count, stream, self._device)

    def _one_row(self, value: Any) -> Any:
        return _arrays.one_row(value) if self._row_type is None else _typed.one_row(value)

    def _element(self, given: Any) -> Any:
        return given if self._row_type is None else _typed.element(self._row_type, given)

    def _lengths(self, columns: tuple[_native.Column, ...]) -> TooLong:
        """Of a row of keys, or of keys and values."""
        return lambda row: self._too_long(*(column.length(row) for column in columns))

    def _destination(
        self,
        keys: Any,
        given: _native.Column,
        out: Any,
        dtype: Any,
        shape: Any,
        stream: int,
        *,
        zeros: bool = True,
    ) -> tuple[Any, _native.MutableColumn]:
        """The array for the values of `keys`, whose column is `given`, and its own column."""
        assert self._value_width is not None
        width, row = self._value_width, self._row_type
        if out is None:
            if row is not None:
                dtype, shape = _typed.result(row, dtype, shape, _streams.library_of(keys))
            return _arrays.made(keys, given, width, dtype, shape, stream, self._device, zeros=zeros)
        if row is not None:
            _typed.check_out(row, out)
        if dtype is not None or shape is not None:
            raise ValueError(
                "out: has its own dtype and shape; pass either out=, or dtype= and shape="
            )
        return out, _arrays.output(out, width, given.count, stream, self._device)
