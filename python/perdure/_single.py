"""One key at a time: `store[key]`, `key in store`, iteration.

Invariant: no array is made on the way to the engine, and NumPy is not needed. A key or value is
bytes; text is its UTF-8; a whole number stands for the bytes of a little-endian integer of the
pool's width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perdure import _checks, _events, _native, _typed, errors
from perdure._handle import Handle

if TYPE_CHECKING:
    from perdure.typing import Octets, Values

INTEGER_WIDTHS = (1, 2, 4, 8)
_SHOWN = 80  # characters of a key in an error
_OK, _ABSENT, _TOO_LARGE = map(
    int, (_native.KeyStatus.ok, _native.KeyStatus.not_found, _native.KeyStatus.too_large)
)


def encode(what: str, value: Any, width: int | None) -> bytes:
    """The bytes of a key or a value; `what` names it in errors, `width` is None where lengths
    vary."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray):
        return bytes(value)
    given: Any = value
    if (
        hasattr(given, "__index__")
        and not isinstance(value, bool)
        and not getattr(given, "ndim", 0)
    ):
        return _integer(what, given.__index__(), 8 if width is None else width)
    if hasattr(given, "tobytes"):  # an array's row, a NumPy scalar, a memoryview
        octets: bytes = given.tobytes()
        return octets
    raise TypeError(
        f"{what}: a {type(value).__name__} is not one {what}; pass bytes, str or int, or call "
        "get, put"
        " and erase with arrays"
    )


def bound(what: str, key: Any, width: int | None) -> bytes | None:
    """Of a range; None: it has none."""
    return None if key is None else encode(what, key, width)


def _integer(what: str, number: int, width: int) -> bytes:
    if width not in INTEGER_WIDTHS:
        raise TypeError(
            f"{what}: this pool's have {width} bytes, so an integer does not fit; pass bytes"
        )
    if not -(1 << (8 * width - 1)) <= number < 1 << (8 * width):
        raise ValueError(f"{what}: {number} does not fit in {width} bytes")
    return (number & ((1 << (8 * width)) - 1)).to_bytes(width, "little")


def decode(octets: bytes, width: int | None) -> int | bytes:
    """A key as iteration yields it: an unsigned integer where integers fit, else its bytes."""
    return int.from_bytes(octets, "little") if width in INTEGER_WIDTHS else octets


