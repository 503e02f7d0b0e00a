"""Tables of `perdure doctor`, as rich lays them out.

Invariant: a table that goes elsewhere than to a terminal is as wide as it needs to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    title: str
    right: bool = False


def show(title: str, columns: Sequence[Column], rows: Iterable[Sequence[str]], stream: Any) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    width = None if stream.isatty() else 240
    Console(file=stream, width=width, highlight=False).print(table)
