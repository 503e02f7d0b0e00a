#!/usr/bin/env bash
# Kills a loading store KILLS times (docs/soak.md), half of them with durability power, in both layouts; where
# there is a GPU, a tenth as often again with the store on it, and as many times a kernel that aborts itself.
#   scripts/soak.sh [KILLS [SEED]]     default 1000 1
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-1000}
seed=${2:-1}
cuda=OFF
if nvidia-smi -L >/dev/null 2>&1; then cuda=${PERDURE_CUDA:-AUTO}; fi
mkdir -p build
cmake -G Ninja -S . -B build/soak -DPERDURE_CUDA="$cuda" -DPERDURE_BENCH=OFF -DPERDURE_TESTS=ON \
  -DPERDURE_PYTHON=OFF -DCMAKE_BUILD_TYPE=Release >build/soak-configure.log || {
  tail -n 30 build/soak-configure.log >&2
  exit 1
}
cmake --build build/soak --target perdure_soak
program=build/soak/tests/soak/perdure_soak
"$program" --seed "$seed" --kills $((kills - kills / 2)) --durability process
"$program" --seed "$seed" --kills $((kills / 2)) --durability power
# Exit status 77: no GPU, or no CUDA in this build; the program has said which.
"$program" --seed "$seed" --kills $((kills / 10)) --traps $((kills / 10)) --device cuda || [ $? -eq 77 ]
