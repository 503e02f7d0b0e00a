"""Modules that look embeddings up in a pool, and keep what their gradients are to change.

A forward pass gets each id once, in one batch over all tables of one width; ids that are not there
begin with weights of their own. A backward pass sums the gradients of repeated ids in the order of
the batch. Nothing is written before `Trainer.step` ends.

Invariant: the pool changes in a step's commit alone; looking up changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import perdure
from perdure._named import numbers_of_each
from perdure.torch import keyed, notes, ops, overlap
from perdure.torch.admission import Sightings
from perdure.torch.changed import Changed
from perdure.torch.features import (
    Feature,
    Lengths,
    check_bags,
    check_ids,
    joined,
    weights_of_ids,
)
from perdure.torch.follower import Follower
from perdure.torch.keys import Coming, Keys, Sorting, keys_of_each, of_table
from perdure.torch.new_rows import new_weights, offset_of
from perdure.torch.optimizers import Optimizer
from perdure.torch.passes import Group, Looked, Part, Request, Rows, each_once
from perdure.torch.pooling import Bags, divisors_of
from perdure.torch.tables import SCORE_BYTES, TableConfig, row_bytes


class _Collection(nn.Module):
    """What both collections have in common."""

    _pools: bool  # weights are those of bags

    def __init__(
        self,
        store: perdure.Store | Follower,
        tables: Sequence[TableConfig],
        optimizer: Optimizer | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.store, self.optimizer, self.seed = store, optimizer, seed
        self.configs = list(tables)
        features = [name for table in self.configs for name in table.of_features]
        if len(set(features)) != len(features) or not features:
            raise ValueError(f"tables: each feature is of one table; these are {features}")
        self._generation = -1
        self._follow()
        self._table_of = {
            name: number for number, table in enumerate(self.configs) for name in table.of_features
        }
        self.sightings = Sightings(self.configs)
        self._pending: list[Looked] = []
        self.in_step = False  # of a trainer
        self.lookups = 0  # batches of the pool, since the step began
        by_dim: dict[int, list[str]] = {}
        for config in self.configs:
            by_dim.setdefault(config.dim, []).extend(config.of_features)
        self._of_dims = list(by_dim.values())
        self.compiled = ops.Passes(self, by_dim, self._pools)
        # What autograd goes on through: the rows are no parameters of the module. It is in host
        # memory, wherever the rows are.
        self._hook = torch.zeros(1, dtype=torch.float32, device="cpu", requires_grad=True)

    @property
    def lr(self) -> float:
        """The optimizer's rate, which may be another for each step, as a scheduler has it:
        `bags.lr = scheduler.get_last_lr()[0]`. It counts when the step ends; the pool does not keep
        it.

        Raises
        ------
        ValueError
            It is to be negative, or no finite number; or the collection is for inference.
        """
        return self._of_training().lr

    @lr.setter
    def lr(self, rate: float) -> None:
        if not (math.isfinite(rate) and rate >= 0):
            raise ValueError(f"lr: {rate}; pass a finite number of at least 0")
        self.optimizer = replace(self._of_training(), lr=float(rate))

    def _of_training(self) -> Any:
        if self.optimizer is None:
            raise ValueError("lr: the collection has no optimizer, and is for inference alone")
        return self.optimizer

    def _follow(self) -> None:
        """Tables are of the pool that there is now."""
        while (now := self._generation_now()) != self._generation:
            self._open_tables()
            self._generation = now

    def _open_tables(self) -> None:
        self._tables = [self._table(config) for config in self.configs]
        groups: dict[tuple[int, int], Group] = {}  # of one optimizer a width has one dim
        numbers = max(table.number for table in self._tables) + 1
        bounds = torch.zeros(numbers, dtype=torch.float32, device="cpu")
        seeds: dict[int, int] = {}
        for number, (config, table) in enumerate(zip(self.configs, self._tables, strict=True)):
            group = Group(len(groups), table.value_bytes, config.dim, [], [])
            group = groups.setdefault((table.value_bytes, config.dim), group)
            group.tables.append(number)
            group.features.extend(config.of_features)
            bounds[table.number] = config.bound
            seeds[table.number] = self._seed_of(table)
        self._groups = list(groups.values())
        self._bounds = bounds  # no buffer: whatever dtype the module gets, new rows begin alike
        self._seeds: int | Tensor = next(iter(seeds.values()))
        if len(set(seeds.values())) > 1:  # of inference alone
            self._seeds = torch.zeros(numbers, dtype=torch.int64, device="cpu")
            for number, seed in seeds.items():
                self._seeds[number] = offset_of(seed)

    def _seed_of(self, table: perdure.Table) -> int:
        """Inference has that of the training, or ids without a row would read otherwise."""
        kept = notes.seed_of(self.store, table) if self.optimizer is None else None
        return self.seed if kept is None else kept

    def _generation_now(self) -> int:
        """Of a follower, which goes over to a pool that is made anew."""
        if isinstance(self.store, perdure.Store):
            return 0
        self.store.refresh()
        return self.store.generation

    def _table(self, config: TableConfig) -> perdure.Table:
        """The pool's table, if its rows are what the model takes them for."""
        table = self.store.tables().get(config.name)
        kind = None if table is None else notes.kind_of(self.store, table)
        if kind is None and self.optimizer is not None:  # new, or a kill came between the two
            assert isinstance(self.store, perdure.Store)
            table = self.store.table(config.name, row_bytes(config, self.optimizer))
            notes.keep_kind(self.store, table, config.dim, self.optimizer)
            kind = notes.kind_of(self.store, table)
        table = table or self.store.table(config.name)  # which says that there is none
        expected = self.optimizer and notes.optimizer_note(self.optimizer)
        if kind is None or kind[0] != config.dim or expected not in (None, kind[1]):
            raise ValueError(
                f"table {config.name!r}: rows of {self.store.path} have"
                f" {kind[0] if kind else 'an unknown number of'} weights, and the model takes"
                f" {config.dim} with the state of {self.optimizer or 'any optimizer'}: dim or"
                " optimizer was another when the pool was made"
            )
        if self.optimizer is not None:
            assert isinstance(self.store, perdure.Store)
            notes.check_seed(self.store, table, self.seed)
        return table

    def extra_repr(self) -> str:
        each = ", ".join(f"{table.name}: {table.dim}" for table in self.configs)
        return f"{each}; {self.optimizer}; in {self.store.path!r}"

    def _forward(self, features: Mapping[str, Feature]) -> dict[str, Tensor]:
        """Rows of ids, or of bags of them, of each feature. torch.compile traces this, down to the
        operator."""
        of_dims = [[name for name in names if name in features] for names in self._of_dims]
        of_dims = [names for names in of_dims if names]
        names = [name for some in of_dims for name in some]
        remember = self.optimizer is not None and self.training and torch.is_grad_enabled()
        of_ids = None
        if self._pools and any(len(features[name]) == 3 for name in names):
            of_ids = torch.cat([weights_of_ids(features[name]) for name in names])
        request = Request(features, of_dims, of_ids, remember)
        wholes: Sequence[Tensor] = ()
        if torch.compiler.is_compiling():
            wholes = self.compiled(self._hook, features, names, of_ids, remember)
        elif names:
            wholes = Rows.apply(self._hook, of_ids, self, request)
        else:
            self.pass_of(request)  # other processes may have ids
        answer: dict[str, Tensor] = {}
        at = 1 if self._pools else 0  # a row each: of lengths, or of ids
        for some, whole in zip(of_dims, wholes, strict=True):
            sizes = [features[name][at].numel() for name in some]
            answer.update(zip(some, whole.split(sizes), strict=True))
        return {name: answer[name] for name in features}

    def pass_of(self, request: Request) -> tuple[list[Part], list[Tensor], list[Tensor]]:
        """What a pass looked up; of tables of each dim the answer, and the weights of ids, where
        those have weights themselves."""
        single, looked = self._looked_up(request)
        if request.remember:
            for one in looked:
                self._remember(one)
        parts, answers, weights = self._parts_of(request, looked, single), [], []
        for part, names in zip(parts, request.of_dims, strict=True):
            of_part = part.weights(self.configs[self._table_of[names[0]]].dim)
            answers.append(of_part if part.bags is None else part.bags.pooled(of_part))
            if request.of_ids is not None:
                weights.append(of_part)
        return parts, answers, weights

    def _looked_up(self, request: Request) -> tuple[bool, Sequence[Looked]]:
        """Whether each bag has one id, and rows, all of them of one pool: another thread may take a
        follower over to one that was made anew, whose tables may have other numbers."""
        while True:
            self._follow()
            lengths = Lengths(request.features if self._pools else {})
            batches, answers = self._batches(request.features, lengths.asked, once=request.remember)
            single = lengths.are_single(answers)
            try:
                looked = self._rows_of(batches, request.remember)
            except Exception:
                if not self._is_behind():
                    raise
                continue
            if not self._is_behind():
                return single, looked

    def _is_behind(self) -> bool:
        return isinstance(self.store, Follower) and self.store.generation != self._generation

    def check_compiled(self) -> None:
        """Raises where a pass has to go by the module itself."""

    def _parts_of(self, request: Request, looked: Sequence[Looked], single: bool) -> list[Part]:
        parts, begin = [], 0
        for names in request.of_dims:
            sizes = [request.features[name][0].numel() for name in names]
            end = begin + sum(sizes)
            bags = None
            if self._pools and (request.of_ids is not None or not single):
                of_ids = None if request.of_ids is None else request.of_ids[begin:end]
                lengths = [request.features[name][1] for name in names]
                bags = self.bags(names, lengths, of_ids)
            parts.append(Part(self._looked_of(names, sizes, looked), end - begin, bags))
            begin = end
        return parts

    def _looked_of(
        self, names: Sequence[str], sizes: Sequence[int], looked: Sequence[Looked]
    ) -> list[tuple[Looked, Tensor | None]]:
        """Whose weights the ids of these features have."""
        dim = self.configs[self._table_of[names[0]]].dim
        mine = [one for one in looked if one.group.dim == dim]
        if len(mine) < 2:
            return [(one, None) for one in mine]
        device = mine[0].rows.device
        pieces = dict(zip(names, torch.arange(sum(sizes), device=device).split(sizes), strict=True))
        return [
            (one, torch.cat([pieces[name] for name in self._names_of(one.group, pieces)]))
            for one in mine
        ]

    def bags(
        self,
        names: Sequence[str],
        lengths: Sequence[Tensor],
        of_ids: Tensor | None,
    ) -> Bags:
        """Of some features."""
        whole = torch.cat([one.to(torch.int64) for one in lengths])
        means = [self.configs[self._table_of[name]].pooling == "mean" for name in names]
        divisors = divisors_of(whole, [one.numel() for one in lengths], means)
        return Bags(whole, of_ids, divisors)

    def _batches(
        self, features: Mapping[str, Feature], more: Sequence[Tensor] = (), *, once: bool
    ) -> tuple[list[tuple[Group, Keys]], list[int]]:
        """Keys of the features; of all their tables of one width together. And `more`, integers of
        a device, as the host reads them: it waits once for all that it asks.

        Each key comes once where gradients are to be summed by it. Where none are, sorting takes
        longer than looking up twice; but a follower might answer two rows of two steps."""
        once = once or not isinstance(self.store, perdure.Store)
        names = [(group, self._names_of(group, features)) for group in self._groups]
        groups = [group for group, mine in names if mine]
        coming = [self._coming(mine, features, once) for _, mine in names if mine]
        keys, answers = keys_of_each(coming, more)
        return list(zip(groups, keys, strict=True)), answers

    def _names_of(self, group: Group, features: Mapping[str, Any]) -> list[str]:
        """Of features of the group's tables, table by table."""
        return [name for name in group.features if name in features]

    def _coming(
        self, names: Sequence[str], features: Mapping[str, Feature], once: bool
    ) -> Sorting | Coming:
        ids = [features[name][0] for name in names]
        numbers = tuple([self._tables[self._table_of[name]].number for name in names])
        each = numbers_of_each(numbers, tuple([one.numel() for one in ids]), ids[0].device)
        keys = torch.stack([joined(ids), each], dim=1)
        return self._on_their_way(keys, once)

    def _on_their_way(self, keys: Tensor, once: bool) -> Sorting | Coming:
        return Sorting(keys) if once else Coming(keys)

    def _remember(self, looked: Looked) -> None:
        if self.in_step:
            self._pending.append(looked)
        else:
            looked.why_lost = (
                "a gradient of embeddings that were looked up outside of trainer.step(): look up"
                " and go backward within one step, or call eval()"
            )

    def _rows_of(self, batches: Sequence[tuple[Group, Keys]], remember: bool) -> Sequence[Looked]:
        """One batch of the pool for all tables of one width."""
        return [self._from_pool(group, batch) for group, batch in batches]

    def _from_pool(self, group: Group, batch: Keys) -> Looked:
        keys, self.lookups = batch.keys, self.lookups + 1
        (rows, found), kept = overlap.reading(
            self.store, lambda: ops.rows_of(self.store, keys, group.value_bytes, whole=True)
        )
        missing = None
        if found is not None and not found.all():
            absent = torch.from_numpy(~found)
            missing = absent.to(keys.device)
            self._begin_rows(group, keys, rows, absent.nonzero()[:, 0])
        looked = Looked(group, batch, rows, missing)
        if kept is not None:
            begins = kept.lay_over(looked)
            if len(begins):
                self._begin_rows(group, keys, looked.rows, begins)
        return looked

    def _begin_rows(self, group: Group, keys: Tensor, rows: Tensor, at: Tensor) -> None:
        """Weights of rows that the pool has not, by their positions."""
        at, bounds = at.to(keys.device), self._bounds.to(keys.device)
        seeds = self._seeds if isinstance(self._seeds, int) else self._seeds.to(keys.device)
        rows[at, : group.dim] = new_weights(keys[at], group.dim, bounds, seeds)

    def _check(self, features: Mapping[str, Feature]) -> None:
        check_ids(features, self._table_of)
        if self._pools:
            check_bags(features)

    # --- for the trainer

    def begin_step(self) -> None:
        self._pending, self.in_step, self.lookups = [], True, 0
        self.compiled.forget()

    def end_step(self) -> list[Looked]:
        """What was looked up in it; gradients that come now come too late."""
        ended, self._pending, self.in_step = self._pending, [], False
        self.compiled.forget()
        for looked in ended:
            looked.why_lost = "a gradient of embeddings that an earlier step looked up"
        return ended

    def changed(self, step: int) -> list[Changed]:
        """What becomes of the rows that were looked up in this step and got gradients."""
        of_width: dict[int, list[Looked]] = {}
        ended = self.end_step()
        each = [self._may_change(looked) for looked in ended]  # by what earlier steps have seen
        for looked, may in zip(ended, each, strict=True):
            admitted = looked if may is None else self._admitted(looked, may)
            if admitted.gradients and len(admitted.batch.keys):
                of_width.setdefault(looked.group.value_bytes, []).append(admitted)
        return [self._changed(several, step) for several in of_width.values()]

    def _changed(self, several: list[Looked], step: int) -> Changed:
        whole = several[0]
        if len(several) == 1:
            gradient = whole.gradient
        else:
            whole, where = each_once(several)
            gradient = whole.gradient
            for looked, at in zip(several, where, strict=True):
                for one in looked.gradients:
                    gradient[at] += one
        group, batch, rows = whole.group, whole.batch, whole.rows
        self._update(group, rows, gradient, step)
        return Changed(group.value_bytes, batch.keys, batch.are_numbers, rows, whole.missing)

    def _admitting(self, group: Group) -> list[tuple[TableConfig, int]]:
        """Tables of the group that admit, and their numbers."""
        tables = [(self.configs[t], self._tables[t].number) for t in group.tables]
        return [(config, number) for config, number in tables if config.admit_after is not None]

    def _may_change(self, looked: Looked) -> Tensor | None:
        """Rows that are there, and those of ids that were seen often enough; None: all."""
        admitting = self._admitting(looked.group)
        if not admitting:
            return None
        may = torch.ones_like(looked.new)
        for config, number in admitting:
            mine = of_table(looked.batch.keys, number)
            seen = self.sightings.of[config.name].estimate(looked.batch.keys[mine, 0])
            may[mine] = ~looked.new[mine] | (seen >= config.admit_after)
        return may

    def _sighted(self, looked: Looked, times: Tensor) -> None:
        """Counts how often each key was in a pass, where it has no row."""
        keys = looked.batch.keys
        for config, number in self._admitting(looked.group):
            mine = of_table(keys, number) & looked.new
            self.sightings.of[config.name].add(keys[mine, 0], times[mine])

    def _admitted(self, looked: Looked, may: Tensor) -> Looked:
        """Without what may not change; its sightings are counted."""
        self._sighted(looked, looked.distinct.counts)
        return replace(
            looked,
            batch=looked.distinct.only(may),
            rows=looked.rows[may],
            missing=None if looked.missing is None else looked.missing[may],
            gradients=[one[may] for one in looked.gradients],
        )

    def _update(self, group: Group, rows: Tensor, gradient: Tensor, step: int) -> None:
        """In place: weights, state and score."""
        dim, floats = group.dim, (group.value_bytes - SCORE_BYTES) // 4
        assert self.optimizer is not None
        self.optimizer.update(rows[:, :dim], rows[:, dim:floats], gradient)
        scores = rows.view(torch.int32)
        scores.select(1, floats).add_(1)
        scores.select(1, floats + 1).fill_(step)


