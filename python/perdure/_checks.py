"""Arguments as the engine takes them: whole numbers, lengths, permissions, flags, names.

Invariant: what cannot be raises TypeError or ValueError that begins with the argument's name,
before the engine is called; nothing is guessed from another type.
"""

from __future__ import annotations

import os
from typing import Any

from perdure import _native


def whole(name: str, number: Any, least: int = 0, most: int = (1 << 63) - 1) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name}: expected a whole number, not {number!r}")
    if not least <= number <= most:
        bound = f"least {least}" if number < least else f"most {most}"
        raise ValueError(f"{name}: {number} is out of range; pass at {bound}")
    return int(number.__index__())


def size(name: str, number: Any) -> int:
    """A number of bytes or of threads, 0 where none is given: the engine's own choice."""
    return 0 if number is None else whole(name, number, least=1)


def width(name: str, number: Any) -> int:
    """A fixed length in bytes; 0 for None, which is varying length."""
    if size(name, number) >= 1 << 32:
        raise ValueError(
            f"{name}: {number} is out of range; pass less than 2^32, or None for varying length"
        )
    return size(name, number)


def permissions(mode: Any) -> int:
    """0 where none are given; which bits may be is the engine's to say."""
    number = size("mode", mode)
    if number >= 1 << 32:
        raise ValueError(f"mode: {number} is out of range; pass permission bits, for example 0o640")
    return number


def text(name: str, value: Any) -> str:
    """What has a form in UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: {value!r} has half a character (a surrogate)") from None
    return value


def path(name: str, value: Any) -> str:
    """A str, bytes or path-like one, with a form in UTF-8, which the engine's paths have."""
    try:
        return text(name, os.fsdecode(value))
    except TypeError:
        raise TypeError(f"{name}: expected a str or a path-like object, not {value!r}") from None
    except ValueError:
        raise ValueError(
            f"{name}: {os.fsencode(value)!r} is no UTF-8, as paths of Perdure's are; rename it"
        ) from None


def flag(name: str, value: Any) -> bool:
    """True or False, NumPy's too; anything else is more likely a mistake ("no" is true)."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{name}: expected True or False, not {value!r}")
    return bool(value)


def named(name: str, value: Any, kind: Any) -> Any:
    """The member of an engine's enum."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in kind.__members__:
        raise ValueError(
            f"{name}: {value!r} is not one of {', '.join(map(repr, kind.__members__))}"
        )
    return kind[value]


def set_file(
    making: _native.CreateOptions | _native.RestoreOptions | _native.SnapshotOptions,
    overwrite: bool,
    force: bool,
    mode: int | None,
) -> None:
    """How a new file, a pool or a snapshot, comes to be at its path."""
    making.overwrite = flag("overwrite", overwrite)
    making.force = flag("force", force)
    making.mode = permissions(mode)
