"""H-Rocks' evaluation (SIGMOD '25, sections 7 and 8.1): figures 8 to 13, tables 6, 7.

Each is a run of perdure-bench-rocks, which puts RocksDB and perdure::rocks side by side. Claims are
ratios to RocksDB, as the paper's are: its numbers come from other hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from perdure_figures.model import Claim, Drawn, Evaluation, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

PROGRAM = "perdure-bench-rocks"
SYSTEMS = ("rocksdb", "perdure")
_LARGEST = 1_000_000  # operations a call
_MEMTABLE_MIB = {"cpu": 64, "cuda": 512}  # on the CPU data are few

Row = dict[str, Any]


def _run(setting: Setting, *items: str, more: Iterable[str | int] = ()) -> Run:
    scale = setting.scale
    batches = sorted({min(1000, scale.records), min(_LARGEST, scale.records // 2)})
    arguments: list[str | int] = ["--only", ",".join(items), "--device", setting.device]
    arguments += ["--records", scale.records, "--repeats", scale.repeats]
    arguments += ["--seconds", 10 if scale.repeats > 1 else 1]
    arguments += ["--batch", ",".join(map(str, batches))]
    arguments += ["--rocksdb-batch", min(1000, scale.records)]
    arguments += ["--memtable-mib", _MEMTABLE_MIB[setting.device], *more]
    return Run(" ".join(items), arguments, PROGRAM)


def _rows(results: Results, item: str) -> list[Row]:
    return [row for result in results.values() for row in result["rows"] if row["item"] == item]


def _best(rows: list[Row]) -> Row:
    """The way of calling with which Perdure is fastest."""
    return max(rows, key=lambda row: float(row["perdure"]))


def _bars(title: str, best: dict[str, Row]) -> Panel:
    panel = Panel(title, "", "M/s", kind=Kind.bar, log_y=True, names=list(best))
    for at, row in enumerate(best.values()):
        for system in SYSTEMS:
            panel.add(system, at, row[system])
    return panel


def _ratio(row: Row) -> dict[str, float | None]:
    return {"perdure": row["ratio"] or None}


def _curve(title: str, x: str, rows: list[Row], y: str, log_y: bool = True) -> Panel:
    panel = Panel(title, x, y, log_x=True, log_y=log_y)
    for row in rows:
        for system in SYSTEMS:
            panel.add(system, float(row["at"]), row[system])
    return panel


# --- figure 8: operations -----------------------------------------------------------------------

_OPERATIONS = {"put": 17.5, "get": 46.8, "update": 14.6, "delete": 17.5}


def plan_operations(setting: Setting) -> list[Run]:
    return [_run(setting, "put", "get", "update", "delete")]


def read_operations(setting: Setting, results: Results) -> Drawn:
    best = {item: _best(_rows(results, item)) for item in _OPERATIONS}
    claims = [
        Claim(f"{item.upper()} over RocksDB", paper, _ratio(best[item]))
        for item, paper in _OPERATIONS.items()
    ]
    return Drawn([_bars("the fastest way of calling", best)], claims)


# --- figure 9: ranges and transactions ----------------------------------------------------------


def plan_ranges(setting: Setting) -> list[Run]:
    return [_run(setting, "range")]


def read_ranges(setting: Setting, results: Results) -> Drawn:
    best = {"range": _best(_rows(results, "range"))}
    return Drawn(
        [_bars("ranges of 100 pairs", best)],
        [Claim("RANGE over RocksDB", 7.0, _ratio(best["range"]))],
    )


def plan_transactions(setting: Setting) -> list[Run]:
    sizes = (1000, 10_000, 100_000, 1_000_000, 5_000_000)
    fit = [size for size in sizes if size <= setting.scale.records] or [setting.scale.records]
    return [
        _run(setting, "transactions", more=["--transactions", ",".join(map(str, fit))]),
    ]


def read_transactions(setting: Setting, results: Results) -> Drawn:
    by_kind: dict[str, list[Row]] = {}
    for row in _rows(results, "transactions"):
        by_kind.setdefault(row["what"].rsplit(", ", 1)[0], []).append(row)
    panels = [
        _curve(kind, "operations a transaction", rows, "M/s") for kind, rows in by_kind.items()
    ]
    largest = {
        kind: max(rows, key=lambda row: float(row["at"]))["ratio"] or None
        for kind, rows in by_kind.items()
    }
    return Drawn(panels, [Claim("the largest transactions over RocksDB", "10 M/s", largest)])


# --- figure 10: sizes of pairs, and table 6: sizes of memtables ---------------------------------


def plan_sizes(setting: Setting) -> list[Run]:
    return [_run(setting, "sizes")]


def read_sizes(setting: Setting, results: Results) -> Drawn:
    panels, claims = [], []
    for what in ("PUT", "GET"):
        rows = {row["at"]: row for row in _rows(results, "sizes") if row["what"].startswith(what)}
        panels.append(_bars(f"{what} by bytes of key and value", rows))
        claims.append(
            Claim(
                f"{what} over RocksDB, at each size",
                "more",
                {size: row["ratio"] or None for size, row in rows.items()},
            )
        )
    return Drawn(panels, claims)


def plan_memtables(setting: Setting) -> list[Run]:
    sizes = (64, 128, 256, 512, 1024, 2048, 4096) if setting.device == "cuda" else (1, 4, 16)
    return [
        _run(setting, "memtables", more=["--memtables", ",".join(map(str, sizes))]),
    ]


def read_memtables(setting: Setting, results: Results) -> Drawn:
    rows = _rows(results, "memtables")
    spread: dict[str, float | None] = {
        system: max(row[system] for row in rows) / min(row[system] for row in rows)
        for system in SYSTEMS
    }
    return Drawn(
        [_curve("time of a lookup", "MiB of memtables", rows, "us")],
        [Claim("longest lookup over the shortest", 3.28 / 3.10, spread)],
    )


# --- figure 11: where memtables have values ------------------------------------------------------

_MIXES = {"R50:W50": 10.0, "R90:W10": 40.0}  # pointers over values inside in the paper, at most
_WAYS = ("pointers", "values inside")


def plan_values(setting: Setting) -> list[Run]:
    return [_run(setting, "values")]


def read_values(setting: Setting, results: Results) -> Drawn:
    panels, claims = [], []
    for mix, paper in _MIXES.items():
        rows = [row for row in _rows(results, "values") if row["what"].startswith(mix)]
        ways = {way: {r["at"]: r for r in rows if r["what"].endswith(way)} for way in _WAYS}
        sizes = list(ways[_WAYS[0]])
        panel = Panel(f"{mix} by bytes of a value", "", "M/s", kind=Kind.bar, log_y=True)
        panel.names = sizes
        for at, size in enumerate(sizes):
            panel.add("rocksdb", at, ways[_WAYS[0]][size]["rocksdb"])
            for way, of_way in ways.items():
                panel.add(way, at, of_way[size]["perdure"])
        panels.append(panel)
        over: dict[str, float | None] = {
            size: ways["pointers"][size]["perdure"] / ways["values inside"][size]["perdure"]
            for size in sizes
        }
        claims.append(Claim(f"{mix}: pointers over values inside, at most", paper, over))
    return Drawn(panels, claims)


# --- figure 12: latency by rate -----------------------------------------------------------------


def plan_rates(setting: Setting) -> list[Run]:
    rates = (10_000, 100_000, 1_000_000, 5_000_000, 20_000_000)
    chosen = rates if setting.device == "cuda" else rates[:3]
    return [_run(setting, "rates", more=["--rates", ",".join(map(str, chosen))])]


def read_rates(setting: Setting, results: Results) -> Drawn:
    panels, claims = [], []
    for what in ("PUT", "GET"):
        rows = [
            row
            for row in _rows(results, "rates")
            if row["what"].startswith(what) and row["what"].endswith("median")
        ]
        panels.append(_curve(f"{what}: median latency", "operations a second", rows, "us"))
        claims.append(
            Claim(
                f"{what}: latency of RocksDB over ours, at most",
                3.0,
                {"perdure": max(row["ratio"] for row in rows)},
            )
        )
        claims.append(
            Claim(
                f"{what}: the same at {int(rows[0]['at']):,} a second",
                1.0,
                {"perdure": rows[0]["ratio"] or None},
            )
        )
    return Drawn(panels, claims)


# --- figure 13: YCSB, and table 7: what it costs -------------------------------------------------

_YCSB = {"A": 52.0, "B": 64.0, "C": 92.0, "D": 72.0}  # M/s in the paper

# Operations a second and dollar, in table 7.
_FOUNDATIONDB = {"A": 85.23, "B": 174.79, "C": 190.58, "D": 172.64}
_TABLE_7 = {"A": 7240.43, "B": 8469.94, "C": 11202.18, "D": 8572.36}
# The paper's server without its GPU cost 6,320 USD; an H100 is taken at 30,000.
_SERVER_USD = 7657 - 1337
_GPU_USD = {"cpu": 0, "cuda": 30_000}


def plan_ycsb(setting: Setting) -> list[Run]:
    return [_run(setting, "ycsb")]


def _ycsb(results: Results) -> dict[str, Row]:
    by_workload: dict[str, list[Row]] = {}
    for row in _rows(results, "ycsb"):
        by_workload.setdefault(row["at"], []).append(row)
    return {workload: _best(by_workload[workload]) for workload in sorted(by_workload)}


def read_ycsb(setting: Setting, results: Results) -> Drawn:
    best = _ycsb(results)
    claims = [
        Claim(f"YCSB {workload}", paper, {"perdure": best[workload]["perdure"]}, "M/s")
        for workload, paper in _YCSB.items()
    ]
    return Drawn([_bars("the fastest way of calling", best)], claims)


def read_cost(setting: Setting, results: Results) -> Drawn:
    usd = _SERVER_USD + _GPU_USD[setting.device]
    ours = {workload: 1e6 * row["perdure"] / usd for workload, row in _ycsb(results).items()}
    panel = Panel("operations a second and dollar", "", "1/s/USD", kind=Kind.bar, log_y=True)
    panel.names = list(_YCSB)
    named: Iterable[tuple[str, Callable[[str], float]]] = (
        ("FoundationDB (paper)", _FOUNDATIONDB.__getitem__),
        ("H-Rocks (paper)", _TABLE_7.__getitem__),
        ("perdure", ours.__getitem__),
    )
    for name, value in named:
        for at, workload in enumerate(_YCSB):
            panel.add(name, at, value(workload))
    over = {workload: ours[workload] / _FOUNDATIONDB[workload] for workload in _YCSB}
    return Drawn([panel], [Claim("over the paper's FoundationDB, a dollar", "48 to 85", {**over})])


# --- the catalogue -----------------------------------------------------------------------------

_HROCKS = "H-Rocks: CPU-GPU accelerated Heterogeneous RocksDB on Persistent Memory (SIGMOD '25)"
_BESIDE = (
    "The paper's curves are over request rates; here clients call as fast as they can. Files lie in"
    " /dev/shm in place of Optane."
)
_figure = Evaluation(_HROCKS, _BESIDE).figure

FIGURES = (
    _figure(
        "hrocks-8",
        "PUT, GET, UPDATE, DELETE",
        "7.2",
        "operations of 8-byte pairs, perdure::rocks beside RocksDB",
        plan_operations,
        read_operations,
    ),
    _figure(
        "hrocks-9a",
        "RANGE",
        "7.2",
        "ranges of 100 pairs",
        plan_ranges,
        read_ranges,
    ),
    _figure(
        "hrocks-9b",
        "Transactions",
        "7.2",
        "transactions of half gets and half puts, by their size",
        plan_transactions,
        read_transactions,
    ),
    _figure(
        "hrocks-10",
        "Sizes of pairs",
        "7.3",
        "PUT and GET of 8 + 8 to 128 + 1,024 bytes",
        plan_sizes,
        read_sizes,
    ),
    _figure(
        "hrocks-11",
        "Values in memtables",
        "7.3",
        "mixed gets and puts by the size of values, which memtables point to or have",
        plan_values,
        read_values,
        "The pairs fill half a memtable.",
    ),
    _figure(
        "hrocks-12",
        "Latency by request rate",
        "7.3",
        "median latency of PUT and GET at rates from 10,000 a second on",
        plan_rates,
        read_rates,
        "Operations arrive at random times, whether a system keeps up or not. Files lie in /dev/shm"
        " in place of Optane.",
    ),
    _figure(
        "hrocks-13",
        "YCSB",
        "7.4",
        "YCSB A to D, 16 + 100 bytes",
        plan_ycsb,
        read_ycsb,
    ),
    _figure(
        "hrocks-table-6",
        "Sizes of memtables",
        "7.3",
        "time of a lookup, by the size of the memtables",
        plan_memtables,
        read_memtables,
    ),
    _figure(
        "hrocks-table-7",
        "Cost",
        "8.1",
        "YCSB operations a second and dollar, beside the paper's FoundationDB",
        plan_ycsb,
        read_cost,
        "FoundationDB is not measured again: its column is the paper's. The server is the paper's"
        " without its GPU (6,320 USD), and an H100 is taken at 30,000 USD.",
    ),
)
