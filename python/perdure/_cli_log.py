"""Logs of the command line: `--log-level` and `--log-format`, or the environment's PERDURE_LOG.

The forms are those of the engine (perdure/logging.h): key=value, or a JSON object a line, on
standard error.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli_support import Failure

if TYPE_CHECKING:
    import logging


class LevelChoice(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"
    off = "off"


class FormatChoice(StrEnum):
    text = "text"
    json = "json"


LogLevelOption = Annotated[
    LevelChoice | None,
    typer.Option(
        "--log-level", help="Log to standard error what is of this level or above; PERDURE_LOG."
    ),
]
LogFormatOption = Annotated[
    FormatChoice | None,
    typer.Option("--log-format", help="key=value, or a JSON object a line; text."),
]


def begin(level: LevelChoice | None, form: FormatChoice | None) -> None:
    """Logs as the options say, or else the environment."""
    said_level, said_form = _of_environment()
    level, form = level or said_level, form or said_form
    if level in (None, LevelChoice.off):
        return
    import logging

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return _as_json(record) if form is FormatChoice.json else _as_text(record)

    handler = logging.StreamHandler()
    handler.set_name("perdure's command line")
    handler.setFormatter(Formatter())
    logger = logging.getLogger("perdure")
    logger.handlers = [one for one in logger.handlers if one.get_name() != handler.get_name()]
    logger.addHandler(handler)
    logger.setLevel(level.name.upper())


def _of_environment() -> tuple[LevelChoice | None, FormatChoice | None]:
    said = os.environ.get("PERDURE_LOG", "")
    if not said:
        return None, None
    level, _, form = said.partition(",")
    if level not in LevelChoice.__members__:
        raise Failure(f"PERDURE_LOG: {level} is no level; write debug, info, warning, error or off")
    if form and form not in FormatChoice.__members__:
        raise Failure(f"PERDURE_LOG: {form} is no format; write text or json")
    return LevelChoice(level), FormatChoice(form) if form else None


def _parts(record: logging.LogRecord) -> tuple[dict[str, Any], str]:
    """The event's fields without what has a place of its own, and its message without the pool."""
    fields = dict(getattr(record, "perdure", {}))
    pool = fields.get("pool", "")
    return fields, record.getMessage().removeprefix(f"{pool}: " if pool else "")


def _moment(record: logging.LogRecord) -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _as_text(record: logging.LogRecord) -> str:
    fields, message = _parts(record)
    words = {"pool": fields.pop("pool", ""), "event": fields.pop("event", ""), **fields}
    pairs = [f"{name}={_word(value)}" for name, value in words.items() if value != ""]
    pairs.append(f"message={_word(message)}")
    return f"{_moment(record)} {record.levelname.lower()} {' '.join(pairs)}"


def _word(value: object) -> str:
    """Bare where a reader of key=value tells its end."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    bare = text and all(one > " " and one not in '"=\x7f' for one in text)
    return text if bare else json.dumps(text, ensure_ascii=False)


def _as_json(record: logging.LogRecord) -> str:
    fields, message = _parts(record)
    pool = fields.pop("pool", "")
    head = {"time": _moment(record), "level": record.levelname.lower()}
    head |= {"event": fields.pop("event", "")} | ({"pool": pool} if pool else {})
    return json.dumps({**head, "message": message, **fields}, ensure_ascii=False)
