"""Trains a DLRM on click data twice, undisturbed and killed again and again, and compares.

    python examples/dlrm/train.py [--data PATH] [--rows N] [--pool PATH] [--steps N] [--batch N]
                                  [--kills N] [--plot PATH]

Both trainings are processes of their own (training.py). The second gets SIGKILL at random moments,
and each time another process goes on from the pool. All losses, all rows of the embeddings and the
model have to be the same, to the last bit: exit status 0, else 1. It needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from data import SAMPLE, Clicks, DataError, read

HERE = Path(__file__).parent
UNTIL = 0.9  # of the steps; a later kill could find the training at its end


@dataclass
class Run:
    """What a training's processes said."""

    name: str
    steps: int
    losses: dict[int, str] = field(default_factory=dict)  # as hexadecimal, so every bit counts
    kills: list[int] = field(default_factory=list)  # the steps that they were in or behind
    resumed: list[int] = field(default_factory=list)
    digest: str = ""
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    last: int = -1  # step of the newest loss
    began: float = 0.0  # the first of its steps
    step_seconds: float = 0.0  # of a step, from the first to the newest

    def take(self, line: str) -> None:
        what, value = line.split()
        if what == "digest":
            self.digest = value
        elif what == "resumes":
            self.resumed.append(int(value))
            # The loss of a step comes before its commit: it may be of the pool or not.
            if int(value) not in (max(self.last, 0), self.last + 1):
                self.wrong.append(f"killed in step {self.last}, and resumed at {value}")
        else:
            self.last = int(what)
            self.began = self.began or time.monotonic()
            self.step_seconds = (time.monotonic() - self.began) / (len(self.losses) + 1)
            if self.losses.setdefault(self.last, value) != value:
                self.wrong.append(f"step {what} ran twice, with two losses")

    def mean(self, first: int, end: int) -> float:
        of = [float.fromhex(self.losses[step]) for step in range(first, end)]
        return sum(of) / len(of)

    def show_progress(self) -> None:
        if sys.stderr.isatty() and (self.last % 10 == 0 or self.digest):
            end = "\n" if self.digest else ""
            print(f"\r{self.name}: step {self.last + 1} of {self.steps}", end=end, file=sys.stderr)


def run_process(run: Run, command: list[str], kill_in: int | None, pause: float) -> None:
    """One process, until it ends or, a moment after the loss of step `kill_in`, is killed."""
    killed = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            run.take(line)
            run.show_progress()
            if kill_in is not None and run.last >= kill_in and not killed:
                time.sleep(random.random() * pause)
                process.kill()
                killed = True
    if killed and process.returncode == -signal.SIGKILL:
        if not run.digest:  # else it had ended before
            run.kills.append(run.last)
    elif process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}")


def train(arguments: argparse.Namespace, name: str, pool: Path, kills: int, pause: float) -> Run:
    """A whole training, over as many processes as it takes."""
    run = Run(name, arguments.steps)
    command = [sys.executable, str(HERE / "training.py"), str(pool), str(arguments.data)]
    command += [str(number) for number in (arguments.steps, arguments.batch, arguments.rows)]
    begin = time.monotonic()
    for step in sorted(random.sample(range(1, int(arguments.steps * UNTIL)), kills)):
        if not run.digest:
            run_process(run, command, step, pause)
    if not run.digest:
        run_process(run, command, None, 0)
    run.seconds = time.monotonic() - begin
    return run


def differences(calm: Run, killed: Run) -> list[str]:
    wrong = calm.wrong + killed.wrong
    other = [step for step in range(calm.steps) if calm.losses[step] != killed.losses.get(step)]
    if other:
        wrong.append(f"{len(other)} losses differ, the first in step {other[0]}")
    if calm.digest != killed.digest:
        wrong.append("the embeddings or the model differ")
    return wrong


def summary(clicks: Clicks, calm: Run, killed: Run, wrong: list[str]) -> str:
    some = max(1, calm.steps // 10)
    times = "once" if len(killed.kills) == 1 else f"{len(killed.kills)} times"
    kills, resumed = (
        f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"
        for steps in (killed.kills, killed.resumed[1:])
    )
    return "\n".join(
        [
            f"data         {len(clicks):,} rows, {clicks.clicked:,} clicks;"
            f" {len(clicks.tables)} features in {len(set(clicks.tables.values()))} tables of"
            f" {clicks.distinct_ids():,} rows in all",
            f"undisturbed  {calm.steps} steps in {calm.seconds:.1f} s; mean loss"
            f" {calm.mean(0, some):.4f} in the first {some},"
            f" {calm.mean(calm.steps - some, calm.steps):.4f} in the last {some}",
            *(
                [
                    f"killed       {times} in {killed.seconds:.1f} s, in {kills}",
                    f"resumed      at {resumed}",
                ]
                if killed.kills
                else ["killed       never"]
            ),
            f"result       {'; '.join(wrong)}"
            if wrong
            else f"result       all {calm.steps} losses, the embeddings and the model are the same,"
            " to the last bit",
        ]
    )


def plot(calm: Run, killed: Run, png: Path) -> None:
    """By plot.py, which another Python can run where this one has no matplotlib."""
    report = png.with_suffix(".json")
    content = {
        run.name: [float.fromhex(run.losses[step]) for step in range(run.steps)]
        for run in (calm, killed)
    }
    report.write_text(json.dumps({"losses": content, "kills": killed.kills}), encoding="utf-8")
    drawn = subprocess.run([sys.executable, HERE / "plot.py", report, png], check=False)
    print(f"plot         {png if drawn.returncode == 0 else f'none; its losses are in {report}'}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Trains a DLRM twice, undisturbed and killed, and compares bit for bit."
    )
    add = parser.add_argument
    add("--data", type=Path, default=SAMPLE, help="Criteo's format, or the Open Bandit Dataset's")
    add("--rows", type=int, default=0, help="read no more of the data (0: all)")
    add("--pool", type=Path, help="keep the pool of the training that is killed")
    add("--steps", type=int, default=600)
    add("--batch", type=int, default=128, help="rows of a step")
    add("--kills", type=int, default=5)
    add("--plot", type=Path, help="a PNG of both loss curves; needs matplotlib")
    arguments = parser.parse_args()
    if arguments.pool and arguments.pool.exists():
        parser.error(f"--pool {arguments.pool}: it is there already")
    if arguments.batch < 1 or arguments.steps < 1 or arguments.rows < 0:
        parser.error("--batch and --steps begin at 1, --rows at 0")
    if not 0 <= arguments.kills < max(1, int(arguments.steps * UNTIL)):
        parser.error(f"--kills {arguments.kills}: {arguments.steps} steps are too few")
    return arguments


def main() -> int:
    arguments = parsed()
    try:
        clicks = read(arguments.data, arguments.rows or None)
        clicks.batch(0, arguments.batch)
    except (DataError, OSError) as wrong:
        sys.exit(f"{wrong}")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="perdure-dlrm-", dir=memory) as folder:
        calm = train(arguments, "undisturbed", Path(folder) / "calm", 0, 0)
        pool = arguments.pool or Path(folder) / "killed"
        killed = train(arguments, "killed", pool, arguments.kills, calm.step_seconds)
    wrong = differences(calm, killed)
    print(summary(clicks, calm, killed, wrong))
    if arguments.plot:
        plot(calm, killed, arguments.plot)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
