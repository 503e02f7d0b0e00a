#!/usr/bin/env bash
# Builds the wheels into dist/, each with the libraries that it needs inside (auditwheel):
#   perdure        CPUs alone
#   perdure-cu13   GPUs too; the CUDA runtime is inside, a driver for CUDA 13 is not
#   libperdure, libperdure-cu13
#                  the C++ library, headers and CMake package, for any Python
# The first two have the module `perdure`, so install one of them. The engine is linked into it: it
# needs neither of the last two, whose C++ interface is another in each version. They come twice: for
# the stable ABI of Python 3.12, which later ones have too, and for Python 3.11, because nanobind's
# stable ABI begins with 3.12. A Python that is not here is left out, and said. A wheel runs where
# glibc and libstdc++ are as new as here: its platform tag says how new. RocksDB, which brings six
# libraries more, stays out, and with it perdure.rocks: that needs a build of one's own. The
# operators for PyTorch are inside where there is a PyTorch to build them with, of which nothing is
# in the wheel; without one that is said, and perdure.torch does without them.
#
#   scripts/wheels.sh [cpu] [cu13] [lib] [lib-cu13]     cpu and cu13 unless named
#
# Environment: PYTHON311 and PYTHON312 name the Pythons, else they are looked for in PATH and in
# pyenv's folder. PERDURE_TORCH names the folder of a torch package, else that of .venv-frameworks
# serves. CUDACXX names an nvcc of at least 13.0, else that of .venv (PERDURE_CUDA=ON
# scripts/setup.sh) or of PATH serves.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly logs=$PWD/build/wheels
mkdir -p "$logs" dist

fail() {
  printf 'wheels: %s\n' "$*" >&2
  exit 1
}
# Runs a command with its output in a log, the end of which is shown when it fails.
quietly() {
  local log=$logs/$1.log
  shift
  "$@" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail "'$*' (whole log: $log)"
  }
}

# The path of Python $1 (3.11, 3.12), or nothing. A shim of pyenv may be in PATH and not run.
find_python() {
  local named=PYTHON${1/./} python
  for python in "${!named:-}" "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    "$python" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null && echo "$python" && return
  done
  return 1
}

# A venv of Python $2 with requirements/wheels.txt, made anew when either changed.
build_venv() {
  local venv=build/wheels/venv-$1 now
  now="$("$2" -c 'import sys; print(sys.version, sys.prefix)') $(sha256sum <requirements/wheels.txt)"
  [ "$(cat "$venv/.perdure" 2>/dev/null)" = "$now" ] && return
  quietly "venv-$1" "$2" -m venv --clear "$venv"
  quietly "venv-$1" "$venv/bin/python" -m pip install --disable-pip-version-check --no-input -r requirements/wheels.txt
  printf '%s\n' "$now" >"$venv/.perdure"
}

find_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" .venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
    [ -x "$nvcc" ] && "$nvcc" --version 2>/dev/null | grep -qE 'release 1[3-9]\.' && realpath "$nvcc" && return
  done
  return 1
}

# The folder of a torch package, or OFF.
find_torch() {
  local torch
  for torch in "${PERDURE_TORCH:-}" "$PWD"/.venv-frameworks/lib/python3*/site-packages/torch; do
    [ -f "$torch/include/torch/csrc/stable/library.h" ] && realpath "$torch" && return
  done
  echo OFF
}

# A package's name is fixed in its pyproject.toml, so those for CUDA are built from a copy that has
# other ones.
cu13_sources() {
  local project
  local copy=build/wheels/cu13
  find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} + 2>/dev/null || true
  mkdir -p "$copy"
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
  for project in pyproject.toml packaging/libperdure/pyproject.toml; do
    sed -Ei '0,/^name = "((lib)?perdure)"$/s//name = "\1-cu13"/' "$copy/$project"
    grep -qE '^name = "(lib)?perdure-cu13"$' "$copy/$project" || fail "$project no longer has name = \"perdure\""
  done
}

