#!/usr/bin/env bash
# Runs small GPU workloads under compute-sanitizer: both layouts with growth through perdure-bench,
# and varying lengths and erasure through the Python tests. Any report is a failure.
#   scripts/check_gpu_memory.sh [memcheck|racecheck ...]     default: both
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || {
  echo "no compute-sanitizer: it comes with the CUDA toolkit (.venv/bin/pip install 'cuda-toolkit[sanitizer]==13.0.*')" >&2
  exit 1
}
[ $# -gt 0 ] || set -- memcheck racecheck

# The library asks the driver what it can do, so API errors that it handles are no faults.
sanitized() { "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no --target-processes all "$@"; }

for tool in "$@"; do
  for layout in word in_place; do
    for workload in load f; do
      echo "== $tool, $layout, YCSB $workload"
      sanitized build/release/bench/perdure-bench ycsb --workload "$workload" --device cuda --layout "$layout" \
        --records 20000 --expected-records 1000 --ops 20000 --batch 4096 --repeats 1 --no-count-accesses
    done
  done
  echo "== $tool, Python tests"
  # Frameworks bring kernels of their own, which are slow here and not ours to check.
  sanitized .venv/bin/python -m pytest -q -p no:cacheprovider python/tests/test_gpu.py \
    -k 'host_arrays or read_one_pool or varying_lengths or grows'
done
