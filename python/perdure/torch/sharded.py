"""Collections whose rows are spread over several processes, each with a pool of its own.

A forward pass sends ids, each once, to the processes that have their rows, and gets the weights
back. The end of a step sends the gradients the same way; who has a row sums what comes in the order
of ranks, for each rank in the order of passes, and changes the row. So a sum is the same whoever
has the row.

Messages of a pass, from each process to each: how many keys of each group of tables (int64), and
the keys, group by group; then back a float32 that says whether the pass is of a step, and the
weights. At a step's end: for each pass and group a float32 that says whether there are gradients,
and these, in the order of the keys that were sent.

Invariant: a row is looked up, changed and evicted by the process that has its bucket, and by no
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import perdure
from perdure.torch.agreement import Agreed
from perdure.torch.buckets import BUCKETS, owners_of
from perdure.torch.embeddings import (
    Changed,
    EmbeddingBagCollection,
    EmbeddingCollection,
    Group,
    Looked,
    _Collection,
    device_of,
)
from perdure.torch.exchange import Exchange
from perdure.torch.features import Feature
from perdure.torch.keys import Keys, distinct, told
from perdure.torch.optimizers import Optimizer
from perdure.torch.passes import none_of
from perdure.torch.tables import TableConfig


@dataclass
class ShardedChanged(Changed):
    """And as they were before."""

    before: Tensor


@dataclass
class _Asked:
    """Keys of a pass on their way to whoever has their rows."""

    batches: Sequence[tuple[Group, Keys]]
    order: dict[int, Tensor]  # of each group, by rank
    sent: list[list[int]]  # [rank][group]: how many
    coming: list[list[int]]
    wait: Callable[[], Tensor]


@dataclass
class _Pass:
    """A forward pass of a step, until its gradients are sent."""

    asked: _Asked
    mine: dict[int, Looked]  # by group
    owned: dict[int, Looked]  # of this pool: whatever processes asked for
    at: dict[int, list[Tensor]]  # of each rank, which of these it asked for


class _Sharded(_Collection):
    """What both sharded collections have in common."""

    def __init__(
        self,
        store: perdure.Store,
        tables: Sequence[TableConfig],
        optimizer: Optimizer | None = None,
        process_group: dist.ProcessGroup | None = None,
        *,
        buckets: int = BUCKETS,
        seed: int = 0,
    ) -> None:
        self.exchange = Exchange(process_group)
        agreed = Agreed(self.exchange, store, tables, optimizer, buckets, seed)
        mine = [_of_one(config, self.exchange.ranks) for config in tables]
        with agreed.trying():
            super().__init__(store, mine, optimizer, seed=seed)
        self.shard = agreed.check()
        self._passes: list[_Pass] = []
        self._begun: tuple[Any, _Asked] | None = None
        self._ready: _Asked | None = None

    def extra_repr(self) -> str:
        shard = self.shard
        return f"{super().extra_repr()}; rank {shard.rank} of {shard.ranks}"

    def begin(self, features: Mapping[str, Feature]) -> None:
        """Sends the ids of a pass, so that they travel while this process does other things; the
        forward pass with the same object goes on from there. All processes call it, or none."""
        self._check(features)
        self._begun = features, self._ask(super()._batches(features, once=True)[0])

    def forget_begun(self) -> None:
        """Of a pass that `begin` began and that never came; in all processes."""
        self._begun = None

    # --- a forward pass

    def check_compiled(self) -> None:
        if self._begun is not None:
            raise RuntimeError(
                "begin: ids of a pass are on their way, and a compiled pass cannot tell whose they"
                " are; call the module uncompiled, or leave begin() out"
            )

    def _batches(
        self, features: Mapping[str, Feature], more: Sequence[Tensor] = (), *, once: bool
    ) -> tuple[list[tuple[Group, Keys]], list[int]]:
        if self._begun is not None and self._begun[0] is features:
            _, self._ready = self._begun
            self._begun = None
            return list(self._ready.batches), told(more)
        return super()._batches(features, more, once=True)  # for each key goes to a process

    def _rows_of(self, batches: Sequence[tuple[Group, Keys]], remember: bool) -> Sequence[Looked]:
        asked, self._ready = self._ready or self._ask(batches), None
        of_step = self.in_step and remember
        owned, at = self._look_up_owned(asked)
        wait = self._answer(asked, owned, at, of_step)
        mine = self._weights(asked, wait(), of_step)
        if of_step:
            self._passes.append(_Pass(asked, mine, owned, at))
        return list(mine.values())

    def _ask(self, batches: Sequence[tuple[Group, Keys]]) -> _Asked:
        ranks, groups = self.exchange.ranks, len(self._groups)
        order, pieces = {}, {}
        sent = [[0] * groups for _ in range(ranks)]
        for group, batch in batches:
            owners = owners_of(batch.keys, self.shard.buckets, ranks)
            g = group.number
            order[g] = torch.argsort(owners, stable=True)
            counts = torch.bincount(owners, minlength=ranks).tolist()
            pieces[g] = batch.keys[order[g]].split(counts)
            for rank, count in enumerate(counts):
                sent[rank][g] = count
        told = torch.tensor(sent, dtype=torch.int64).reshape(-1)
        come = self.exchange.all_to_all(told, [groups] * ranks, [groups] * ranks)()
        coming = come.reshape(ranks, groups).tolist()
        parts = [pieces[g][rank].reshape(-1) for rank in range(ranks) for g in sorted(pieces)]
        sizes, come_sizes = _doubled(sent), _doubled(coming)
        wait = self.exchange.all_to_all(_cat(parts, told), sizes, come_sizes)
        return _Asked(batches, order, sent, coming, wait)

    def _look_up_owned(self, asked: _Asked) -> tuple[dict[int, Looked], dict[int, list[Tensor]]]:
        """Rows of this pool that processes ask for, each once."""
        ranks, groups = self.exchange.ranks, len(self._groups)
        come = asked.wait().to(device_of(self.store)).reshape(-1, 2)
        pieces = come.split([asked.coming[rank][g] for rank in range(ranks) for g in range(groups)])
        every, at = [], {}
        for group in self._groups:
            of_group = pieces[group.number :: groups]
            if any(len(one) for one in of_group):
                batch = distinct(torch.cat(of_group))
                every.append((group, batch))
                at[group.number] = list(batch.inverse.split([len(one) for one in of_group]))
        return {group.number: self._from_pool(group, batch) for group, batch in every}, at

    def _answer(
        self,
        asked: _Asked,
        owned: Mapping[int, Looked],
        at: Mapping[int, list[Tensor]],
        of_step: bool,
    ) -> Callable[[], Tensor]:
        flag = torch.full((1,), float(of_step))
        parts: list[Tensor] = []
        for rank in range(self.exchange.ranks):
            parts.append(flag)
            for g in sorted(owned):
                weights = owned[g].rows[:, : self._groups[g].dim]
                parts.append(weights[at[g][rank]].reshape(-1))
        sizes = [1 + self._floats(counts) for counts in asked.coming]
        coming = [1 + self._floats(counts) for counts in asked.sent]
        return self.exchange.all_to_all(_cat(parts, flag), sizes, coming)

    def _floats(self, counts: Sequence[int]) -> int:
        """Of weights of so many keys of each group."""
        return sum(n * group.dim for n, group in zip(counts, self._groups, strict=True))

    def _weights(self, asked: _Asked, come: Tensor, of_step: bool) -> dict[int, Looked]:
        """Weights of each key, in the order of the keys."""
        sizes = []
        for counts in asked.sent:
            sizes.append(1)
            sizes += [n * group.dim for n, group in zip(counts, self._groups, strict=True)]
        pieces = come.split(sizes)
        a_rank = 1 + len(self._groups)
        others = torch.cat(pieces[::a_rank]).tolist()
        if any(one != float(of_step) for one in others):
            raise RuntimeError(
                f"forward: of the processes {[bool(one) for one in others]} are within"
                " trainer.step(), in training mode and with gradients; call it alike in all"
            )
        mine = {}
        for group, batch in asked.batches:
            g, keys = group.number, batch.keys
            by_rank = torch.cat(pieces[1 + g :: a_rank]).reshape(-1, group.dim)
            rows = torch.empty(by_rank.shape, device=keys.device)
            rows[asked.order[g]] = by_rank.to(keys.device)
            mine[g] = Looked(group, batch, rows, missing=None)
        return mine

    # --- the end of a step

    def begin_step(self) -> None:
        super().begin_step()
        self._passes = []

    def end_step(self) -> list[Looked]:
        self._passes = []
        return super().end_step()

    def changed(self, step: int) -> list[Changed]:
        """What becomes of rows of this pool that any process has a gradient of."""
        passes = self._passes
        self.end_step()
        if not passes:
            return []
        come = self._send_gradients(passes)()
        pieces = iter(
            come.split(
                [
                    size
                    for rank in range(self.exchange.ranks)
                    for one in passes
                    for group in self._groups
                    for size in (1, one.asked.coming[rank][group.number] * group.dim)
                ]
            )
        )
        gradients: dict[int, list[tuple[int, _Pass, Tensor]]] = {}
        for rank in range(self.exchange.ranks):
            for one in passes:
                for group in self._groups:
                    there, gradient = next(pieces), next(pieces)
                    if gradient.numel() and there.item():
                        gradients.setdefault(group.number, []).append((rank, one, gradient))
        return [self._changed_by(g, several, step) for g, several in sorted(gradients.items())]

    def _send_gradients(self, passes: Sequence[_Pass]) -> Callable[[], Tensor]:
        ranks = self.exchange.ranks
        of_rank: list[list[Tensor]] = [[] for _ in range(ranks)]
        for one in passes:
            for group in self._groups:
                looked = one.mine.get(group.number)
                there = torch.full((1,), float(looked is not None and bool(looked.gradients)))
                for rank in range(ranks):
                    of_rank[rank].append(there)
                if looked is None:
                    continue
                summed = torch.zeros_like(looked.rows)
                for gradient in looked.gradients:
                    summed += gradient
                counts = [one.asked.sent[rank][group.number] for rank in range(ranks)]
                pieces = summed[one.asked.order[group.number]].split(counts)
                for rank, piece in enumerate(pieces):
                    of_rank[rank].append(piece.reshape(-1))
        flags = len(self._groups)
        sizes = [
            sum(flags + self._floats(one.asked.sent[rank]) for one in passes)
            for rank in range(ranks)
        ]
        coming = [
            sum(flags + self._floats(one.asked.coming[rank]) for one in passes)
            for rank in range(ranks)
        ]
        whole = _cat([part for parts in of_rank for part in parts], torch.zeros(0))
        return self.exchange.all_to_all(whole, sizes, coming)

    def _changed_by(
        self, g: int, several: list[tuple[int, _Pass, Tensor]], step: int
    ) -> ShardedChanged:
        """Rows of a group by gradients of ranks and passes, which are added in this order."""
        group, taken = self._groups[g], {id(one): one for _, one, _ in several}
        owned = {key: one.owned[g] for key, one in taken.items()}
        batch = distinct(torch.cat([looked.batch.keys for looked in owned.values()]))
        sizes = [len(looked.batch.keys) for looked in owned.values()]
        where = dict(zip(owned, batch.inverse.split(sizes), strict=True))
        first = next(iter(owned.values())).rows
        rows = first.new_empty((len(batch.keys), first.shape[1]))
        new = none_of(batch.keys)
        for key, looked in owned.items():
            rows[where[key]], new[where[key]] = looked.rows, looked.new
        gradient = first.new_zeros((len(batch.keys), group.dim))
        touched = torch.zeros_like(new)
        for rank, one, part in several:
            at = where[id(one)][one.at[g][rank]]  # each key once
            gradient[at] += part.reshape(-1, group.dim).to(gradient.device)
            touched[at] = True
        before = rows[touched]
        rows = before.clone()
        self._update(group, rows, gradient[touched], step)
        any_new = any(looked.missing is not None for looked in owned.values())
        missing = new[touched] if any_new else None
        mine = batch.only(touched)
        return ShardedChanged(group.value_bytes, mine.keys, mine.are_numbers, rows, missing, before)


def _doubled(counts: Sequence[Sequence[int]]) -> list[int]:
    """Numbers of so many keys, of each rank."""
    return [2 * sum(of_rank) for of_rank in counts]


def _cat(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """One column; parts may be on several devices."""
    devices = {one.device for one in parts if one.numel()}
    to = devices.pop() if len(devices) == 1 else torch.device("cpu")
    return torch.cat([like[:0].to(to), *(one.to(to) for one in parts)])


def _of_one(config: TableConfig, ranks: int) -> TableConfig:
    """What each process may have of a table."""
    if config.admit_after is not None:
        raise ValueError(
            f"table {config.name!r}: admit_after counts sightings of one process; several have no"
            " admission"
        )
    if config.max_rows is None:
        return config
    return replace(config, max_rows=-(-config.max_rows // ranks))


class ShardedEmbeddingCollection(_Sharded, EmbeddingCollection):
    """An EmbeddingCollection whose rows are spread over the processes of a group.

    All processes make it alike, and call it in the same order, each with features of its own.

    Parameters
    ----------
    store : perdure.Store
        This process's pool, of `perdure.torch.create`.
    tables, optimizer, seed
        As of EmbeddingCollection. `max_rows` is of all processes: each evicts from its rows what is
        more than its share.
    process_group : torch.distributed.ProcessGroup, optional
        By default all processes. Of gloo or NCCL.
    buckets : int
        How many ranges of ids can be told apart, chosen by the first one for good: no more
        processes than buckets.

    Raises
    ------
    ValueError
        In all processes: they have other tables, optimizers, seeds or buckets, or a pool is of
        another rank, another number of processes or another training.
    """


class ShardedEmbeddingBagCollection(_Sharded, EmbeddingBagCollection):
    """An EmbeddingBagCollection whose rows are spread over the processes of a group.

    Parameters
    ----------
    As of ShardedEmbeddingCollection.
    """


def sharded(collections: Sequence[_Collection]) -> list[_Sharded]:
    """All of them, if they are sharded over one group."""
    found = [one for one in collections if isinstance(one, _Sharded)]
    if len(found) != len(collections):
        raise ValueError("embeddings: one is not sharded; a ShardedTrainer takes none other")
    if len({id(one.exchange.group) for one in found}) != 1:
        raise ValueError("embeddings: they are over several process groups; give them one")
    return found
