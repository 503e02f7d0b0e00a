#!/usr/bin/env bash
# Runs the small GPU suite under compute-sanitizer: memcheck, then racecheck. Any report is a failure.
#   scripts/check_gpu_memory.sh [memcheck|racecheck]     default: both
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || {
  echo "no compute-sanitizer: it comes with the CUDA toolkit (.venv/bin/pip install 'cuda-toolkit[sanitizer]==13.0.*')" >&2
  exit 1
}

# Frameworks bring kernels of their own, which are slow here and not ours to check.
readonly small='host_arrays or read_one_pool or varying_lengths or grows'
[ $# -gt 0 ] || set -- memcheck racecheck
for tool in "$@"; do
  echo "== $tool"
  # The library asks the driver what it can do, so API errors that it handles are no faults.
  "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no --target-processes all \
    .venv/bin/python -m pytest -q -p no:cacheprovider python/tests/test_gpu.py -k "$small"
done
