"""Which ids get a row: those that earlier steps have seen often enough.

Sightings of ids without a row are counted in a count-min sketch: four counters an id, of which the
least is its estimate. That is too many where others share all four of them, and never too few.
After as many sightings as a row of it has counters all are halved, so that it stays sparse, and
what was seen once, long ago, is forgotten.

Invariant: counts change in a step's commit alone, and are of its dense state; so a training that is
resumed admits what it would have admitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from perdure.torch.new_rows import mixed, shifted
from perdure.torch.tables import TableConfig

_ROWS = 4
_SEED = 0x632BE59BD9B4E019  # apart from the weights'


class Sketch:
    """Counters of one table."""

    def __init__(self, counters: int) -> None:
        self.cells = torch.zeros((_ROWS, counters), dtype=torch.uint8)
        self.total = 0  # sightings; halved with the counts

    def estimate(self, ids: Tensor) -> Tensor:
        """How often each was seen; 255 at most."""
        self.cells = self.cells.to(ids.device)
        return self.cells.gather(1, self._at(ids)).amin(dim=0)

    def add(self, ids: Tensor, times: Tensor) -> None:
        self.cells = self.cells.to(ids.device)
        width = self.cells.shape[1]
        rows = torch.arange(_ROWS, device=ids.device)[:, None] * width
        at, inverse = torch.unique(self._at(ids) + rows, return_inverse=True)
        added = torch.zeros(at.shape, dtype=torch.int64, device=ids.device)
        added.scatter_add_(0, inverse.reshape(-1), times.repeat(_ROWS))
        flat = self.cells.view(-1)
        flat[at] = (flat[at] + added).clamp(max=255).to(torch.uint8)
        self.total += int(times.sum())
        while self.total > width:
            self.cells, self.total = self.cells >> 1, self.total >> 1

    def _at(self, ids: Tensor) -> Tensor:
        seeds = mixed(torch.arange(1, _ROWS + 1, device=ids.device) * _SEED)
        return shifted(mixed(ids + seeds[:, None]), 1) % self.cells.shape[1]


class Sightings:
    """Sketches of the tables that admit, by name: a part of the trainer's dense state."""

    def __init__(self, tables: Iterable[TableConfig]) -> None:
        self.of = {
            one.name: Sketch(one.admit_counters) for one in tables if one.admit_after is not None
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            name: {"cells": one.cells.clone(), "total": one.total} for name, one in self.of.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        shapes = {name: list(one["cells"].shape) for name, one in state.items()}
        expected = {name: list(one.cells.shape) for name, one in self.of.items()}
        if shapes != expected:
            raise ValueError(
                f"this pool's steps have counted sightings in {shapes}; the tables have {expected}:"
                " admit_after or admit_counters was another"
            )
        for name, one in self.of.items():
            one.cells, one.total = state[name]["cells"].clone(), state[name]["total"]
