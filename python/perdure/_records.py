"""Reports of the extension module as plain Python data, for JSON and for people."""

from __future__ import annotations

import enum
from typing import Any

from perdure import _native


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dictionaries only."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, _native.Shape):
        return repr(value)
    if hasattr(type(value), "_fields"):
        return as_dict(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def as_dict(record: Any) -> dict[str, Any]:
    """A report (Stats, RecoveryReport, Survival, ...) as a dictionary, nested reports included."""
    return {name: plain(getattr(record, name)) for name in type(record)._fields}
