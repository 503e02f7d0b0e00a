"""Options of perdure.rocks as the engine takes them.

Invariant: RocksDB's own options are passed on by name and text, and RocksDB says which there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from perdure import _checks, _rocks

Texts: TypeAlias = "Mapping[str, object] | str"
Families: TypeAlias = "Mapping[str, Texts | None] | Iterable[str]"
DeviceName = Literal["auto", "cpu", "cuda"]
DurabilityName = Literal["process", "power"]


def texts_of(name: str, given: Texts | None) -> dict[str, str]:
    """Names and texts of RocksDB's options."""
    if given is None:
        return {}
    if isinstance(given, str):
        return _rocks.split_options(given)
    items = getattr(given, "items", None)
    if items is None:
        raise TypeError(
            f"{name}: expected a dictionary of RocksDB's options, or their text, not {given!r}"
        )
    return {str(key): _text(f"{name}[{key!r}]", value) for key, value in items()}


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if hasattr(value, "items"):
        return "{" + ";".join(f"{key}={text}" for key, text in texts_of(name, value).items()) + "}"
    raise TypeError(f"{name}: expected text, a number, a flag or a dictionary, not {value!r}")


def families_of(given: Families | None) -> dict[str, dict[str, str]]:
    """The families to open beside those that are there, each with its own options."""
    if given is None:
        return {}
    if isinstance(given, str):
        raise TypeError(f"families: {given!r} is one name; pass a list of names, or a dictionary")
    own: Any = given
    return {
        str(name): texts_of(f"families[{name!r}]", own[name] if hasattr(own, "items") else None)
        for name in given
    }


def small(name: str, number: int | None, least: int = 1) -> int:
    """A count of at most 32 bits; 0 where none is given."""
    count = 0 if number is None else _checks.whole(name, number, least)
    if count >= 1 << 32:
        raise ValueError(f"{name}: {number} is out of range; pass less than 2^32")
    return count
