#!/usr/bin/env bash
# Checks the layout of C++ (clang-format) and of Python (ruff, with its lint rules); --fix applies
# it.
set -uo pipefail
cd "$(dirname "$0")/.."

cpp() { git ls-files -z --cached --others --exclude-standard -- '*.c' '*.h' '*.hpp' '*.cuh' '*.cpp' '*.cu'; }
faults=0
case ${1:-} in
  --fix)
    cpp | xargs -0 .venv/bin/clang-format -i || faults=1
    .venv/bin/ruff check --fix . || faults=1
    .venv/bin/ruff format . || faults=1
    ;;
  cpp) cpp | xargs -0 .venv/bin/clang-format --dry-run -Werror || faults=1 ;;
  lint) .venv/bin/ruff check . || faults=1 ;;
  python) .venv/bin/ruff format --check . || faults=1 ;;
  *)
    echo "usage: scripts/format.sh --fix | cpp | lint | python" >&2
    exit 2
    ;;
esac
exit $faults
