"""Which columns of a file become keys and values, and as what; fixed before the first row.

Invariant: what a user names is taken as named or refused; what is left to us is told in `describe`.
A refusal names the column and its size, and the pool that would fit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perdure._text import INTEGER_WIDTHS
from perdure._typed_text import show_values
from perdure.cli_support import Failure, plural, show_width
from perdure.tables.cells import (
    NUMBERS,
    TYPES,
    ColumnSpec,
    Encoded,
    TextFormat,
    encode,
    encode_key_integers,
    of_width,
)
from perdure.tables.pieces import Pool, Source
from perdure.tables.records import RowFormat, encode_rows

_LIKE_A_TYPE = re.compile(r"(u?int|float|double|str|string|bytes?|bool)\d*")

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Choice:
    """What the user said."""

    key: str | None
    values: str | None
    key_format: TextFormat
    rows: RowFormat


@dataclass(frozen=True)
class Plan:
    key: ColumnSpec  # type "int" stands for integers of the key's width
    values: list[ColumnSpec]  # of packed rows every type is known; None is a type of the file's own
    rows: RowFormat
    key_width: int | None
    value_width: int | None
    told: bool  # the user or the file said what the key is

    def names(self) -> list[str]:
        return [self.key.name, *(spec.name for spec in self.values)]

    def describe(self) -> str:
        listed = ", ".join(f"{spec.name} {spec.type or ''}".strip() for spec in self.values[:6])
        more = f" and {len(self.values) - 6} more" if len(self.values) > 6 else ""
        form = {RowFormat.json: "JSON of ", RowFormat.arrow: "Arrow of "}.get(self.rows, "")
        return f"key {self.key.name} ({self.key.type}), value {form}{listed or 'empty'}{more}"

    def encode_keys(self, column: pa.Array) -> Encoded:
        if self.key.type == "int":
            assert self.key_width is not None
            return encode_key_integers(column, self.key_width)
        return of_width(encode(column, self.key.type or "text"), self.key_width)

    def encode_values(self, columns: list[pa.Array], count: int) -> Encoded:
        if not self.values:
            return _empty_values(count)
        if self.rows is not RowFormat.packed:
            names = [spec.name for spec in self.values]
            return encode_rows(self.rows, names, [spec.type for spec in self.values], columns)
        encoded = [
            encode(column, spec.type or "text")
            for spec, column in zip(self.values, columns, strict=True)
        ]
        if len(encoded) == 1:
            return of_width(encoded[0], self.value_width)
        rows = [one.rows for one in encoded if one.rows is not None]
        bad = np.array([one.bad for one in encoded])

        def why(row: int) -> str:
            column = int(np.argmax(bad[:, row]))
            return f"{self.values[column].name} {encoded[column].why(row)}"

        return Encoded(np.concatenate(rows, axis=1), None, bad.any(axis=0), why)


def _empty_values(count: int) -> Encoded:
    import pyarrow as pa

    strings = pa.array([b""] * count, pa.large_binary())
    return Encoded(None, strings, np.zeros(count, bool), lambda row: "")


def create_command(store: Pool, key_width: int | None, value_width: int | None) -> str:
    """What makes a pool of these widths. RocksDB's have none of their own: loading says them."""
    sizes = f"--key-bytes {key_width or 'var'} --value-bytes {value_width or 'var'}"
    return f"{getattr(store, 'made_by', 'perdure create NEWPOOL')} {sizes}"


def _check_widths(values: list[ColumnSpec], store: Pool) -> None:
    """Several columns are packed, so all must have a width, and a fixed pool wants its own sum."""
    width = store.value_bytes
    listed = ", ".join(f"{spec.name} {spec.type}" for spec in values)
    fixed = [np.dtype(spec.type).itemsize for spec in values if spec.type in NUMBERS]
    if len(values) > 1 and len(fixed) < len(values):
        raise Failure(
            f"--value-columns: cannot pack text or hex beside other columns ({listed}); choose one"
            " column, or numbers alone, or --rows json in a pool whose values vary:"
            f" {create_command(store, store.key_bytes, None)}"
        )
    if width is not None and len(fixed) == len(values) and sum(fixed) != width:
        raise Failure(
            f"--value-columns: {listed} have {sum(fixed)} bytes, but this pool's values have "
            f"{width};"
            " choose columns that add up, with types as NAME:TYPE, or make a pool for them:"
            f" {create_command(store, store.key_bytes, sum(fixed))}"
        )


def _check_type(values: list[ColumnSpec], store: Pool) -> None:
    """A pool that knows its values' type takes columns of it, or their bytes as hex."""
    wrong = [f"{spec.name} {spec.type}" for spec in values if spec.type not in (store.dtype, "hex")]
    if store.dtype is not None and wrong:
        raise Failure(
            f"--value-columns: {', '.join(wrong)}, but this pool's values are "
            f"{show_values(store)}; name"
            f" {math.prod(store.row_shape or ())} columns of {store.dtype}"
        )


