"""`perdure load` and `perdure export`: pools from and to files of rows, a batch at a time.

streams    files as bytes: standard input, compression, globs
sniffing   what a text file is: delimiter, header, comments
lines      text cut into whole rows, each with its line number
pieces     what a file of rows looks like
text       CSV and JSON lines as batches of columns
typed      Parquet and Arrow as batches of columns
sources    which of them a file is
cells      columns to bytes: integers, floats, hex, text
records    several columns as one value: JSON objects, Arrow streams
plan       which columns become keys and values, and as what
rejects    the rows that could not be stored
loading    the command `load`
exporting  the command `export`

A header may give types as `name:type` (see cells.TYPES); export writes them, so that a file loads
back without options. Invariants: a row that cannot be stored is counted and reported by its line
(text) or row (others), and never stops the rest; an export appears under its name only once it is
complete, and replaces nothing unasked (perdure._outputs).
"""

from __future__ import annotations

import typer

from perdure.tables.exporting import export
from perdure.tables.loading import load


def register(app: typer.Typer) -> None:
    app.command()(load)
    app.command()(export)
