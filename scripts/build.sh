#!/usr/bin/env bash
# Builds the release tree in build/release and installs the Python package from it into .venv, so
# that .venv/bin/perdure runs the sources as they stand. Only what changed is built again.
#   scripts/build.sh [NAME=VALUE ...]     further CMake options, for example PERDURE_TESTS=ON
set -euo pipefail
cd "$(dirname "$0")/.."

defines=(--config-settings "cmake.define.PERDURE_CUDA=${PERDURE_CUDA:-AUTO}")
# A tree that tests were run in has these quickly compiled (scripts/test.py).
case " $* " in *" PERDURE_UNMEASURED="*) ;; *) set -- "$@" PERDURE_UNMEASURED=OFF ;; esac
# The operators for PyTorch: .venv has none itself.
for torch in "$PWD"/.venv-frameworks/lib/python3*/site-packages/torch; do
  [ ! -d "$torch" ] || set -- PERDURE_TORCH="$torch" "$@"
done
for define in PERDURE_TOGETHER=ON "$@"; do
  defines+=(--config-settings "cmake.define.$define")
done
mkdir -p build
log=build/build.log
echo "build: release tree in build/release (log: $log)"
.venv/bin/python -m pip install -v --disable-pip-version-check --no-build-isolation --no-deps -e . \
  --config-settings build-dir=build/release "${defines[@]}" >"$log" 2>&1 || {
  tail -n 40 "$log" >&2
  echo "build failed; whole log: $log" >&2
  exit 1
}
grep -oE 'CUDA: (on|off) .*' "$log" | sed 's/^/build: /'
