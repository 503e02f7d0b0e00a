"""`perdure top`: a live view of a pool beside the process that has it open.

Invariant: each look costs the same whatever the pool's size (perdure.glance), and the owner does
not notice.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from perdure._samples import Sample, Source, source_of
from perdure.cli_support import Failure, LogDirOption, plural, show_size

_LEAST_INTERVAL = 0.05

IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", help="Time between two looks.")
]
OnceOption = Annotated[bool, typer.Option("--once", help="Look once, and end.")]
LinesOption = Annotated[
    bool, typer.Option("--json", help="Print a JSON object a line and look, to standard output.")
]


def top(
    pool: Annotated[
        str, typer.Argument(metavar="POOL", help="The pool file, for example /dev/shm/table.")
    ],
    interval: IntervalOption = 1.0,
    once: OnceOption = False,
    as_json: LinesOption = False,
    log_dir: LogDirOption = None,
) -> None:
    """Show a pool live, beside the process that has it open: changes a second, records, space."""
    if not interval >= _LEAST_INTERVAL:
        raise Failure(f"--interval {interval}: at least {_LEAST_INTERVAL} seconds")
    with source_of(pool, log_dir) as source:
        looks = _looks(source, interval, once)
        try:
            if as_json:
                _print_json(looks)
            elif once or not sys.stdout.isatty():
                _print_lines(looks)
            else:
                _show(looks)
        except KeyboardInterrupt:
            pass  # the usual way to end it


def register(app: typer.Typer) -> None:
    app.command()(top)


def _looks(source: Source, interval: float, once: bool) -> Iterator[dict[str, Any]]:
    """What each look found, with rates since the one before."""
    before: Sample | None = None
    while True:
        now = source.sample()
        yield {"name": source.name, "time": time.time(), **now.facts, **now.counters} | {
            f"{name}_per_second": rate for name, rate in rates(before, now).items()
        }
        if once:
            return
        before = now
        time.sleep(interval)


def rates(before: Sample | None, now: Sample) -> dict[str, float]:
    """Of counters, and of records, which may get fewer. None at the first look, and none where a
    counter fell: another pool has the name now."""
    if before is None or now.at <= before.at:
        return {}
    took = now.at - before.at
    found = {
        name: (count - before.counters[name]) / took
        for name, count in now.counters.items()
        if count >= before.counters.get(name, count + 1)
    }
    if "records" in now.facts and "records" in before.facts:
        found["records"] = (now.facts["records"] - before.facts["records"]) / took
    return found


def _print_json(looks: Iterator[dict[str, Any]]) -> None:
    for look in looks:
        print(json.dumps(look), flush=True)


def _print_lines(looks: Iterator[dict[str, Any]]) -> None:
    for look in looks:
        stamp = time.strftime("%H:%M:%S", time.localtime(look["time"]))
        parts = [f"{label} {text}" for label, text in shown(look)]
        print(f"{stamp} {look['name']}: {'; '.join(parts)}", flush=True)


def _show(looks: Iterator[dict[str, Any]]) -> None:
    from rich.live import Live
    from rich.table import Table

    with Live(auto_refresh=False, screen=False) as live:
        for look in looks:
            table = Table(title=look["name"], show_header=False, title_justify="left")
            table.add_column(style="bold")
            table.add_column()
            for label, text in shown(look):
                table.add_row(label, text)
            live.update(table, refresh=True)


def shown(look: dict[str, Any]) -> list[tuple[str, str]]:
    """A look as people read it: a label and a text each, without what was not seen."""
    lines = [("state", look["state"]), ("rates", _rates(look))]
    lines += [("records", _records(look)), ("space", _space(look))]
    if "log_bytes" in look:
        lines.append(("log", _log(look)))
    if "process_bytes" in look:
        lines.append(("memory", f"{show_size(look['process_bytes'])} resident in its process"))
    return [(label, text) for label, text in lines if text]


def _rates(look: dict[str, Any]) -> str:
    parts = [
        (f"{look[key]:,.1f} {what}/s", key)
        for key, what in (
            ("changes_per_second", "changes"),
            ("transactions_per_second", "transactions"),
        )
        if key in look
    ]
    texts = [text for text, _ in parts]
    if "records_per_second" in look:
        texts.append(f"{look['records_per_second']:+,.0f} records/s")
    return ", ".join(texts)


def _records(look: dict[str, Any]) -> str:
    if "records" not in look:
        return f"not told by the file while it is open ({look['index']})"
    about = "about " if look["estimated"] else ""
    text = f"{about}{plural(look['records'], 'record')}"
    if "slots" in look:
        text += f" in {plural(look['slots'], 'slot')}, load factor {look['load_factor']:.3f}"
    return text + (", growing" if look["growing"] else "")


def _space(look: dict[str, Any]) -> str:
    most = f" of at most {show_size(look['max_bytes'])}" if look["max_bytes"] else ""
    return f"{show_size(look['pool_bytes'])}{most}, up to {show_size(look['used_bytes'])} used"


def _log(look: dict[str, Any]) -> str:
    text = f"{show_size(look['log_bytes'])} in {look['log_dir']}"
    if "image_bytes" in look:
        text += (
            f", images {show_size(look['image_bytes'])}, the newer one"
            f" {look['image_age_seconds']:,.0f} s old"
        )
    return text
