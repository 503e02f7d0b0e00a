#!/usr/bin/env bash
# Measures what docs/benchmarks/rocks.md says of perdure::rocks beside RocksDB's Release build, on a
# GPU where there is one; the table of all figures with their targets comes last. Runs stay as JSON
# in build/figures-rocks.
#   scripts/bench_rocks.sh [PART ...]     put get update range transactions ycsb sustained get-half
#                                         get-hot sizes values device memtables rates single
#                                         reopen; default: all
# RECORDS (40000000), LARGE (100000000: YCSB and GET from the LSM tree), SECONDS_EACH (10),
# REPEATS (3) and DEVICE (automatic) change how much. PERDURE_BENCH_ROCKS names a
# perdure-bench-rocks that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
[ $# -gt 0 ] || parts=(put get update range transactions ycsb sustained get-half get-hot sizes values device memtables rates single reopen)
records=${RECORDS:-40000000} large=${LARGE:-100000000}
figures=build/figures-rocks
release=$PWD/build/rocksdb-release
mkdir -p "$figures"
bench=${PERDURE_BENCH_ROCKS:-}
if [ -z "$bench" ]; then
  tree=build/bench-rocks
  mkdir -p "$tree"
  cmake -G Ninja -S . -B "$tree" -DCMAKE_BUILD_TYPE=Release -DPERDURE_CUDA="${PERDURE_CUDA:-AUTO}" \
    -DCMAKE_CUDA_ARCHITECTURES=native -DPERDURE_ROCKS=ON -DPERDURE_TESTS=OFF -DPERDURE_BENCH=ON -DPERDURE_PYTHON=OFF \
    >"$tree/configure.log" || { tail -n 30 "$tree/configure.log" >&2; exit 1; }
  cmake --build "$tree" --target perdure-bench-rocks >"$tree/build.log" || { tail -n 40 "$tree/build.log" >&2; exit 1; }
  bench=$tree/bench/rocks/perdure-bench-rocks
fi
[ -f "$release/librocksdb.so.7.8" ] || baselines/rocksdb/release.sh

# measure NAME RECORDS OPTION ...: when one fails, the others go on, and the script fails at its end.
failed=()
measure() {
  local name=$1 count=$2
  shift 2
  rm -f "$figures/$name.json"
  LD_LIBRARY_PATH=$release "$bench" --only "$name" --records "$count" --device "${DEVICE:-automatic}" \
    --block-cache-mib 1536 --flushed-mib 2560 --repeats "${REPEATS:-3}" --seconds "${SECONDS_EACH:-10}" --json "$figures/$name.json" "$@" \
    >"$figures/$name.log" 2>&1 || { failed+=("$name"); tail -n 3 "$figures/$name.log" >&2; }
  echo "$name: done after $SECONDS s"
}
for part in "${parts[@]}"; do
  case $part in
    put | get | update | device) measure "$part" "$records" --batch 1000,1000000 ;;
    ycsb | get-half | get-hot) measure "$part" "$large" --batch 1000,1000000 ;;
    sustained) measure "$part" "$records" --batch 100000 ;;
    *) measure "$part" "$records" ;;
  esac
done
python3 scripts/rocks_table.py "$figures"
[ ${#failed[@]} -eq 0 ] || { echo "bench-rocks: failed: ${failed[*]}; see $figures" >&2; exit 1; }
