"""Contents of replayed values: made from the key, a version and the length, so that they can be
made again and compared without having been kept.

Invariant: the bytes of a value depend on nothing but (key, version, length), on every machine. A
value that was torn, truncated, swapped with another key's or left over from another version differs
from its making with probability 1 - 2^-64 a word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
Lengths = npt.NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def mix(words: npt.ArrayLike) -> Words:
    """The finalizer of SplitMix64, a bijection of 64-bit words."""
    mixed = np.array(words, np.uint64)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _MIX1
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX2
    mixed ^= mixed >> np.uint64(31)
    return mixed


def seeds_of(keys: pa.Array) -> Words:
    """One word a key: of an integer its mix, of a byte string a multilinear hash (keys are not
    empty)."""
    if pa.types.is_uint64(keys.type):
        return mix(keys.to_numpy(zero_copy_only=True) + _GOLDEN)
    offsets, data = buffers(keys)
    if len(keys) == 0:
        return np.zeros(0, np.uint64)
    lengths = np.diff(offsets)
    weights = mix(np.arange(int(lengths.max()) + 1, dtype=np.uint64) * _GOLDEN)
    place = np.arange(offsets[-1] - offsets[0]) - np.repeat(offsets[:-1] - offsets[0], lengths)
    terms = (data[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)) * weights[place]
    sums = np.add.reduceat(terms, offsets[:-1] - offsets[0])
    return mix(sums + weights[lengths])


def make(
    seeds: Words, versions: npt.ArrayLike, lengths: Lengths, head: Words | None = None
) -> pa.LargeBinaryArray:
    """Value i: the words of `head[i]`, where there is a head, then `lengths[i]` bytes made from
    `seeds[i]` and `versions[i]`."""
    head_words = 0 if head is None else head.shape[1]
    streams = mix(seeds + mix(mix(versions) + lengths.astype(np.uint64)))
    words = head_words + (lengths + 7) // 8
    starts = np.cumsum(words) - words
    text = np.arange(words.sum(), dtype=np.uint64)
    text -= np.repeat((starts + head_words).astype(np.uint64), words)  # place behind the head
    text *= _GOLDEN
    text += np.repeat(streams, words)
    text = mix(text)
    if head is not None:
        text[starts[:, None] + np.arange(head_words)] = head
    return from_buffers(8 * head_words + lengths, _trimmed(text, starts + words, -lengths % 8))


def _trimmed(words: Words, ends: Lengths, surplus: Lengths) -> npt.NDArray[np.uint8]:
    """The words' bytes without the last `surplus[i]` (0 to 7) before each of `ends`."""
    octets = words.view(np.uint8)
    keep = np.ones(len(octets), np.bool_)
    for back in range(1, 8):
        keep[8 * ends[surplus >= back] - back] = False
    return octets[keep]


def buffers(array: pa.LargeBinaryArray) -> tuple[Lengths, npt.NDArray[np.uint8]]:
    """Offsets and bytes of a large_binary array, not copied."""
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return ends, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def from_buffers(lengths: Lengths, data: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    held = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), held)


def lengths_of(array: pa.LargeBinaryArray) -> Lengths:
    return np.diff(buffers(array)[0])


def differing(left: pa.LargeBinaryArray, right: pa.LargeBinaryArray) -> npt.NDArray[np.intp]:
    """The rows in which two arrays of equal lengths differ; a null differs from everything but a
    null."""
    absent = left.is_null().to_numpy(zero_copy_only=False)
    unlike = absent != right.is_null().to_numpy(zero_copy_only=False)
    (left_ends, left_data), (right_ends, right_data) = buffers(left), buffers(right)
    lengths = np.diff(left_ends)
    unlike |= lengths != np.diff(right_ends)
    if not unlike.any():
        left_data = left_data[left_ends[0] : left_ends[-1]]
        right_data = right_data[right_ends[0] : right_ends[-1]]
        wrong = np.flatnonzero(left_data != right_data)
        if wrong.size:
            unlike[np.searchsorted(left_ends - left_ends[0], wrong, side="right") - 1] = True
        return np.flatnonzero(unlike)
    rest = np.flatnonzero(~unlike)
    unlike[rest[differing(left.take(pa.array(rest)), right.take(pa.array(rest)))]] = True
    return np.flatnonzero(unlike)
