#!/usr/bin/env bash
# Compares perdure::rocks with plain RocksDB, OPERATIONS of them, a seed for each hundred thousand;
# then kills a process that writes through it KILLS times with each durability, and judges what comes
# back.
#   scripts/rocks.sh [OPERATIONS [KILLS [SEED]]]     default 10000000 200 1
set -euo pipefail
cd "$(dirname "$0")/.."

operations=${1:-10000000}
kills=${2:-200}
seed=${3:-1}
mkdir -p build
cmake -G Ninja -S . -B build/rocks -DPERDURE_CUDA=OFF -DPERDURE_BENCH=OFF -DPERDURE_TESTS=ON \
  -DPERDURE_PYTHON=OFF -DPERDURE_ROCKS=ON -DCMAKE_BUILD_TYPE=Release >build/rocks-configure.log || {
  tail -n 30 build/rocks-configure.log >&2
  exit 1
}
cmake --build build/rocks --target perdure_rocks_fuzz perdure_rocks_kills
[ "$operations" -eq 0 ] || build/rocks/tests/rocks/fuzz/perdure_rocks_fuzz --seed "$seed" --operations "$operations"
[ "$kills" -eq 0 ] || for open in perdure power; do
  build/rocks/tests/rocks/kills/perdure_rocks_kills --open "$open" --seed "$seed" --kills "$kills"
done
