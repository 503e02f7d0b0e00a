"""Where Q1's time goes, from benchmark.py's JSON (the thesis's Figure 4.23).

python examples/tpch_q1/figure.py JSON PNG
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

STAGES = {"read": "#8c8c8c", "filter": "#4c78a8", "aggregate": "#f58518", "merge": "#54a24b"}
WHOLE = "#b8b8d8"


def stages(one: dict[str, Any]) -> dict[str, float]:
    """Milliseconds. Filter and aggregation are one pass: the filter's part is what a pass that only
    filters takes."""
    filtered = min(one["filter_s"], one["query_s"])
    merge = one["merge_s"]
    return {
        "read": 1000 * (one["read_s"] + one["prepare_s"]),
        "filter": 1000 * filtered,
        "aggregate": 1000 * max(0.0, one["query_s"] - filtered - merge),
        "merge": 1000 * merge,
    }


def draw(report: dict[str, Any], png: Path) -> None:
    ran = {name: one for name, one in report["systems"].items() if "query_s" in one}
    setting = report["setting"]
    figure, (queries, reads) = plt.subplots(
        1, 2, sharey=True, figsize=(11, 1.6 + 0.4 * len(ran)), width_ratios=(3, 1)
    )
    for row, (name, one) in enumerate(ran.items()):
        left = 0.0
        parts = stages(one) if "filter_s" in one else {"whole": 1000 * one["query_s"]}
        for stage, width in parts.items():
            if stage == "read":
                reads.barh(row, width, color=STAGES[stage])
                continue
            queries.barh(row, width, left=left, color=STAGES.get(stage, WHOLE))
            left += width
        queries.text(left, row, f" {left:.1f} ms", va="center")
        print(f"{name}: {', '.join(f'{stage} {ms:.2f}' for stage, ms in parts.items())} ms")
    queries.set_yticks(range(len(ran)), list(ran))
    queries.invert_yaxis()
    queries.margins(x=0.12)
    queries.set_xlabel("milliseconds a query")
    reads.set_xlabel("ms, once: out of the pool")
    handles = [plt.Rectangle((0, 0), 1, 1, color=STAGES[stage]) for stage in list(STAGES)[1:]]
    handles.append(plt.Rectangle((0, 0), 1, 1, color=WHOLE))
    queries.legend(handles, [*list(STAGES)[1:], "not told apart"], frameon=False)
    gpu = next((one["gpu"] for one in ran.values() if one.get("gpu")), "no GPU")
    figure.suptitle(
        f"TPC-H Q1, scale factor {setting['scale']:g}, {setting['threads']} threads, {gpu}"
    )
    figure.tight_layout()
    figure.savefig(png, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
