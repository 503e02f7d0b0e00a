"""Tables outside the pool: a whole export, and parts with what has changed since, evictions
included.

A folder has `part-00000`, `part-00001`, ...: the first has every row, each further one the rows
that steps changed since the one before, and the ids that were evicted. A part is a folder of
manifest.json and, for table n, table-n.parquet (id, weights, state where there is one, steps,
last_step) and evicted-n.parquet (id). It appears under its name once it is whole. Memory is that
of a page of rows, whatever the table's size.

Invariant: parts that follow one another are of one training, and the manifest says which steps each
has; whoever loads them refuses anything else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import perdure
from perdure.options import PathLike
from perdure.torch import notes
from perdure.torch.optimizers import Optimizer
from perdure.torch.tables import SCORE_BYTES, TableConfig, row_bytes

_VERSION = 1
_PAGE_BYTES = 16 << 20
_PART = re.compile(r"part-(\d{5})")


@dataclass(frozen=True)
class Part:
    """One of a folder: its number, and of which steps it is: (since, step]."""

    path: Path
    number: int
    since: int | None  # None: it has every row
    step: int
    training: str  # of which pool's training
    tables: dict[str, dict[str, Any]]


def parts_of(folder: PathLike) -> list[Part]:
    """The parts of a folder, in order.

    Raises
    ------
    ValueError
        One is missing, or does not go on where the one before ends.
    """
    found = [
        _read(path) for path in sorted(Path(folder).glob("part-*")) if _PART.fullmatch(path.name)
    ]
    for number, part in enumerate(found):
        before = found[number - 1].step if number else None
        if part.number != number:
            raise ValueError(f"{folder}: part {number} is missing; {part.path.name} follows it")
        if part.training != found[0].training:
            raise ValueError(f"{part.path}: it is of another training than the parts before it")
        if part.since != before:
            raise ValueError(
                f"{part.path}: it goes on after step {part.since}, and the part before it ends with"
                f" step {before}"
            )
    return found


def export_part(
    store: perdure.Store,
    tables: Sequence[TableConfig],
    optimizer: Optimizer,
    step: int,
    folder: PathLike,
    keep_evictions: bool,
) -> Part:
    """Writes the folder's next part; `Trainer.export` calls it between two steps."""
    before = parts_of(folder)
    since = before[-1].step if before else None
    training = notes.training_id(store)
    if before and before[0].training != training:
        raise ValueError(f"{folder}: its parts are of another training; begin a new folder")
    if since is not None and since >= step:
        raise ValueError(f"{folder}: it has step {since} already, and the training has done {step}")
    pruned = notes.pruned_until(store)
    if since is not None and (pruned is None or since < pruned):
        raise perdure.InvalidArgument(
            f"{folder}: evictions since step {since} are forgotten, for another folder had a part"
            f" of step {pruned}; begin a new folder"
        )
    if pruned is None:
        notes.remember_pruned(store, step)  # evictions are kept from here on, whatever comes
    path = Path(folder) / f"part-{len(before):05}"
    making = path.with_name(f".{path.name}")
    shutil.rmtree(making, ignore_errors=True)  # of an export that was killed
    making.mkdir(parents=True)
    try:
        written = {
            config.name: {
                "file": number,
                **_write_table(store, config, optimizer, since, _Files(making, number)),
            }
            for number, config in enumerate(tables)
        }
        manifest = {
            "version": _VERSION,
            "number": len(before),
            "since": since,
            "step": step,
            "training": training,
            "tables": written,
        }
        (making / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        _sync(making)
        making.rename(path)
        _sync(path.parent, whole=False)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    if not keep_evictions:
        notes.remember_pruned(store, step)  # first: who is killed here has forgotten nothing else
        for config in tables:
            _forget_evicted(store, config.name)
    return _read(path)


def load_parts(
    folder: PathLike, store: perdure.Store, tables: Sequence[TableConfig], optimizer: Optimizer
) -> list[Part]:
    """Puts every part of a folder into a pool, in order, with optimizer states and scores.

    The pool's training begins at step 0; the steps that last changed a row are counted back from
    there, so that age and order of use are what they were.

    Parameters
    ----------
    folder : path
    store : perdure.Store
        A new pool of `perdure.torch.create`.
    tables, optimizer
        As when it was exported.

    Raises
    ------
    ValueError
        A part is missing, comes twice or has another table, dim or optimizer; the pool has rows.
    """
    parts = parts_of(folder)
    if not parts:
        raise ValueError(f"{folder}: no part is there")
    expected = {config.name: _shape(config, optimizer) for config in tables}
    for part in parts:
        shapes = {name: [one["dim"], one["state"]] for name, one in part.tables.items()}
        if shapes != expected:
            raise ValueError(
                f"{part.path}: its tables have [dim, state] {shapes}; the model's have {expected}"
            )
    targets = {
        config.name: store.table(config.name, row_bytes(config, optimizer)) for config in tables
    }
    if any(True for table in targets.values() for _ in table.scan(1)):
        raise ValueError(f"pool {store.path}: it has rows already; load into a new pool")
    for config in tables:
        notes.keep_kind(store, targets[config.name], config.dim, optimizer)
    notes.set_loading(store, True)
    for part in parts:
        for name, table in targets.items():
            files = _Files(part.path, part.tables[name]["file"])
            for ids, rows in _rows_in(files.rows, parts[-1].step):
                table.put(ids, rows)
            for batch in pq.ParquetFile(files.evicted).iter_batches():
                table.erase(batch.column("id").to_numpy())
    notes.set_loading(store, False)
    return parts


# --- one part


class _Files:
    """Of one table, by its number: names of tables are no names of files."""

    def __init__(self, part: Path, number: int) -> None:
        self.rows = part / f"table-{number}.parquet"
        self.evicted = part / f"evicted-{number}.parquet"


def _shape(config: TableConfig, optimizer: Optimizer) -> list[int]:
    return [config.dim, optimizer.state_floats(config.dim)]


def _read(path: Path) -> Part:
    try:
        told = json.loads((path / "manifest.json").read_text())
        version = told["version"]
        part = Part(
            path, *(told[what] for what in ("number", "since", "step", "training", "tables"))
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no manifest of a part ({error})") from error
    if version != _VERSION or path.name != f"part-{part.number:05}":
        raise ValueError(f"{path}: it is part {part.number} of version {version}; not read here")
    return part


def _write_table(
    store: perdure.Store, config: TableConfig, optimizer: Optimizer, since: int | None, to: _Files
) -> dict[str, Any]:
    dim, state = _shape(config, optimizer)
    table = store.table(config.name, row_bytes(config, optimizer))
    rows = 0
    with pq.ParquetWriter(to.rows, _schema(dim, state)) as writer:
        for ids, page in table.scan(max(1, _PAGE_BYTES // (store.value_bytes or 1))):
            batch = _as_batch(ids, page, dim, state, since)
            rows += batch.num_rows
            if batch.num_rows:
                writer.write_batch(batch)
    evicted = 0
    schema = pa.schema([("id", pa.int64())])
    with pq.ParquetWriter(to.evicted, schema) as writer:
        for ids, steps in notes.evicted_of(store, config.name):
            ids = ids[steps > since] if since is not None else ids[:0]
            evicted += len(ids)
            writer.write_batch(pa.record_batch([pa.array(ids)], schema=schema))
    return {"rows": rows, "evicted": evicted, "dim": dim, "state": state}


def _schema(dim: int, state: int) -> pa.Schema:
    lists = [("weights", dim), ("state", state)]
    floats = [(name, pa.list_(pa.float32(), width)) for name, width in lists if width]
    return pa.schema(
        [("id", pa.int64()), *floats, ("steps", pa.int32()), ("last_step", pa.int32())]
    )


def _as_batch(ids: Any, page: Any, dim: int, state: int, since: int | None) -> pa.RecordBatch:
    scores = np.ascontiguousarray(page[:, -SCORE_BYTES:]).view(np.int32)
    if since is not None:
        changed = scores[:, 1] > since
        ids, page, scores = ids[changed], page[changed], scores[changed]
    floats = np.ascontiguousarray(page[:, :-SCORE_BYTES]).view(np.float32)
    lists = [
        pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(part).reshape(-1)), width)
        for part, width in ((floats[:, :dim], dim), (floats[:, dim:], state))
        if width
    ]
    columns = [pa.array(ids), *lists, pa.array(scores[:, 0]), pa.array(scores[:, 1])]
    return pa.record_batch(columns, schema=_schema(dim, state))


def _rows_in(path: Path, now: int) -> Iterator[tuple[Any, Any]]:
    for batch in pq.ParquetFile(path).iter_batches():
        count = batch.num_rows
        parts = [
            batch.column(name).flatten().to_numpy(zero_copy_only=False).reshape(count, -1)
            for name in ("weights", "state")
            if name in batch.schema.names
        ]
        scores = np.empty((count, 2), np.int32)
        scores[:, 0] = batch.column("steps").to_numpy()
        scores[:, 1] = batch.column("last_step").to_numpy() - now
        whole = [np.ascontiguousarray(part).view(np.uint8) for part in (*parts, scores)]
        yield batch.column("id").to_numpy(), np.concatenate(whole, axis=1)


def _forget_evicted(store: perdure.Store, name: str) -> None:
    for ids, _ in notes.evicted_of(store, name):  # an erasure moves no key
        store.table(name + notes.EVICTED).erase(ids)


def _sync(folder: Path, *, whole: bool = True) -> None:
    """Makes files and names durable."""
    for path in (*(folder.iterdir() if whole else ()), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
