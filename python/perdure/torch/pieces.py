"""What checkpoints are cut into: pieces of one size, each named by a digest of its bytes.

A digest sums each 16 KiB of a piece against 16 columns of bytes, whole numbers that matrix units
multiply as fast as memory delivers, and hashes the sums. Two pieces that differ do so in one byte
of some 16 KiB at least; for each column one value of 256 of the byte that meets it, at most, makes
both sums alike. So they have one digest with a chance of 2^-128, whatever they are, if they do not
depend on the columns; these follow from a seed that each folder of checkpoints draws.

Invariant: digests are the same on every machine; which unit multiplies does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

ROW = 16 << 10  # bytes; sums stay below 2^28
DIGEST, SEED = 16, 32
PIECE = 128 << 10
AT_ONCE = 64 << 20  # bytes that are digested, and put, together
_COLUMNS = 16
_LEAST_ROWS = 17  # that PyTorch multiplies on a GPU


class Digests:
    """Of pieces, by one folder's seed."""

    def __init__(self, seed: bytes) -> None:
        columns = bytearray(hashlib.shake_256(seed).digest(ROW * _COLUMNS))
        of_host = torch.frombuffer(columns, dtype=torch.int8).reshape(ROW, _COLUMNS)
        self._columns = {torch.device("cpu"): of_host}

    def of(self, pieces: Tensor) -> list[bytes]:
        """Of each row of bytes, where the rows are."""
        rows = pieces.view(torch.int8).reshape(-1, ROW)
        if rows.device.type == "cuda" and rows.shape[0] < _LEAST_ROWS:
            rows = rows.cpu()
        if rows.device not in self._columns:
            of_host = self._columns[torch.device("cpu")]
            self._columns[rows.device] = of_host.to(rows.device)
        sums = torch._int_mm(rows, self._columns[rows.device]).cpu().numpy()
        whole = sums.astype("<i4", copy=False).tobytes()
        each = len(whole) // max(1, pieces.shape[0])
        return [
            hashlib.blake2b(whole[at : at + each], digest_size=DIGEST).digest()
            for at in range(0, len(whole), each or 1)
        ]


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


def batches(whole: Tensor, piece: int) -> Iterator[Tensor]:
    """The whole pieces of some bytes, a row each, so many at a time as are put together."""
    several = max(1, AT_ONCE // piece) * piece
    end = whole.numel() // piece * piece
    for at in range(0, end, several):
        yield whole[at : min(at + several, end)].reshape(-1, piece)


def joined(digests: list[bytes]) -> bytes:
    return b"".join(digests)


def split(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]
