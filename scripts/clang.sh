#!/usr/bin/env bash
# Prints which clang the fuzz targets are built with, by its number: 19, with which they are tried,
# else the newest of 14 or later. Fails, and says so, where there is none.
#   scripts/clang.sh              of those that are installed, with libFuzzer and the sanitizers
#   scripts/clang.sh --candidate  of those, else of those that apt offers
set -euo pipefail
readonly versions=(19 22 21 20 18 17 16 15 14)

has_installed() {
  local resources
  resources=$("clang++-$1" --print-resource-dir 2>/dev/null) || return 1
  compgen -G "$resources/lib/*/libclang_rt.fuzzer*" >/dev/null
}
is_offered() { apt-cache show "clang-$1" "libclang-rt-$1-dev" >/dev/null 2>&1; }

for version in "${versions[@]}"; do
  if has_installed "$version"; then
    echo "$version"
    exit
  fi
done
if [ "${1:-}" = --candidate ] && command -v apt-cache >/dev/null; then
  for version in "${versions[@]}"; do
    if is_offered "$version"; then
      echo "$version"
      exit
    fi
  done
fi
echo "no clang of 14 or later with libFuzzer here: install clang-19 and libclang-rt-19-dev, or the newest there is" >&2
exit 1
