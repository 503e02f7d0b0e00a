"""Ids of several tables together, as the keys of the pool: rows (id, the table's number).

Invariants: distinct keys are in the order of tables, and of ids in a table; keys that go to several
processes are in the order of these first. Equal keys keep the order of their batch. So what is
summed by them is the same on every run, whatever the threads. What the host has to know of a batch
it asks once: on a GPU each question waits for all work before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from perdure.torch.gathers import pairs_at, rows_at

# Of most ids and tables, these with the process that has the key: then a key is one number, and
# sorting sorts once.
_ID_BITS, _TABLE_BITS = 44, 19


@dataclass(frozen=True)
class Keys:
    """What of a batch's keys is looked up."""

    keys: Tensor  # (m, 2)
    inverse: Tensor | None  # of each key of the batch, which of these it is; None: they are these
    are_numbers: bool | None  # different keys have different _numbers; None: nobody knows


@dataclass(frozen=True)
class Distinct(Keys):
    """The keys of a batch, each once, and ascending; where they have owners, those of each."""

    inverse: Tensor
    order: Tensor  # keys of the batch in the order of these
    begins: Tensor  # where in that order those of each of these begin
    owners: Tensor | None = None  # of each of these, ascending

    @property
    def counts(self) -> Tensor:
        """How many keys of the batch each is."""
        end = self.begins.new_full((1,), self.order.shape[0])
        return torch.diff(self.begins, append=end)

    def of_each_owner(self, processes: int) -> Tensor:
        """How many of these keys each process has."""
        assert self.owners is not None
        every = torch.arange(processes, device=self.owners.device)
        return torch.searchsorted(self.owners, every, right=True).diff(prepend=every[:1])

    def sums(self, of_batch: Tensor) -> Tensor:
        """Sums over equal keys, in the order of the batch, of rows that its keys have."""
        if self.keys.shape[0] == of_batch.shape[0]:
            return rows_at(of_batch, self.order)
        return nn.functional.embedding_bag(
            self.order, of_batch.contiguous(), self.begins, mode="sum"
        )

    def only(self, which: Tensor) -> Distinct:
        """Those keys alone, for who has summed already."""
        return replace(self, keys=self.keys[which])


@dataclass(frozen=True)
class Owners:
    """Which process has each key of a batch."""

    of_each: Tensor  # int64
    processes: int
    tables: int  # all tables' numbers are less

    @property
    def shift(self) -> int:
        """Of a key's number what is from this bit on is its owner."""
        return _ID_BITS + _TABLE_BITS - self.processes.bit_length()

    @property
    def fit(self) -> bool:
        """Whether the tables' numbers leave that many bits."""
        return self.tables << _ID_BITS <= 1 << self.shift


class Sorting:
    """Keys of a batch on their way to being distinct: sorted, but for what the host has to know.

    `asked` are three numbers where the keys are, or none; `keys` takes them as the host read them,
    with whatever else it asked of that device."""

    def __init__(self, keys: Tensor, owners: Owners | None = None) -> None:
        self._keys, self._owners = keys, owners
        self.asked: list[Tensor] = []
        if len(keys) == 0 or (owners and not owners.fit):
            return
        numbers = _numbers(keys)
        if owners:
            numbers.add_(owners.of_each, alpha=1 << owners.shift)
        low, high = torch.aminmax(keys[:, 0])
        ascending, self._order = torch.sort(numbers, stable=True)
        self._begins = torch.ones_like(self._order, dtype=torch.bool)
        torch.ne(ascending[1:], ascending[:-1], out=self._begins[1:])
        self._which = self._begins.cumsum(0).sub_(1)
        self.asked = [low, high, self._which[-1]]

    def keys(self, told: Sequence[int]) -> Distinct:
        owners = self._owners.of_each if self._owners else None
        if len(self._keys) == 0:
            none = self._keys.new_empty(0)
            return Distinct(self._keys, none, True, none, none, owners)
        if not self.asked or not _fit(*told[:2]):
            return _of_any_ids(self._keys, owners)
        begins = torch.nonzero_static(self._begins, size=told[2] + 1).view(-1)
        first = self._order.index_select(0, begins)
        inverse = torch.empty_like(self._order).scatter_(0, self._order, self._which)
        if owners is not None:
            owners = owners.index_select(0, first)
        keys = pairs_at(self._keys, first)
        return Distinct(keys, inverse, True, self._order, begins, owners)


class Coming:
    """Keys of a batch as they come, for who sums nothing by them: each as often as it is there, and
    nothing that the host has to know."""

    def __init__(self, keys: Tensor) -> None:
        self.asked: list[Tensor] = []
        self._keys = Keys(keys, None, None)

    def keys(self, told: Sequence[int]) -> Keys:
        return self._keys


