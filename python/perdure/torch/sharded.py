"""Collections whose rows are spread over several processes, each with a pool of its own.

A forward pass sends ids, each once, to the processes that have their rows, and gets the weights
back. The end of a step sends the gradients the same way; who has a row sums what comes in the order
of ranks, for each rank in the order of passes, and changes the row. So a sum is the same whoever
has the row. Who has an id's bucket counts its sightings, too, where its table admits.

Messages of a pass, from each process to each: what kind of pass it is and how many keys of each
group of tables (int64), the keys, group by group, and back the weights. At a step's end: of each
pass and group a float32 that says whether there are gradients, then these, pass by pass and group
by group, in the order of the keys that were sent. Where a table of the group admits, behind each
key's gradient comes how often the key was in the pass: an int32, in the bits of a float32.

Invariant: a row is looked up, changed and evicted by the process that has its bucket, and by no
other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import perdure
from perdure.torch.agreement import Agreed
from perdure.torch.buckets import BUCKETS, owners_of
from perdure.torch.changed import Changed
from perdure.torch.embeddings import (
    EmbeddingBagCollection,
    EmbeddingCollection,
    Group,
    Looked,
    _Collection,
    device_of,
)
from perdure.torch.exchange import Exchange
from perdure.torch.features import Feature
from perdure.torch.keys import Coming, Distinct, Keys, Owners, Sorting, keys_of_each, told
from perdure.torch.optimizers import Optimizer
from perdure.torch.passes import each_once, none_of
from perdure.torch.tables import TableConfig

_PASSES, _OF_STEP, _BEGUN = 0, 1, 2  # kinds of passes


@dataclass
class _Asked:
    """Keys of a pass on their way to whoever has their rows."""

    batches: Sequence[tuple[Group, Keys]]  # by rank, those of each group
    sent: list[list[int]]  # [rank][group]: how many
    coming: list[list[int]]
    kind: int
    wait: Callable[[], Tensor]


@dataclass
class _Pass:
    """A forward pass of a step, until its gradients are sent."""

    asked: _Asked
    mine: dict[int, Looked]  # by group
    owned: dict[int, Looked]  # of this pool: whatever processes asked for, in the order of ranks

    def at(self, group: int) -> Sequence[Tensor]:
        """Which rows of this pool each rank asked for."""
        counts = [of_rank[group] for of_rank in self.asked.coming]
        batch = self.owned[group].batch
        where = batch.inverse
        if where is None:
            where = torch.arange(len(batch.keys), device=batch.keys.device)
        return where.split(counts)


@dataclass
class _Gradient:
    """Of rows of one group that a rank looked up in one pass."""

    rank: int
    of: _Pass
    rows: Tensor
    times: Tensor | None  # int64: how often each was in the pass; None: no table admits
    there: bool  # else it is zeros, and changes nothing


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
        agreed.check_new_tables()
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
        self._begun = features, self._ask(super()._batches(features, once=True)[0], _BEGUN)

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
        self._ready = None  # of a pass that raised since
        if self._begun is not None and self._begun[0] is features:
            _, self._ready = self._begun
            self._begun = None
            return list(self._ready.batches), told(more)
        return super()._batches(features, more, once=True)  # for each key goes to a process

    def _rows_of(self, batches: Sequence[tuple[Group, Keys]], remember: bool) -> Sequence[Looked]:
        kind = _OF_STEP if self.in_step and remember else _PASSES
        if self._ready is None:
            asked = self._ask(batches, kind)
        else:  # when it began, nobody knew yet
            asked, self._ready = self._ready, None
            _check_alike([kind for [kind] in self.exchange.numbers([kind])])
        owned = self._look_up_owned(asked)
        sizes = [list(map(sum, self._floats(one))) for one in (asked.coming, asked.sent)]
        come = self.exchange.all_to_all(self._answer(asked, owned), *sizes)()
        mine = self._weights(asked, come)
        if kind == _OF_STEP:
            self._passes.append(_Pass(asked, mine, owned))
        return list(mine.values())

    def _on_their_way(self, keys: Tensor, once: bool) -> Sorting | Coming:
        """One sort for ranks and keys."""
        ranks = self.exchange.ranks
        tables = 1 + max(table.number for table in self._tables)
        owners = owners_of(keys, self.shard.buckets, ranks)
        return Sorting(keys, Owners(owners, ranks, tables))

    def _ask(self, batches: Sequence[tuple[Group, Keys]], kind: int) -> _Asked:
        """One wait for how many keys go and come."""
        ranks, groups = self.exchange.ranks, len(self._groups)
        none = torch.zeros(ranks, dtype=torch.int64, device=self.exchange.device)
        numbers = [torch.full_like(none, kind)] + [none] * groups
        for group, batch in batches:
            assert isinstance(batch, Distinct)
            numbers[1 + group.number] = batch.of_each_owner(ranks).to(none.device)
        each, to_each = [1 + groups] * ranks, torch.stack(numbers, dim=1)
        come = self.exchange.all_to_all(to_each.reshape(-1), each, each)()
        sent, coming = torch.stack([to_each, come.reshape(to_each.shape)]).tolist()
        _check_alike([of_rank.pop(0) for of_rank in coming])
        for of_rank in sent:
            del of_rank[0]
        sizes = [[2 * sum(of_rank) for of_rank in counts] for counts in (sent, coming)]
        keys = {group.number: batch.keys.to(none.device) for group, batch in batches}
        wait = self.exchange.all_to_all(self._by_rank(keys, sent, none[:0]), *sizes)
        return _Asked(batches, sent, coming, kind, wait)

    def _look_up_owned(self, asked: _Asked) -> dict[int, Looked]:
        """Rows of this pool that processes ask for, each once."""
        come = asked.wait().to(device_of(self.store)).reshape(-1, 2)
        groups, coming = [], []
        for group, keys in zip(self._groups, self._by_group(come, asked.coming), strict=True):
            asking = sum(of_rank[group.number] > 0 for of_rank in asked.coming)
            if asking:  # keys of one process come each once, and ascending
                groups.append(group)
                coming.append((Sorting if asking > 1 else Coming)(keys))
        batches, _ = keys_of_each(coming)
        each = zip(groups, batches, strict=True)
        return {group.number: self._from_pool(group, batch) for group, batch in each}

    def _by_group(self, come: Tensor, counts: list[list[int]]) -> list[Tensor]:
        """Of each group what was by rank, then by group; in the order of ranks."""
        groups = len(self._groups)
        if groups == 1:
            return [come]
        pieces = come.split(_flat(counts))
        return [torch.cat(pieces[g::groups]) for g in range(groups)]

    def _by_rank(
        self, of_groups: Mapping[int, Tensor], counts: list[list[int]], none: Tensor
    ) -> Tensor:
        """As a message has it, by rank and then by group, what each group has by rank; of no group
        `none`."""
        if len(of_groups) == 1:
            return next(iter(of_groups.values())).reshape(-1)
        pieces = [one.split([of_rank[g] for of_rank in counts]) for g, one in of_groups.items()]
        parts = [one.reshape(-1) for of_rank in zip(*pieces, strict=True) for one in of_rank]
        return torch.cat(parts) if parts else none

    def _answer(self, asked: _Asked, owned: Mapping[int, Looked]) -> Tensor:
        """Weights."""
        taken = {g: looked.weights(looked.group.dim) for g, looked in owned.items()}
        none = torch.empty(0, device=device_of(self.store))
        return self._by_rank(taken, asked.coming, none)

    def _floats(self, counts: list[list[int]]) -> list[list[int]]:
        """Of weights of so many keys, of each rank and group."""
        return [
            [n * group.dim for n, group in zip(of_rank, self._groups, strict=True)]
            for of_rank in counts
        ]

    def _weights(self, asked: _Asked, come: Tensor) -> dict[int, Looked]:
        """Of each key."""
        by_group, mine = self._by_group(come, self._floats(asked.sent)), {}
        for group, batch in asked.batches:
            rows = by_group[group.number].reshape(-1, group.dim).to(batch.keys.device)
            mine[group.number] = Looked(group, batch, rows, missing=None)
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
        come = self._send_gradients(passes)().to(device_of(self.store))
        each = [(one, group) for one in passes for group in self._groups]
        sizes = self._gradient_sizes([one.asked.coming for one in passes])
        pieces = come.split(_flat(sizes))
        a_rank = 1 + len(each)
        there = torch.stack(pieces[::a_rank]).tolist()  # what the host waits for
        several: dict[int, list[_Gradient]] = {}
        for rank, flags in enumerate(there):
            of_rank = pieces[rank * a_rank + 1 : (rank + 1) * a_rank]
            for (one, group), flag, gradient in zip(each, flags, of_rank, strict=True):
                if gradient.numel():
                    rows, times = self._without_times(group, gradient)
                    of_group = several.setdefault(group.number, [])
                    of_group.append(_Gradient(rank, one, rows, times, flag > 0))
        changed = [
            self._changed_by(g, some, step)
            for g, some in sorted(several.items())
            if any(one.there for one in some)
        ]
        self._count_sightings(passes, several)  # after whatever asks what earlier steps have seen
        return [one for one in changed if one is not None]

    def _send_gradients(self, passes: Sequence[_Pass]) -> Callable[[], Tensor]:
        looked = [one.mine.get(group.number) for one in passes for group in self._groups]
        flags = [float(bool(one and one.gradients)) for one in looked]
        there = torch.tensor(flags, device=self.exchange.device)
        of_rank = [[there] for _ in range(self.exchange.ranks)]
        for one in passes:
            for g, mine in one.mine.items():
                summed = self._with_times(mine).to(there.device)
                pieces = summed.split([of[g] for of in one.asked.sent])
                for parts, piece in zip(of_rank, pieces, strict=True):
                    parts.append(piece.reshape(-1))
        counts = [one.asked.sent for one in passes], [one.asked.coming for one in passes]
        sizes = [list(map(sum, self._gradient_sizes(one))) for one in counts]
        return self.exchange.all_to_all(torch.cat(_flat(of_rank)), *sizes)

    def _gradient_sizes(self, counts: Sequence[list[list[int]]]) -> list[list[int]]:
        """Of a message of each rank: flags, then of each pass and group."""
        widths = [group.dim + self._counts_times(group) for group in self._groups]
        of_passes = [
            [[n * width for n, width in zip(of_rank, widths, strict=True)] for of_rank in one]
            for one in counts
        ]
        flags = len(of_passes) * len(self._groups)
        return [[flags, *_flat(of_rank)] for of_rank in zip(*of_passes, strict=True)]

    def _counts_times(self, group: Group) -> bool:
        return bool(self._admitting(group))

    def _with_times(self, looked: Looked) -> Tensor:
        """Gradients of keys, and how often each was in the pass, where anybody counts that."""
        if not self._counts_times(looked.group):
            return looked.gradient
        times = looked.distinct.counts.to(torch.int32).view(torch.float32)
        return torch.cat([looked.gradient, times[:, None]], dim=1)

    def _without_times(self, group: Group, sent: Tensor) -> tuple[Tensor, Tensor | None]:
        if not self._counts_times(group):
            return sent.reshape(-1, group.dim), None
        rows, times = sent.reshape(-1, group.dim + 1).split([group.dim, 1], dim=1)
        return rows, times[:, 0].contiguous().view(torch.int32).to(torch.int64)

    def _count_sightings(
        self, passes: Sequence[_Pass], several: Mapping[int, Sequence[_Gradient]]
    ) -> None:
        """Pass by pass, what all processes saw in it together: as of one with their batches."""
        for g, some in several.items():
            for one in passes:
                mine = [(each.rank, each.times) for each in some if each.of is one]
                if not mine or mine[0][1] is None:
                    continue
                looked, at = one.owned[g], one.at(g)
                times = torch.zeros_like(looked.batch.keys[:, 0])
                for rank, of_rank in mine:
                    times.index_add_(0, at[rank], of_rank)
                self._sighted(looked, times)

    def _changed_by(self, g: int, several: list[_Gradient], step: int) -> Changed | None:
        """Rows of a group by gradients of ranks and passes, which are added in this order; None:
        no id of them is admitted."""
        group, passes = self._groups[g], {id(one.of): one.of for one in several if one.there}
        looked = [one.owned[g] for one in passes.values()]
        whole, at = looked[0], {key: one.at(g) for key, one in passes.items()}
        if len(looked) > 1:
            whole, where = each_once(looked)
            at = {
                key: [of[one] for one in ranks]
                for (key, ranks), of in zip(at.items(), where, strict=True)
            }
        keys, rows, missing = whole.batch.keys, whole.rows, whole.missing
        gradient = rows.new_zeros((len(keys), group.dim))
        touched = None  # all: a row is there because somebody asked for it
        may = self._may_change(whole)
        if not all(one.there for one in several):
            touched = none_of(keys)
        for one in several:
            if one.there:
                mine = at[id(one.of)][one.rank]  # each key once
                gradient.index_add_(0, mine, one.rows)
                if touched is not None:
                    touched[mine] = True
        if may is not None:
            touched = may if touched is None else touched & may
        if touched is not None:
            some = touched.nonzero()[:, 0]
            keys, rows, gradient = keys[some], rows[some], gradient[some]
            missing = None if missing is None else missing[some]
        if not len(keys):
            return None
        self._update(group, rows, gradient, step)
        return Changed(group.value_bytes, keys, whole.batch.are_numbers, rows, missing)


def _flat(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(parts))


def _check_alike(kinds: Sequence[int]) -> None:
    """All processes see the same, so all raise or none does."""
    if len(set(kinds)) == 1:
        return
    if _BEGUN in kinds:
        raise RuntimeError(
            f"begin: of the processes {[kind == _BEGUN for kind in kinds]} began this pass ahead;"
            " call it in all or in none"
        )
    raise RuntimeError(
        f"forward: of the processes {[kind == _OF_STEP for kind in kinds]} are within"
        " trainer.step(), in training mode and with gradients; call it alike in all"
    )


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
        more than its share. `admit_after` counts the sightings of all processes, each those of ids
        of its buckets, in `admit_counters` of its own.
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
