"""Writes of a database of perdure.rocks: batches of arrays, and one key at a time.

Invariant: a write takes effect whole or not at all, and is in the log when the call returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perdure import _arrays, _arrow, _checks, _native, _operands
from perdure._rocks_reads import DEFAULT, HERE, Reads, checked
from perdure._single import encode
from perdure.results import Result, done_mask

if TYPE_CHECKING:
    from perdure.typing import Array, Keys, Kinds, Octets, Stream, Values

_GET = int(_native.OpKind.get)


def _durability(sync: bool, log: bool) -> tuple[bool, bool]:
    if sync and not log:
        raise ValueError("sync: a batch that is in no log cannot be on its medium; leave one out")
    return _checks.flag("sync", sync), _checks.flag("log", log)


class Writes(Reads):
    """Writes of a database."""

    def put(
        self,
        keys: Keys,
        values: Values,
        *,
        family: str = DEFAULT,
        sync: bool = False,
        log: bool = True,
        stream: Stream | None = None,
    ) -> None:
        """Inserts each key with its value, or replaces the value that is there.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), list, or one key
            As in `get`. Of a key that comes twice the last value stays.
        values : array of n rows, list, or the value of one key
            Rows of any dtype, byte strings of any length (Arrow arrays, lists).
        family : str
            The column family.
        sync : bool
            Be on the log's medium when the call returns.
        log : bool
            Without, the batch is in no log.
        stream : int, torch.cuda.Stream or cupy.cuda.Stream, optional
            Where device arrays are being made ready; by default their library's current stream.

        Raises
        ------
        TypeError, ValueError
            An array cannot be taken; nothing was written.
        InvalidArgument
            RocksDB refuses it.
        Unsupported
            An array lies in a GPU's memory, and this build has no CUDA.
        NoSpace
            The disk is full.
        SystemFailure, DeviceFailure
            The disk or the GPU failed.
        NotFound, Closed
            As in `get`.

        Examples
        --------
        >>> import numpy as np, perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/put") as db:
        ...     db.put(np.arange(1000), np.ones((1000, 4), np.float32))
        ...     out = np.zeros((1, 4), np.float32)
        ...     db.get(np.array([7]), out=out).values.tolist()
        [[1.0, 1.0, 1.0, 1.0]]
        """
        given, rows, handle = self._columns("values", keys, values, stream)
        self._native.put(given, rows, family, *_durability(sync, log), handle)

    def merge(
        self,
        keys: Keys,
        operands: Values,
        *,
        family: str = DEFAULT,
        sync: bool = False,
        log: bool = True,
        stream: Stream | None = None,
    ) -> None:
        """Merges each operand into its key's value by the family's merge operator.

        Parameters
        ----------
        keys, operands, family, sync, log, stream
            As in `put`. Of a key that comes twice both operands count, in array order.

        Raises
        ------
        InvalidArgument
            The family has no merge operator.
        TypeError, ValueError, Unsupported, NoSpace, SystemFailure, DeviceFailure, NotFound, Closed
            As in `put`.

        Examples
        --------
        >>> import numpy as np, perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/merge", merge_operator="uint64add") as db:
        ...     db.merge(["hits", "hits"], np.array([1, 2], np.uint64))
        ...     int.from_bytes(db["hits"], "little")
        3
        """
        given, rows, handle = self._columns("operands", keys, operands, stream)
        self._native.merge(given, rows, family, *_durability(sync, log), handle)

    def erase(
        self,
        keys: Keys,
        *,
        family: str = DEFAULT,
        sync: bool = False,
        log: bool = True,
        stream: Stream | None = None,
    ) -> None:
        """Removes each key; one that is absent is none the less gone.

        Parameters
        ----------
        keys, family, sync, log, stream
            As in `put`.

        Raises
        ------
        TypeError, ValueError, Unsupported, NoSpace, SystemFailure, DeviceFailure, NotFound, Closed
            As in `put`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/erase") as db:
        ...     db.put(["a", "b"], ["1", "2"])
        ...     db.erase(["a", "c"])
        ...     list(db)
        [b'b']
        """
        keys = [keys] if _arrays.is_scalar(keys) else keys
        handle = _arrays.stream_of(stream, HERE, keys)
        given = _arrays.keys_column(keys, None, handle, HERE)
        self._native.erase(given, family, *_durability(sync, log), handle)

    def apply(
        self,
        keys: Keys,
        kinds: Kinds,
        values: Values | None = None,
        *,
        out: Array | None = None,
        family: str = DEFAULT,
        sync: bool = False,
        log: bool = True,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """A mixed batch: operation i sees those before it in the arrays, and none after it.

        Parameters
        ----------
        keys : array or list of n keys
            As in `get`.
        kinds : array of integers of shape (n,), or list of OpKind or of their names
            "get", "put", "erase" or "update" of each key; an update merges.
        values : array of n rows, or list, optional
            Of puts and updates; rows of gets and erases are ignored.
        out : writable array of n rows, optional
            Takes the gets' values, as in `get`; the other rows are left as they are.
        family, sync, log, stream
            As in `put`.
        check
            As in `get`.

        Returns
        -------
        Result
            `values, found, statuses`: `values` is `out`, or a pyarrow.LargeBinaryArray, null but
            for gets of keys that are there.

        Raises
        ------
        Corrupt
            With `check`: a merge operator refuses a key's operands.
        TypeError, ValueError, InvalidArgument, Unsupported, NoSpace, SystemFailure, DeviceFailure
            As in `put`.
        NotFound, Closed
            As in `put`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/apply") as db:
        ...     db.apply(["a"] * 4, ["put", "get", "erase", "get"], ["1"] * 4).values.to_pylist()
        [None, b'1', None, None]
        """
        handle = _arrays.stream_of(stream, HERE, keys, values, out)
        given = _arrays.keys_column(keys, None, handle, HERE)
        codes = _operands.kinds_of(kinds, given.count)
        column = _native.Column.empty()
        if values is not None:
            column = _arrays.values_column("values", values, None, given.count, handle, HERE)
        elif codes.updates or codes.any(_native.OpKind.put):
            raise ValueError("values: the batch has puts or updates; pass one row a key")
        into = _native.MutableColumn.empty()
        if out is not None:
            into = _arrays.output(out, None, given.count, handle, HERE)
        statuses = np.zeros(given.count, np.uint8)
        pair = self._native.apply(
            given, codes.array, column, into, statuses, family, *_durability(sync, log), handle
        )
        found = done_mask(statuses)
        gathered: Any = out
        if out is None:
            gathered = _arrow.to_array(*pair, found & (codes.array == _GET))
        return checked("apply", Result(gathered, found, statuses), check)

    def __setitem__(self, key: Octets, value: Octets) -> None:
        """Inserts one key of the default column family, or replaces its value.

        Parameters
        ----------
        key, value : bytes, str, int, or what has `tobytes()`
            As in `db[key]`.

        Raises
        ------
        TypeError, ValueError
            It cannot be a key or a value.
        NoSpace, SystemFailure, Closed
            As in `put`.
        """
        octets = encode("key", key, None), encode("value", value, None)
        self._native.put_one(*octets, DEFAULT)

    def __delitem__(self, key: Octets) -> None:
        """Removes one key of the default column family.

        Parameters
        ----------
        key
            As in `db[key]`.

        Raises
        ------
        KeyError
            The key is absent.
        TypeError, ValueError, NoSpace, SystemFailure, Closed
            As in `put`.
        """
        if key not in self:
            raise KeyError(key)
        self.erase([encode("key", key, None)])

    def _columns(
        self, what: str, keys: Keys, values: Values, stream: Stream | None
    ) -> tuple[_native.Column, _native.Column, int]:
        if _arrays.is_scalar(keys):
            keys, values = [keys], _arrays.one_row(values)
        handle = _arrays.stream_of(stream, HERE, keys, values)
        given = _arrays.keys_column(keys, None, handle, HERE)
        rows = _arrays.values_column(what, values, None, given.count, handle, HERE)
        return given, rows, handle
