"""What forward passes of collections look up, and take gradients of.

Invariant: a gradient is noted once, by the pass that looked its rows up, in the order in which
passes go backward; the rows themselves stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from perdure.torch.features import Feature
from perdure.torch.gathers import rows_at
from perdure.torch.keys import Distinct, Keys, distinct
from perdure.torch.pooling import Bags


@dataclass(frozen=True)
class Group:
    """Tables whose rows have one width, and so as many weights: what is done to one is done to
    all, at once."""

    number: int  # of the collection's groups
    value_bytes: int
    dim: int
    tables: list[int]  # in the collection
    features: list[str]  # of these tables, table by table


@dataclass
class Looked:
    """Rows that a forward pass looked up; each once, where gradients may change them."""

    group: Group
    batch: Keys
    rows: Tensor  # float32: weights, state and score, as they are before the step, and zeros
    missing: Tensor | None  # bool: the pool has no row of the key; None: it has all
    why_lost: str = ""  # a gradient would change nothing, though one is expected to
    gradients: list[Tensor] = field(default_factory=list)  # (n, dim) each

    @property
    def new(self) -> Tensor:
        """bool: the pool has no row of the key."""
        return none_of(self.batch.keys) if self.missing is None else self.missing

    @property
    def distinct(self) -> Distinct:
        """Of rows that gradients may change."""
        assert isinstance(self.batch, Distinct)
        return self.batch

    @property
    def gradient(self) -> Tensor:
        """The sum of all, in their order; without any, zeros."""
        if not self.gradients:
            return self.rows.new_zeros((len(self.rows), self.group.dim))
        summed = self.gradients[0]
        for one in self.gradients[1:]:
            summed = summed + one
        return summed

    def weights(self, dim: int) -> Tensor:
        """Of each key of the batch."""
        weights = self.rows[:, :dim]
        if self.batch.inverse is None:
            return weights.contiguous()
        return rows_at(weights, self.batch.inverse)


def none_of(keys: Tensor) -> Tensor:
    """A mask."""
    return torch.zeros(len(keys), dtype=torch.bool, device=keys.device)


def each_once(several: Sequence[Looked]) -> tuple[Looked, Sequence[Tensor]]:
    """What several passes looked up, as one, but for gradients; and where in it rows of each are,
    which has a key once."""
    batch = distinct(torch.cat([looked.batch.keys for looked in several]))
    where = batch.inverse.split([len(looked.batch.keys) for looked in several])
    first = several[0]
    rows, missing = first.rows.new_empty((len(batch.keys), first.rows.shape[1])), None
    if any(looked.missing is not None for looked in several):
        missing = none_of(batch.keys)
    for looked, at in zip(several, where, strict=True):
        rows[at] = looked.rows
        if missing is not None:
            missing[at] = looked.new
    return Looked(first.group, batch, rows, missing), where


@dataclass(frozen=True)
class Request:
    """What a forward pass asks for."""

    features: Mapping[str, Feature]
    of_dims: list[list[str]]  # the features' names: those of tables of one dim together
    of_ids: Tensor | None  # a weight of each id, in the order of these names
    remember: bool  # gradients are to change the rows


@dataclass
class Part:
    """Ids of tables of one dim, in a pass. They are of one group, unless the pool's tables were
    made for several optimizers."""

    looked: list[tuple[Looked, Tensor | None]]  # and which of the ids are its; None: all
    ids: int
    bags: Bags | None  # None: a row each is answered

    def weights(self, dim: int) -> Tensor:
        """Of each id."""
        taken = [one.weights(dim) for one, _ in self.looked]
        if len(taken) == 1:
            return taken[0]
        weights = taken[0].new_empty((self.ids, dim))
        for (_, at), some in zip(self.looked, taken, strict=True):
            weights[at] = some
        return weights

    def take(self, gradient: Tensor) -> None:
        """A gradient of each id's weights."""
        for looked, at in self.looked:
            if looked.why_lost:
                raise RuntimeError(looked.why_lost)
            if len(looked.batch.keys):
                mine = gradient if at is None else gradient[at]
                looked.gradients.append(looked.distinct.sums(mine))


class Passing(Protocol):
    """A collection."""

    def pass_of(self, request: Request) -> tuple[list[Part], list[Tensor], list[Tensor]]: ...


class Rows(torch.autograd.Function):
    """A forward pass outside of torch.compile. Compiled code does the same by the operators of
    `ops`, of which PyTorch's dispatcher takes a fifth of a millisecond a step."""

    @staticmethod
    def forward(
        ctx: Any, hook: Tensor, of_ids: Tensor | None, collection: Passing, request: Request
    ) -> tuple[Tensor, ...]:
        ctx.parts, answers, weights = collection.pass_of(request)
        ctx.remember = request.remember
        ctx.set_materialize_grads(False)
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(of_ids, *weights)
        return tuple(answers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        of_ids, *weights = ctx.saved_tensors or (None,)
        return None, gradients_of(ctx.parts, gradients, of_ids, weights, ctx.remember), None, None


def gradients_of(
    parts: Sequence[Part],
    gradients: Sequence[Tensor | None],
    of_ids: Tensor | None,
    weights: Sequence[Tensor],
    remember: bool,
) -> Tensor | None:
    """Notes gradients of a pass for the step, and answers that of `of_ids`."""
    pieces = []
    for number, (part, gradient) in enumerate(zip(parts, gradients, strict=True)):
        of_part = None
        if gradient is not None and part.bags is not None:
            mine = weights[number] if of_ids is not None else None
            gradient, of_part = part.bags.gradients(gradient, part.ids, mine)
        if gradient is not None and remember:
            part.take(gradient)
        if of_ids is not None:
            pieces.append(of_ids.new_zeros(part.ids) if of_part is None else of_part)
    return None if of_ids is None else torch.cat(pieces)
