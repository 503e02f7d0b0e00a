"""What a cache does with one request of the seven-column trace, and how its items lie in values.

`step` is the sequential rule (memcached's, as far as a trace can tell it); the replay applies it to
items read from the store, the reference to items in a dictionary.

A value in the store is a head of four words and the item's body:

    expires  trace time from which the item is dead; 0 = never
    counter  what incr and decr have counted since the item was written
    version  names the contents of the body; 0 = the body was joined by append or prepend
    tag      mixes all of the above, the key and the body's length (joined bodies: its CRC-32)

Invariant: `values_of` and `items_of` are inverse, and `items_of` refuses every value whose head or
body is not exactly what `values_of` makes for that key.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perdure import _contents
from perdure._contents import Words
from perdure.traces import Op

HEAD_WORDS = 4
HEAD_BYTES = 8 * HEAD_WORDS
_COUNTER_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Made:
    """A body, or a piece of one, that can be made again."""

    version: int  # never 0
    length: int


@dataclass(frozen=True, slots=True)
class Item:
    expires: int
    counter: int
    pieces: tuple[Made | bytes, ...]  # one Made, or what append and prepend joined

    @property
    def length(self) -> int:
        return sum(len(p) if isinstance(p, bytes) else p.length for p in self.pieces)

    def alive(self, now: int) -> bool:
        return not self.expires or now < self.expires


@dataclass(frozen=True, slots=True)
class Request:
    op: Op
    now: int
    size: int
    ttl: int
    version: int  # for the contents that this request writes, if it writes

    def item(self) -> Item:
        expires = self.now + self.ttl if self.ttl else 0
        return Item(expires, 0, (Made(self.version, self.size),))


class Outcome(NamedTuple):
    item: Item | None  # after the request
    served: bool  # a get that hit, a write that was done, a delete that found its item
    expired: bool = False  # the request met an item that was dead
    too_large: bool = False  # the write was refused; the old item stands


def step(request: Request, item: Item | None, length_max: int) -> Outcome:
    """One request. An expired item is as good as absent, and goes."""
    expired = item is not None and not item.alive(request.now)
    live = None if expired else item
    after, served = _served(request, live)
    if after is not None and after is not live and after.length > length_max:
        return Outcome(live, False, expired, too_large=True)
    return Outcome(after, served, expired)


def _served(request: Request, item: Item | None) -> tuple[Item | None, bool]:
    there = item is not None
    match request.op:
        case Op.get | Op.gets:
            return item, there
        case Op.set:
            return request.item(), True
        case Op.add:
            return (item, False) if there else (request.item(), True)
        case Op.replace | Op.cas:  # the trace has no cas tokens: a cas finds what its gets has seen
            return (request.item(), True) if there else (None, False)
        case Op.delete:
            return None, there
    if item is None:
        return None, False
    match request.op:
        case Op.append:
            return replace(item, pieces=(*item.pieces, *request.item().pieces)), True
        case Op.prepend:
            return replace(item, pieces=(*request.item().pieces, *item.pieces)), True
        case Op.incr:  # the trace does not tell by how much: by one
            return replace(item, counter=(item.counter + 1) & _COUNTER_MASK), True
        case Op.decr:
            return replace(item, counter=max(0, item.counter - 1)), True
    raise AssertionError(request.op)


# --- items as values ----------------------------------------------------------------------------


def values_of(seeds: Words, items: Sequence[Item]) -> pa.LargeBinaryArray:
    """The stored form of each item, for keys with these seeds."""
    made = [item.pieces[0] if _is_made(item) else Made(0, 0) for item in items]
    versions = np.array([piece.version for piece in made], np.uint64)
    lengths = np.array([piece.length for piece in made], np.int64)
    head = np.zeros((len(items), HEAD_WORDS), np.uint64)
    head[:, 0] = [item.expires for item in items]
    head[:, 1] = [item.counter for item in items]
    head[:, 2] = versions
    head[:, 3] = _tags(seeds, head, lengths)
    values = _contents.make(seeds, versions, lengths, head)
    joined = [row for row, item in enumerate(items) if not _is_made(item)]
    return _with_joined(values, seeds, items, head, joined) if joined else values


def _is_made(item: Item) -> bool:
    return len(item.pieces) == 1 and isinstance(item.pieces[0], Made)


def _tags(seeds: Words, head: Words, sums: npt.NDArray[np.int64]) -> Words:
    tag = seeds.copy()
    for word in (head[:, 0], head[:, 1], head[:, 2], sums.astype(np.uint64)):
        tag = _contents.mix(tag + word)
    return tag


def _with_joined(
    values: pa.LargeBinaryArray, seeds: Words, items: Sequence[Item], head: Words, rows: list[int]
) -> pa.LargeBinaryArray:
    octets = values.to_pylist()
    for row in rows:
        body = b"".join(_piece(seeds[row : row + 1], piece) for piece in items[row].pieces)
        words = head[row : row + 1].copy()
        words[:, 3] = _tags(seeds[row : row + 1], words, np.array([zlib.crc32(body)]))
        octets[row] = words.tobytes() + body
    return pa.array(octets, pa.large_binary())


def _piece(seed: Words, piece: Made | bytes) -> bytes:
    if isinstance(piece, bytes):
        return piece
    made = _contents.make(seed, np.uint64(piece.version), np.array([piece.length], np.int64))
    return made[0].as_py()


def heads_of(values: pa.LargeBinaryArray) -> Words:
    """The head of each value; zeros where a value is null or too short to have one."""
    offsets, data = _contents.buffers(values)
    head = np.zeros((len(values), HEAD_BYTES), np.uint8)
    long = np.flatnonzero(np.diff(offsets) >= HEAD_BYTES)
    head[long] = data[offsets[long, None] + np.arange(HEAD_BYTES)]
    return head.view(np.uint64)


def faults_in(seeds: Words, values: pa.LargeBinaryArray) -> npt.NDArray[np.intp]:
    """The rows whose value is not what was once written under that key."""
    head = heads_of(values)
    lengths = _contents.lengths_of(values) - HEAD_BYTES
    made = np.flatnonzero((head[:, 2] != 0) & (lengths >= 0))
    again = head[made].copy()
    again[:, 3] = _tags(seeds[made], again, lengths[made])
    expected = _contents.make(seeds[made], again[:, 2], lengths[made], again)
    wrong = lengths < 0
    wrong[made[_contents.differing(values.take(pa.array(made)), expected)]] = True
    for row in np.flatnonzero((head[:, 2] == 0) & (lengths >= 0)):
        body = values[int(row)].as_py()[HEAD_BYTES:]
        tag = _tags(seeds[row : row + 1], head[row : row + 1], np.array([zlib.crc32(body)]))
        wrong[row] = tag[0] != head[row, 3]
    return np.flatnonzero(wrong)


def item_of(head: Words, value: pa.LargeBinaryScalar) -> Item:
    """The item that a value without fault holds."""
    expires, counter, version, _ = map(int, head)
    body = value.as_buffer()[HEAD_BYTES:]
    piece = Made(version, len(body)) if version else bytes(body)
    return Item(expires, counter, (piece,))
