#!/usr/bin/env bash
# Builds for the GPU of this machine and runs what only a GPU can show: every workload checked, both
# layouts, device and host arrays. For developers; 'make test-gpu' is the user's way.
set -euo pipefail
records=${1:-4000000}
build=${BUILD:-build/gpu}
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPERDURE_CUDA=ON -DPERDURE_PYTHON=OFF -DPERDURE_BENCH=ON \
  -DPERDURE_BENCH_ROCKSDB=OFF -DPERDURE_TESTS="${TESTS:-OFF}" -DCMAKE_CUDA_ARCHITECTURES=90-real >"$build.cmake.log" 2>&1 || { tail -20 "$build.cmake.log"; exit 1; }
cmake --build "$build" >"$build.log" 2>&1 || { grep -E 'error|warning' -A3 "$build.log" | head -40; exit 1; }
for layout in word in_place; do
  for workload in load c a; do
    echo "== $layout $workload"
    "$build/bench/perdure-bench" ycsb --workload $workload --records "$records" --ops "$records" --batch 65536 --layout $layout \
      --device cuda --repeats 3 --no-count-accesses
  done
done
