#!/usr/bin/env bash
# Makes and tries the packages that are no Python wheels of `perdure` (scripts/check_wheel.sh has
# those): each is installed away from the sources, and tests/package/found is built against it and
# run.
#   scripts/packages.sh [lib] [lib-cu13] [sdist] [vcpkg] [conan]     all but lib-cu13 unless named
#
#   lib, lib-cu13   the wheels libperdure and libperdure-cu13 in a clean venv
#   sdist           the source package: that it is whole, builds nothing by itself, and names no more
#                   than it needs
#   vcpkg           the port: vcpkg itself where VCPKG_ROOT names it, else its portfile run by CMake
#                   with stand-ins for vcpkg's functions, and vcpkg.json looked at
#   conan           `conan create` with the distribution's libraries
set -euo pipefail
cd "$(dirname "$0")/.."

kinds=("$@")
[ $# -gt 0 ] || kinds=(lib sdist vcpkg conan)
mkdir -p build
work=$(mktemp -d -p "$PWD/build" packages.XXXXXX)
pool=$(mktemp -u -p /dev/shm perdure-packages.XXXXXX)
trap 'rm -rf "$work" "$pool"' EXIT
fail() {
  echo "packages: $*" >&2
  exit 1
}
quietly() {
  "$@" >"$work/log" 2>&1 || {
    tail -n 60 "$work/log" >&2
    fail "'$*'"
  }
}

# Builds and runs the user's project against what lies under prefix $1.
use() {
  quietly cmake -G Ninja -S tests/package/found -B "$work/use" --fresh -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$1"
  quietly cmake --build "$work/use"
  "$work/use/found" "$pool"
}

lib() {
  local name=libperdure python
  [ "$1" = lib ] || name=libperdure-cu13
  quietly scripts/wheels.sh "$1"
  local wheel
  wheel=$(ls dist/"${name//-/_}"-*-py3-none-manylinux*.whl) || fail "no wheel of $name"
  ! python3 -m zipfile -l "$wheel" | grep -q 'libcudart' || fail "$wheel has CUDA's runtime inside"
  python3 -m venv --clear "$work/venv"
  quietly "$work/venv/bin/python" -m pip install -q --disable-pip-version-check --no-input "$wheel"
  local prefix
  prefix=$(cd / && "$work/venv/bin/python" -m libperdure --prefix)
  (cd / && "$work/venv/bin/python" -c 'import libperdure; libperdure.load_library()')
  ldd "$prefix/lib/libperdure.so" | awk '/=> \// {print $3}' | grep -E 'hwy|isal|uring' | grep -v "^$work/" &&
    fail "$name uses the system's libraries"
  use "$prefix"
  echo "packages: $(basename "$wheel"), $(stat -c %s "$wheel") bytes: found, built against, run"
}

sdist() {
  python3 -m venv "$work/sdist-venv"
  quietly "$work/sdist-venv/bin/python" -m pip install -q --disable-pip-version-check build
  quietly "$work/sdist-venv/bin/python" -m build --sdist --outdir "$work/sdist" .
  local archive
  archive=$(ls "$work"/sdist/perdure-*.tar.gz)
  tar -C "$work/sdist" -xzf "$archive"
  local sources=${archive%.tar.gz}
  for path in CMakeLists.txt cmake/options.cmake src/store/store.cpp include/perdure/store.h python/perdure/__init__.py \
    python/share/man/man1/perdure.1 LICENSE NOTICE; do
    [ -e "$sources/$path" ] || fail "the source package lacks $path"
  done
  for path in tests docs data build; do
    [ ! -e "$sources/$path" ] || fail "the source package has $path"
  done
  # It is a tree that CMake takes.
  quietly cmake -G Ninja -S "$sources" -B "$work/sdist-build" -DPERDURE_CUDA=OFF -DPERDURE_TESTS=OFF -DPERDURE_BENCH=OFF \
    -DPERDURE_EXAMPLES=OFF -DPERDURE_ROCKS=OFF -DPERDURE_SERVE=OFF
  echo "packages: $(basename "$archive"), $(stat -c %s "$archive") bytes: whole, and CMake takes it"
}

vcpkg() {
  python3 - <<'PYTHON'
import json
import re
from pathlib import Path

port = json.loads(Path("packaging/vcpkg/perdure/vcpkg.json").read_text())
version = re.search(r"project\(PERDURE VERSION ([0-9.]+)", Path("CMakeLists.txt").read_text())[1]
assert port["version"] == version, f"vcpkg.json says version {port['version']}, CMakeLists.txt {version}"
assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", port["name"])
for one in port["dependencies"]:
    assert isinstance(one, str) or {"name"} <= one.keys() <= {"name", "features", "host"}, one
PYTHON
  if [ -n "${VCPKG_ROOT:-}" ]; then
    quietly "$VCPKG_ROOT/vcpkg" install perdure --overlay-ports=packaging/vcpkg --x-install-root="$work/vcpkg"
    use "$work/vcpkg/x64-linux"
    echo "packages: vcpkg installed the port; built against, run"
    return
  fi
  quietly cmake -DWORK="$work/vcpkg" -P packaging/vcpkg/run_portfile.cmake
  use "$work/vcpkg/packages"
  echo "packages: the portfile ran with stand-ins for vcpkg, which is not here (VCPKG_ROOT); built against, run"
}

conan() {
  python3 -m venv "$work/conan-venv"
  quietly "$work/conan-venv/bin/python" -m pip install -q --disable-pip-version-check conan
  export CONAN_HOME=$work/conan
  quietly "$work/conan-venv/bin/conan" profile detect
  quietly "$work/conan-venv/bin/conan" create packaging/conan -o "&:system_deps=True" -s compiler.cppstd=20
  grep -qE '^perdure [0-9.]+$' "$work/log" || fail "conan did not run the package's test"
  echo "packages: conan made the package; built against, run"
}

for kind in "${kinds[@]}"; do
  case $kind in
    lib | lib-cu13) lib "$kind" ;;
    sdist | vcpkg | conan) "$kind" ;;
    *) fail "no package '$kind': name lib, lib-cu13, sdist, vcpkg or conan" ;;
  esac
done
