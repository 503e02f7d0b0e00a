"""How rows of embeddings change by their gradients. Only rows that a step looked up change, as with
PyTorch's sparse gradients; the state of each is in its row, so one write has both.

Invariant: what a row becomes follows from the row and its gradient alone, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    def state_floats(self, dim: int) -> int:
        """float32 numbers of state in a row of `dim` weights."""

    def update(self, weights: Tensor, state: Tensor, gradient: Tensor) -> None:
        """Changes weights (n, dim) and state (n, state_floats) in place, and uses the gradient
        up."""


@dataclass(frozen=True)
class SGD:
    """weights -= lr * gradient."""

    lr: float

    def state_floats(self, dim: int) -> int:
        return 0

    def update(self, weights: Tensor, state: Tensor, gradient: Tensor) -> None:
        weights.sub_(gradient.mul_(self.lr))


@dataclass(frozen=True)
class Adagrad:
    """As torch.optim.Adagrad: a sum of squares for each weight."""

    lr: float
    eps: float = 1e-10

    def state_floats(self, dim: int) -> int:
        return dim

    def update(self, weights: Tensor, state: Tensor, gradient: Tensor) -> None:
        state.addcmul_(gradient, gradient)
        weights.addcdiv_(gradient, state.sqrt().add_(self.eps), value=-self.lr)


@dataclass(frozen=True)
class RowWiseAdagrad:
    """One sum for each row, of its gradients' mean squares: FBGEMM's EXACT_ROWWISE_ADAGRAD."""

    lr: float
    eps: float = 1e-8

    def state_floats(self, dim: int) -> int:
        return 1

    def update(self, weights: Tensor, state: Tensor, gradient: Tensor) -> None:
        state.add_(gradient.square().mean(dim=1, keepdim=True))
        weights.addcdiv_(gradient, state.sqrt().add_(self.eps), value=-self.lr)


@dataclass(frozen=True)
class Adam:
    """As torch.optim.SparseAdam, with a count of steps for each row, so that the correction of a
    row's moments follows from how often it was changed."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def state_floats(self, dim: int) -> int:
        return 2 * dim + 1

    def update(self, weights: Tensor, state: Tensor, gradient: Tensor) -> None:
        dim = weights.shape[1]
        mean, square, steps = state[:, :dim], state[:, dim : 2 * dim], state[:, 2 * dim :]
        first, second = self.betas
        steps.add_(1)
        mean.mul_(first).add_(gradient, alpha=1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        corrected = self.lr * (1 - torch.pow(second, steps)).sqrt() / (1 - torch.pow(first, steps))
        torch.mul(mean, corrected, out=gradient)
        weights.addcdiv_(gradient, square.sqrt().add_(self.eps), value=-1)
