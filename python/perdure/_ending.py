"""How long commands end: their temporary folders go, and the programs that they run end too.

Invariant: after SIGINT, SIGTERM or SIGHUP nothing is left of either. Only SIGKILL, or a power
loss, leaves something.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_PATIENCE_SECONDS = 10.0  # for a program to remove what it made
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)  # SIGINT raises by itself


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # as a shell reports it


@contextmanager
def _handling(
    numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Where a signal is ignored (nohup) it stays so; in other threads than the first nothing can be
    set."""
    first = threading.current_thread() is threading.main_thread()
    before = {
        one: signal.getsignal(one)
        for one in numbers
        if first and signal.getsignal(one) != signal.SIG_IGN
    }
    for one in before:
        signal.signal(one, handler)
    try:
        yield
    finally:
        for one, old in before.items():
            signal.signal(one, old)


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    with _handling(_ENDINGS, _end):
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            yield folder
        finally:
            late: list[int] = []  # a second signal must not stop the removal
            with _handling((signal.SIGINT, *_ENDINGS), lambda number, frame: late.append(number)):
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
            if late:
                _end(late[0], None)


def run_program(command: Sequence[Any], **how: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. Where this process is to end first, the program is asked to, and
    removes its files itself: subprocess.run would kill it."""
    late: list[int] = []  # signals that came while the program was being started, or ended
    may_raise = False

    def end(number: int, frame: FrameType | None) -> None:
        if not may_raise:
            late.append(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            _end(number, frame)

    with (
        _handling((signal.SIGINT, *_ENDINGS), end),
        subprocess.Popen(command, text=True, **how) as process,
    ):
        try:
            may_raise = True
            if late:
                end(late[0], None)
            out, err = process.communicate()
        except BaseException:
            may_raise = False
            process.terminate()
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