def _key_type(name: str, choice: Choice, given: str | None, store: Pool, source: Source) -> str:
    """int, hex or text: as the user says, else as the file says, else as the pool's width
    suggests."""
    width, requested = store.key_bytes, choice.key_format
    default = "int" if width in INTEGER_WIDTHS else "text" if width is None else "hex"
    chosen = (given or default) if requested is TextFormat.auto else requested.value
    if chosen in ("hex", "text"):
        return chosen
    if chosen.startswith("float"):
        raise Failure(
            f"--key {name}: keys are integers or bytes, not {chosen}; choose another column of"
            f" {list_columns(source)}"
        )
    if width not in INTEGER_WIDTHS:
        raise Failure(
            "--key-format: integers are keys of 1, 2, 4 or 8 bytes, but this pool's have"
            f" {show_width(width)};"
            f" choose hex or text, or another --key, or make a pool for them:"
            f" {create_command(store, 8, store.value_bytes)}"
        )
    return "int"


def list_columns(source: Source) -> str:
    return ", ".join(f"{name} ({source.kind(name)})" for name in source.header[:30])


def check_keys(keys: Encoded, plan: Plan, store: Pool, source: Source) -> None:
    """Before the first row is stored: a column that mostly holds no keys is the wrong column."""
    wrong = int(np.count_nonzero(keys.bad))
    if plan.told or 2 * wrong <= len(keys.bad):
        return
    first = int(np.argmax(keys.bad))
    raise Failure(
        f"column {plan.key.name} holds no keys for this pool: {plural(wrong, 'row')} of the first"
        f" {len(keys.bad):,}, the first of them {keys.why(first)}; choose --key COLUMN of"
        f" {list_columns(source)}; or make a pool for it:"
        f" {create_command(store, None, store.value_bytes)}"
    )


def check_values(values: Encoded, plan: Plan, store: Pool) -> None:
    """Likewise where no value of a column has the pool's length."""
    if plan.value_width is None or len(plan.values) != 1 or plan.values[0].type in NUMBERS:
        return
    if len(values.bad) and values.bad.all():
        raise Failure(
            f"column {plan.values[0].name} ({plan.values[0].type}) has no value of this pool's"
            f" {plan.value_width} bytes, the first of them {values.why(0)}; choose "
            "--value-columns, or make a"
            f" pool for it: {create_command(store, store.key_bytes, None)}"
        )


def _pick(options: str, name: str, header: list[str]) -> ColumnSpec:
    """The column a user named: as the file has it, or without the type its header carries."""
    base, _, kind = name.rpartition(":")
    for requested, given in ((name, None), (base, kind if kind in TYPES else None)):
        for column in header:
            spec = ColumnSpec.of_header(column)
            if requested and requested in (
                column,
                column.rpartition(":")[0] if spec.type else column,
            ):
                return ColumnSpec(column, given or spec.type)
    raise Failure(
        f"{options} {name}: no such column; the file has {', '.join(header)} (types are "
        f"{', '.join(TYPES)})"
    )


def _check_types(header: list[str]) -> None:
    """A type that is misspelt must not become part of the column's name unseen."""
    for column in header:
        kind = column.rpartition(":")[2]
        if ":" in column and kind not in TYPES and _LIKE_A_TYPE.fullmatch(kind):
            raise Failure(
                f"column {column}: {kind} is no type of a column (types are {', '.join(TYPES)}); "
                "correct"
                " it in the header, or name the column otherwise"
            )


def make_plan(store: Pool, source: Source, choice: Choice) -> Plan:
    header = source.header
    _check_types(header)
    if not header or (len(header) == 1 and store.value_bytes is not None):
        raise Failure(
            f"the file has {plural(len(header), 'column')}; it needs one for keys and at least "
            "one for"
            f" values, which have {show_width(store.value_bytes)} in this pool; with keys alone "
            "it fits:"
            f" {create_command(store, store.key_bytes, None)}"
        )
    key = _pick("--key", choice.key or header[0], header)
    chosen = (
        choice.values.split(",") if choice.values else [name for name in header if name != key.name]
    )
    values = [_pick("--value-columns", name.strip(), header) for name in chosen]
    rows = _row_format(choice.rows, values, store, source)
    if rows is RowFormat.packed:
        width = store.value_bytes
        kept = store.dtype if store.dtype in NUMBERS else None
        values = [
            ColumnSpec(one.name, one.type or kept or source.value_type(one.name, width))
            for one in values
        ]
        _check_type(values, store)
        _check_widths(values, store)
    else:
        values = [
            ColumnSpec(one.name, one.type or (None if source.typed else source.kind(one.name)))
            for one in values
        ]
    given = key.type or source.key_type(key.name)
    kind = _key_type(key.name, choice, given, store, source)
    told = given is not None or choice.key_format is not TextFormat.auto
    return Plan(ColumnSpec(key.name, kind), values, rows, store.key_bytes, store.value_bytes, told)


def _row_format(
    requested: RowFormat, values: list[ColumnSpec], store: Pool, source: Source
) -> RowFormat:
    """Left to us: several columns that are not all numbers are JSON in a pool whose values vary."""
    if requested in (RowFormat.json, RowFormat.arrow) and store.value_bytes is not None:
        raise Failure(
            f"--rows {requested.value}: makes values of varying length, but this pool's have "
            f"{store.value_bytes}"
            f" bytes; make a pool for them: {create_command(store, store.key_bytes, None)}"
        )
    if requested is not RowFormat.auto:
        return requested
    if store.value_bytes is not None or len(values) < 2:
        return RowFormat.packed
    # What is told from text may be otherwise further down, so text counts as numbers only by its
    # header.
    kinds = [one.type or (source.kind(one.name) if source.typed else "text") for one in values]
    return (
        RowFormat.packed
        if all(kind in (*NUMBERS, "float", "double") for kind in kinds)
        else RowFormat.json
    )
