"""The logger `perdure`: what the engine has to say of itself, and what the package has.

A record's text is "POOL: MESSAGE"; its attribute `perdure` is a dictionary of the event's name, its
pool and its fields. Invariants: without a handler of the user's it prints nothing; Python's logging
is not imported here, for it takes as long as half of perdure does, and while nobody else has
imported it nobody has given it a handler.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

from perdure import _native

LevelName = Literal["debug", "info", "warning", "error"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}  # of logging


def begin(module: Any = _native) -> None:
    """From here on the events of this module's engine come to the logger, until Python ends."""
    module.set_log_sink(_of_engine, _native.LogLevel.debug)


def tell(level: LevelName, event: str, pool: str, message: str, **fields: object) -> None:
    """Hands an event to the logger."""
    logging = sys.modules.get("logging")
    if logging is None or not hasattr(logging, "getLogger"):  # or is being imported
        return
    logger: Any = logging.getLogger("perdure")
    if not logger.isEnabledFor(_LEVELS[level]):
        return
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # else warnings went to standard error
    extra = {"perdure": {"event": event, "pool": pool, **fields}}
    if pool:
        logger.log(_LEVELS[level], "%s: %s", pool, message, extra=extra)
    else:
        logger.log(_LEVELS[level], "%s", message, extra=extra)


def _of_engine(
    level: _native.LogLevel, event: str, pool: str, message: str, fields: dict[str, Any]
) -> None:
    tell(level.name, event, pool, message, **fields)  # type: ignore[arg-type]
