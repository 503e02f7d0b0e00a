"""Modules that look embeddings up in a pool, and keep what their gradients are to change.

A forward pass gets each id once, in one batch over all tables of one width; ids that are not there
begin with weights of their own. A backward pass sums the gradients of repeated ids in the order of
the batch. Nothing is written before `Trainer.step` ends.

Invariant: the pool changes in a step's commit alone; looking up changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

import perdure
from perdure.torch import keyed, notes
from perdure.torch.admission import Sightings
from perdure.torch.follower import Follower
from perdure.torch.new_rows import new_weights
from perdure.torch.optimizers import Optimizer
from perdure.torch.tables import SCORE_BYTES, TableConfig, row_bytes

Feature = tuple[Tensor, ...]  # ids, lengths of bags, and weights of ids where there are some


@dataclass
class Looked:
    """Ids of one table that a forward pass looked up, each once."""

    table: int
    ids: Tensor  # ascending
    rows: Tensor  # float32: weights, state and score, as they are before the step
    new: Tensor  # bool: the pool has no row of the id
    why_lost: str = ""  # a gradient would change nothing, though one is expected to
    gradients: list[Tensor] = field(default_factory=list)  # (n, dim) each
    seen: Tensor | None = None  # int64: how often, where the table admits
    admitted: Tensor | None = None  # bool: a gradient changes the row; None: of all


@dataclass
class Changed:
    """Rows of one table as a step leaves them."""

    table: perdure.Table
    config: TableConfig
    ids: Tensor  # ascending
    rows: Tensor
    new: Tensor  # bool: the pool had no row of the id


class _Take(torch.autograd.Function):
    """Weights of each id of a batch from those of the distinct ones."""

    @staticmethod
    def forward(ctx: Any, hook: Tensor, looked: Looked, dim: int, inverse: Tensor) -> Tensor:
        ctx.looked = looked
        ctx.save_for_backward(inverse)
        return looked.rows[:, :dim].index_select(0, inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, None]:
        (inverse,) = ctx.saved_tensors
        count = ctx.looked.ids.numel()
        if ctx.looked.why_lost:
            raise RuntimeError(ctx.looked.why_lost)
        if count == 0:
            return None, None, None, None
        # A sum by segments of a stable order: the same on every run, whatever the threads.
        order = torch.argsort(inverse, stable=True)
        lengths = torch.bincount(inverse, minlength=count)
        summed = torch.segment_reduce(gradients[0][order], "sum", lengths=lengths, axis=0)
        ctx.looked.gradients.append(summed.detach())
        return None, None, None, None


class _Collection(nn.Module):
    """What both collections have in common."""

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
        self._tables = [self._table(table) for table in self.configs]
        self._generation = self._generation_now()
        self._table_of = {
            name: number for number, table in enumerate(self.configs) for name in table.of_features
        }
        self.sightings = Sightings(self.configs)
        self._pending: list[Looked] = []
        self.in_step = False  # of a trainer
        # What autograd goes on through: the rows are no parameters of the module.
        self.register_buffer("_hook", torch.zeros(0), persistent=False)

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
        return table

    def extra_repr(self) -> str:
        each = ", ".join(f"{table.name}: {table.dim}" for table in self.configs)
        return f"{each}; {self.optimizer}; in {self.store.path!r}"

    def _look_up(self, features: Mapping[str, Feature]) -> dict[str, Tensor]:
        """Weights of each id of each feature, in order."""
        self._check(features)
        if self._generation_now() != self._generation:
            self._tables = [self._table(table) for table in self.configs]
            self._generation = self._generation_now()
        of_table: dict[int, list[str]] = {}
        for name in features:
            of_table.setdefault(self._table_of[name], []).append(name)
        weights: dict[str, Tensor] = {}
        distinct = {}
        for table, names in of_table.items():
            ids = torch.cat([features[name][0].to(torch.int64) for name in names])
            distinct[table] = torch.unique(ids, return_inverse=True)
        for looked in self._rows_of({table: found[0] for table, found in distinct.items()}):
            dim = self.configs[looked.table].dim
            hook = self._hook.detach().requires_grad_(torch.is_grad_enabled())
            all_weights = _Take.apply(hook, looked, dim, distinct[looked.table][1])
            names = of_table[looked.table]
            parts = all_weights.split([features[name][0].numel() for name in names])
            weights.update(zip(names, parts, strict=True))
            if self.optimizer is not None and self.training and torch.is_grad_enabled():
                self._remember(looked, distinct[looked.table][1])
        return weights

    def _remember(self, looked: Looked, inverse: Tensor) -> None:
        if self.in_step:
            config = self.configs[looked.table]
            if config.admit_after is not None:
                often = self.sightings.of[config.name].estimate(looked.ids) >= config.admit_after
                looked.admitted = ~looked.new | often
                looked.seen = torch.bincount(inverse, minlength=looked.ids.numel())
            self._pending.append(looked)
        else:
            looked.why_lost = (
                "a gradient of embeddings that were looked up outside of trainer.step(): look up"
                " and go backward within one step, or call eval()"
            )

    def _rows_of(self, ids: Mapping[int, Tensor]) -> Iterator[Looked]:
        """One batch for all tables of one width."""
        by_width: dict[int, list[int]] = {}
        for table in ids:
            by_width.setdefault(self._tables[table].value_bytes, []).append(table)
        for numbers in by_width.values():
            sizes = [ids[table].numel() for table in numbers]
            found = self.store.get_tables(
                [self._tables[table] for table in numbers],
                torch.cat([ids[table] for table in numbers]),
                np.cumsum([0, *sizes]),
                dtype=torch.float32,
            )
            there = torch.from_numpy(found.found).to(found.values.device)
            parts = zip(found.values.split(sizes), there.split(sizes), strict=True)
            for table, (rows, held) in zip(numbers, parts, strict=True):
                self._begin_new(table, ids[table], rows, ~held)
                yield Looked(table, ids[table], rows, ~held)

    def _begin_new(self, table: int, ids: Tensor, rows: Tensor, new: Tensor) -> None:
        config = self.configs[table]
        seed = self.seed * 0x9E3779B9 + self._tables[table].number
        rows[new, : config.dim] = new_weights(ids[new], config.dim, config.bound, seed)

    def _check(self, features: Mapping[str, Feature]) -> None:
        for name, feature in features.items():
            if name not in self._table_of:
                raise KeyError(f"feature {name!r}; there are {', '.join(self._table_of)}")
            if not all(isinstance(one, Tensor) for one in feature):
                raise TypeError(f"feature {name!r}: pass tensors")
            ids = feature[0]
            if ids.dim() != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
                raise TypeError(
                    f"feature {name!r}: ids are {ids.dtype} of shape {tuple(ids.shape)}; pass one"
                    " dimension of integers"
                )

    # --- for the trainer

    def begin_step(self) -> None:
        self._pending, self.in_step = [], True

    def end_step(self) -> list[Looked]:
        """What was looked up in it; gradients that come now come too late."""
        ended, self._pending, self.in_step = self._pending, [], False
        for looked in ended:
            looked.why_lost = "a gradient of embeddings that an earlier step looked up"
        return ended

    def changed(self, step: int) -> list[Changed]:
        """What becomes of the rows that were looked up in this step and got gradients."""
        of_table: dict[int, list[Looked]] = {}
        for looked in self.end_step():
            admitted = self._admitted(looked)
            if admitted.gradients and admitted.ids.numel():
                of_table.setdefault(looked.table, []).append(admitted)
        return [self._changed(table, several, step) for table, several in of_table.items()]

    def _admitted(self, looked: Looked) -> Looked:
        """Without what is not admitted; sightings of ids that have no row are counted."""
        may, new = looked.admitted, looked.new
        if may is None or looked.seen is None:
            return looked
        self.sightings.of[self.configs[looked.table].name].add(looked.ids[new], looked.seen[new])
        gradients = [one[may] for one in looked.gradients]
        return Looked(
            looked.table, looked.ids[may], looked.rows[may], new[may], gradients=gradients
        )

    def _changed(self, table: int, several: list[Looked], step: int) -> Changed:
        dim = self.configs[table].dim
        every = torch.cat([looked.ids for looked in several])
        ids, inverse = torch.unique(every, return_inverse=True)
        rows = torch.empty((ids.numel(), several[0].rows.shape[1]), device=ids.device)
        new = torch.empty(ids.numel(), dtype=torch.bool, device=ids.device)
        gradient = torch.zeros((ids.numel(), dim), device=ids.device)
        # Each pass has an id once, so nothing is added twice at one moment.
        for looked, at in zip(
            several, inverse.split([looked.ids.numel() for looked in several]), strict=True
        ):
            rows[at], new[at] = looked.rows, looked.new
            for one in looked.gradients:
                gradient[at] += one
        floats = rows.shape[1] - SCORE_BYTES // 4
        assert self.optimizer is not None
        self.optimizer.update(rows[:, :dim], rows[:, dim:floats], gradient)
        score = rows.view(torch.int32)[:, floats:]
        score[:, 0] += 1
        score[:, 1] = step
        return Changed(self._tables[table], self.configs[table], ids, rows, new)


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
        Of new ids' weights.
    """

    def forward(self, features: Any) -> dict[str, Any]:
        if keyed.is_keyed(features):
            jagged = keyed.features_of(features, self._table_of)
            return keyed.jagged_tensors(jagged, self._look_up(jagged))
        return self._look_up(features)