class SingleKeys(Handle):
    """What a store has of a dictionary. Keys come in the index's order, and integers unsigned."""

    def __getitem__(self, key: Octets) -> Any:
        """The value of one key.

        Parameters
        ----------
        key : bytes, str, int, or what has `tobytes()`
            Text is its UTF-8; a whole number, of either sign, a little-endian integer as long as
            keys are.

        Returns
        -------
        bytes, or an array or number
            Where the pool knows its values' dtype and shape: an array of these, or, of shape (), a
            number.

        Raises
        ------
        KeyError
            The key is absent.
        TypeError, ValueError
            It cannot be a key of this pool.
        InvalidArgument, Corrupt, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:getitem", key_bytes=None, value_bytes=None)
        >>> store["name"] = "Ada"
        >>> store["name"], "age" in store
        (b'Ada', False)
        """
        status, value = self._engine.get_one(encode("key", key, self._key_width))
        if status == _OK:
            return self._seen(value)
        raise self._wrong("get", key, status)

    def __setitem__(self, key: Octets, value: Octets | Values) -> None:
        """Inserts one key, or replaces its value.

        Parameters
        ----------
        key, value : bytes, str, int, or what has `tobytes()`
            As in `store[key]`; where the pool knows its values' dtype and shape, a value as in
            `put`.

        Raises
        ------
        TypeError, ValueError
            It cannot be a key, or a value, of this pool.
        InvalidArgument, NoSpace, Closed
            As in `put`.
        """
        sought = encode("key", key, self._key_width)
        row = self._row_type
        octets = (
            encode("value", value, self._value_width)
            if row is None
            else _typed.octets_of(value, row)
        )
        status = self._engine.put_one(sought, octets, self._mine())
        if status != _OK:
            raise self._wrong("put", key, status, len(sought), len(octets))

    def __delitem__(self, key: Octets) -> None:
        """Removes one key.

        Parameters
        ----------
        key
            As in `store[key]`.

        Raises
        ------
        KeyError
            The key is absent.
        TypeError, ValueError, InvalidArgument, Closed
            As in `erase`.
        """
        status = self._engine.erase_one(encode("key", key, self._key_width), self._mine())
        if status != _OK:
            raise self._wrong("erase", key, status)

    def __contains__(self, key: Any) -> bool:
        """Whether a key is there; raises as `store[key]` does where it cannot be one, or is
        damaged."""
        status, _ = self._engine.get_one(encode("key", key, self._key_width))
        if status in (_OK, _ABSENT):
            return status == _OK
        raise self._wrong("get", key, status)

    def __iter__(self) -> Iterator[int | bytes]:
        """Every key, as `keys` has them."""
        for key, _ in self._records():
            yield key

    def keys(self) -> Iterator[int | bytes]:
        """Every key, one by one.

        Yields
        ------
        int or bytes
            An unsigned integer where keys are 1, 2, 4 or 8 bytes long, else bytes.

        Raises
        ------
        Busy
            Keys moved meanwhile, because the table grew or made room: start again.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:keys", key_bytes=8, value_bytes=None)
        >>> store[1], store[2] = "one", "two"
        >>> sorted(store.keys()), sorted(store.values()), sorted(store.items())
        ([1, 2], [b'one', b'two'], [(1, b'one'), (2, b'two')])
        """
        return iter(self)

    def values(self) -> Iterator[Any]:
        """Every value.

        Yields
        ------
        bytes, or array or number
            As `store[key]` has it.

        Raises
        ------
        Busy, Closed
            As in `keys`.

        Examples
        --------
        See `keys`.
        """
        for _, value in self._records():
            yield value

    def items(
        self,
        start: Any = None,
        end: Any = None,
        *,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[int | bytes, Any]]:
        """Every key with its value; of index "btree" in the order of keys, some thousand fetched at
        a time.

        Parameters
        ----------
        start, end : bytes, str or int, optional
            Keys from `start` on and below `end`. Index "btree", as `reverse`.
        limit : int, optional
            At most so many records.
        reverse : bool
            The greatest key first.

        Yields
        ------
        tuple of (int or bytes, value)
            As `keys` and `values` have them.

        Raises
        ------
        Busy, Closed
            As in `keys`.

        Examples
        --------
        See `keys`.
        """
        if limit is not None:
            limit = _checks.whole("limit", limit)
        return self._records(start, end, limit, reverse)

    def _seen(self, octets: bytes) -> Any:
        return octets if self._row_type is None else _typed.row_of(octets, self._row_type)

    def _records(
        self,
        start: Any = None,
        end: Any = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[int | bytes, Any]]:
        signed = self._key_order == "signed"
        first, last = bound("start", start, self._key_width), bound("end", end, self._key_width)
        pages = self._raw_pages(4096, first, last, limit, reverse)
        for key_ends, keys, value_ends, values in pages:
            for row in range(len(key_ends) - 1):
                key = keys[key_ends[row] : key_ends[row + 1]].tobytes()
                yield (
                    int.from_bytes(key, "little", signed=True)
                    if signed
                    else decode(key, self._key_width),
                    self._seen(values[value_ends[row] : value_ends[row + 1]].tobytes()),
                )

    def _wrong(
        self, call: str, key: Any, status: int, key_bytes: int = 0, value_bytes: int = 0
    ) -> Exception:
        if status == _ABSENT:
            return KeyError(key)
        kind, why = errors.of_status(_native.KeyStatus(status))
        if status == _TOO_LARGE:
            why = self._too_long(key_bytes, value_bytes)
        shown = repr(key)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        what = f"{call}: key {shown}: {why}"
        _events.failed_keys(self._path, what, damaged=kind is errors.Corrupt)
        return kind(what)
