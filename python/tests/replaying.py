"""What the tests of replay share: traces written by hand, the command, what a pool holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import perdure
from perdure.cli import app
from typer.testing import CliRunner

HEADER = "# time, object, size\n"


def written(folder: Path, text: str | bytes, name: str = "trace.csv") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def perdure_command(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def contents(pool: str) -> dict:
    """Everything in a pool: key to bytes."""
    found = {}
    with perdure.open(pool) as store:
        for keys, values in store.scan():
            found.update(
                zip(
                    keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist(),
                    values.to_pylist(),
                    strict=True,
                )
            )
    return found
