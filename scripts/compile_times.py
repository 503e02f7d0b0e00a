"""What a build folder's compile time went to: ninja's log, summed by target, and the longest
objects.

    scripts/compile_times.py [BUILD] [--top N]     default build/release

Seconds are those that each compiler ran, side by side with others; a compiler cache that had the
object makes them small.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path


def read_log(log: Path) -> dict[str, float]:
    """Seconds of each output's latest build."""
    seconds = {}
    for line in log.read_text().splitlines():
        if line.startswith("#"):
            continue
        begin, end, _, output, _ = line.split("\t")
        seconds[output] = (int(end) - int(begin)) / 1000
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description="What a build folder's compile time went to.")
    parser.add_argument("build", nargs="?", type=Path, default=Path("build/release"))
    parser.add_argument("--top", type=int, default=20, help="so many of the longest objects")
    options = parser.parse_args()
    log = options.build / ".ninja_log"
    if not log.is_file():
        print(
            f"{log} is not there: build with ninja first, or name another build folder",
            file=sys.stderr,
        )
        return 2
    seconds = read_log(log)
    objects = {name: value for name, value in seconds.items() if name.endswith((".o", ".gch"))}
    by_target: Counter[str] = Counter()
    for name, value in objects.items():
        by_target[name.split("/CMakeFiles/")[0]] += value
    print(f"{sum(objects.values()):8.1f} s  {len(objects)} objects")
    print(f"{sum(seconds.values()) - sum(objects.values()):8.1f} s  linking and the rest")
    for target, value in by_target.most_common():
        print(f"{value:8.1f} s  {target}")
    print("longest:")
    for name, value in sorted(objects.items(), key=lambda item: -item[1])[: options.top]:
        print(f"{value:8.1f} s  {name.replace('CMakeFiles/', '')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
