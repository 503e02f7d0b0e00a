"""`perdure demo`: the main job on real input, end to end, with a summary and a plot.

Four parts, on the samples of the repository's data/ folder: replay a cache trace; replay it again
with a kill in the middle, check every acknowledged operation, and carry on; keep a table of
fixed-size rows and look them up in batches; verify all three pools. The pools are temporary.

Invariant: the exit status is 0 only if every value that was read, in every part, was the right one.
"""

from __future__ import annotations

import lzma
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import perdure
from perdure import _contents, _player, crash
from perdure._ending import temporary_folder
from perdure._outputs import PNG, Output
from perdure._player import Plan
from perdure.cli_support import (
    FAULTS,
    Failure,
    ForceOption,
    JsonOption,
    JsonResult,
    OverwriteOption,
    answers_to,
    plural,
    progress,
    report,
    show_size,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRACE = "twitter_cluster52.rows0-1M.csv.zst"
ROADS = "road-usa-NY.pace.gr.xz"
_ROW_FLOATS = 32  # 128 bytes
_POOLS_BYTES = 1 << 30  # what the three pools may need at most
_NO_PLOT = "none"


# --- where things are ---------------------------------------------------------------------------


def find_data(given: Path | None, names: tuple[str, ...] = (TRACE, ROADS)) -> Path:
    """The folder that holds these samples."""
    places = (
        [given] if given else [Path(__file__).resolve().parents[2] / "data", Path.cwd() / "data"]
    )
    for place in places:
        if all((place / name).is_file() for name in names):
            return place
    looked = ", ".join(map(str, places))
    raise Failure(
        f"--data: {' and '.join(names)} are not all in {looked}: run this in a checkout of the "
        "repository,"
        " or name its data/ folder with --data"
    )


def choose_device() -> tuple[str, str]:
    """cuda where this build and this computer have it, else cpu; and why."""
    offered = {info.device.name: info for info in perdure.devices()}
    cuda = offered.get("cuda")
    if cuda is not None and cuda.available:
        return "cuda", cuda.description
    why = cuda.why_not if cuda is not None else "this build is without CUDA"
    return "cpu", f"{offered['cpu'].description}; no GPU: {why}"


@contextmanager
def pool_folder(given: Path | None) -> Iterator[Path]:
    """A temporary folder for the pools: in memory (/dev/shm) where that has the room."""
    parent = given or Path("/dev/shm")
    if given is None and (
        not os.access(parent, os.W_OK) or shutil.disk_usage(parent).free < _POOLS_BYTES
    ):
        parent = Path(tempfile.gettempdir())
    with temporary_folder("perdure-demo-", parent) as folder:
        yield folder


# --- the table of rows --------------------------------------------------------------------------


@dataclass
class Table:
    """What the table of fixed-size rows came to."""

    rows: int
    lookups: int
    batch: int
    put_seconds: float
    lookup_seconds: float
    wrong: int  # lookups whose row was not NumPy's
    unknown_found: int  # keys that were never put, and yet found
    pool_bytes: int

    @property
    def fault_count(self) -> int:
        return self.wrong + self.unknown_found

    @property
    def put_mops(self) -> float:
        return self.rows / self.put_seconds / 1e6

    @property
    def lookup_mops(self) -> float:
        return self.lookups / self.lookup_seconds / 1e6

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "put_mops": self.put_mops, "lookup_mops": self.lookup_mops}

    def lines(self) -> list[str]:
        put, looked_up = self.put_mops, self.lookup_mops
        return [
            f"put {self.rows:,} rows of {4 * _ROW_FLOATS} bytes ({put:.2f} M/s),"
            f" {show_size(self.pool_bytes)}",
            f"  looked up {self.lookups:,} ids in batches of {self.batch:,} ({looked_up:.2f} M/s):"
            f" {plural(self.fault_count, 'row')} unlike NumPy's",
        ]


def read_ids(path: Path) -> npt.NDArray[np.uint64]:
    """The ends of all edges, in file order."""
    with lzma.open(path) as text:
        kind, _, nodes, edges = text.readline().decode().split()
        ids = np.fromstring(text.read(), np.uint64, sep=" ")
    if kind != "p" or len(ids) != 2 * int(edges) or ids.max() > int(nodes):
        raise Failure(f"{path}: not a road network: its first line and its edges disagree")
    return ids