class EmbeddingBagCollection(_Collection):
    """A sum or mean of weights for each bag of ids.

    `collection({"user": (ids, lengths)})` answers `{"user": pooled}`, of shape (bags, dim): the
    first lengths[0] ids are of bag 0, and so on. With a third tensor (ids, lengths, weights) the
    rows are multiplied by it first. Of torchrec's KeyedJaggedTensor it makes a KeyedTensor.

    Parameters
    ----------
    As of EmbeddingCollection.
    """

    def forward(self, features: Any) -> Any:
        if keyed.is_keyed(features):
            pooled = self.forward(keyed.features_of(features, self._table_of))
            return keyed.keyed_tensor(features, pooled)
        self._check(features)
        for name, feature in features.items():
            self._check_bags(name, feature)
        weights = self._look_up(features)
        return {name: self._pooled(name, features[name], weights[name]) for name in features}

    def _check_bags(self, name: str, feature: Feature) -> None:
        if len(feature) not in (2, 3):
            raise TypeError(f"feature {name!r}: pass (ids, lengths) or (ids, lengths, weights)")
        ids, lengths = feature[0], feature[1]
        right = lengths.dim() == 1 and not lengths.is_floating_point()
        if not right or int(lengths.sum()) != ids.numel() or bool((lengths < 0).any()):
            raise ValueError(
                f"feature {name!r}: lengths are integers of one dimension, none below 0, whose sum"
                f" is the number of ids, {ids.numel()}"
            )
        if len(feature) == 3 and feature[2].shape != ids.shape:
            raise ValueError(f"feature {name!r}: pass a weight for each of the {ids.numel()} ids")

    def _pooled(self, name: str, feature: Feature, weights: Tensor) -> Tensor:
        lengths = feature[1].to(torch.int64)
        if len(feature) == 3:
            weights = weights * feature[2][:, None].to(weights.dtype)
        if weights.shape[0] == 0 or lengths.numel() == 0:
            dim = self.configs[self._table_of[name]].dim
            return weights.sum() + weights.new_zeros((lengths.numel(), dim))
        sums = torch.segment_reduce(weights, "sum", lengths=lengths, axis=0, initial=0.0)
        if self.configs[self._table_of[name]].pooling == "sum":
            return sums
        return sums / lengths.clamp(min=1)[:, None]
