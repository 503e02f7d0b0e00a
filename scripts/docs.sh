#!/usr/bin/env bash
# Builds the documentation's site into build/docs/html, in which a warning is an error.
#
#   scripts/docs.sh
#
# It needs no compiler: Doxygen reads the headers, and the stub of the extension module stands in for
# it. What is missing is installed: Doxygen by apt, the packages of requirements/docs.txt into
# .venv-docs (PYTHON, default python3, makes it). PERDURE_OFFLINE=1 installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly venv=.venv-docs
readonly site=build/docs
readonly log=$site/setup.log
readonly python=${PYTHON:-python3}
readonly offline=${PERDURE_OFFLINE:-0}

fail() {
  printf 'docs: %s\n' "$*" >&2
  exit 1
}
quietly() {
  "$@" >>"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    fail "'$*' (whole log: $log)"
  }
}

install_doxygen() {
  ! command -v doxygen >/dev/null || return 0
  [ "$offline" = 0 ] || fail "no doxygen, and PERDURE_OFFLINE=1 installs nothing"
  command -v apt-get >/dev/null || fail "no doxygen and no apt-get here: install Doxygen 1.9 or later"
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      fail "neither root nor sudo: ask an administrator for 'apt-get install doxygen', then try again"
    sudo=(sudo)
  fi
  quietly "${sudo[@]}" apt-get -q update
  quietly "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends doxygen
}

# A stamp holds what the venv was made of, so that a second run need not look.
install_python_packages() {
  local now
  now=$(cat requirements/docs.txt; "$python" -c 'import sys; print(sys.version, sys.prefix)'; pwd)
  if [ "$(cat $venv/.perdure-docs 2>/dev/null)" = "$now" ]; then return; fi
  [ "$offline" = 0 ] || fail "no $venv of these requirements, and PERDURE_OFFLINE=1 installs nothing"
  quietly "$python" -m venv --clear $venv
  quietly $venv/bin/python -m pip install -q --disable-pip-version-check --no-input -r requirements/docs.txt
  printf '%s\n' "$now" >$venv/.perdure-docs
}

mkdir -p $site
install_doxygen
install_python_packages
rm -rf $site/doxygen $site/html
doxygen docs/Doxyfile >$site/doxygen.log 2>&1 || { cat $site/doxygen.log >&2; fail "doxygen"; }
if grep -i 'warning\|error' $site/doxygen.log >&2; then fail "Doxygen warns"; fi
# Pages that did not change are read again: a warning is printed only when its page is read.
$venv/bin/python -m sphinx -E -q -W --keep-going -b html -d $site/doctrees docs $site/html
echo "docs: $site/html/index.html"
