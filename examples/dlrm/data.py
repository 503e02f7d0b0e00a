"""Click data as batches that follow from the number of a step.

Two formats, told apart by the first line; `.xz` and `.gz` are unpacked:

criteo        tabs: a label, 13 integers, 26 categories in hexadecimal. An empty cell is missing.
open bandit   commas, with a header: the item that was shown, its position, whether it was clicked,
              four hashed features of the user, and how often the user clicked each item before.

A feature has a bag of ids for each row: none where the category is missing, and for the Open Bandit
Dataset all items that the user clicked before, with how often as their weights.

Invariant: batch `step` follows from the file, the size and the step alone, so that a training that
resumes sees what it would have seen.
"""

from __future__ import annotations

import gzip
import lzma
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

SAMPLE = Path(__file__).parents[2] / "data" / "open_bandit_bts.rows0-10K.csv.xz"

CRITEO_INTEGERS, CRITEO_CATEGORIES = 13, 26
BANDIT_TEXT = ("timestamp", "item_id", "position", "click", "propensity_score")
BANDIT_USER = "user_feature_"
BANDIT_AFFINITY = "user-item_affinity_"


class DataError(ValueError):
    """What is wrong with a file, and in which line."""


@dataclass(frozen=True)
class Bags:
    """A feature of some rows: the first lengths[0] ids are of row 0, and so on."""

    ids: np.ndarray  # int64
    lengths: np.ndarray  # int64
    weights: np.ndarray | None = None  # float32, one for each id


@dataclass(frozen=True)
class Batch:
    dense: np.ndarray  # float32, (rows, numbers)
    features: dict[str, Bags]
    labels: np.ndarray  # float32, (rows,)


@dataclass
class _Column:
    """Bags of one feature, as lines are read."""

    weighted: bool = False
    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])

    def add(self, ids: list[int], weights: list[float] | None = None) -> None:
        self.ids += ids
        self.weights += weights or []
        self.ends.append(len(self.ids))


