"""Prints what scripts/bench_rocks.sh measured: each figure by its fastest way of calling, beside
its targets.

usage: rocks_table.py FOLDER     the folder with the runs' JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# By item and what distinguishes its rows: (times RocksDB at least, Perdure at least) in the row's
# unit, either of which may be None.
TARGETS: dict[tuple[str, str], tuple[float | None, float | None]] = {
    ("put", ""): (25, 100),
    ("get", ""): (60, 300),
    ("get-half", ""): (3, None),
    ("update", ""): (20, None),
    ("range", ""): (10, None),
    ("transactions", "1000000"): (None, 20),
    ("ycsb", "A"): (None, 52),
    ("ycsb", "B"): (None, 64),
    ("ycsb", "C"): (None, 92),
    ("ycsb", "D"): (None, 72),
    ("sustained", ""): (5, None),
}
EVERY_ROW = ("single", "rates", "reopen", "memtables", "device")


def rows_of(folder: Path) -> list[Row]:
    rows = []
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text())
        for failure in run["failures"]:
            print(f"FAILED {failure}")
        rows += run["rows"]
    return rows


def fastest(rows: list[Row]) -> list[Row]:
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = (row["item"], row["what"].split(", calls")[0].split(", arrays")[0])
        if key not in best or row["perdure"] > best[key]["perdure"]:
            best[key] = row
    return list(best.values())


def verdict(row: Row) -> str:
    times, least = TARGETS.get((row["item"], row["at"]), (None, None))
    said = []
    if times is not None:
        said.append(f"{times:g} times {'reached' if row['ratio'] >= times else 'MISSED'}")
    if least is not None:
        said.append(f"{least:g} {'reached' if row['perdure'] >= least else 'MISSED'}")
    return ", ".join(said)


def main(folder: Path) -> None:
    rows = rows_of(folder)
    rates = fastest([row for row in rows if row["item"] not in EVERY_ROW])
    for row in rates + [row for row in rows if row["item"] in EVERY_ROW]:
        print(
            f"{row['item']:<13}{row['what'][:62]:<63}{row['rocksdb']:>10.4g}{row['perdure']:>10.4g}"
            f" {row['unit']:<8}{row['ratio']:>7.2f}  {verdict(row)}"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
