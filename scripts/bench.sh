#!/usr/bin/env bash
# Measures the figures of docs/benchmarks.md on this machine and leaves them as JSON in
# build/figures.
#   scripts/bench.sh [RECORDS]     default 16000000, which needs about 8 GB of /dev/shm with RocksDB
set -euo pipefail
cd "$(dirname "$0")/.."

records=${1:-16000000}
figures=build/figures
device=cpu
! nvidia-smi -L >/dev/null 2>&1 || device=cpu,cuda
mkdir -p "$figures"

bench() {
  local name=$1
  shift
  printf '\n== %s\n' "$*"
  rm -f "$figures/$name.json"
  .venv/bin/perdure bench "$@" --json "$figures/$name.json"
}

git log -1 --format='commit %h of %cs' || true
bench load-factor load-factor --top-levels 14..18
bench accesses accesses
for workload in load c a b d f; do
  bench "ycsb-$workload" ycsb --workload "$workload" --records "$records" --device "$device"
done
bench ycsb-e ycsb --workload e --index btree --records "$records"
bench reopen reopen --records "$records"
bench durability durability --log-dir "$figures/durability-log"

# A Release build of RocksDB comes from Maven Central, the distribution's from apt.
if baselines/rocksdb/fetch.sh >/dev/null; then
  cmake -S . -B build/release >/dev/null  # looks for it again
fi
cmake --build build/release --target perdure-bench-rocksdb
printf '\n== beside RocksDB\n'
rm -f "$figures/rocksdb.json"
build/release/bench/perdure-bench-rocksdb --records "$records" --json "$figures/rocksdb.json"

# A Release build with the distribution's ABI takes a core half an hour, once.
printf '\n== perdure::rocks beside RocksDB\n'
baselines/rocksdb/release.sh >/dev/null
cmake --build build/release --target perdure-bench-rocks
rm -f "$figures/rocks.json"
LD_LIBRARY_PATH=$PWD/build/rocksdb-release build/release/bench/rocks/perdure-bench-rocks \
  --records $((records / 16)) --json "$figures/rocks.json"
printf '\nfigures: %s\n' "$figures"
