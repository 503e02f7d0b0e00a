"""Which process has which id: an id of a table has one of a fixed number of buckets, and each
process has a contiguous range of them.

    bucket = high 31 bits of mix(id + golden * table's number), times buckets, / 2^31
    rank   = bucket * ranks / buckets

mix is splitmix64's finaliser. Invariant: a bucket follows from id, table and number of buckets
alone, and is part of the format; only ranges of buckets depend on the number of processes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from perdure.torch.new_rows import _GOLDEN, mixed, shifted

BUCKETS, MOST_BUCKETS = 1024, 1 << 20  # by default, and at most


def buckets_of(keys: Tensor, buckets: int) -> Tensor:
    """The bucket of each key: id and number of its table."""
    bits = mixed(keys[:, 0] + keys[:, 1] * _GOLDEN)  # int64 wraps around
    return (shifted(bits, 33) * buckets) >> 31


def owners_of(keys: Tensor, buckets: int, ranks: int) -> Tensor:
    """The rank that has each key."""
    if ranks == 1:
        return torch.zeros_like(keys[:, 0])
    return buckets_of(keys, buckets) * ranks // buckets


def owners_before(rank: int, ranks: int, before: int, buckets: int) -> range:
    """Who of `before` ranks had the buckets that `rank` of `ranks` has."""
    first, end = (-(-one * buckets // ranks) for one in (rank, rank + 1))
    return range(first * before // buckets, (end - 1) * before // buckets + 1)


def check_buckets(buckets: int, ranks: int) -> None:
    if not ranks <= buckets <= MOST_BUCKETS:
        raise ValueError(
            f"buckets: {buckets}; pass {ranks} (a bucket a process) to {MOST_BUCKETS}, more than"
            " there will ever be processes"
        )
