"""Tables outside the pool: a whole export, and parts with what has changed since, evictions
included.

A folder has `part-00000`, `part-00001`, ...: the first has every row, each further one the rows
that steps changed since the one before, and the ids that were evicted. A part is a folder of
manifest.json and, for table n, table-n.parquet (id, weights, state where there is one, steps,
last_step) and evicted-n.parquet (id), or the same as .safetensors. It appears under its name once
it is whole. Memory is that of a page of rows, whatever the table's size. The manifest has a CRC-32
of each file, and one of itself; they are compared before anything is loaded.

Invariant: parts that follow one another are of one training, and the manifest says which steps each
has; whoever loads them refuses anything else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import perdure
from perdure.options import PathLike
from perdure.torch import notes
from perdure.torch.optimizers import Optimizer
from perdure.torch.part_files import FORMATS, Columns, Page
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
    format: str  # of its files
    sums: dict[str, str]  # of each, by its name; parts from before there were any have none


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
        if part.format != found[0].format:
            raise ValueError(
                f"{part.path}: its files are {part.format}, and those of part 0 {found[0].format}"
            )
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
    format: str | None,
) -> Part:
    """Writes the folder's next part; `Trainer.export` calls it between two steps."""
    before = parts_of(folder)
    format = _format_of(folder, before, format)
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
                **_write_table(store, config, optimizer, since, _Files(making, number, format)),
            }
            for number, config in enumerate(tables)
        }
        manifest = {
            "version": _VERSION,
            "number": len(before),
            "since": since,
            "step": step,
            "training": training,
            "format": format,
            "tables": written,
            "crc32": {one.name: _sum_of(one) for one in sorted(making.iterdir())},
        }
        manifest["check"] = _check_of(manifest)
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
            notes.forget_evicted(store, config.name)
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
        As when it was exported; where new ids are to begin as in that training, in the order of its
        collections, which have its seed again.

    Raises
    ------
    ValueError
        A part is missing, damaged, comes twice or has another table, dim or optimizer; the pool has
        rows.
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
    for part in parts:
        _check_files(part)
    known = store.tables()
    if any(True for name in expected.keys() & known for _ in known[name].scan(1)):
        raise ValueError(f"pool {store.path}: it has rows already; load into a new pool")
    targets = {}
    for config in tables:  # as a collection does, so that new ids begin alike: by tables' numbers
        targets[config.name] = store.table(config.name, row_bytes(config, optimizer))
        notes.keep_kind(store, targets[config.name], config.dim, optimizer)
    notes.set_loading(store, True)
    for part in parts:
        for name, table in targets.items():
            files = _Files(part.path, part.tables[name]["file"], part.format)
            for ids, rows in _rows_in(files, parts[-1].step):
                table.put(ids, rows)
            for page in files.format.read(files.evicted):
                table.erase(page["id"])
    notes.set_loading(store, False)
    return parts


# --- one part


class _Files:
    """Of one table, by its number: names of tables are no names of files."""

    def __init__(self, part: Path, number: int, format: str) -> None:
        self.format = FORMATS[format]
        self.rows = part / f"table-{number}.{format}"
        self.evicted = part / f"evicted-{number}.{format}"


def _format_of(folder: PathLike, parts: Sequence[Part], asked: str | None) -> str:
    """A folder's parts are of one format, which the first one chooses."""
    if asked is not None and asked not in FORMATS:
        raise ValueError(f"format {asked!r}; pass {' or '.join(map(repr, FORMATS))}")
    if not parts:
        return asked or next(iter(FORMATS))
    if asked not in (None, parts[0].format):
        raise ValueError(
            f"{folder}: its parts are {parts[0].format}, not {asked}; begin a new folder"
        )
    return parts[0].format


def _shape(config: TableConfig, optimizer: Optimizer) -> list[int]:
    return [config.dim, optimizer.state_floats(config.dim)]


