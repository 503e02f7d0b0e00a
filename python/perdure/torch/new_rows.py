"""What an id begins with: weights that follow from a seed, the table and the id, wherever and
whenever it is first seen.

Invariant: the same on every device, to the last bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN, _MIX_1, _MIX_2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def shifted(x: Tensor, bits: int) -> Tensor:
    """A logical shift, which int64 has not."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mixed(x: Tensor) -> Tensor:
    """splitmix64's finaliser; int64 wraps around."""
    x = (x ^ shifted(x, 30)) * _MIX_1
    x = (x ^ shifted(x, 27)) * _MIX_2
    return x ^ shifted(x, 31)


def new_weights(ids: Tensor, dim: int, bound: float, seed: int) -> Tensor:
    """float32 of shape (n, dim), uniform in [-bound, bound)."""
    each = torch.arange(1, dim + 1, dtype=torch.int64, device=ids.device) * _GOLDEN
    bits = shifted(mixed(mixed(ids + seed)[:, None] + each), 40)  # 24 of them, as float32 has
    return (bits.to(torch.float32) * 2.0**-23 - 1.0) * bound