class Clicks:
    """All rows of a file.

    Attributes
    ----------
    tables : dict
        Feature to the table that its ids are of; several may share one.
    numbers : int
        Dense numbers of a row.
    """

    def __init__(
        self,
        dense: list[list[float]],
        labels: list[float],
        columns: dict[str, _Column],
        tables: dict[str, str],
    ) -> None:
        self.tables = tables
        self._dense = np.array(dense, np.float32)
        self._labels = np.array(labels, np.float32)
        self._ends = {name: np.array(column.ends) for name, column in columns.items()}
        self._ids = {name: np.array(column.ids, np.int64) for name, column in columns.items()}
        self._weights = {
            name: np.array(column.weights, np.float32)
            for name, column in columns.items()
            if column.weighted
        }

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def numbers(self) -> int:
        return self._dense.shape[1]

    @property
    def clicked(self) -> int:
        return int(self._labels.sum())

    def distinct_ids(self) -> int:
        """Of all tables together: the rows that they come to have."""
        of_table: dict[str, list[np.ndarray]] = {}
        for name, table in self.tables.items():
            of_table.setdefault(table, []).append(self._ids[name])
        return sum(len(np.unique(np.concatenate(ids))) for ids in of_table.values())

    def batch(self, step: int, size: int) -> Batch:
        """The rows of a step: each pass over the file has an order of its own, and leaves out
        what is no whole batch."""
        if not 0 < size <= len(self):
            raise DataError(f"a batch of {size}: the file has {len(self)} rows")
        epoch, number = divmod(step, len(self) // size)
        order = np.random.default_rng([7, epoch]).permutation(len(self))
        return self.rows(order[number * size : (number + 1) * size])

    def rows(self, which: np.ndarray) -> Batch:
        features = {name: self._bags(name, which) for name in self._ids}
        return Batch(self._dense[which], features, self._labels[which])

    def _bags(self, name: str, which: np.ndarray) -> Bags:
        begins, ends = self._ends[name][which], self._ends[name][which + 1]
        lengths = ends - begins
        first = np.cumsum(lengths) - lengths
        at = np.arange(lengths.sum()) + np.repeat(begins - first, lengths)
        weights = self._weights.get(name)
        return Bags(self._ids[name][at], lengths, None if weights is None else weights[at])


# --- reading


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    by_suffix: dict[str, Callable[..., TextIO]] = {".xz": lzma.open, ".gz": gzip.open}
    with by_suffix.get(path.suffix, open)(path, "rt", encoding="utf-8", newline="\n") as lines:
        yield lines


def read(path: Path | str, most: int | None = None) -> Clicks:
    """Reads a file of either format, or its first `most` rows.

    Raises
    ------
    DataError
        A line is of neither format; the message names the file and the line.
    """
    path = Path(path)
    with _opened(path) as text:
        lines = enumerate((line.rstrip("\r\n") for line in text), 1)
        number, first = next(lines, (1, ""))
        try:
            if first.count("\t") == CRITEO_INTEGERS + CRITEO_CATEGORIES:
                reader: _Criteo | _Bandit = _Criteo()
                reader.add(first)
            else:
                reader = _Bandit(first)
            for number, line in lines:  # noqa: B007, the message below names it
                if most is not None and len(reader.labels) >= most:
                    break
                reader.add(line)
            if not reader.labels:
                raise DataError("no rows follow the header")
        except DataError as wrong:
            raise DataError(f"{path}, line {number}: {wrong}") from None
    return Clicks(reader.dense, reader.labels, reader.columns, reader.tables)


def _whole(cell: str, what: str) -> int:
    try:
        return int(cell)
    except ValueError:
        raise DataError(f"{what} is {cell!r}, and should be an integer") from None


def _number(cell: str, what: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{what} is {cell!r}, and should be a number")
    return value


def _hashed(cell: str, what: str) -> int:
    """An id of hexadecimal digits: the first 64 bits, as a signed integer."""
    try:
        value = int(cell[:16], 16)
    except ValueError:
        raise DataError(f"{what} is {cell!r}, and should be hexadecimal") from None
    return value - (1 << 64) if value >> 63 else value


def _label(cell: str) -> float:
    if cell not in ("0", "1"):
        raise DataError(f"the label is {cell!r}, and should be 0 or 1")
    return float(cell)


class _Criteo:
    def __init__(self) -> None:
        self.dense: list[list[float]] = []
        self.labels: list[float] = []
        self.columns = {f"C{i + 1}": _Column() for i in range(CRITEO_CATEGORIES)}
        self.tables = {name: name for name in self.columns}

    def add(self, line: str) -> None:
        cells = line.split("\t")
        if len(cells) != 1 + CRITEO_INTEGERS + CRITEO_CATEGORIES:
            raise DataError(f"{len(cells)} columns, and Criteo's format has 40")
        integers = cells[1 : 1 + CRITEO_INTEGERS]
        categories = cells[1 + CRITEO_INTEGERS :]
        label = _label(cells[0])
        dense = [self._dense(cell, f"I{i + 1}") for i, cell in enumerate(integers)]
        ids = [
            [_hashed(cell, name)] if cell else []
            for name, cell in zip(self.columns, categories, strict=True)
        ]
        self.labels.append(label)
        self.dense.append(dense)
        for column, bag in zip(self.columns.values(), ids, strict=True):
            column.add(bag)

    @staticmethod
    def _dense(cell: str, what: str) -> float:
        """As in the reference DLRM: ln(1 + x), and 0 where x is missing or negative."""
        return math.log1p(max(_whole(cell, what), 0)) if cell else 0.0


class _Bandit:
    def __init__(self, header: str) -> None:
        self.names = header.split(",")
        if self.names[0] == "":  # rows are numbered
            self.names[0] = "number"
        self.affinities = sum(name.startswith(BANDIT_AFFINITY) for name in self.names)
        self.users = [name for name in self.names if name.startswith(BANDIT_USER)]
        known = {
            "number",
            *BANDIT_TEXT,
            *(f"{BANDIT_USER}{i}" for i in range(len(self.users))),
            *(f"{BANDIT_AFFINITY}{i}" for i in range(self.affinities)),
        }
        unknown = [name for name in self.names if name not in known]
        missing = sorted(known - {"number"} - set(self.names))
        if unknown or missing or len(set(self.names)) != len(self.names):
            raise DataError(
                f"neither Criteo's 40 columns nor the Open Bandit Dataset's header:"
                f" unknown columns {unknown[:3]}, missing columns {missing[:3]}"
                if unknown or missing
                else "a column is there twice"
            )
        self.dense: list[list[float]] = []
        self.labels: list[float] = []
        self.columns = {name: _Column() for name in ("item", "position", *self.users)}
        self.columns["clicked_before"] = _Column(weighted=True)
        self.tables = {name: name for name in self.columns} | {"clicked_before": "item"}

    def add(self, line: str) -> None:
        cells = line.split(",")
        if len(cells) != len(self.names):
            raise DataError(f"{len(cells)} columns, and the header has {len(self.names)}")
        row = dict(zip(self.names, cells, strict=True))
        label = _label(row["click"])
        item, position = _whole(row["item_id"], "item_id"), _whole(row["position"], "position")
        before = {
            i: _number(cell, f"{BANDIT_AFFINITY}{i}")
            for i in range(self.affinities)
            if (cell := row[f"{BANDIT_AFFINITY}{i}"]) not in ("0.0", "0", "")
        }
        users = {name: [_hashed(row[name], name)] if row[name] else [] for name in self.users}
        self.dense.append(self._dense(row, item, before))
        self.labels.append(label)
        self.columns["item"].add([item])
        self.columns["position"].add([position])
        for name, bag in users.items():
            self.columns[name].add(bag)
        self.columns["clicked_before"].add(list(before), list(before.values()))

    @staticmethod
    def _dense(row: dict[str, str], item: int, before: dict[int, float]) -> list[float]:
        """The hour as a point of a circle, how likely the item was to be shown, and how often the
        user clicked it, and any, before."""
        chance = _number(row["propensity_score"], "propensity_score")
        if not 0 < chance <= 1:
            raise DataError(f"propensity_score is {chance}, and should be in (0, 1]")
        try:
            hour = int(row["timestamp"][11:13]) + int(row["timestamp"][14:16]) / 60
        except ValueError:
            raise DataError(f"timestamp is {row['timestamp']!r}, and has no hour") from None
        turn = 2 * math.pi * hour / 24
        return [
            math.sin(turn),
            math.cos(turn),
            math.log(chance),
            math.log1p(max(before.get(item, 0.0), 0.0)),
            math.log1p(max(sum(before.values()), 0.0)),
        ]