def _read(path: Path) -> Part:
    try:
        told = json.loads((path / "manifest.json").read_text())
        version = told["version"]
        names = ("number", "since", "step", "training", "tables")
        if told.get("check", _check_of(told)) != _check_of(told):
            raise ValueError("it is damaged: export or copy it anew")
        # Parts from before there were several formats do not say theirs.
        part = Part(
            path,
            *(told[what] for what in names),
            told.get("format", "parquet"),
            told.get("crc32", {}),
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no manifest of a part ({error})") from error
    if version != _VERSION or path.name != f"part-{part.number:05}":
        raise ValueError(f"{path}: it is part {part.number} of version {version}; not read here")
    if part.format not in FORMATS:
        raise ValueError(f"{path}: its files are {part.format}; not read here")
    return part


def _sum_of(file: Path) -> str:
    """CRC-32 of all of it."""
    total = 0
    with file.open("rb") as opened:
        while page := opened.read(1 << 20):
            total = zlib.crc32(page, total)
    return f"{total:08x}"


def _check_of(manifest: dict[str, Any]) -> str:
    """Of what it says, however it is laid out."""
    said = {name: value for name, value in manifest.items() if name != "check"}
    return f"{zlib.crc32(json.dumps(said, sort_keys=True).encode()):08x}"


def _check_files(part: Part) -> None:
    for name, said in part.sums.items():
        if _sum_of(part.path / name) != said:
            raise ValueError(
                f"{part.path / name}: damaged, or cut short (its checksum is another than the"
                " manifest says); export or copy it anew"
            )


def _write_table(
    store: perdure.Store, config: TableConfig, optimizer: Optimizer, since: int | None, to: _Files
) -> dict[str, Any]:
    dim, state = _shape(config, optimizer)
    table = store.table(config.name, row_bytes(config, optimizer))
    rows = 0
    with to.format.write(to.rows, _columns(dim, state)) as write:
        for ids, page in table.scan(max(1, _PAGE_BYTES // (store.value_bytes or 1))):
            changed = _as_page(ids, page, dim, since)
            rows += len(changed["id"])
            if len(changed["id"]):
                write(changed)
    evicted = 0
    with to.format.write(to.evicted, {"id": (np.int64, 0)}) as write:
        for ids, steps in notes.evicted_of(store, config.name):
            ids = ids[steps > since] if since is not None else ids[:0]
            evicted += len(ids)
            write({"id": ids})
    return {"rows": rows, "evicted": evicted, "dim": dim, "state": state}


def _columns(dim: int, state: int) -> Columns:
    floats = [(name, width) for name, width in (("weights", dim), ("state", state)) if width]
    return {
        "id": (np.int64, 0),
        **{name: (np.float32, width) for name, width in floats},
        "steps": (np.int32, 0),
        "last_step": (np.int32, 0),
    }


def _as_page(ids: Any, rows: Any, dim: int, since: int | None) -> Page:
    """Those that steps have changed since; without `since` all."""
    scores = np.ascontiguousarray(rows[:, -SCORE_BYTES:]).view(np.int32)
    if since is not None:
        changed = scores[:, 1] > since
        ids, rows, scores = ids[changed], rows[changed], scores[changed]
    floats = np.ascontiguousarray(rows[:, :-SCORE_BYTES]).view(np.float32)
    return {
        "id": ids,
        "weights": floats[:, :dim],
        "state": floats[:, dim:],
        "steps": scores[:, 0],
        "last_step": scores[:, 1],
    }


def _rows_in(files: _Files, now: int) -> Iterator[tuple[Any, Any]]:
    for page in files.format.read(files.rows):
        scores = np.stack([page["steps"], page["last_step"] - np.int32(now)], axis=1)
        floats = [page[name] for name in ("weights", "state") if name in page]
        whole = [np.ascontiguousarray(part).view(np.uint8) for part in (*floats, scores)]
        yield page["id"], np.concatenate(whole, axis=1)


def _sync(folder: Path, *, whole: bool = True) -> None:
    """Makes files and names durable."""
    for path in (*(folder.iterdir() if whole else ()), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
