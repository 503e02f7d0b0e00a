"""What an id begins with: weights that follow from a seed, the table and the id, wherever and
whenever it is first seen.

Invariant: the same on every device, to the last bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

_OF_SEED = 0x9E3779B9
_GOLDEN, _MIX_1, _MIX_2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def shifted(x: Tensor, bits: int) -> Tensor:
    """A logical shift, which int64 has not."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mixed(x: Tensor) -> Tensor:
    """splitmix64's finaliser; int64 wraps around."""
    x = (x ^ shifted(x, 30)) * _MIX_1
    x = (x ^ shifted(x, 27)) * _MIX_2
    return x ^ shifted(x, 31)


def offset_of(seed: int) -> int:
    """What tells ids of a seed from those of another, as int64 wraps around. Of a seed its last 63
    bits count, as a pool keeps them."""
    signed = (seed + (1 << 62)) % (1 << 63) - (1 << 62)
    return (signed * _OF_SEED + (1 << 63)) % (1 << 64) - (1 << 63)


def new_weights(keys: Tensor, dim: int, bounds: Tensor, seed: int | Tensor) -> Tensor:
    """float32 of shape (n, dim), uniform in [-bound, bound); `bounds` by tables' numbers. `seed` of
    all tables, or offsets of each one's."""
    each = torch.arange(1, dim + 1, dtype=torch.int64, device=keys.device) * _GOLDEN
    ids, numbers = keys[:, 0], keys[:, 1]
    offsets = offset_of(seed) if isinstance(seed, int) else seed[numbers]
    bits = mixed(mixed(ids + numbers + offsets)[:, None] + each)
    parts = shifted(bits, 40).to(torch.float32)  # 24 bits, as float32 has
    return (parts * 2.0**-23 - 1.0) * bounds[numbers][:, None]