def check_collections(collections: Sequence[_Collection], store: perdure.Store) -> None:
    if not collections:
        raise ValueError("embeddings: there is none")
    if any(one.optimizer is None for one in collections):
        raise ValueError("embeddings: one has no optimizer, and is for inference alone")
    if any(one.store is not store for one in collections):
        raise ValueError("embeddings: they are over another store than the trainer's")
    names = [table.name for one in collections for table in one.configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"embeddings: table {twice[0]!r} is in two collections; share one")


def device_of(store: perdure.Store | Follower) -> str:
    return "cuda" if store.device == "cuda" else "cpu"


class EmbeddingCollection(_Collection):
    """A row of weights for each id.

    `collection({"user": (ids,)})` answers `{"user": weights}`, of shape (n, dim). Of torchrec's
    KeyedJaggedTensor it makes a JaggedTensor for each feature.

    Parameters
    ----------
    store : perdure.Store or Follower
        Of `perdure.torch.create`.
    tables : sequence of TableConfig
    optimizer : SGD, Adagrad, RowWiseAdagrad or Adam
        None: for inference alone; nothing is ever changed.
    seed : int
        Of new ids' weights. A training's pool remembers it, and takes no other; without an
        optimizer that one counts.
    """

    _pools = False

    def forward(self, features: Any) -> dict[str, Any]:
        if keyed.is_keyed(features):
            jagged = keyed.features_of(features, self._table_of)
            return keyed.jagged_tensors(jagged, self.forward(jagged))
        self._check(features)
        return self._forward(features)


class EmbeddingBagCollection(_Collection):
    """A sum or mean of weights for each bag of ids.

    `collection({"user": (ids, lengths)})` answers `{"user": pooled}`, of shape (bags, dim): the
    first lengths[0] ids are of bag 0, and so on. With a third tensor (ids, lengths, weights) the
    rows are multiplied by it first. Of torchrec's KeyedJaggedTensor it makes a KeyedTensor.

    Parameters
    ----------
    As of EmbeddingCollection.
    """

    _pools = True

    def forward(self, features: Any) -> Any:
        if keyed.is_keyed(features):
            pooled = self.forward(keyed.features_of(features, self._table_of))
            return keyed.keyed_tensor(features, pooled)
        self._check(features)
        return self._forward(features)
