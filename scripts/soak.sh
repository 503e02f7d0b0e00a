#!/usr/bin/env bash
# Kills a loading store KILLS times (docs/soak.md): in all layouts, of both durabilities and with
# Dash's indexes, with forks, failing allocations and failing disks among them; where there is a
# GPU, a tenth as often again with the store on it, and as many times a kernel that aborts itself.
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
# soak PERCENT ARGUMENTS: so many of the kills.
soak() {
  local some=$((kills * $1 / 100))
  shift
  [ "$some" -eq 0 ] || "$program" --seed "$seed" --kills "$some" "$@"
}
soak 20 --durability process
soak 10 --durability power
soak 25 --durability process --with forks,allocations
soak 15 --durability power --with forks,allocations
soak 20 --durability power --with disk,forks
soak 5 --index dash-eh --with forks,allocations
soak 5 --index dash-lh --with forks,allocations
# Exit status 77: no GPU, or no CUDA in this build; the program has said which.
"$program" --seed "$seed" --kills $((kills / 10)) --traps $((kills / 10)) --device cuda || [ $? -eq 77 ]