# Builds variant $1 from sources $2 for Python $3, with further pip options.
build_wheel() {
  local variant=$1 sources=$2 version=$3 venv=$PWD/build/wheels/venv-$3
  shift 3
  local raw=$logs/raw-$variant-$version root='' serve=ON torch=$torch
  # From its folder, packaging/libperdure. A static perdure::serve would need its user's OpenSSL.
  [ "$variant" = "${variant#lib}" ] || { root=../../ && serve=OFF && torch=OFF; }
  rm -rf "$raw"
  echo "wheels: $variant for Python $version (log: $logs/$variant-$version.log)"
  # Paths and names that pip, CMake and auditwheel find are those of the venv.
  PATH=$venv/bin:$PATH quietly "$variant-$version" "$venv/bin/python" -m pip wheel -v --disable-pip-version-check --no-build-isolation \
    --no-deps -w "$raw" --config-settings build-dir="${root}build/wheel-$variant" --config-settings cmake.define.PERDURE_ROCKS=OFF --config-settings cmake.define.PERDURE_SERVE="$serve" \
    --config-settings cmake.define.PERDURE_TORCH="$torch" \
    "$@" "$sources"
  PATH=$venv/bin:$PATH quietly "$variant-$version-repair" "$venv/bin/python" -m auditwheel repair --exclude 'libtorch*.so' -w dist "$raw"/*.whl
}

variants=("$@")
[ $# -gt 0 ] || variants=(cpu cu13)
versions=()
for version in 3.11 3.12; do
  if python=$(find_python "$version"); then
    build_venv "$version" "$python"
    versions+=("$version")
  else
    echo "wheels: no Python $version here, so no wheel for it"
  fi
done
[ ${#versions[@]} -gt 0 ] || fail "neither Python 3.11 nor 3.12 is here: name one in PYTHON311 or PYTHON312"

torch=$(find_torch)
[ "$torch" != OFF ] || echo "wheels: no PyTorch here (.venv-frameworks, PERDURE_TORCH), so no operators for it in the wheels"
for variant in "${variants[@]}"; do
  case $variant in
    cpu) rm -f dist/perdure-*.whl ;;
    lib) rm -f dist/libperdure-*.whl ;;
    cu13 | lib-cu13)
      nvcc=$(find_nvcc) || fail "a wheel for CUDA needs an nvcc of at least 13.0: PERDURE_CUDA=ON scripts/setup.sh brings one"
      [ "$variant" = cu13 ] && rm -f dist/perdure_cu13-*.whl || rm -f dist/libperdure_cu13-*.whl
      cu13_sources
      ;;
    *) fail "no wheel '$variant': name cpu, cu13, lib or lib-cu13" ;;
  esac
  for version in "${versions[@]}"; do
    case $variant in
      # Nothing of Python is in these: one is for all.
      lib) build_wheel lib packaging/libperdure "$version" --config-settings cmake.define.PERDURE_CUDA=OFF && break ;;
      lib-cu13) build_wheel lib-cu13 build/wheels/cu13/packaging/libperdure "$version" --config-settings cmake.define.PERDURE_CUDA=ON \
        --config-settings cmake.define.CMAKE_CUDA_COMPILER="$nvcc" \
        --config-settings "cmake.define.CMAKE_CUDA_ARCHITECTURES=80-virtual;90-real" && break ;;
      cpu) build_wheel cpu . "$version" --config-settings cmake.define.PERDURE_CUDA=OFF ;;
      # Hopper's own code, and PTX that Ampere and all later GPUs compile when they load it.
      cu13) build_wheel cu13 build/wheels/cu13 "$version" --config-settings cmake.define.PERDURE_CUDA=ON \
        --config-settings cmake.define.CMAKE_CUDA_COMPILER="$nvcc" \
        --config-settings "cmake.define.CMAKE_CUDA_ARCHITECTURES=80-virtual;90-real" ;;
    esac
  done
done
ls -l dist/*.whl
