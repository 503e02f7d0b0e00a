"""What checkpoints are cut into: pieces of one size, each named by a digest of its bytes.

A digest is made in two stages, both on the device that has the piece, for many pieces at a time.

1. Each 16 KiB of a piece are summed against 16 columns of bytes, whole numbers that matrix units
   multiply as fast as memory delivers. Two pieces that differ do so in one byte of some 16 KiB at
   least; for each column one value of 256 of the byte that meets it, at most, makes both sums
   alike. So all sums are alike with a chance of 2^-128 at most.
2. The sums x_i of a piece, as u32, become four u32, each the high half of b + the sum of a_i x_i
   modulo 2^64, with a_i and b of its own: Thorup's vector multiply-shift, "High Speed Hashing for
   Integers and Strings" (2015), section 3. Different sums give the same u32 with a chance of 2^-32
   at most, and four of them with 2^-128.

So two different pieces have one digest with a chance of 2^-127 at most, whatever they are, if they
do not depend on columns, a and b; these follow from a seed that each folder of checkpoints draws.

Invariant: digests are the same on every machine; which unit multiplies does not matter.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from perdure.torch.piece_names import NONE, Names

ROW = 16 << 10  # bytes; sums stay below 2^28
DIGEST, SEED = 16, 32
PIECE = 128 << 10
AT_ONCE = 64 << 20  # bytes that are put together
_COLUMNS = 16
_MOST_ROWS = 32  # of a piece
_WORDS = 4  # u32 of a digest
# By the kind of device: how many rows PyTorch multiplies at least, and how many keep it busy. A
# product of few rows takes a GPU as long as one of many, and a copy within it next to no time.
_LEAST_ROWS = {"cuda": 17}
_ROWS_TOGETHER = {"cuda": 1 << 14}
_HASHED = 1 << 14  # pieces whose sums are hashed together: those fit a GPU's cache
_LOW = 0xFFFFFFFF
_ALIGN = 16  # bytes


class Digests:
    """Of pieces, by one folder's seed."""

    def __init__(self, seed: bytes) -> None:
        columns = bytearray(hashlib.shake_256(seed).digest(ROW * _COLUMNS))
        sums = _MOST_ROWS * _COLUMNS
        factors = hashlib.shake_256(b"sums" + seed).digest(8 * _WORDS * (sums + 1))
        of_host = (
            torch.frombuffer(columns, dtype=torch.int8).reshape(ROW, _COLUMNS),
            torch.frombuffer(bytearray(factors), dtype=torch.int64).reshape(_WORDS, sums + 1),
        )
        self._numbers = {torch.device("cpu"): of_host}

    def of(self, pieces: Tensor) -> Names:
        """Of each row of bytes, where the rows are."""
        return self.of_each([pieces])[0]

    def of_each(self, several: Sequence[Tensor]) -> list[Names]:
        """Of the rows of each of several; all have one length. The host waits once a device."""
        names = [NONE] * len(several)
        by_device: dict[torch.device, list[int]] = {}
        for n, one in enumerate(several):
            if one.shape[0]:
                by_device.setdefault(one.device, []).append(n)
        for device, mine in by_device.items():
            found = self._hashed(self._sums([several[n] for n in mine], device), several[mine[0]])
            at = 0
            for n in mine:
                begin, at = at, at + several[n].shape[0]
                names[n] = found[begin:at]
        return names

    def _sums(self, several: Sequence[Tensor], device: torch.device) -> Tensor:
        """Of each 16 KiB: a product for each large tensor, and for small ones together."""
        rows = [one.view(torch.int8).reshape(-1, ROW) for one in several]
        columns, _ = self._numbers_of(device)
        least = _LEAST_ROWS.get(device.type, 1)
        count = sum(one.shape[0] for one in rows)
        sums = torch.empty((count, _COLUMNS), dtype=torch.int32, device=device)
        at = 0
        groups = _grouped(rows, _ROWS_TOGETHER.get(device.type, 1))
        for whole in itertools.chain.from_iterable(map(_joined, groups)):
            begin, at = at, at + whole.shape[0]
            part = sums[begin:at]
            if at - begin < least:
                padded = nn.functional.pad(whole, (0, 0, 0, least - (at - begin)))
                part.copy_(torch._int_mm(padded, columns)[: at - begin])
            else:
                torch._int_mm(whole, columns, out=part)
        return sums

    def _hashed(self, sums: Tensor, like: Tensor) -> Names:
        """Digests of pieces, as long as a row of `like`."""
        of_pieces = sums.reshape(-1, like.shape[1] // ROW * _COLUMNS)
        _, factors = self._numbers_of(sums.device)
        if sums.device.type == "cpu":
            return hashed_on_host(of_pieces, factors)
        return hashed_there(of_pieces, factors)

    def _numbers_of(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Columns and factors, where they are needed."""
        if device not in self._numbers:
            columns, factors = self._numbers[torch.device("cpu")]
            # Column by column, as units that multiply bytes on a GPU read it.
            self._numbers[device] = columns.t().contiguous().to(device).t(), factors.to(device)
        return self._numbers[device]


def _grouped(several: Sequence[Tensor], together: int) -> Iterator[list[Tensor]]:
    """So many rows at least, of neighbours, where none of them has so many."""
    group: list[Tensor] = []
    rows = 0
    for one in several:
        if group and one.shape[0] >= together:
            yield group
            group, rows = [], 0
        group.append(one)
        rows += one.shape[0]
        if rows >= together:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _joined(group: list[Tensor]) -> list[Tensor]:
    """A copy of all; one by one where a device that is nearly full has no room for it. Also of one
    that begins where a GPU's units do not read, as a part of a larger tensor may."""
    if len(group) == 1 and not (group[0].is_cuda and group[0].data_ptr() % _ALIGN):
        return group
    try:
        return [torch.cat(group)]
    except torch.OutOfMemoryError:
        return group


def hashed_on_host(sums: Tensor, factors: Tensor) -> Names:
    """Stage 2, of rows in host memory: by one product of NumPy, in one thread."""
    b, a = np.split(factors.numpy().view("<u8")[:, : sums.shape[1] + 1].T, [1])
    high = (sums.numpy().view("<u4").astype("<u8") @ np.ascontiguousarray(a) + b) >> np.uint64(32)
    return high.astype("<u4").view("<u8")


def hashed_there(sums: Tensor, factors: Tensor) -> Names:
    """Stage 2, of rows on a GPU, where PyTorch multiplies no matrices of int64."""
    found = torch.empty((len(sums), 2), dtype=torch.int64, device=sums.device)
    for some, to in zip(sums.split(_HASHED), found.split(_HASHED), strict=True):
        x = some.to(torch.int64) & _LOW
        b, a = factors[:, :1], factors[:, None, 1 : x.shape[1] + 1]
        words = [
            ((x * of_word).sum(1) + add) >> 32 & _LOW for add, of_word in zip(b, a, strict=True)
        ]
        torch.stack([words[0] | words[1] << 32, words[2] | words[3] << 32], 1, out=to)
    return found.cpu().numpy().view("<u8")


def octets_of(tensor: Tensor) -> Tensor:
    """A tensor's bytes in the order of its elements, where it is; without a copy where they lie
    so."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(
            f"a tensor of layout {tensor.layout}, dtype {tensor.dtype}: checkpoints have dense"
            " tensors; save its parts"
        )
    whole = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return whole.reshape(-1).view(torch.uint8)
