#!/usr/bin/env bash
# Builds the Valgrind tool into a folder that Valgrind takes as its own (VALGRIND_LIB): the tool beside
# links to what the installed Valgrind has. Needs a C compiler and Valgrind's headers and static
# libraries, which Debian's and Ubuntu's package `valgrind` has; says so and fails without them.
#
#   dirtbuster/build.sh OUT
set -euo pipefail

readonly here=$(cd "$(dirname "$0")" && pwd)
readonly out=${1:?usage: dirtbuster/build.sh OUT}
readonly cc=${CC:-cc}
readonly platform=amd64-linux

fail() {
  printf 'dirtbuster: %s\n' "$*" >&2
  exit 1
}

# The first of several folders that has a file.
folder_with() {
  local file=$1 folder
  shift
  for folder in "$@"; do
    [ ! -e "$folder/$file" ] || { printf '%s\n' "$folder" && return 0; }
  done
  return 1
}

readonly way_out="install Valgrind with its headers (Debian, Ubuntu: apt-get install valgrind gcc)"
command -v "$cc" >/dev/null || fail "no C compiler $cc: $way_out, or name one in CC"
command -v valgrind >/dev/null || fail "no valgrind: $way_out"
headers=$(folder_with pub_tool_tooliface.h /usr/include/valgrind /usr/local/include/valgrind) ||
  fail "valgrind has no headers here: $way_out"
libraries=$(folder_with libcoregrind-$platform.a /usr/lib/x86_64-linux-gnu/valgrind /usr/lib64/valgrind \
  /usr/lib/valgrind /usr/local/lib/valgrind) || fail "valgrind has no static libraries here: $way_out"
own=$(folder_with memcheck-$platform /usr/libexec/valgrind /usr/local/libexec/valgrind "$libraries") ||
  fail "valgrind's own tools are not to be found: $way_out"

mkdir -p "$out"
# Valgrind's tools have no C library, lie at an address of their own and start by themselves.
"$cc" -std=gnu11 -O2 -g -Wall -Wextra -Werror -m64 -fno-pic -no-pie -fno-stack-protector -fno-builtin \
  -fno-strict-aliasing -fomit-frame-pointer -DVGA_amd64=1 -DVGO_linux=1 -DVGP_amd64_linux=1 \
  -DVGPV_amd64_linux_vanilla=1 -isystem "$headers" -static -nodefaultlibs -nostartfiles -u _start \
  -Wl,-Ttext-segment=0x58000000 -Wl,--build-id=none -o "$out/dirtbuster-$platform.new" "$here"/*.c \
  "$libraries/libcoregrind-$platform.a" "$libraries/libvex-$platform.a" -lgcc \
  "$libraries/libgcc-sup-$platform.a"
for file in "$own"/*; do
  ln -sfn "$file" "$out/"
done
mv "$out/dirtbuster-$platform.new" "$out/dirtbuster-$platform"  # whoever finds it finds all of it
