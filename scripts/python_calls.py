"""Single calls from Python in microseconds, from call to return, with PyTorch tensors where the
store's device has them; medians, every value checked in the end. Each call's tensors are made
before it is timed, so that none of PyTorch's own indexing is in the time.

    .venv/bin/python scripts/python_calls.py --device cuda --records 4000000 --batches 256,4096

`perdure-bench calls` has the same calls from C++: the difference is the binding's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import perdure
import torch

WARM_UPS = 600  # by then the store has found out how to fetch values of so many keys


def microseconds(call: Callable[[int], object], repeats: int) -> list[float]:
    taken = []
    for number in range(-WARM_UPS, repeats):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        call(number)
        if number >= 0:
            taken.append((time.perf_counter_ns() - begin) / 1000)
    return taken


def measured(store: perdure.Store, count: int, options: argparse.Namespace) -> None:
    """A put and a get of so many keys: others each time."""
    width, calls = options.value_bytes, WARM_UPS + options.repeats
    keys = torch.randint(options.records, (calls, count), device=options.device)
    if options.distinct:
        for row in keys:
            row.copy_(torch.randperm(options.records, device=options.device)[:count])
    values = torch.randint(256, (calls, count, width), dtype=torch.uint8, device=options.device)
    out = torch.zeros(count, width, dtype=torch.uint8, device=options.device)
    some, rows = list(keys), list(values)  # a call's own each
    put = microseconds(lambda number: store.put(some[number], rows[number]), options.repeats)
    get = microseconds(lambda number: store.get(some[number], out=out), options.repeats)
    made = microseconds(lambda number: store.get(some[number]), options.repeats)
    store.put(keys[0], values[0])
    found = store.get(keys[0]).values
    last = {int(key): row for row, key in enumerate(keys[0].tolist())}  # of equal keys
    of_key = torch.tensor([last[int(key)] for key in keys[0].tolist()], device=options.device)
    assert torch.equal(found, values[0][of_key]), "a wrong value"
    for what, taken in ("put", put), ("get, into out", get), ("get", made):
        cuts = statistics.quantiles(taken, n=100)
        print(f"{what:14} of {count:7}  {statistics.median(taken):8.1f} us  p99 {cuts[98]:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--layout", default="word", choices=["word", "log"])
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--value-bytes", type=int, default=128)
    parser.add_argument("--batches", default="256,4096")
    parser.add_argument("--distinct", action="store_true", help="no call has a key twice")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--pool", default="/dev/shm/perdure-python-calls")
    options = parser.parse_args()
    with perdure.create(
        options.pool,
        8,
        options.value_bytes,
        index=perdure.GPHash(layout=options.layout),
        device=options.device,
        expected_records=options.records,
    ) as store:
        try:
            for first in range(0, options.records, 1 << 20):
                keys = torch.arange(
                    first, min(first + (1 << 20), options.records), device=options.device
                )
                rows = torch.zeros(len(keys), options.value_bytes, dtype=torch.uint8)
                store.put(keys, rows.to(options.device))
            print(f"{store.stats().machine}, {options.layout}, {len(store)} records")
            for count in options.batches.split(","):
                measured(store, int(count), options)
        finally:
            Path(options.pool).unlink()


if __name__ == "__main__":
    main()
