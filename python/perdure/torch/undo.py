"""What a pool's last step changed, as it was before, so that the step can be taken back.

    perdure.torch/before    row n: the n-th old row of the last step, as wide as the pool's
    perdure.torch/changed   pairs of int64, table and id, several in a row; ~table: it was new
    perdure.torch at 8      the step, and how many pairs

Old rows are those that the step's lookups found, so nothing is read for them; they go to the pool
in the batch of the new rows, from where these are. The next step writes over them.

Invariant: they are of the commit of the step that they take back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import perdure
from perdure._named import widened
from perdure.torch import notes
from perdure.torch.embeddings import Changed, device_of
from perdure.torch.keys import keys_of
from perdure.torch.sharded import ShardedChanged
from perdure.torch.trainer import ids_of

_BEFORE, _CHANGED = f"{notes.OURS}/before", f"{notes.OURS}/changed"
_PAIR = 16  # bytes


@dataclass
class Kept:
    """Of a step."""

    there: list[Tensor]  # keys of old rows
    new: list[Tensor]  # keys that had none
    rows: list[Tensor]  # uint8, as wide as the pool's
    step: int


class Undo:
    """What a pool's last step changed, as it was before."""

    def __init__(self, store: perdure.Store) -> None:
        self.store = store
        if store.value_bytes is None:
            raise perdure.Unsupported(
                f"pool {store.path}: its values have any length, and a training over several"
                " processes keeps old rows as wide as the pool's; make the pools with"
                " perdure.torch.create"
            )
        self._width: int = store.value_bytes
        self._rows = store.table(_BEFORE, self._width)
        self._device = device_of(store)
        self._names = store.table(_CHANGED, self._width // _PAIR * _PAIR)
        self._room = self._none()

    def of(
        self,
        changed: Sequence[Changed],
        evicted: dict[str, Any],
        evictions: dict[str, perdure.Table],
        step: int,
        saying: bool,
    ) -> Kept:
        """Of a step that is about to be written. `saying`: it says which checkpoints count."""
        kept = Kept([], [], [], step)
        for one in changed:
            assert isinstance(one, ShardedChanged)
            keys, before = one.keys, one.before
            if one.missing is not None:
                old = (~one.missing).nonzero()[:, 0]
                kept.new.append(keys[one.missing])
                keys, before = keys[old], before[old]
            kept.there.append(keys)
            kept.rows.append(self._wide(before))
        for name, table in evictions.items():
            made = ids_of(changed, self.store.table(name).number, new=True)
            self._found(table, made, kept)
        for name, ids in evicted.items():
            self._found(self.store.table(name), torch.from_numpy(ids), kept)
            if name in evictions:
                kept.new.append(keys_of(torch.from_numpy(ids), evictions[name].number))
        if saying:
            ours, at = self.store.table(notes.OURS), torch.tensor([notes.CHECKPOINTS])
            if not self._found(ours, at, kept):
                kept.new.append(keys_of(at, ours.number))
        return kept

    def whole(self, changed: Sequence[Changed], kept: Kept) -> tuple[Tensor, Tensor]:
        """All that a step puts, as keys and rows of the pool: rows that it changed, and what is
        kept of before."""
        names, pairs = self._names_of(kept)
        parts = [
            *((one.keys, self._wide(one.rows)) for one in changed),
            (self._numbered(self._names, [names]), names),
            self._note(kept.step, pairs),
        ]
        keys = [*(of_part for of_part, _ in parts), self._numbered(self._rows, kept.rows)]
        rows = [*(of_part for _, of_part in parts), *kept.rows]
        count = sum(map(len, rows))
        if len(self._room) < count:  # kept, for fresh pages cost more than the copy
            self._room = self._none().new_empty((count + count // 8, self._width))
        whole = self._room[:count]
        torch.cat(rows, out=whole)
        return torch.cat(keys), whole

    def take_back(self, step: int, dense: Tensor, before: Tensor) -> None:
        """One commit, after which the pool is as the step before left it."""
        noted, count = notes.undo(self.store)
        if noted != step:
            raise perdure.InvalidArgument(
                f"pool {self.store.path}: step {step} cannot be taken back, but {noted} could"
            )
        pairs = self._unpacked(count)
        there, new = pairs[pairs[:, 0] >= 0], pairs[pairs[:, 0] < 0]
        rows = self._rows.get(np.arange(len(there)))
        if not rows.found.all():
            raise perdure.Corrupt(f"pool {self.store.path}: old rows of step {step} are missing")
        dense.copy_(before)
        before.zero_()
        with self.store.step(step - 1, max_operations=len(pairs) + 1):
            if len(there):
                self.store.put(_keys(there), rows.values)
            if len(new):
                self.store.erase(_keys(np.stack([~new[:, 0], new[:, 1]], axis=1)))
            notes.keep_undo(self.store, 0, 0)

    def _found(self, table: perdure.Table, ids: Tensor, kept: Kept) -> bool:
        """Keeps rows that the table has of these ids; whether there are any."""
        if not ids.numel():
            return False
        held = table.get(ids.to(self._device))
        at = torch.from_numpy(held.found).nonzero()[:, 0]
        kept.there.append(keys_of(ids.cpu()[at], table.number))
        kept.rows.append(self._wide(held.values[at.to(held.values.device)]))
        return len(at) > 0

    def _wide(self, rows: Tensor) -> Tensor:
        """Which most rows of lookups are already."""
        octets = rows.contiguous().view(torch.uint8)
        wide: Tensor = widened(octets, octets.shape[1], self._width)
        return wide

    def _none(self) -> Tensor:
        return torch.empty((0, self._width), dtype=torch.uint8, device=self._device)

    def _numbered(self, table: perdure.Table, rows: Sequence[Tensor]) -> Tensor:
        """Keys of so many rows of a table."""
        count = sum(len(one) for one in rows)
        return keys_of(torch.arange(count, device=self._device), table.number)

    def _names_of(self, kept: Kept) -> tuple[Tensor, int]:
        """Whose rows they are, as rows of the pool; and how many."""
        none = torch.empty((0, 2), dtype=torch.int64, device=self._device)
        pairs = torch.cat([none, *(one.to(self._device) for one in kept.there + kept.new)]).flip(1)
        count, a_row = len(pairs), self._width // _PAIR
        there = sum(map(len, kept.there))
        pairs[there:, 0].bitwise_not_()
        padded = nn.functional.pad(pairs, (0, 0, 0, -count % a_row))
        return self._wide(padded.reshape(-1, 2 * a_row)), count

    def _note(self, step: int, count: int) -> tuple[Tensor, Tensor]:
        key = torch.tensor([[notes.UNDO, self.store.table(notes.OURS).number]])
        row = self._wide(torch.tensor([[step, count]]))
        return key.to(self._device), row.to(self._device)

    def _unpacked(self, count: int) -> Any:
        records = -(-count // (self._width // _PAIR))
        found = self._names.get(np.arange(records), dtype=np.int64)
        if not found.found.all():
            raise perdure.Corrupt(f"pool {self.store.path}: what its last step changed is missing")
        return np.asarray(found.values).reshape(-1, 2)[:count]


def _keys(pairs: Any) -> Any:
    """The pool's: id, then table."""
    return np.ascontiguousarray(pairs[:, ::-1])
