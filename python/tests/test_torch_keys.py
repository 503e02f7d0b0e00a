"""Keys of a batch, each once, and which process has each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.framework("torch")


@pytest.mark.parametrize("ids_of", [range(-20, 20), [*range(20), 2**63 - 1, -(2**63)]])
@pytest.mark.parametrize("tables", [3, 1 << 17])
@pytest.mark.parametrize("processes", [1, 2, 5])
def test_keys_of_processes_are_sorted_by_those_whatever_ids_and_tables(
    ids_of: Any, tables: int, processes: int
) -> None:
    import torch
    from perdure.torch.keys import Owners, Sorting, told

    random = np.random.default_rng(processes)
    ids = random.choice(np.array(ids_of, np.int64), 300)
    numbers = random.choice([0, 1, tables - 1], 300)
    keys = torch.from_numpy(np.stack([ids, numbers], 1))
    owners = keys.sum(1) % processes
    sorting = Sorting(keys, Owners(owners, processes, tables))
    found = sorting.keys(told(sorting.asked))
    plain = sorted({(int(o), t, i) for o, (i, t) in zip(owners, keys.tolist(), strict=True)})
    assert found.keys.tolist() == [[i, t] for _, t, i in plain]
    assert torch.equal(found.keys[found.inverse], keys)
    counts = [sum(owner == one for owner, _, _ in plain) for one in range(processes)]
    assert found.of_each_owner(processes).tolist() == counts
    each = torch.arange(300.0)[:, None] ** 2
    sums = torch.zeros(len(plain), 1).index_add_(0, found.inverse, each)
    assert torch.equal(found.sums(each), sums)


def test_buckets_are_part_of_the_format_and_even() -> None:
    import torch
    from perdure.torch.buckets import buckets_of, owners_of
    from perdure.torch.keys import keys_of

    ids = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 12345])
    assert buckets_of(keys_of(ids, 1), 1024).tolist() == [904, 580, 915, 169, 288, 136]
    many = keys_of(torch.arange(100_000), 3)
    counts = torch.bincount(buckets_of(many, 64), minlength=64)
    assert counts.min() > 1350 and counts.max() < 1800
    owners = owners_of(many, 64, 3)
    by_bucket = {}
    for bucket, owner in zip(buckets_of(many, 64).tolist(), owners.tolist(), strict=True):
        assert by_bucket.setdefault(bucket, owner) == owner
    assert [by_bucket[b] for b in range(64)] == sorted(by_bucket.values()), "ranges"
    assert set(by_bucket.values()) == {0, 1, 2}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("count", [0, 1, 1000, 100_000])
@pytest.mark.parametrize("width", [66, 68])  # rows that lie at multiples of 8 and of 16 bytes
def test_rows_are_those_at_the_positions_to_the_last_bit(
    device: str, count: int, width: int
) -> None:
    import torch
    from perdure.torch.gathers import pairs_at, rows_at

    bits = torch.randint(-(2**31), 2**31, (3000, width), dtype=torch.int32, device=device)
    rows = bits.view(torch.float32)[:, :32]
    pairs = torch.randint(-(2**63), 2**63 - 1, (3000, 2), device=device)
    at = torch.randint(0, 3000, (count,), device=device)
    assert rows_at(rows, at).view(torch.int32).equal(bits[:, :32].index_select(0, at))
    assert pairs_at(pairs, at).equal(pairs.index_select(0, at))
