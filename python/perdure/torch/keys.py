"""Ids of several tables together, as the keys of the pool: rows (id, the table's number).

Invariant: distinct keys are in the order of tables, and of ids in a table; equal keys keep the
order of their batch. So what is summed by them is the same on every run, whatever the threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

_ID_BITS = 44  # of most ids: then a key is one number, and sorting sorts once


@dataclass(frozen=True)
class Distinct:
    """The keys of a batch, each once."""

    keys: Tensor  # (m, 2)
    inverse: Tensor  # of each key of the batch, which of these it is
    order: Tensor  # keys of the batch in the order of these
    counts: Tensor  # how many keys of the batch each is

    def sums(self, of_batch: Tensor) -> Tensor:
        """Sums over equal keys, in the order of the batch, of rows that its keys have."""
        if self.keys.shape[0] == of_batch.shape[0]:
            return of_batch[self.order]
        begins = self.counts.cumsum(0) - self.counts
        return nn.functional.embedding_bag(self.order, of_batch.contiguous(), begins, mode="sum")


class Among:
    """Finds keys among some of which each is there once, ascending."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys
        self._numbers: Tensor | None = None  # of the keys, once they are needed
        self._are_numbers: bool | None = None

    def find(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Which of these are there, by their positions, and where."""
        if len(self.keys) == 0 or len(keys) == 0:
            return keys.new_empty(0), keys.new_empty(0)
        if self._are_numbers is None:
            self._are_numbers = _are_numbers(self.keys)
        if not (self._are_numbers and _are_numbers(keys)):
            return self._find_sorting(keys)
        if self._numbers is None:
            self._numbers = _numbers(self.keys)
        asked = _numbers(keys)
        at = torch.searchsorted(self._numbers, asked).clamp_(max=len(self.keys) - 1)
        there = (self._numbers.index_select(0, at) == asked).nonzero()[:, 0]
        return there, at[there]

    def _find_sorting(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        count = len(self.keys)
        both = distinct(torch.cat([self.keys, keys]))
        where = both.inverse.new_full((len(both.keys),), -1)
        where[both.inverse[:count]] = torch.arange(count, device=keys.device)
        at = where[both.inverse[count:]]
        there = (at >= 0).nonzero()[:, 0]
        return there, at[there]


def keys_of(ids: Tensor, numbers: Tensor | int) -> Tensor:
    keys = torch.empty((ids.numel(), 2), dtype=torch.int64, device=ids.device)
    keys[:, 0] = ids
    keys[:, 1] = numbers
    return keys


def distinct(keys: Tensor) -> Distinct:
    begins = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
    if _are_numbers(keys):
        ascending, order = torch.sort(_numbers(keys), stable=True)
        torch.ne(ascending[1:], ascending[:-1], out=begins[1:])
    else:
        order = torch.argsort(keys[:, 0], stable=True)
        order = order[torch.argsort(keys[order, 1], stable=True)]
        several = keys[order]
        begins[1:] = (several[1:] != several[:-1]).any(dim=1)
    inverse = torch.empty_like(order)
    inverse[order] = begins.cumsum(0) - 1
    first = begins.nonzero()[:, 0]
    counts = torch.diff(first, append=first.new_full((1,), len(keys)))
    return Distinct(keys[order[first]], inverse, order, counts)


def once(keys: Tensor) -> Distinct:
    """Of keys that are distinct already, in their order."""
    each = torch.arange(len(keys), device=keys.device)
    return Distinct(keys, each, each, torch.ones_like(each))


def _numbers(keys: Tensor) -> Tensor:
    """Of most keys one number each, in the order of keys; it wraps around."""
    return keys[:, 0] + (keys[:, 1] << _ID_BITS)


def _are_numbers(keys: Tensor) -> bool:
    """Whether different keys have different numbers, in their order."""
    if len(keys) == 0:
        return False
    low, high = torch.stack(keys[:, 0].aminmax()).tolist()
    return bool(low >= -(1 << _ID_BITS - 1) and high < 1 << _ID_BITS - 1)


def of_table(keys: Tensor, number: int) -> Tensor:
    """Which keys are of that table: a mask."""
    return keys[:, 1] == number
