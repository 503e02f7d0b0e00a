#!/usr/bin/env bash
# Sets the redo log beside fio on the same file, with the same block size, depth and sync, by turns
# in the same run, and prints medians and ratios (goal: 0.80 of fio, for writing and for replay).
#   scripts/bench_log.sh FILE [BYTES] [ROUNDS]     defaults: 1073741824 bytes, 5 rounds
# PERDURE_BENCH names the program (default build/release/bench/perdure-bench). FILE must not exist.
set -euo pipefail
cd "$(dirname "$0")/.."

file=${1:?usage: scripts/bench_log.sh FILE [BYTES] [ROUNDS]}
bytes=${2:-1073741824}
rounds=${3:-5}
program=${PERDURE_BENCH:-build/release/bench/perdure-bench}
readonly group=262144 depth=8
command -v fio >/dev/null || { echo "bench-log: no fio here: run 'apt-get install fio'" >&2; exit 2; }
[ -x "$program" ] || { echo "bench-log: $program is not built: run 'make build', or name it in PERDURE_BENCH" >&2; exit 2; }
[ ! -e "$file" ] || { echo "bench-log: $file exists already, and would be written over: name another" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$file"' EXIT

# fio NAME ARGUMENTS...
run_fio() {
  local name=$1
  shift
  fio --name="$name" --filename="$file" --size="$bytes" --ioengine=io_uring --direct=1 --fixedbufs --overwrite=1 \
    --time_based --runtime=2 --output-format=json --output="$scratch/$name" "$@" >/dev/null
}

for round in $(seq "$rounds"); do
  rm -f "$file"
  "$program" log --file "$file" --bytes "$bytes" --seconds 2 --depth $depth --group-bytes $group --batch 1,4096 --keep \
    --json "$scratch/log-$round" >/dev/null
  run_fio "stream-$round" --rw=write --sync=dsync --bs=$group --iodepth=$depth
  run_fio "wait-$round" --rw=write --sync=dsync --bs=4096 --iodepth=1
  run_fio "read-$round" --rw=read --bs=2097152 --iodepth=4
done

python3 - "$scratch" "$rounds" <<'PYTHON'
import json
import os
import statistics
import sys
from pathlib import Path

scratch, rounds = Path(sys.argv[1]), range(1, int(sys.argv[2]) + 1)


def fio(name, side, *path):
    values = []
    for i in rounds:
        value = json.loads((scratch / f"{name}-{i}").read_text())["jobs"][0][side]
        for key in path:
            value = value[key]
        values.append(value)
    return values


def log(size, key):
    return [json.loads((scratch / f"log-{i}").read_text())["sizes"][size][key] for i in rounds]


def line(what, ours, theirs, unit, scale, better):
    a, b = statistics.median(ours) / scale, statistics.median(theirs) / scale
    # Turn by turn, since the disk and its neighbours change from minute to minute.
    ratio = statistics.median(x / y if better == "more" else y / x for x, y in zip(ours, theirs, strict=True))
    spread = f"{min(ours) / scale:.3g}..{max(ours) / scale:.3g} | {min(theirs) / scale:.3g}..{max(theirs) / scale:.3g}"
    print(f"{what:<34} {a:>9.3f} {b:>9.3f} {unit:<6} {ratio:>6.2f}   {spread}")


method = json.loads((scratch / "log-1").read_text())["sizes"][0]["method"]
print(f"{method}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of {len(rounds)} rounds")
print(f"{'':<34} {'log':>9} {'fio':>9} {'':<6} {'ratio':>6}   log min..max | fio min..max")
gib = 1 << 30
line("append, 256 KiB x 8, dsync", log(1, "stream_bytes_per_second"), fio("stream", "write", "bw_bytes"), "GiB/s", gib, "more")
line("wait for 4 KiB, median", log(0, "latency_p50_us"), [ns / 1e3 for ns in fio("wait", "write", "clat_ns", "percentile", "50.000000")], "us", 1, "less")
line("wait for 4 KiB, p99", log(0, "latency_p99_us"), [ns / 1e3 for ns in fio("wait", "write", "clat_ns", "percentile", "99.000000")], "us", 1, "less")
line("replay against reading", log(1, "replay_bytes_per_second"), fio("read", "read", "bw_bytes"), "GiB/s", gib, "more")
print(f"replay decodes {statistics.median(log(1, 'replay_operations_per_second')) / 1e6:.1f} M op/s on one core (8 B keys, 128 B values)")
PYTHON