def rows_for(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    """One row of numbers in [0, 1) a key."""
    words = _contents.mix(
        keys[:, None] * np.uint64(_ROW_FLOATS) + np.arange(_ROW_FLOATS, dtype=np.uint64)
    )
    return (words >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def keep_table(pool: Path, ids: npt.NDArray[np.uint64], device: str, batch: int) -> Table:
    keys = np.unique(ids)
    rows = rows_for(keys)
    with perdure.create(
        pool, 8, 4 * _ROW_FLOATS, expected_records=len(keys), device=device
    ) as store:
        start = time.perf_counter()
        for at in range(0, len(keys), batch):
            store.put(keys[at : at + batch], rows[at : at + batch])
        put_seconds = time.perf_counter() - start
        wrong, lookup_seconds = _look_up(store, ids, keys, rows, batch)
        unknown = store.get(keys + keys.max(), dtype=np.float32)
        pool_bytes = store.stats().pool_bytes
    return Table(
        len(keys),
        len(ids),
        batch,
        put_seconds,
        lookup_seconds,
        wrong,
        int(unknown.found.sum()),
        pool_bytes,
    )


def _look_up(
    store: perdure.Store,
    ids: npt.NDArray[np.uint64],
    keys: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.float32],
    batch: int,
) -> tuple[int, float]:
    """Looks the stream up; how many rows were unlike NumPy's, and the seconds in the store."""
    wrong, seconds = 0, 0.0
    out = np.zeros((batch, _ROW_FLOATS), np.float32)
    for at in range(0, len(ids), batch):
        requested = ids[at : at + batch]
        start = time.perf_counter()
        values, found, _ = store.get(requested, out=out[: len(requested)])
        seconds += time.perf_counter() - start
        expected = rows[np.searchsorted(keys, requested)]
        wrong += int((~found | (values != expected).any(axis=1)).sum())
    return wrong, seconds


# --- the plot -----------------------------------------------------------------------------------


def draw(done: _player.Report, to: Output) -> None:
    """Throughput, latency and hit rate over the run, one point a batch."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    requests = np.array(done.series.requests)
    seconds = np.array(done.series.store_seconds)
    hits = np.array(done.series.hits)
    played = np.cumsum(requests) / 1e3
    figure, (top, middle, bottom) = pyplot.subplots(
        3, 1, sharex=True, figsize=(8, 8), layout="constrained"
    )
    figure.suptitle(
        f"{Path(done.plan.trace).name}, batches of {done.plan.batch:,}, on"
        f" {'GPU' if done.plan.device == 'cuda' else 'CPU'} ({done.stats['machine']})"
    )
    _panel(top, played, requests / seconds / 1e6, "M requests/s in the store", "tab:blue")
    _panel(middle, played, seconds * 1e6, "batch latency (us)", "tab:orange")
    for percent, style in ((50, "--"), (99, ":")):
        middle.axhline(
            done.latency_us(percent),
            color="black",
            linestyle=style,
            linewidth=1,
            label=f"p{percent}",
        )
    middle.set_yscale("log")  # growing the pool takes a batch far longer than the others
    top.set_ylim(bottom=0)
    bottom.set_ylim(0, 100)
    middle.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    _panel(bottom, played, 100 * hits / requests, "hit rate (%)", "tab:green")
    bottom.set_xlabel("requests (thousands)")
    with to.writing() as path:
        figure.savefig(path, dpi=120, format="png")
    pyplot.close(figure)


def _panel(axes: Axes, x: npt.NDArray[Any], y: npt.NDArray[Any], label: str, colour: str) -> None:
    axes.plot(x, y, color=colour, marker=".", linewidth=1)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)


def _check_plot(plot: str, overwrite: bool, force: bool) -> Output | None:
    """Where the plot goes; says at once, not after the run, if it cannot be drawn, or may not be
    written."""
    if plot == _NO_PLOT:
        return None
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise Failure(
            f"--plot {plot}: {error}; pip install matplotlib, or pass --plot {_NO_PLOT}"
        ) from error
    if not Path(plot).parent.is_dir():
        raise Failure(f"--plot {plot}: there is no folder {Path(plot).parent}")
    return Output("--plot", plot, PNG, overwrite=overwrite, force=force)


# --- the command --------------------------------------------------------------------------------


def demo(
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder with the samples.")
    ] = None,
    pool_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the temporary pools lie; by default /dev/shm."),
    ] = None,
    plot: Annotated[
        str, typer.Option(metavar="FILE", help=f"The plot to write; '{_NO_PLOT}' for no plot.")
    ] = "perdure-demo.png",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Requests of the trace; by default all.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Requests a batch.")] = Plan.batch,
    seed: Annotated[int | None, typer.Option(help="Of the kill's random moment.")] = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json_file: JsonOption = None,
) -> None:
    """Run the main job on real input: replay, crash and check, look rows up, verify."""
    samples, drawing = find_data(data), _check_plot(plot, overwrite, force)
    picture = None if drawing is None else drawing.path
    inputs = [samples / TRACE, samples / ROADS, *([] if picture is None else [picture])]
    result = JsonResult(json_file, overwrite, *inputs, force=force)
    device, why = choose_device()
    say = answers_to(result)
    say(f"device: {device} ({why})\ndata:   {samples}")
    with pool_folder(pool_dir) as folder:
        say(f"pools:  {folder} (removed at the end)")
        plan = Plan(
            str(samples / TRACE),
            str(folder / "replay.pool"),
            device=device,
            batch=batch,
            limit=limit,
        )
        found = _run_parts(plan, folder, read_ids(samples / ROADS), seed, say)
    if drawing is not None:
        draw(found.replayed, drawing)
    report(result, found.as_dict(device, picture), "\n".join(found.summary(picture)))
    if found.fault_count:
        raise typer.Exit(FAULTS)


@dataclass
class _Parts:
    replayed: _player.Report
    crashed: crash.Report
    carried_on: _player.Report
    table: Table
    verified: dict[str, Any]  # by pool: records, and lines about faults

    @property
    def same_end(self) -> bool:
        """The pool that was killed and carried on holds as many records as the one that was not."""
        return self.carried_on.stats["records"] == self.replayed.stats["records"]

    @property
    def fault_count(self) -> int:
        parts = (self.replayed, self.crashed, self.carried_on, self.table)
        verify = sum(pool["fault_count"] for pool in self.verified.values())
        return sum(part.fault_count for part in parts) + verify + (not self.same_end)

    def as_dict(self, device: str, picture: Path | None) -> dict[str, Any]:
        return {
            "device": device,
            "replay": self.replayed.as_dict(),
            "crash": self.crashed.as_dict(),
            "carried_on": self.carried_on.as_dict(),
            "table": self.table.as_dict(),
            "verify": self.verified,
            "same_end": self.same_end,
            "faults": self.fault_count,
            "plot": None if picture is None else str(picture),
        }

    def summary(self, picture: Path | None) -> list[str]:
        done, killed, table = self.replayed, self.crashed, self.table
        verified = sum(pool["records"] for pool in self.verified.values())
        faults = sum(pool["fault_count"] for pool in self.verified.values())
        verdict = "all good" if not self.fault_count else plural(self.fault_count, "FAULT")
        lines = [
            "",
            f"summary: {verdict}",
            f"  replay   {done.tally.ops:,} requests, hit rate {done.hit_rate:.2%},"
            f" {done.mops:.2f} M requests/s,"
            f" batch p50 {done.latency_us(50):,.0f} us, p99 {done.latency_us(99):,.0f} us",
            f"  crash    {killed.acknowledged:,} requests acknowledged before SIGKILL,"
            f" {killed.keys_checked:,} keys checked, {killed.fault_count:,} lost or wrong",
            f"  table    {table.rows:,} rows, {table.lookups:,} lookups, {table.fault_count:,} "
            "wrong",
            f"  verify   {verified:,} records in {len(self.verified)} pools, {faults:,} faults",
            f"  survives {done.survives['description']}",
        ]
        return lines + ([f"  plot     {picture}"] if picture is not None else [])


def _run_parts(
    plan: Plan, folder: Path, ids: npt.NDArray[np.uint64], seed: int | None, say: Any
) -> _Parts:
    say("\n1. replay")
    with progress("replay", 1.0) as show:
        replayed = _player.run(plan, show=show)
    _tell(replayed, say)

    say("\n2. the same with a kill in the middle")
    again = replace(plan, pool=str(folder / "crash.pool"))
    kill_after = int(replayed.tally.ops * random.Random(seed).uniform(0.2, 0.7))
    crashed = crash.run(again, max(1, kill_after), seed)
    _tell(crashed, say)
    carried_on = _player.run(again)
    say(
        f"  carried on over the whole trace: {carried_on.tally.checked:,} values checked,"
        f" {plural(carried_on.fault_count, 'fault')};"
        f" {plural(carried_on.stats['records'], 'record')} at the end,"
        f" {replayed.stats['records']:,} without the kill"
    )
    for line in carried_on.complaints():
        print(line, file=sys.stderr)

    say("\n3. a table of fixed-size rows")
    table = keep_table(folder / "rows.pool", ids, plan.device, plan.batch)
    say("\n".join(table.lines()))

    say("\n4. verify")
    verified = {pool.name: _verify(pool, say) for pool in sorted(folder.glob("*.pool"))}
    return _Parts(replayed, crashed, carried_on, table, verified)


def _tell(part: _player.Report | crash.Report, say: Any) -> None:
    say("\n".join(part.lines()))
    for line in part.complaints():
        print(line, file=sys.stderr)


def _verify(pool: Path, say: Any) -> dict[str, Any]:
    with perdure.open(pool, read_only=True) as store:
        found = store.verify()
    say(
        f"{pool.name}: {plural(found.records, 'record')} good, {plural(found.fault_count, 'fault')}"
    )
    for fault in found.faults:
        print(f"fault: {pool.name}: {fault}", file=sys.stderr)
    return {
        "records": found.records,
        "fault_count": found.fault_count,
        "faults": list(found.faults),
    }


def register(app: typer.Typer) -> None:
    app.command()(demo)
