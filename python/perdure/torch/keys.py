"""Ids of several tables together, as the keys of the pool: rows (id, the table's number).

Invariants: distinct keys are in the order of tables, and of ids in a table; equal keys keep the
order of their batch. So what is summed by them is the same on every run, whatever the threads. What
the host has to know of a batch it asks once: on a GPU each question waits for all work before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

_ID_BITS = 44  # of most ids: then a key is one number, and sorting sorts once


@dataclass(frozen=True)
class Keys:
    """What of a batch's keys is looked up."""

    keys: Tensor  # (m, 2)
    inverse: Tensor | None  # of each key of the batch, which of these it is; None: they are these
    numbers: Tensor | None  # one each, as Among has them; None: nobody knows them


@dataclass(frozen=True)
class Distinct(Keys):
    """The keys of a batch, each once, and ascending."""

    inverse: Tensor
    order: Tensor  # keys of the batch in the order of these
    begins: Tensor  # where in that order those of each of these begin

    @property
    def counts(self) -> Tensor:
        """How many keys of the batch each is."""
        end = self.begins.new_full((1,), self.order.shape[0])
        return torch.diff(self.begins, append=end)

    def sums(self, of_batch: Tensor) -> Tensor:
        """Sums over equal keys, in the order of the batch, of rows that its keys have."""
        if self.keys.shape[0] == of_batch.shape[0]:
            return of_batch.index_select(0, self.order)
        return nn.functional.embedding_bag(
            self.order, of_batch.contiguous(), self.begins, mode="sum"
        )

    def only(self, which: Tensor) -> Distinct:
        """Those keys alone, for who has summed already."""
        numbers = None if self.numbers is None else self.numbers[which]
        return replace(self, keys=self.keys[which], numbers=numbers)


class Sorting:
    """Keys of a batch on their way to being distinct: sorted, but for what the host has to know.

    `asked` are three numbers where the keys are, or none; `keys` takes them as the host read them,
    with whatever else it asked of that device."""

    def __init__(self, ids: Tensor, numbers: Tensor) -> None:
        """`numbers`: of the ids' tables, int64."""
        self._ids, self._numbers = ids, numbers
        self.asked: list[Tensor] = []
        if ids.numel() == 0:
            return
        low, high = torch.aminmax(ids)
        self._ascending, self._order = torch.sort(_numbers(ids, numbers), stable=True)
        self._begins = torch.ones_like(self._order, dtype=torch.bool)
        torch.ne(self._ascending[1:], self._ascending[:-1], out=self._begins[1:])
        self._which = self._begins.cumsum(0).sub_(1)
        self.asked = [low, high, self._which[-1]]

    def keys(self, told: Sequence[int]) -> Distinct:
        if not self.asked:
            return _none(self._ids, self._numbers)
        low, high, last = told
        if not _fit(low, high):
            return _of_any_ids(self._ids, self._numbers)
        begins = torch.nonzero_static(self._begins, size=last + 1).view(-1)
        keys = _at(self._ids, self._numbers, self._order.index_select(0, begins))
        numbers = self._ascending.index_select(0, begins)
        inverse = torch.empty_like(self._order).scatter_(0, self._order, self._which)
        return Distinct(keys, inverse, numbers, self._order, begins)


class Coming:
    """Keys of a batch as they come, for who sums nothing by them: each as often as it is there, and
    nothing that the host has to know."""

    def __init__(self, ids: Tensor, numbers: Tensor) -> None:
        self.asked: list[Tensor] = []
        self._keys = Keys(torch.stack([ids, numbers], dim=1), None, None)

    def keys(self, told: Sequence[int]) -> Keys:
        return self._keys


class Among:
    """Finds keys among some of which each is there once, ascending."""

    def __init__(self, keys: Tensor, numbers: Tensor | None = None) -> None:
        """`numbers`: of Keys; where they are not known the host has to ask."""
        self.keys, self._numbers = keys, numbers
        self._asked = numbers is not None

    def find(self, keys: Tensor, numbers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Which of these are there, by their positions, and where."""
        if len(self.keys) == 0 or len(keys) == 0:
            return keys.new_empty(0), keys.new_empty(0)
        if not self._asked:
            self._numbers, self._asked = _numbers_of(self.keys), True
        if numbers is None:
            numbers = _numbers_of(keys)
        if self._numbers is None or numbers is None:
            return self._find_sorting(keys)
        at = torch.searchsorted(self._numbers, numbers).clamp_(max=len(self.keys) - 1)
        there = (self._numbers.index_select(0, at) == numbers).nonzero()[:, 0]
        return there, at[there]

    def _find_sorting(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        count = len(self.keys)
        both = distinct(torch.cat([self.keys, keys]))
        where = both.inverse.new_full((len(both.keys),), -1)
        where[both.inverse[:count]] = torch.arange(count, device=keys.device)
        at = where[both.inverse[count:]]
        there = (at >= 0).nonzero()[:, 0]
        return there, at[there]


def _numbers_of(keys: Tensor) -> Tensor | None:
    """One number of each of these keys, in their order; None: some have none."""
    ids, numbers = keys[:, 0], keys[:, 1]
    return _numbers(ids, numbers) if _fit(*told(list(torch.aminmax(ids)))) else None


def keys_of(ids: Tensor, numbers: Tensor | int) -> Tensor:
    keys = torch.empty((ids.numel(), 2), dtype=torch.int64, device=ids.device)
    keys[:, 0] = ids
    keys[:, 1] = numbers
    return keys


def distinct(keys: Tensor) -> Distinct:
    sorting = Sorting(keys[:, 0], keys[:, 1])
    return sorting.keys(told(sorting.asked))


def told(asked: Sequence[Tensor]) -> list[int]:
    """Integers of a device as the host reads them, which waits once for each device."""
    if len({one.device for one in asked}) < 2:
        return torch.stack(list(asked)).tolist() if asked else []
    return [int(one) for one in asked]


def _none(ids: Tensor, numbers: Tensor) -> Distinct:
    empty = numbers.new_empty(0)
    return Distinct(keys_of(ids, numbers), empty, empty, empty, empty)


def _of_any_ids(ids: Tensor, numbers: Tensor) -> Distinct:
    """By ids and tables one after the other."""
    order = torch.argsort(ids, stable=True)
    order = order[torch.argsort(numbers[order], stable=True)]
    several = _at(ids, numbers, order)
    first = torch.ones(len(order), dtype=torch.bool, device=ids.device)
    first[1:] = (several[1:] != several[:-1]).any(dim=1)
    inverse = torch.empty_like(order)
    inverse[order] = first.cumsum(0) - 1
    begins = first.nonzero()[:, 0]
    return Distinct(several[begins], inverse, None, order, begins)


def _at(ids: Tensor, numbers: Tensor, at: Tensor) -> Tensor:
    """Their keys."""
    return torch.stack([ids.index_select(0, at), numbers.index_select(0, at)], dim=1)


def _numbers(ids: Tensor, numbers: Tensor) -> Tensor:
    """Of most keys one number each, in the order of keys; it wraps around."""
    return torch.add(ids, numbers, alpha=1 << _ID_BITS)


def _fit(low: int, high: int) -> bool:
    """Whether different keys have different numbers, in their order."""
    return low >= -(1 << _ID_BITS - 1) and high < 1 << _ID_BITS - 1


def of_table(keys: Tensor, number: int) -> Tensor:
    """Which keys are of that table: a mask."""
    return keys[:, 1] == number
