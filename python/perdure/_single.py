"""One key at a time: `store[key]`, `key in store`, iteration.

Invariant: no array is made on the way to the engine, and NumPy is not needed. A key or value is bytes;
text is its UTF-8; a whole number stands for the bytes of a little-endian integer of the pool's width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure import _native, errors

INTEGER_WIDTHS = (1, 2, 4, 8)
_SHOWN = 80  # characters of a key in an error
_OK, _ABSENT, _TOO_LARGE = map(
    int, (_native.KeyStatus.ok, _native.KeyStatus.not_found, _native.KeyStatus.too_large)
)


def encode(what: str, value: Any, width: int | None) -> bytes:
    """The bytes of a key or a value; `what` names it in errors, `width` is None where lengths vary."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if hasattr(value, "__index__") and not isinstance(value, bool) and not getattr(value, "ndim", 0):
        return _integer(what, value.__index__(), 8 if width is None else width)
    if hasattr(value, "tobytes"):  # an array's row, a NumPy scalar, a memoryview
        octets: bytes = value.tobytes()
        return octets
    if isinstance(value, bytearray):
        return bytes(value)
    raise TypeError(
        f"{what}: a {type(value).__name__} is not one {what}; pass bytes, str or int, or call get, put"
        " and erase with arrays"
    )


def _integer(what: str, number: int, width: int) -> bytes:
    if width not in INTEGER_WIDTHS:
        raise TypeError(f"{what}: this pool's have {width} bytes, so an integer does not fit; pass bytes")
    if not -(1 << (8 * width - 1)) <= number < 1 << (8 * width):
        raise ValueError(f"{what}: {number} does not fit in {width} bytes")
    return (number & ((1 << (8 * width)) - 1)).to_bytes(width, "little")


def decode(octets: bytes, width: int | None) -> int | bytes:
    """A key as iteration yields it: an unsigned integer where integers fit, else its bytes."""
    return int.from_bytes(octets, "little") if width in INTEGER_WIDTHS else octets


class SingleKeys:
    """What a store has of a dictionary. Keys come in the index's order, and integers unsigned."""

    _key_width: int | None
    _value_width: int | None

    @property
    def _engine(self) -> _native.Store:
        raise NotImplementedError

    def _mine(self) -> _native.Transaction | None:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> bytes:
        """The value of one key; KeyError where it is absent."""
        status, value = self._engine.get_one(encode("key", key, self._key_width))
        if status == _OK:
            return value
        raise self._wrong("get", key, status)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Inserts one key, or replaces its value."""
        sought = encode("key", key, self._key_width)
        octets = encode("value", value, self._value_width)
        status = self._engine.put_one(sought, octets, self._mine())
        if status != _OK:
            raise self._wrong("put", key, status, len(sought), len(octets))

    def __delitem__(self, key: Any) -> None:
        """Removes one key; KeyError where it is absent."""
        status = self._engine.erase_one(encode("key", key, self._key_width), self._mine())
        if status != _OK:
            raise self._wrong("erase", key, status)

    def __contains__(self, key: Any) -> bool:
        status, _ = self._engine.get_one(encode("key", key, self._key_width))
        if status in (_OK, _ABSENT):
            return status == _OK
        raise self._wrong("get", key, status)

    def __iter__(self) -> Iterator[int | bytes]:
        for key, _ in self._records():
            yield key

    def keys(self) -> Iterator[int | bytes]:
        """Every key. Raises Busy if the table grew meanwhile: start again."""
        return iter(self)

    def values(self) -> Iterator[bytes]:
        """Every value, as keys() has the keys."""
        for _, value in self._records():
            yield value

    def items(self) -> Iterator[tuple[int | bytes, bytes]]:
        """Every key with its value. Raises Busy if the table grew meanwhile: start again."""
        return self._records()

    def _records(self) -> Iterator[tuple[int | bytes, bytes]]:
        cursor = _native.ScanCursor()
        while not cursor.done:
            key_ends, keys, value_ends, values, cursor = self._engine.scan(cursor, 4096)
            for row in range(len(key_ends) - 1):
                key = keys[key_ends[row] : key_ends[row + 1]].tobytes()
                yield (
                    decode(key, self._key_width),
                    values[value_ends[row] : value_ends[row + 1]].tobytes(),
                )

    def _wrong(self, call: str, key: Any, status: int, key_bytes: int = 0, value_bytes: int = 0) -> Exception:
        if status == _ABSENT:
            return KeyError(key)
        kind, why = errors.of_status(_native.KeyStatus(status))
        if status == _TOO_LARGE:
            why = self._too_long(key_bytes, value_bytes)
        shown = repr(key)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        return kind(f"{call}: key {shown}: {why}")

    def _too_long(self, key_bytes: int, value_bytes: int = 0) -> str:
        limits = self._engine.stats()
        if key_bytes > limits.max_key_bytes:
            return f"the key has {key_bytes} bytes, at most {limits.max_key_bytes} fit in a record"
        return f"the value has {value_bytes} bytes, at most {limits.max_value_bytes} fit in a record"
