"""lineitem's columns in a folder, as column_files.hpp has them: one file of little-endian unsigned
integers each, decimals in hundredths, dates in days since 1970."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WIDTHS = {
    "l_extendedprice": 4,
    "l_quantity": 2,
    "l_shipdate": 2,
    "l_discount": 1,
    "l_tax": 1,
    "l_returnflag": 1,
    "l_linestatus": 1,
}


def file_of(folder: Path, column: str) -> Path:
    return folder / f"{column}.u{WIDTHS[column]}"


def read(folder: Path) -> dict[str, np.ndarray]:
    return {
        column: np.fromfile(file_of(folder, column), f"<u{width}")
        for column, width in WIDTHS.items()
    }


def write(folder: Path, columns: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for column, width in WIDTHS.items():
        values = columns[column]
        narrow = values.astype(f"<u{width}")
        if not np.array_equal(narrow, values):
            raise ValueError(f"{column} has values that {width} bytes cannot hold")
        narrow.tofile(file_of(folder, column))