class Among:
    """Finds keys among some of which each is there once, ascending."""

    def __init__(self, keys: Tensor, are_numbers: bool | None = None) -> None:
        """`are_numbers`: of Keys; where it is not known the host has to ask."""
        self.keys, self._are_numbers = keys, are_numbers
        self._numbers: Tensor | None = None  # of the keys, once they are needed

    def find(self, keys: Tensor, are_numbers: bool | None = None) -> tuple[Tensor, Tensor]:
        """Which of these are there, by their positions, and where."""
        if len(self.keys) == 0 or len(keys) == 0:
            return keys.new_empty(0), keys.new_empty(0)
        found = self.mask(keys, are_numbers)
        if found is None:
            return self._find_sorting(keys)
        there = found[0].nonzero()[:, 0]
        return there, found[1][there]

    def mask(self, keys: Tensor, are_numbers: bool | None = None) -> tuple[Tensor, Tensor] | None:
        """Of each key whether it is there, and where, or anything. None: only `find` can tell."""
        if self._are_numbers is None:
            self._are_numbers = _are_numbers(self.keys)
        if are_numbers is None:
            are_numbers = _are_numbers(keys)
        if not (self._are_numbers and are_numbers and len(self.keys)):
            return None
        if self._numbers is None:
            self._numbers = _numbers(self.keys)
        asked = _numbers(keys)
        at = torch.searchsorted(self._numbers, asked).clamp_(max=len(self.keys) - 1)
        return self._numbers.index_select(0, at) == asked, at

    def _find_sorting(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        count = len(self.keys)
        both = distinct(torch.cat([self.keys, keys]))
        where = both.inverse.new_full((len(both.keys),), -1)
        where[both.inverse[:count]] = torch.arange(count, device=keys.device)
        at = where[both.inverse[count:]]
        there = (at >= 0).nonzero()[:, 0]
        return there, at[there]


def _are_numbers(keys: Tensor) -> bool:
    """Whether different keys have different numbers, in their order."""
    return len(keys) == 0 or _fit(*told(list(torch.aminmax(keys[:, 0]))))


def keys_of(ids: Tensor, numbers: Tensor | int) -> Tensor:
    keys = torch.empty((ids.numel(), 2), dtype=torch.int64, device=ids.device)
    keys[:, 0] = ids
    keys[:, 1] = numbers
    return keys


def distinct(keys: Tensor) -> Distinct:
    sorting = Sorting(keys)
    return sorting.keys(told(sorting.asked))


def keys_of_each(
    coming: Sequence[Sorting | Coming], more: Sequence[Tensor] = ()
) -> tuple[list[Keys], list[int]]:
    """Of several batches of a device. And `more`, integers of it, as the host reads them: it waits
    once for all that it asks."""
    answers = told([*more, *(one for some in coming for one in some.asked)])
    found, at = [], len(more)
    for some in coming:
        end = at + len(some.asked)
        found.append(some.keys(answers[at:end]))
        at = end
    return found, answers[: len(more)]


def told(asked: Sequence[Tensor]) -> list[int]:
    """Integers of a device as the host reads them, which waits once for each device."""
    if len({one.device for one in asked}) < 2:
        return torch.stack(list(asked)).tolist() if asked else []
    return [int(one) for one in asked]


def _of_any_ids(keys: Tensor, owners: Tensor | None) -> Distinct:
    """By ids, tables and owners one after the other."""
    order = torch.argsort(keys[:, 0], stable=True)
    order = order[torch.argsort(keys[order, 1], stable=True)]
    if owners is not None:
        order = order[torch.argsort(owners[order], stable=True)]
    several = keys[order]
    first = torch.ones(len(order), dtype=torch.bool, device=keys.device)
    first[1:] = (several[1:] != several[:-1]).any(dim=1)
    inverse = torch.empty_like(order)
    inverse[order] = first.cumsum(0) - 1
    begins = first.nonzero()[:, 0]
    if owners is not None:
        owners = owners[order[begins]]
    return Distinct(several[begins], inverse, False, order, begins, owners)


def _numbers(keys: Tensor) -> Tensor:
    """Of most keys one number each, in the order of keys; it wraps around."""
    ids, tables = keys.unbind(1)
    return torch.add(ids, tables, alpha=1 << _ID_BITS)


def _fit(low: int, high: int) -> bool:
    """Whether keys of such ids have different numbers, in their order."""
    return low >= -(1 << _ID_BITS - 1) and high < 1 << _ID_BITS - 1


def of_table(keys: Tensor, number: int) -> Tensor:
    """Which keys are of that table: a mask."""
    return keys[:, 1] == number
