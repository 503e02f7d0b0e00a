"""DynamicEmb's `Storage` over named tables: what NVIDIA's DynamicEmb trains is in a pool, and is
there after a kill.

A row holds weights and the optimizer's state, float32 all of them, then the score, one int64. A
batch of several tables has rows of one width: weights up to the widest table's, then the states.

Invariant: finding changes nothing; what `insert` has returned from is in the pool.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

import perdure
from perdure.options import PathLike
from perdure.torch import notes
from perdure.torch.tables import SCORE_BYTES, create_pool

if TYPE_CHECKING:
    _Storage = object
else:
    try:
        from dynamicemb.types import Storage as _Storage
    except ImportError:  # its classes ask for no more than the methods
        _Storage = object

_PAGE = 65536
_PARTIAL = ".perdure-partial"
_SCORE = SCORE_BYTES // 4  # as float32 numbers


class Options(Protocol):
    """What is looked at of DynamicEmbTableOptions, and what TableConfig has too."""

    dim: int


class StateOptimizer(Protocol):
    """What is asked of DynamicEmb's optimizers."""

    def get_state_dim(self, emb_dim: int) -> int: ...
    def get_initial_optim_states(self) -> float: ...
    def get_opt_args(self) -> dict[str, Any]: ...


def create(
    path: PathLike, options: Sequence[Options], optimizer: StateOptimizer, **more: Any
) -> perdure.Store:
    """A pool for a PerdureStorage of these tables; `more` as in `perdure.create`."""
    return create_pool(path, (_row_bytes(one.dim, optimizer) for one in options), **more)


def _row_bytes(dim: int, optimizer: StateOptimizer) -> int:
    return 4 * (dim + optimizer.get_state_dim(dim)) + SCORE_BYTES


