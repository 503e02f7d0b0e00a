"""The hash table that CPU and GPU share: figures 4.8, 4.9, 4.12 to 4.16 and 4.19 to 4.21 of the
thesis on heterogeneous memory, chapter 4, and gets that both answer. Without a GPU a second group
of CPU warps is the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from perdure_figures.model import Claim, Drawn, Evaluation, Figure, Panel, Results, Run
from perdure_figures.setting import Setting

_THESIS = "Optimizing the Use of Heterogeneous Memory (thesis, The University of Sydney 2026)"
_DIFFERS = (
    "The thesis measures an Apple M2 Ultra, whose CPU and GPU share memory at 800 GB/s. Here the "
    "GPU is behind a link: it reads a table in its own memory, or one in host memory over the "
    "link, and keys and answers lie in host memory."
)

Row = dict[str, Any]


def _plan(*modes: str) -> Callable[[Setting], list[Run]]:
    """One run a mode, so figures that share a mode share its run."""

    def plan(setting: Setting) -> list[Run]:
        size = ["--device", setting.device, "--keys", setting.scale.records]
        return [Run(mode, ["hetero", "--mode", mode, *size]) for mode in modes]

    return plan


def _rows(results: Results, mode: str, **asked: Any) -> Iterator[Row]:
    for row in results[mode]["rows"]:
        if all(row.get(name) == value for name, value in asked.items()):
            yield row


def _dists(results: Results, mode: str) -> list[str]:
    return list(dict.fromkeys(row["dist"] for row in results[mode]["rows"]))


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def read_cpu(_: Setting, results: Results) -> Drawn:
    panel = Panel("host threads, no prefetching", "threads", "M/s")
    scaling: dict[str, float | None] = {}
    for dist in _dists(results, "cpu"):
        for op in ("get", "put"):
            found = [(r["threads"], r["mops"]) for r in _rows(results, "cpu", dist=dist, op=op)]
            for threads, mops in found:
                panel.add(f"{op}, {dist}", threads, mops)
            if op == "get":
                scaling[dist] = _ratio(found[-1][1], found[0][1])
    return Drawn([panel], [Claim("lookups by all threads over one", 16, scaling)])


def read_gpu(_: Setting, results: Results) -> Drawn:
    panel = Panel("the device alone", "keys a batch", "M/s", log_x=True)
    over_link: dict[str, float | None] = {}
    for dist in _dists(results, "gpu"):
        peaks: dict[tuple[str, str], float] = {}
        for row in _rows(results, "gpu", dist=dist):
            where = row["op"], row["memory"]
            panel.add(f"{row['op']}, {dist}, {row['memory']}", row["batch"], row["mops"])
            peaks[where] = max(peaks.get(where, 0), row["mops"])
        over_link[dist] = _ratio(peaks.get(("get", "device")), peaks.get(("get", "host")))
    what = "lookups in the device's memory over those in host memory"
    return Drawn([panel], [Claim(what, "one memory", over_link)])


def _by_device_threads(panel: Panel, results: Results, mode: str, memory: str, label: str) -> None:
    for row in _rows(results, mode, memory=memory):
        panel.add(label, row["device_threads"], row["mops"])


def _threads_panel(title: str) -> Panel:
    return Panel(title, "threads that hand batches to the device", "M/s")


def read_alone(_: Setting, results: Results) -> Drawn:
    panel = _threads_panel("each group by itself, batches of 100,000")
    for row in _rows(results, "alone", memory="twice"):
        panel.add("CPU only", row["device_threads"], row["host_mops"])
        panel.add("GPU only", row["device_threads"], row["device_mops"])
        panel.add("expecting", row["device_threads"], row["mops"])
    sums = panel.series["expecting"]
    ours = {"both": _ratio(max(mops for _, mops in sums), sums[0][1])}
    return Drawn([panel], [Claim("the largest sum over CPU threads alone", "above 1", ours)])


def _over_expected(results: Results, memory: str) -> float | None:
    """Approach 1 over what both groups do by themselves, where it is nearest."""
    alone = {r["device_threads"]: r["mops"] for r in _rows(results, "alone", memory=memory)}
    shares = [
        r["mops"] / alone[r["device_threads"]]
        for r in _rows(results, "approach1", memory=memory)
        if r["device_threads"] > 0 and alone.get(r["device_threads"])
    ]
    return max(shares, default=None)


def read_approach_1(_: Setting, results: Results) -> Drawn:
    panel = _threads_panel("one table in host memory")
    _by_device_threads(panel, results, "alone", "host", "expecting")
    _by_device_threads(panel, results, "approach1", "host", "approach 1")
    ours = {"one table": _over_expected(results, "host")}
    return Drawn([panel], [Claim("approach 1 over expected, at most", "below 1", ours)])


def read_waits(_: Setting, results: Results) -> Drawn:
    panel = Panel(
        "a thread's wait for 100,000 lookups", "threads that hand batches to the device", "ms"
    )
    waits = [
        (row["device_threads"], row["wait_us"] / 1000)
        for row in _rows(results, "alone", memory="twice")
        if row["device_threads"] > 0
    ]
    for threads, wait in waits:
        panel.add("wait", threads, wait)
    ours: dict[str, float | None] = {"one thread": waits[0][1], "all threads": waits[-1][1]}
    return Drawn([panel], [Claim("a thread's wait", "0.4 to above 1", ours, "ms")])


def _peak(results: Results, mode: str, memory: str) -> float | None:
    found = [r["mops"] for r in _rows(results, mode, memory=memory) if r["device_threads"] > 0]
    return max(found, default=None)


def read_approach_2(_: Setting, results: Results) -> Drawn:
    panel = _threads_panel("one table in host memory")
    for mode, label in (("approach1", "approach 1"), ("approach2", "approach 2")):
        _by_device_threads(panel, results, mode, "host", label)
    ours = {
        "one table": _ratio(
            _peak(results, "approach2", "host"), _peak(results, "approach1", "host")
        )
    }
    return Drawn([panel], [Claim("approach 2 over approach 1, peaks", "about 1", ours)])


def read_twice(_: Setting, results: Results) -> Drawn:
    panel = _threads_panel("a copy of the table for each side")
    ours: dict[str, float | None] = {}
    _by_device_threads(panel, results, "alone", "twice", "expecting")
    for mode, label in (("approach1", "approach 1"), ("approach2", "approach 2")):
        _by_device_threads(panel, results, mode, "twice", label)
        ours[label] = _ratio(_peak(results, mode, "twice"), _peak(results, mode, "host"))
    return Drawn([panel], [Claim("two copies over one, peaks", "about 2", ours)])


def read_hot_set(_: Setting, results: Results) -> Drawn:
    panel = Panel("the device's data stay as they are", "MiB of hot data", "M/s", log_x=True)
    hosts: dict[float, float] = {}
    for row in _rows(results, "hot-set"):
        panel.add("CPU", row["hot_mb"], row["host_mops"])
        panel.add("GPU", row["hot_mb"], row["device_mops"])
        panel.add("both", row["hot_mb"], row["mops"])
        hosts[row["hot_mb"]] = row["host_mops"]
    smallest, largest = hosts[min(hosts)], hosts[max(hosts)]
    what = f"CPU: {min(hosts):g} MiB of hot data over {max(hosts):g}"
    return Drawn([panel], [Claim(what, "sharp drop above 4 MiB", {"CPU": smallest / largest})])


def read_prefetch(_: Setting, results: Results) -> Drawn:
    panel = Panel("host threads alone", "keys looked ahead", "M/s")
    ours: dict[str, float | None] = {}
    for dist in _dists(results, "prefetch"):
        found = {r["ahead"]: r["mops"] for r in _rows(results, "prefetch", dist=dist)}
        for ahead, mops in found.items():
            panel.add(dist, ahead, mops)
        ours[dist] = _ratio(found.get(13), found.get(0))
    return Drawn([panel], [Claim("13 keys ahead over none", "nearly 3", ours)])


def read_ahead(_: Setting, results: Results) -> Drawn:
    panel = Panel("approach 2, two copies", "keys a batch", "M/s", log_x=True)
    found: dict[int, dict[int, float]] = {}
    for row in _rows(results, "ahead"):
        label = f"{row['ahead']} keys ahead" if row["ahead"] else "no prefetching"
        panel.add(label, row["batch"], row["mops"])
        found.setdefault(row["batch"], {})[row["ahead"]] = row["mops"]
    smallest = found[min(found)]
    plain = smallest.get(0)
    far = max((ahead for ahead in smallest if ahead), default=0)
    more = 100 * (smallest[far] / plain - 1) if plain and far else None
    what = "prefetching, smallest batch: more lookups"
    return Drawn([panel], [Claim(what, 70, {"both": more}, "%")])


def read_split(_: Setting, results: Results) -> Drawn:
    panels: dict[str, Panel] = {}
    ratios: dict[str, list[float]] = {}
    for row in _rows(results, "split"):
        what = f"{row['dist']}, {row['memory']}"
        if what not in panels:
            panels[what] = Panel(f"gets, {what}", "keys a batch", "M/s", log_x=True, log_y=True)
        panels[what].add("CPU", row["batch"], row["host_mops"])
        panels[what].add("GPU", row["batch"], row["device_mops"])
        panels[what].add("parted by measured rates", row["batch"], row["mops"])
        ratios.setdefault(what, []).append(row["ratio"])
    worst: dict[str, float | None] = {what: min(of) for what, of in ratios.items()}
    best: dict[str, float | None] = {what: max(of) for what, of in ratios.items()}
    return Drawn(
        list(panels.values()),
        [
            Claim("parted over the better one, at least", "not there", worst),
            Claim("parted over the better one, at most", "not there", best),
        ],
    )


def _figure(
    number: str, title: str, section: str, shows: str, modes: tuple[str, ...], read: Any
) -> Figure:
    evaluation = Evaluation(_THESIS, _DIFFERS)
    return evaluation.figure(f"hetero-{number}", title, section, shows, _plan(*modes), read)


FIGURES = (
    _figure("4.8", "CPU only", "4.3.1", "lookups and updates by threads", ("cpu",), read_cpu),
    _figure("4.9", "GPU only", "4.3.2", "lookups and updates by batch size", ("gpu",), read_gpu),
    _figure(
        "4.12",
        "Each by itself",
        "4.3.3.1",
        "CPU threads, and threads that hand batches to the GPU, each group alone",
        ("alone",),
        read_alone,
    ),
    _figure(
        "4.13",
        "Approach 1",
        "4.3.3.1",
        "both groups at a time, on one table",
        ("alone", "approach1"),
        read_approach_1,
    ),
    _figure(
        "4.14", "Waits", "4.3.3.2", "time that a thread waits for the GPU", ("alone",), read_waits
    ),
    _figure(
        "4.15",
        "Approach 2",
        "4.3.3.2",
        "lookups by threads that wait for the GPU, on one table",
        ("approach1", "approach2"),
        read_approach_2,
    ),
    _figure(
        "4.16",
        "Two copies",
        "4.3.3.4",
        "approaches 1 and 2 with a copy of the table for each side",
        ("alone", "approach1", "approach2"),
        read_twice,
    ),
    _figure(
        "4.19",
        "Hot data",
        "4.3.3.4",
        "CPU threads on hot data of some size, the GPU on the rest",
        ("hot-set",),
        read_hot_set,
    ),
    _figure(
        "4.20", "Prefetching", "4.3.4", "lookups by prefetch distance", ("prefetch",), read_prefetch
    ),
    _figure(
        "4.21",
        "Approach 2 with prefetching",
        "4.3.4",
        "approach 2 with two copies, by batch size",
        ("ahead",),
        read_ahead,
    ),
    _figure(
        "split",
        "Batches that both answer",
        "4.3.3",
        "gets by CPU, by GPU, and by both, each a part by measured rates",
        ("split",),
        read_split,
    ),
)
