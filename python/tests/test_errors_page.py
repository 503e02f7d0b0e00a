"""Bad input: what each command and call says, how it ends, and that it changed nothing.

docs/errors.md is the table of it. With PERDURE_UPDATE=1 this test writes the page; otherwise each
case is held against its row. Invariants: no case ends in a traceback, names a temporary file, or
changes a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import perdure
import pytest
import rocks_error_cases
from conftest import gpu_available
from error_cases import ALL, CASES, Case

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
UPDATE = os.environ.get("PERDURE_UPDATE") == "1"
HEAD = """# Errors

One line for each case: what is wrong, what was tried, what the message says, and the exit status of a command or the exception of a call. Nothing was changed, unless the last column says so. `python/tests/test_errors_page.py` runs each case and compares it with this page, which it writes with `PERDURE_UPDATE=1`.

Exit status: 0 good, 1 faults found or key not found, 2 wrong usage or unable to run. Commands print the message on standard error, in a line that begins with `perdure: error:`, which is left out here. Exceptions derive from `perdure.Error` ([errors.py](../python/perdure/errors.py)).

`table.pool` holds the keys 0 to 99 with values of 16 bytes. `text.pool` has variable-length keys and values. `log.pool` has layout `log`, and two batches. `dash.pool` has a Dash index. `np` is NumPy.
"""  # noqa: E501


# --- running one --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """The pools that every case finds in its folder."""
    folder = Path("/var/tmp") / f"perdure-test-{uuid.uuid4().hex}"  # a disk, for logs
    folder.mkdir()
    with perdure.create(folder / "table.pool", 8, 16, expected_records=1000) as store:
        store.put(np.arange(100), np.repeat(np.arange(100, dtype=np.uint8), 16).reshape(100, 16))
    with perdure.create(folder / "text.pool", None, None, expected_records=1000) as store:
        store.put([b"name"], [b"Perdure"])
    logged = perdure.GPHash(layout="log")
    with perdure.create(folder / "log.pool", 8, 16, index=logged, expected_records=1000) as store:
        store.put(np.arange(100), np.zeros((100, 16), np.uint8))
        store.put(np.arange(10), np.ones((10, 16), np.uint8))
    perdure.create(folder / "dash.pool", 8, 8, index="dash-eh", expected_records=1000).close()
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def folder_for(template: Path) -> Iterator[Path]:
    """A folder of its own, as the working directory, so that no message holds a path of this
    run."""
    before = Path.cwd()
    folder = template.with_name(f"perdure-test-{uuid.uuid4().hex}")
    shutil.copytree(template, folder)
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


Held = tuple[int, bytes]


def contents() -> dict[str, Held]:
    """All below the working directory: modes, and what is in the files."""
    found: dict[str, Held] = {}
    for path in sorted(Path().rglob("*")):
        mode = path.lstat().st_mode
        found[str(path)] = mode, path.read_bytes() if stat.S_ISREG(mode) else b""
    return found


def run_case(case: Case, cli) -> tuple[str, str]:
    """What is said, and the exit status or the exception."""
    with ExitStack() as prepared:
        names = case.prepare(prepared)
        before = contents()
        with ExitStack() as stack:
            case.during(stack)
            said, ended = (
                _run_command(case, cli) if case.is_command else _run_python(case, names or {})
            )
        after = contents()
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    changed = {name for name in changed if not _same_records(before.get(name), after.get(name))}
    assert changed == ({"table.pool"} if case.stores else set()), (
        f"{case.tried} changed {changed}: {said}"
    )
    return said, f"{ended}; the good rows are stored" if case.stores else ended


def _same_records(before: Held | None, after: Held | None) -> bool:
    """Opening a pool for writing changes its head, but no record."""
    if before is None or after is None or before[0] != after[0]:
        return False
    return _records(before[1]) == _records(after[1])


def _records(pool: bytes) -> list[tuple[int | bytes, bytes]] | bytes:
    if not pool.startswith(b"PERDURE\n"):
        return pool
    copy = Path(f"/dev/shm/perdure-test-{uuid.uuid4().hex}")
    copy.write_bytes(pool)
    try:
        with perdure.open(copy) as store:
            assert not store.verify().fault_count
            return sorted(store.items())
    finally:
        copy.unlink()


def _run_command(case: Case, cli) -> tuple[str, str]:
    if case.shell:
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        run = subprocess.run(
            ["bash", "-c", case.tried], capture_output=True, text=True, env=environment, check=False
        )
        return run.stderr, f"status {run.returncode}"
    answer = cli(*shlex.split(case.tried)[1:])
    return answer.err, f"status {answer.status}"


def _run_python(case: Case, names: dict[str, object]) -> tuple[str, str]:
    if case.shell:
        program = f"import os, perdure\n{case.tried}"
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        kind, _, message = run.stderr.splitlines()[-1].partition(": ")
        return message, kind.replace("perdure.errors.", "")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        exec(case.tried, {"perdure": perdure, "np": np, **names})
    return str(caught.value), type(caught.value).__name__


def row_of(case: Case, said: str, ended: str) -> str:
    said = " ".join(line.removeprefix("perdure: error: ").strip() for line in said.splitlines())
    said = re.sub(r"forked this one \(\d+\)", "forked this one (PID)", said)
    said = re.sub(r"writing at byte \d+", "writing at byte N", said)  # of several under way
    said = re.sub(r"device cuda: .*; use", "device cuda: WHY THERE IS NONE; use", said)
    for word in ("Traceback", ".unfinished", "perdure-partial", "perdure-test", "/var/tmp"):
        assert word not in said, f"{case.tried} says {word}: {said}"
    assert 0 < len(said) < 700, f"{case.tried} says {said[:200]!r}"
    cells = [case.what, f"`{case.tried}`".replace("\n", "; "), said.replace("<", "&lt;"), ended]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@pytest.mark.parametrize(
    ("group", "case"), ALL, ids=lambda one: one.tried if isinstance(one, Case) else ""
)
def test_bad_input(group, case, cli, template):
    if UPDATE:
        pytest.skip("the page is being written")
    if not case.gpu and gpu_available():
        pytest.skip("there is a GPU")
    if case.rocks and not rocks_error_cases.IS_BUILT:
        pytest.skip("not packed: librocksdb-dev")
    with folder_for(template):
        said, ended = run_case(case, cli)
    row = row_of(case, said, ended)
    assert ended not in ("status 0", "status 139")
    assert row in PAGE.read_text().splitlines(), f"docs/errors.md lacks\n{row}"


def test_the_page_has_every_case_and_no_other(cli, template):
    if UPDATE:
        write_page(cli, template)
    rows = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    expected = [f"`{case.tried}`".replace("\n", "; ").replace("|", "\\|") for _, case in ALL]
    tried = [row.split(" | ")[1] for row in rows if not row.startswith("| what is wrong ")]
    assert tried == expected and len(tried) >= 60
    assert PAGE.read_text().startswith(HEAD)


def write_page(cli, template: Path) -> None:
    page = HEAD
    for group, cases in CASES.items():
        page += f"\n## {group}\n\n| what is wrong | tried | said | ends with |\n|---|---|---|---|\n"
        for case in cases:
            with folder_for(template):
                said, ended = run_case(case, cli)
            page += row_of(case, said, ended) + "\n"
    PAGE.write_text(page)
