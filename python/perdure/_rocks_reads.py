"""What a database of perdure.rocks and a snapshot of it have in common: reads.

Invariant: each call reads one state, whatever is written meanwhile; a snapshot's calls all read
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from perdure import _arrays, _arrow, _checks, _native, _rocks, errors
from perdure._single import encode
from perdure.results import Result, done_mask, first

if TYPE_CHECKING:
    from perdure.typing import Array, Keys, Octets, Stream

DEFAULT = "default"
HERE = "cuda"  # whatever runs memtables: the engine takes a GPU's arrays, or says why not
UNLIMITED = (1 << 64) - 1
_PAGE = 4096  # pairs that iteration fetches at once
_CORRUPT, _OTHER_LENGTH = int(_native.KeyStatus.corrupt), int(_native.KeyStatus.size_mismatch)
_WHY: dict[int, tuple[type[errors.Error], str]] = {
    _CORRUPT: (errors.Corrupt, "the merge operator refuses its operands"),
    _OTHER_LENGTH: (
        errors.InvalidArgument,
        "its value is not as long as a row of out; leave out= away for values of any length",
    ),
}


class Ranges(NamedTuple):
    """What `range` answers: the pairs of range i are those from `offsets[i]` to `offsets[i + 1]`.

    Attributes
    ----------
    offsets : int64 array of shape (n + 1,)
        Where each range begins in `keys` and `values`.
    keys : pyarrow.LargeBinaryArray
        In order, range by range.
    values : pyarrow.LargeBinaryArray
        One a key.
    """

    offsets: npt.NDArray[np.int64]
    keys: Any
    values: Any


def checked(call: str, answer: Result, check: bool) -> Result:
    """With `check` it raises where a key failed for any reason but absence."""
    failed = np.flatnonzero(answer.statuses > int(_native.KeyStatus.not_found))
    if check and failed.size:
        _raise_first(call, answer, failed)
    return answer


def _raise_first(call: str, answer: Result, failed: npt.NDArray[np.intp]) -> NoReturn:
    row = int(failed[0])
    kind, why = _WHY[int(answer.statuses[row])]
    others = f" (and {len(failed) - 1} more keys)" if len(failed) > 1 else ""
    raise kind(
        f"{call}: key {row} of {len(answer.statuses)}{others}: {why}; the exception's .outcome "
        "tells key by key, and check=False returns it instead of raising",
        answer,
    )


def strings(pair: Any) -> Any:
    """Byte strings of the engine as an Arrow array."""
    return _arrow.to_array(*pair)


def bound(name: str, key: Octets | None) -> bytes | None:
    return None if key is None else encode(name, key, None)


class Reads:
    """Reads of a database, or of a snapshot of it."""

    _native: _rocks.Database
    _state: _rocks.Snapshot | None = None

    def get(
        self,
        keys: Keys,
        *,
        out: Array | None = None,
        family: str = DEFAULT,
        stream: Stream | None = None,
        check: bool = True,
    ) -> Result:
        """The values of `keys`.

        Parameters
        ----------
        keys : array of shape (n,) or (n, ...), list, or one key
            A row a key, of any length: integers or bytes, never floats. Arrays of NumPy, CuPy,
            PyTorch and JAX, of a GPU too, Arrow arrays of binary or string, lists of bytes, str or
            int. Integers are little-endian, 8 bytes in a list.
        out : writable array of n rows, optional
            Takes values that are all as long as one of its rows, whatever its dtype; rows of
            absent keys are left as they are. It may lie on a GPU, wherever the keys do.
        family : str
            The column family.
        stream : int, torch.cuda.Stream or cupy.cuda.Stream, optional
            Where device arrays are being made ready; by default their library's current stream.
        check : bool
            Raise where a key failed otherwise than by being absent; without it, its status says so.

        Returns
        -------
        Result
            `values, found, statuses`: `values` is `out`, or a pyarrow.LargeBinaryArray, null where
            a key is absent. For one key instead of an array each of them is one element.

        Raises
        ------
        TypeError, ValueError
            An array cannot be taken; nothing was read.
        InvalidArgument
            With `check`: a value is not as long as a row of `out`.
        Corrupt
            A file is damaged; with `check`: a merge operator refuses a key's operands.
        Unsupported
            An array lies in a GPU's memory, and this build has no CUDA.
        NotFound
            There is no such column family.
        Closed
            The database is closed, or was opened by another process.

        Examples
        --------
        >>> import numpy as np, perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/get") as db:
        ...     db.put([b"a", b"b"], [b"first", b"second"])
        ...     values, found, _ = db.get([b"b", b"c"])
        >>> values.to_pylist(), found.tolist()
        ([b'second', None], [True, False])
        """
        if _arrays.is_scalar(keys):
            return first(self.get([keys], out=out, family=family, stream=stream, check=check))
        handle = _arrays.stream_of(stream, HERE, keys, out)
        given = _arrays.keys_column(keys, None, handle, HERE)
        statuses = np.zeros(given.count, np.uint8)
        values: Any = out
        if out is None:
            pair = self._native.get_variable(given, statuses, family, self._state, handle)
            values = _arrow.to_array(*pair, done_mask(statuses))
        else:
            column = _arrays.output(out, None, given.count, handle, HERE)
            self._native.get(given, column, statuses, family, self._state, handle)
        return checked("get", Result(values, done_mask(statuses), statuses), check)

    def range(
        self,
        begins: Keys,
        ends: Keys | None = None,
        *,
        limit: int | None = None,
        family: str = DEFAULT,
        stream: Stream | None = None,
    ) -> Ranges:
        """Of many ranges at once the pairs from `begins[i]` to before `ends[i]`.

        Parameters
        ----------
        begins : array or list of n keys, or one key
            As in `get`.
        ends : array or list of n keys, or one key, optional
            Without, ranges have no end.
        limit : int, optional
            At most so many pairs of each.
        family : str
            The column family.
        stream
            As in `get`.

        Returns
        -------
        Ranges
            `offsets, keys, values`.

        Raises
        ------
        TypeError, ValueError
            An array cannot be taken, or there are not as many ends as begins.
        Unsupported
            An array lies in a GPU's memory, and this build has no CUDA.
        Corrupt, NotFound, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/range") as db:
        ...     db.put(["a", "b", "c", "d"], ["1", "2", "3", "4"])
        ...     found = db.range(["a", "c"], ["b", "z"])
        >>> found.offsets.tolist(), found.keys.to_pylist()
        ([0, 1, 3], [b'a', b'c', b'd'])
        """
        if _arrays.is_scalar(begins):
            one_end = [ends] if _arrays.is_scalar(ends) else ends
            return self.range([begins], one_end, limit=limit, family=family, stream=stream)
        most = UNLIMITED if limit is None else _checks.whole("limit", limit, least=1)
        handle = _arrays.stream_of(stream, HERE, begins, ends)
        first_keys = _arrays.keys_column(begins, None, handle, HERE)
        last = _native.Column.empty()
        if ends is not None:
            given = _arrays.keys_column(ends, None, handle, HERE)
            if given.count != first_keys.count:
                raise ValueError(f"ends: {given.count} for {first_keys.count} begins")
            last = given
        offsets, keys, values = self._native.range(
            first_keys, last, most, family, self._state, handle
        )
        return Ranges(offsets, strings(keys), strings(values))

    def scan(
        self,
        begin: Octets | None = None,
        end: Octets | None = None,
        *,
        prefix: Octets | None = None,
        reverse: bool = False,
        limit: int | None = None,
        family: str = DEFAULT,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs in order of keys, one by one.

        Parameters
        ----------
        begin : bytes, str or int, optional
            The first key.
        end : bytes, str or int, optional
            The key before which it ends.
        prefix : bytes, str or int, optional
            Only keys that start with these bytes.
        reverse : bool
            From the last key to the first.
        limit : int, optional
            At most so many pairs.
        family : str
            The column family.

        Yields
        ------
        tuple of (bytes, bytes)
            Key and value. What is written after the scan began is not in it.

        Raises
        ------
        TypeError, ValueError
            An argument is none of those that it may be.
        Unsupported
            `prefix`, where a comparator of its own orders the family.
        Corrupt, NotFound, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/scan") as db:
        ...     db.put(["a1", "a2", "b1"], ["x", "y", "z"])
        ...     list(db.scan(prefix="a")), list(db.scan(reverse=True, limit=1))
        ([(b'a1', b'x'), (b'a2', b'y')], [(b'b1', b'z')])
        """
        pages = self.pages(
            _PAGE, begin, end, prefix=prefix, reverse=reverse, limit=limit, family=family
        )
        return _pairs(pages)

    def pages(
        self,
        page_size: int = 65536,
        begin: Octets | None = None,
        end: Octets | None = None,
        *,
        prefix: Octets | None = None,
        reverse: bool = False,
        limit: int | None = None,
        family: str = DEFAULT,
    ) -> Iterator[tuple[Any, Any]]:
        """As `scan`, but whole pages of pairs as Arrow arrays.

        Parameters
        ----------
        page_size : int
            At most so many pairs a page, and no more than some 16 MiB.
        begin, end, prefix, reverse, limit, family
            As in `scan`.

        Yields
        ------
        tuple of (pyarrow.LargeBinaryArray, pyarrow.LargeBinaryArray)
            Keys and values.

        Raises
        ------
        TypeError, ValueError, Unsupported, Corrupt, NotFound, Closed
            As in `scan`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/pages") as db:
        ...     db.put(["a", "b", "c"], ["x", "y", "z"])
        ...     [keys.to_pylist() for keys, _ in db.pages(2)]
        [[b'a', b'b'], [b'c']]
        """
        size = _checks.whole("page_size", page_size, least=1)
        left = UNLIMITED if limit is None else _checks.whole("limit", limit, least=1)
        cursor = self._native.cursor(
            bound("begin", begin),
            bound("end", end),
            bound("prefix", prefix),
            _checks.flag("reverse", reverse),
            family,
            self._state,
        )
        return self._pages(cursor, size, left)

    def _pages(self, cursor: _rocks.Cursor, size: int, left: int) -> Iterator[tuple[Any, Any]]:
        while left:
            keys, values = cursor.next(min(size, left))
            count = len(keys[0]) - 1
            if not count:
                return
            left -= count
            yield strings(keys), strings(values)

    def __getitem__(self, key: Octets) -> bytes:
        """The value of one key of the default column family.

        Parameters
        ----------
        key : bytes, str, int, or what has `tobytes()`
            Text is its UTF-8; a whole number a little-endian integer of 8 bytes.

        Returns
        -------
        bytes

        Raises
        ------
        KeyError
            The key is absent.
        TypeError, ValueError
            It cannot be a key.
        Corrupt, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/getitem") as db:
        ...     db["name"] = "Ada"
        ...     db["name"], "age" in db
        (b'Ada', False)
        """
        there, value = self._native.get_one(encode("key", key, None), DEFAULT, self._state)
        if not there:
            raise KeyError(key)
        return value

    def __contains__(self, key: Octets) -> bool:
        """Whether a key is in the default column family."""
        return self._native.get_one(encode("key", key, None), DEFAULT, self._state)[0]

    def __iter__(self) -> Iterator[bytes]:
        """Every key of the default column family, in order."""
        return (key for key, _ in self.scan())


def _pairs(pages: Iterator[tuple[Any, Any]]) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in pages:
        yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)