class PerdureStorage(_Storage):
    """DynamicEmb's `external_storage`: `functools.partial(PerdureStorage, store=store)`.

    Parameters
    ----------
    options : sequence of DynamicEmbTableOptions
        Of each table its dim; rows are float32. Table ids are positions in it.
    optimizer : DynamicEmb's optimizer
    store : perdure.Store
        Of `create`. Within its `transaction` or `step`, what is inserted is of that commit.
    names : sequence of str, optional
        Of the pool's tables; by default the options', where they have some, or "table-0" and so on.
    """

    def __init__(
        self,
        options: Sequence[Options],
        optimizer: StateOptimizer,
        *,
        store: perdure.Store,
        names: Sequence[str] | None = None,
    ) -> None:
        for one in options:
            if getattr(one, "embedding_dtype", torch.float32) != torch.float32:
                raise ValueError(f"embedding_dtype: {one.embedding_dtype}; rows here are float32")
        self.options, self.optimizer, self.store = list(options), optimizer, store
        self._dims = [one.dim for one in options]
        self._states = [optimizer.get_state_dim(dim) for dim in self._dims]
        named = names or [getattr(one, "name", f"table-{n}") for n, one in enumerate(options)]
        self._tables = [self._table(name, dim) for name, dim in zip(named, self._dims, strict=True)]
        self._device = torch.device("cuda" if store.device == "cuda" else "cpu")

    def _table(self, name: str, dim: int) -> perdure.Table:
        table = self.store.table(name, _row_bytes(dim, self.optimizer))
        kind = notes.kind_of(self.store, table)
        if kind is None:
            notes.keep_kind(self.store, table, dim, self.optimizer)
        elif kind != (dim, notes.optimizer_note(self.optimizer)):
            raise ValueError(
                f"table {name!r}: rows of {self.store.path} have {kind[0]} weights or another"
                f" optimizer's state; asked for {dim} and {type(self.optimizer).__name__}"
            )
        return table

    # --- what there is

    def embedding_dtype(self) -> torch.dtype:
        return torch.float32

    def embedding_dim(self, table_id: int) -> int:
        return self._dims[table_id]

    def value_dim(self, table_id: int) -> int:
        return self._dims[table_id] + self._states[table_id]

    def max_embedding_dim(self) -> int:
        return max(self._dims)

    def max_value_dim(self) -> int:
        return max(self._dims) + max(self._states)

    def embedding_dims(self, on_device: bool = False) -> Tensor:
        """Of each table; `on_device` where the pool is."""
        return torch.tensor(self._dims, device=self._device if on_device else "cpu")

    def all_dims_vec4(self) -> bool:
        return all(each % 4 == 0 for each in (*self._dims, *self._states))

    def init_optimizer_state(self) -> float:
        return self.optimizer.get_initial_optim_states()

    def enable_update(self) -> bool:
        """Rows change by `insert` alone: the optimizer is DynamicEmb's."""
        return False

    # --- rows

    def find(
        self,
        unique_keys: Tensor,
        table_ids: Tensor,
        copy_mode: Any,
        lfu_accumulated_frequency: Tensor | None = None,
    ) -> tuple[int, Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor]:
        """Rows of keys, each of its table.

        Parameters
        ----------
        unique_keys, table_ids : integers of shape (n,)
        copy_mode : CopyMode
            EMBEDDING: weights alone; VALUE: the state too.
        lfu_accumulated_frequency : int64 of shape (n,), optional
            Added to the scores that are answered, not to those in the pool.

        Returns
        -------
        tuple
            How many are missing, their keys, indices and frequencies (None without some); whether
            each key was found, its score and its row, zeros where it was not.
        """
        self._check_batch(
            unique_keys, table_ids, lfu_accumulated_frequency=lfu_accumulated_frequency
        )
        whole = getattr(copy_mode, "value", copy_mode) != "embedding"
        count, device = unique_keys.numel(), unique_keys.device
        width = self.max_value_dim() if whole else self.max_embedding_dim()
        values = torch.zeros((count, width), device=self._device)
        scores = torch.zeros(count, dtype=torch.int64, device=self._device)
        founds = torch.zeros(count, dtype=torch.bool, device=self._device)
        for at, rows, there in self._rows(unique_keys, table_ids):
            for table, mine in _of_each(table_ids.to(self._device)[at]):
                dim, state = self._dims[table], self._states[table]
                values[at[mine], :dim] = rows[mine, :dim]
                if whole:
                    first = self.max_embedding_dim()
                    values[at[mine], first : first + state] = rows[mine, dim : dim + state]
            scores[at] = _scores_of(rows)
            founds[at] = there
        founds, scores = founds.to(device), scores.to(device)
        missing = torch.nonzero(~founds)[:, 0]
        frequencies = None
        if lfu_accumulated_frequency is not None:
            frequencies = lfu_accumulated_frequency[missing]
            scores = torch.where(founds, scores + lfu_accumulated_frequency, 0)
        keys = unique_keys[missing]
        return len(missing), keys, missing, frequencies, founds, scores, values.to(device)

    def insert(
        self,
        keys: Tensor,
        table_ids: Tensor,
        values: Tensor,
        scores: Tensor | None = None,
        preserve_existing: bool = False,
    ) -> None:
        """Writes rows, in one batch for all tables of one width.

        Parameters
        ----------
        keys, table_ids : integers of shape (n,)
        values : float32 of shape (n, max_value_dim)
            As `find` answers them.
        scores : int64 of shape (n,), optional
            By default 0.
        preserve_existing : bool
            Keys that are there keep their rows.
        """
        self._check_batch(keys, table_ids, scores=scores)
        if values.shape != (keys.numel(), self.max_value_dim()):
            raise ValueError(
                f"values: of shape {tuple(values.shape)}; pass ({keys.numel()},"
                f" {self.max_value_dim()}), weights up to column {self.max_embedding_dim()} and the"
                " state behind them"
            )
        if scores is None:
            scores = torch.zeros(keys.numel(), dtype=torch.int64, device=keys.device)
        if preserve_existing and keys.numel():
            new = ~self.find(keys, table_ids, "embedding")[4]
            keys, table_ids, values = keys[new], table_ids[new], values[new]
            scores = scores[new]
        values, scores = values.to(self._device, torch.float32), scores.to(self._device)
        first = self.max_embedding_dim()
        for tables, ids, at, ends in self._batches(keys, table_ids):
            several = []
            for table, start, end in zip(tables, ends[:-1], ends[1:], strict=True):
                mine = values[at[start:end]]
                state = mine[:, first : first + self._states[table]]
                several.append(_as_rows(mine[:, : self._dims[table]], state, scores[at[start:end]]))
            self.store.put_tables(
                [self._tables[table] for table in tables], ids, torch.cat(several), ends
            )

    def export_keys_values(
        self, device: torch.device, batch_size: int = _PAGE, table_id: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None, Tensor]]:
        """All rows of a table, page by page: keys, weights, states (None where there are none) and
        scores."""
        self._check_table(table_id)
        dim, state = self._dims[table_id], self._states[table_id]
        for ids, page in self._tables[table_id].scan(batch_size, dtype=np.float32):
            rows = torch.from_numpy(page)
            states = rows[:, dim : dim + state].to(device) if state else None
            keys = torch.from_numpy(np.ascontiguousarray(ids))
            yield keys.to(device), rows[:, :dim].to(device), states, _scores_of(rows).to(device)

    def _check_batch(self, keys: Tensor, table_ids: Tensor, **others: Tensor | None) -> None:
        """Before anything is looked up or written. That ids are of tables `_batches` checks."""
        columns = {"keys": keys, "table_ids": table_ids, **others}
        for name, one in columns.items():
            if one is None:
                continue
            if one.shape != (keys.numel(),):
                raise ValueError(
                    f"{name}: of shape {tuple(one.shape)}; pass a number for each of the"
                    f" {keys.numel()} keys, in one dimension"
                )
            if one.dtype.is_floating_point or one.dtype.is_complex or one.dtype == torch.bool:
                raise TypeError(f"{name}: {one.dtype}; pass integers")

    def _rows(self, keys: Tensor, table_ids: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Where in the batch they are, rows, and whether there is one."""
        for tables, ids, at, ends in self._batches(keys, table_ids):
            named = [self._tables[table] for table in tables]
            got = self.store.get_tables(named, ids, ends, dtype=torch.float32)
            yield at, got.values, torch.from_numpy(got.found).to(self._device)

    def _batches(
        self, keys: Tensor, table_ids: Tensor
    ) -> Iterator[tuple[list[int], Tensor, Tensor, list[int]]]:
        """Of all tables of one width: which they are, ids, where in the batch, and offsets."""
        keys = keys.to(self._device, torch.int64)
        by_width: dict[int, list[tuple[int, Tensor]]] = {}
        for table, at in _of_each(table_ids.to(self._device)):
            self._check_table(table)
            by_width.setdefault(self._tables[table].value_bytes, []).append((table, at))
        for several in by_width.values():
            at = torch.cat([one for _, one in several])
            ends = np.cumsum([0, *(one.numel() for _, one in several)]).tolist()
            yield [table for table, _ in several], keys[at], at, ends

    def _check_table(self, table: int) -> None:
        if not 0 <= table < len(self._tables):
            raise ValueError(f"table id {table}: there are tables 0 to {len(self._tables) - 1}")

    # --- files

    def dump(
        self,
        table_id: int,
        meta_file_path: str,
        emb_key_path: str,
        embedding_file_path: str,
        score_file_path: str | None,
        opt_file_path: str | None,
        timestamp: int,
    ) -> None:
        """Writes a table as DynamicEmb's files: keys and scores int64, weights and states float32,
        and the optimizer's arguments as JSON. Scores are written as they are, whatever the
        timestamp. The files are there once they are whole, that of the keys last; after a kill
        `load` lacks it."""
        self._check_table(table_id)
        width = self._file_state(table_id)
        paths = (emb_key_path, embedding_file_path, opt_file_path, score_file_path)
        with _whole_files((*paths, meta_file_path)) as (*files, meta):
            meta.write(json.dumps(self.optimizer.get_opt_args()).encode())
            for page in self.export_keys_values(torch.device("cpu"), table_id=table_id):
                keys, weights, states, scores = page
                kept = None if states is None else states[:, :width]
                for file, column in zip(files, (keys, weights, kept, scores), strict=True):
                    if file is not None and column is not None:
                        file.write(np.ascontiguousarray(column.numpy()).data)

    def load(
        self,
        table_id: int,
        meta_file_path: str,
        emb_file_path: str,
        embedding_file_path: str,
        score_file_path: str | None,
        opt_file_path: str | None,
        include_optim: bool,
        timestamp: int,
    ) -> None:
        """Puts the files of `dump` into a table; without optimizer states they begin anew.

        Raises
        ------
        ValueError
            They are of another optimizer, have not one entry for each key, or are no such files.
        """
        self._check_table(table_id)
        dim, width = self._dims[table_id], self._file_state(table_id)
        if include_optim:
            theirs = _arguments(meta_file_path).get("opt_type")
            mine = self.optimizer.get_opt_args().get("opt_type")
            if theirs not in (None, mine):
                raise ValueError(f"{meta_file_path}: states of {theirs}; the optimizer is {mine}")
        count = _size(emb_file_path) // 8
        keys = _column(emb_file_path, np.int64, count, 1)[:, 0]
        weights = _column(embedding_file_path, np.float32, count, dim)
        scores = _column(score_file_path, np.int64, count, 1) if score_file_path else None
        with_state = include_optim and width > 0
        states = _column(opt_file_path, np.float32, count, width) if with_state else None
        first = self.max_embedding_dim()
        for start in range(0, count, _PAGE):
            part = slice(start, start + _PAGE)
            size = len(keys[part])
            values = torch.full((size, self.max_value_dim()), float(self.init_optimizer_state()))
            values[:, :dim] = torch.from_numpy(weights[part].copy())
            if states is not None:
                values[:, first : first + width] = torch.from_numpy(states[part].copy())
            their = None if scores is None else torch.from_numpy(scores[part, 0].copy())
            ids = torch.from_numpy(np.array(keys[part]))
            self.insert(ids, torch.full((size,), table_id), values, their)

    def _file_state(self, table_id: int) -> int:
        """Of a state that is padded in memory, files have less."""
        dim = self._dims[table_id]
        of_files = getattr(self.optimizer, "get_ckpt_state_dim", self.optimizer.get_state_dim)
        return int(of_files(dim))


def _of_each(table_ids: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each table, and where its ids are."""
    for table in torch.unique(table_ids).tolist():
        yield table, torch.nonzero(table_ids == table)[:, 0]


def _scores_of(rows: Tensor) -> Tensor:
    return rows[:, -_SCORE:].contiguous().view(torch.int64)[:, 0]


def _as_rows(weights: Tensor, state: Tensor, scores: Tensor) -> Tensor:
    as_floats = scores.to(torch.int64)[:, None].contiguous().view(torch.float32)
    return torch.cat([weights, state, as_floats], dim=1)


@contextmanager
def _whole_files(paths: Sequence[str | None]) -> Iterator[list[Any]]:
    """Files to write, where a path is given: under their names once all are written, the first one
    last, of which there is none meanwhile. What is no regular file is written as it is."""
    named = [None if path is None else os.path.realpath(path) for path in paths]
    begun = {path: path + _PARTIAL for path in named if path and not _is_special(path)}
    try:
        with ExitStack() as several:
            files = [
                path and several.enter_context(open(begun.get(path, path), "wb")) for path in named
            ]
            yield files
            for path, file in zip(named, files, strict=True):
                if path in begun:
                    file.flush()
                    os.fsync(file.fileno())
        for path in list(begun)[:1]:
            Path(path).unlink(missing_ok=True)
        for path in list(begun)[::-1]:
            os.replace(begun[path], path)
    except BaseException:
        for path in begun.values():
            Path(path).unlink(missing_ok=True)
        raise


def _is_special(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


def _arguments(path: str) -> dict[str, Any]:
    """Of the optimizer."""
    try:
        told = json.loads(Path(path).read_text())
    except ValueError as error:  # of the text, or of its letters
        raise ValueError(f"{path}: no JSON, as dump writes it ({error})") from error
    if not isinstance(told, dict):
        raise ValueError(f"{path}: no optimizer's arguments, as dump writes them")
    return told


def _size(path: str) -> int:
    return Path(path).stat().st_size


def _column(path: str | None, dtype: type, rows: int, width: int) -> Any:
    if path is None or _size(path) != rows * width * np.dtype(dtype).itemsize:
        raise ValueError(f"{path}: not {width} numbers for each of {rows} keys")
    if rows == 0:
        return np.empty((0, width), dtype)
    return np.memmap(path, dtype, "r", shape=(rows, width))
