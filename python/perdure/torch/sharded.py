"""Collections whose rows are spread over several processes, each with a pool of its own.

A forward pass sends ids, each once, to the processes that have their rows, and gets the weights
back. The end of a step sends the gradients the same way; who has a row sums what comes in the order
of ranks, for each rank in the order of passes, and changes the row. So a sum is the same whoever
has the row.

Messages of a pass, from each process to each: how many ids of each table (int64), and the ids,
table by table; then back a float32 that says whether the pass is of a step, and the weights. At a
step's end: for each pass and table a float32 that says whether there are gradients, and these, in
the order of the ids that were sent.

Invariant: a row is looked up, changed and evicted by the process that has its bucket, and by no
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    Feature,
    Looked,
    _Collection,
)
from perdure.torch.exchange import Exchange
from perdure.torch.optimizers import Optimizer
from perdure.torch.tables import SCORE_BYTES, TableConfig


@dataclass
class ShardedChanged(Changed):
    """And as they were before."""

    before: Tensor


@dataclass
class _Asked:
    """Ids of a pass on their way to whoever has their rows."""

    ids: Mapping[int, Tensor]  # by table
    order: dict[int, Tensor]  # of each table, by rank
    sent: list[list[int]]  # [rank][table]: how many
    coming: list[list[int]]
    wait: Callable[[], Tensor]


@dataclass
class _Pass:
    """A forward pass of a step, until its gradients are sent."""

    asked: _Asked
    mine: dict[int, Looked]
    owned: dict[int, Looked]  # of this pool, by table: whatever processes asked for
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
        self._begun: tuple[Any, dict[int, tuple[Tensor, Tensor]], _Asked] | None = None
        self._ready: _Asked | None = None

    def extra_repr(self) -> str:
        shard = self.shard
        return f"{super().extra_repr()}; rank {shard.rank} of {shard.ranks}"

    def begin(self, features: Mapping[str, Feature]) -> None:
        """Sends the ids of a pass, so that they travel while this process does other things; the
        forward pass with the same object goes on from there. All processes call it, or none."""
        self._check(features)
        distinct = self._distinct(features, self._tables_of(features))
        self._begun = features, distinct, self._ask({t: one[0] for t, one in distinct.items()})

    def forget_begun(self) -> None:
        """Of a pass that `begin` began and that never came; in all processes."""
        self._begun = None

    # --- a forward pass

    def _tables_of(self, features: Mapping[str, Feature]) -> dict[int, list[str]]:
        of_table: dict[int, list[str]] = {}
        for name in features:
            of_table.setdefault(self._table_of[name], []).append(name)
        return of_table

    def _distinct(
        self, features: Mapping[str, Feature], of_table: Mapping[int, list[str]]
    ) -> dict[int, tuple[Tensor, Tensor]]:
        if self._begun is not None and self._begun[0] is features:
            _, distinct, self._ready = self._begun
            self._begun = None
            return distinct
        return super()._distinct(features, of_table)

    def _rows_of(self, ids: Mapping[int, Tensor]) -> Iterator[Looked]:
        asked, self._ready = self._ready or self._ask(ids), None
        of_step = self.in_step and self.training and torch.is_grad_enabled()
        owned, at = self._look_up_owned(asked)
        wait = self._answer(asked, owned, at, of_step)
        mine = self._weights(asked, wait(), of_step)
        if of_step and self.optimizer is not None:
            self._passes.append(_Pass(asked, mine, owned, at))
        return iter(mine.values())

    def _ask(self, ids: Mapping[int, Tensor]) -> _Asked:
        ranks, tables = self.exchange.ranks, len(self.configs)
        order, pieces = {}, {}
        sent = [[0] * tables for _ in range(ranks)]
        for table, several in ids.items():
            owners = owners_of(several, self._tables[table].number, self.shard.buckets, ranks)
            order[table] = torch.argsort(owners, stable=True)
            counts = torch.bincount(owners, minlength=ranks).tolist()
            pieces[table] = several[order[table]].split(counts)
            for rank, count in enumerate(counts):
                sent[rank][table] = count
        told = torch.tensor(sent, dtype=torch.int64).reshape(-1)
        come = self.exchange.all_to_all(told, [tables] * ranks, [tables] * ranks)()
        coming = come.reshape(ranks, tables).tolist()
        whole = _cat([pieces[t][rank] for rank in range(ranks) for t in sorted(pieces)], told)
        wait = self.exchange.all_to_all(whole, [*map(sum, sent)], [*map(sum, coming)])
        return _Asked(ids, order, sent, coming, wait)

    def _look_up_owned(self, asked: _Asked) -> tuple[dict[int, Looked], dict[int, list[Tensor]]]:
        """Rows of this pool that processes ask for, each once."""
        ranks, tables = self.exchange.ranks, range(len(self.configs))
        come = asked.wait().to("cuda" if self.store.device == "cuda" else "cpu")
        sizes = [asked.coming[rank][t] for rank in range(ranks) for t in tables]
        pieces = come.split(sizes)
        every, inverses = {}, {}
        for t in tables:
            of_table = pieces[t :: len(tables)]
            if any(one.numel() for one in of_table):
                every[t], inverse = torch.unique(torch.cat(of_table), return_inverse=True)
                inverses[t] = list(inverse.split([one.numel() for one in of_table]))
        return {looked.table: looked for looked in super()._rows_of(every)}, inverses

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
            for t in sorted(owned):
                weights = owned[t].rows[:, : self.configs[t].dim]
                parts.append(weights[at[t][rank]].reshape(-1))
        sizes = [1 + self._floats(counts) for counts in asked.coming]
        coming = [1 + self._floats(counts) for counts in asked.sent]
        return self.exchange.all_to_all(_cat(parts, flag), sizes, coming)

    def _floats(self, counts: Sequence[int]) -> int:
        """Of weights of so many ids of each table."""
        return sum(n * config.dim for n, config in zip(counts, self.configs, strict=True))

    def _weights(self, asked: _Asked, come: Tensor, of_step: bool) -> dict[int, Looked]:
        """Weights of each id, in the order of the ids."""
        sizes = []
        for counts in asked.sent:
            sizes.append(1)
            sizes += [n * c.dim for n, c in zip(counts, self.configs, strict=True)]
        pieces = come.split(sizes)
        a_rank = 1 + len(self.configs)
        others = torch.cat(pieces[::a_rank]).tolist()
        if any(one != float(of_step) for one in others):
            raise RuntimeError(
                f"forward: of the processes {[bool(one) for one in others]} are within"
                " trainer.step(), in training mode and with gradients; call it alike in all"
            )
        mine = {}
        for t, ids in asked.ids.items():
            sorted_rows = torch.cat(pieces[1 + t :: a_rank]).reshape(-1, self.configs[t].dim)
            rows = torch.empty(sorted_rows.shape, device=ids.device)
            rows[asked.order[t]] = sorted_rows.to(ids.device)
            new = torch.zeros(ids.numel(), dtype=torch.bool, device=ids.device)
            mine[t] = Looked(t, ids, rows, new)
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
                    for t, config in enumerate(self.configs)
                    for size in (1, one.asked.coming[rank][t] * config.dim)
                ]
            )
        )
        gradients: dict[int, list[tuple[int, _Pass, Tensor]]] = {}
        for rank in range(self.exchange.ranks):
            for one in passes:
                for t in range(len(self.configs)):
                    there, gradient = next(pieces), next(pieces)
                    if gradient.numel() and there.item():
                        gradients.setdefault(t, []).append((rank, one, gradient))
        return [self._changed_by(t, several, step) for t, several in sorted(gradients.items())]

    def _send_gradients(self, passes: Sequence[_Pass]) -> Callable[[], Tensor]:
        ranks = self.exchange.ranks
        of_rank: list[list[Tensor]] = [[] for _ in range(ranks)]
        for one in passes:
            for t, config in enumerate(self.configs):
                looked = one.mine.get(t)
                there = torch.full((1,), float(looked is not None and bool(looked.gradients)))
                for rank in range(ranks):
                    of_rank[rank].append(there)
                if looked is None:
                    continue
                summed = torch.zeros((looked.ids.numel(), config.dim), device=looked.ids.device)
                for gradient in looked.gradients:
                    summed += gradient
                counts = [one.asked.sent[rank][t] for rank in range(ranks)]
                for rank, piece in enumerate(summed[one.asked.order[t]].split(counts)):
                    of_rank[rank].append(piece.reshape(-1))
        sizes = [
            sum(len(self.configs) + self._floats(one.asked.sent[rank]) for one in passes)
            for rank in range(ranks)
        ]
        coming = [
            sum(len(self.configs) + self._floats(one.asked.coming[rank]) for one in passes)
            for rank in range(ranks)
        ]
        whole = _cat([part for parts in of_rank for part in parts], torch.zeros(0))
        return self.exchange.all_to_all(whole, sizes, coming)

    def _changed_by(
        self, table: int, several: list[tuple[int, _Pass, Tensor]], step: int
    ) -> ShardedChanged:
        """Rows of a table by gradients of ranks and passes, which are added in this order."""
        dim, taken = self.configs[table].dim, {id(one): one for _, one, _ in several}
        ids, old, new, where = _union({key: one.owned[table] for key, one in taken.items()})
        gradient = old.new_zeros((ids.numel(), dim))
        touched = torch.zeros_like(new)
        for rank, one, part in several:
            at = where[id(one)][one.at[table][rank]]  # each id once
            gradient[at] += part.reshape(-1, dim).to(gradient.device)
            touched[at] = True
        ids, new, gradient, before = ids[touched], new[touched], gradient[touched], old[touched]
        rows = before.clone()
        floats = rows.shape[1] - SCORE_BYTES // 4
        assert self.optimizer is not None
        self.optimizer.update(rows[:, :dim], rows[:, dim:floats], gradient)
        score = rows.view(torch.int32)[:, floats:]
        score[:, 0] += 1
        score[:, 1] = step
        return ShardedChanged(self._tables[table], self.configs[table], ids, rows, new, before)


def _union(
    passes: Mapping[int, Looked],
) -> tuple[Tensor, Tensor, Tensor, dict[int, Tensor]]:
    """Ids of several passes, each once, their rows, which are new, and where a pass's are."""
    first = next(iter(passes.values()))
    if len(passes) == 1:
        at = torch.arange(first.ids.numel(), device=first.ids.device)
        return first.ids, first.rows, first.new, {next(iter(passes)): at}
    every = [looked.ids for looked in passes.values()]
    ids, inverse = torch.unique(torch.cat(every), return_inverse=True)
    where = dict(zip(passes, inverse.split([one.numel() for one in every]), strict=True))
    rows = first.rows.new_empty((ids.numel(), first.rows.shape[1]))
    new = first.new.new_empty(ids.numel())
    for key, looked in passes.items():
        rows[where[key]], new[where[key]] = looked.rows, looked.new
    return ids, rows, new, where


def _cat(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """One column; parts may be on several devices."""
    devices = {one.device for one in parts if one.numel()}
    to = devices.pop() if len(devices) == 1 else torch.device("cpu")
    return torch.cat([like[:0].to(to), *(one.to(to) for one in parts)])


def _of_one(config: TableConfig, ranks: int) -> TableConfig:
    """What each process may have of a table."""
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
