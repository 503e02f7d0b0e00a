"""Sums and means of bags of weights, and their gradients.

Invariant: a gradient of bags becomes one of each id by copies and one product each, so it is the
same on every run.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from perdure.torch.gathers import rows_at


@dataclass(frozen=True)
class Bags:
    """Bags of ids, one after the other."""

    lengths: Tensor  # int64, of each bag; their sum is the number of ids
    of_ids: Tensor | None  # float32, by what each id's weights are multiplied
    divisors: Tensor | None  # (bags, 1), by what sums are divided

    def pooled(self, weights: Tensor) -> Tensor:
        """(bags, dim), of weights (ids, dim)."""
        if len(weights) == 0 or len(self.lengths) == 0:
            return weights.new_zeros((len(self.lengths), weights.shape[1]))
        ends = self.lengths.cumsum(0)
        each = torch.arange(len(weights), device=weights.device)
        sums = nn.functional.embedding_bag(
            each, weights, ends - self.lengths, mode="sum", per_sample_weights=self.of_ids
        )
        return sums if self.divisors is None else sums / self.divisors

    def gradients(
        self, gradient: Tensor, ids: int, weights: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Of the weights of so many ids, and of `of_ids`, from that of bags; the latter where there
        are `weights`, those that `pooled` got."""
        if self.divisors is not None:
            gradient = gradient / self.divisors
        bags = torch.arange(len(self.lengths), device=self.lengths.device)
        of_each = torch.repeat_interleave(bags, self.lengths, output_size=ids)
        gradient = rows_at(gradient, of_each)
        if self.of_ids is None:
            return gradient, None
        of_ids = None if weights is None else (gradient * weights).sum(dim=1)
        return gradient * self.of_ids[:, None], of_ids


def divisors_of(lengths: Tensor, sizes: list[int], means: list[bool]) -> Tensor | None:
    """Of bags of several features, of which some are means; `sizes` are their numbers of bags."""
    if not any(means):
        return None
    divides = _divides(tuple(sizes), tuple(means), lengths.device)
    return torch.where(divides, lengths.clamp(min=1), 1)[:, None]


@functools.lru_cache(maxsize=8)
def _divides(sizes: tuple[int, ...], means: tuple[bool, ...], device: torch.device) -> Tensor:
    """Which bags are means; kept, for batches of a training have the same numbers of bags."""
    each = torch.tensor(means, device="cpu")
    return torch.repeat_interleave(each, torch.tensor(sizes, device="cpu")).to(device)
