#!/usr/bin/env bash
# For developers at a GPU machine without registries: builds there, checks every workload's answers in
# both layouts with device and host arrays, then the small suite under compute-sanitizer, and prints a
# table. 'make test-gpu' is the user's way.   tools/gpu_check.sh [RECORDS] [RECORDS UNDER THE SANITIZER]
set -euo pipefail
records=${1:-64000000}
small=${2:-20000}
build=${BUILD:-build/gpu}
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPERDURE_CUDA=ON -DPERDURE_PYTHON=OFF -DPERDURE_BENCH=ON \
  -DPERDURE_BENCH_ROCKSDB=OFF -DPERDURE_TESTS=OFF -DCMAKE_CUDA_ARCHITECTURES=90-real >"$build/cmake.log" 2>&1 ||
  { tail -20 "$build/cmake.log"; exit 1; }
cmake --build "$build" >"$build/build.log" 2>&1 || { grep -E 'error|warning' -A3 "$build/build.log" | head -40; exit 1; }
bench=$build/bench/perdure-bench
for layout in word in_place; do
  for tool in memcheck racecheck; do
    for workload in load f; do
      echo "== $tool, $layout, $workload"
      compute-sanitizer --tool $tool --error-exitcode 9 --report-api-errors no "$bench" ycsb --workload $workload --device cuda \
        --records "$small" --expected-records 1000 --ops "$small" --batch 4096 --layout $layout --repeats 1 --no-count-accesses \
        2>&1 | grep -E 'wrong|SUMMARY|FAULT'
    done
  done
  for workload in load c a; do
    echo "== $layout, $workload, $records records"
    "$bench" ycsb --workload $workload --device cuda --records "$records" --ops $((records / 4)) --batch 1048576 --layout $layout \
      --repeats 3 --no-count-accesses
  done
done
