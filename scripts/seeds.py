"""The seed of generated inputs (RapidCheck's, Hypothesis's). Invariant: a push draws the same for
the same sources, wherever they are tested, and others for other sources; `make test-all` draws
anew."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

TESTED = ("include", "python", "src", "tests")
VARIABLE = "PERDURE_SEED"


def of_sources(root: Path) -> int | None:
    """By what is committed of them; None outside of a clone."""
    trees = [f"HEAD:{folder}" for folder in TESTED]
    found = subprocess.run(["git", "rev-parse", *trees], cwd=root, capture_output=True, check=False)
    if found.returncode:
        return None
    return int.from_bytes(hashlib.sha256(found.stdout).digest()[:4], "little")


def fix(seed: int) -> None:
    """For all that this process starts, but where the environment says something else."""
    given = os.environ.setdefault(VARIABLE, str(seed))
    if "seed=" not in os.environ.get("RC_PARAMS", ""):
        os.environ["RC_PARAMS"] = f"seed={given} {os.environ.get('RC_PARAMS', '')}".strip()


def with_fewer_inputs(most: int) -> dict[str, str]:
    return {"RC_PARAMS": f"{os.environ.get('RC_PARAMS', '')} max_success={most}".strip()}


def for_hypothesis() -> list[str]:
    return [f"--hypothesis-seed={os.environ[VARIABLE]}"] if VARIABLE in os.environ else []
