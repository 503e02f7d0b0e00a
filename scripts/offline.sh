#!/usr/bin/env bash
# Building on a machine that reaches no registry, such as a rented GPU box.
#
#   scripts/offline.sh pack [VERSION]   here: gather Debian packages and wheels for Python VERSION
#                                       (default: this one's) into .offline/
#   scripts/offline.sh unpack           there: unpack them into .deps and .venv; `make` does so
#                                       where PERDURE_OFFLINE=1. The venv also sees the packages of
#                                       the Python it is made with, so those need not be packed.
#
# PERDURE_PACK_SKIP names Python packages to leave out ("matplotlib ruff"). There, needs: python3,
# g++, make, cmake, ninja, and nvcc for GPU code.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly packages=(libhwy-dev libhwy1 libisal-dev libisal2 liburing-dev liburing2 libgtest-dev libgmock-dev librapidcheck-dev libcli11-dev
  nlohmann-json3-dev libspdlog-dev libspdlog1.10 libfmt-dev libfmt9 robin-map-dev libasio-dev libhiredis-dev libhiredis0.14 libssl-dev)
readonly python=${PYTHON:-python3}
readonly skip=" ${PERDURE_PACK_SKIP:-} "

fail() {
  printf 'offline: %s\n' "$*" >&2
  exit 1
}

# The pinned requirements but those to leave out.
wanted_wheels() {
  grep == requirements/dev.txt | while IFS== read -r name rest; do
    case $skip in *" $name "*) ;; *) echo "$name=$rest" ;; esac
  done
}

pack() {
  local version=${1:-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}
  rm -rf .offline
  mkdir -p .offline/debs .offline/wheels
  (cd .offline/debs && apt-get -q download "${packages[@]}")
  # pip matches manylinux tags one by one, so name every glibc since 2.17.
  local platforms=(--platform manylinux1_x86_64 --platform manylinux2014_x86_64) minor
  for minor in $(seq 17 39); do
    platforms+=(--platform "manylinux_2_${minor}_x86_64")
  done
  wanted_wheels >.offline/requirements.txt
  "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
    --python-version "$version" "${platforms[@]}" -d .offline/wheels -r .offline/requirements.txt
  shrink .offline/wheels
  du -sh .offline
}

# Wheels compress each file by itself; stored, and compressed as one, they take half the room.
shrink() {
  "$python" - "$1" <<'PYTHON'
import sys
import zipfile
from pathlib import Path

for wheel in Path(sys.argv[1]).glob("*.whl"):
    with zipfile.ZipFile(wheel) as packed:
        members = [(info, packed.read(info)) for info in packed.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as stored:
        for info, data in members:
            info.compress_type = zipfile.ZIP_STORED
            stored.writestr(info, data)
PYTHON
  XZ_OPT=-T0 tar -C "$1" -cJf "$1.tar.xz" .
  rm -r "$1"
}

unpack() {
  [ -f .offline/wheels.tar.xz ] || fail "no .offline here: run 'scripts/offline.sh pack' on a machine that reaches the registries, and bring it along"
  local deb
  mkdir -p .deps .offline/wheels
  tar -C .offline/wheels -xJf .offline/wheels.tar.xz
  for deb in .offline/debs/*.deb; do
    dpkg -x "$deb" .deps
  done
  [ -x .venv/bin/python ] || "$python" -m venv --without-pip .venv
  # A venv made from another venv's Python would not see that one's packages.
  local own
  own=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$own/parent.pth"
  "$python" -m pip --python .venv/bin/python install -q --no-index --no-deps --find-links .offline/wheels \
    -r .offline/requirements.txt
  echo "offline: $(ls .offline/debs | wc -l) Debian packages in .deps, $(wc -l <.offline/requirements.txt) Python packages in .venv"
}

case ${1:-} in
  pack) pack "${@:2}" ;;
  unpack) unpack ;;
  *)
    echo "usage: scripts/offline.sh pack [VERSION] | unpack" >&2
    exit 2
    ;;
esac
