#!/usr/bin/env bash
# Installs what building, testing and running Perdure needs and this machine lacks: system packages
# through apt (Debian 12, Ubuntu 24.04), Python packages into .venv, and, on a machine with a GPU,
# the CUDA compiler into .venv where there is no nvcc of at least 13.0. A second run finds its stamps
# and takes about a second.
#
#   scripts/setup.sh               what make demo and make build need
#   scripts/setup.sh --test        what make test needs: nvcc too, for GPU code has to compile where
#                                  there is no GPU; the type checker of Python; clang, which checks
#                                  locks; RocksDB's tools; Valgrind and perf
#   scripts/setup.sh --bench       what benchmarks compare against: YCSB's driver, fio, Abseil
#   scripts/setup.sh --fuzz        clang and Atheris too, for the fuzz targets
#   scripts/setup.sh --frameworks  PyTorch, JAX, pandas, polars too (2 to 3 GB), into
#                                  .venv-frameworks; CuPy beside a GPU
#   scripts/setup.sh --kv          LMCache and vLLM too (6 GB), into .venv-kv
#   scripts/setup.sh --torchrec    torchrec and the PyTorch of its kernels too (5 GB), into
#                                  .venv-torchrec
#
# ccache comes along where it is to be had: nothing but time depends on it.
#
# Environment: PYTHON (default python3) makes the venv. PERDURE_CUDA=OFF skips CUDA, PERDURE_CUDA=ON
# brings an nvcc even where there is no GPU.
# PERDURE_OFFLINE=1 installs nothing from outside: see scripts/offline.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly venv=.venv
readonly log=build/setup.log
readonly python=${PYTHON:-python3}
readonly offline=${PERDURE_OFFLINE:-0}

say() { printf 'set-up: %s\n' "$*"; }
fail() {
  printf 'set-up failed: %s\n' "$*" >&2
  exit 1
}
# Runs a command with its output in the log, which is shown only when the command fails.
quietly() {
  "$@" >>"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    fail "'$*' (whole log: $log)"
  }
}

# How to become root, as words before a command; none for root itself.
find_root() {
  sudo=()
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null ||
    fail "neither root nor sudo: ask an administrator for 'apt-get install ${missing[*]}', then try again"
  sudo=(sudo)
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# perf comes with the kernel's tools, which Debian and Ubuntu name differently.
perf_package() { (. /etc/os-release && [ "$ID" = debian ] && echo linux-perf || echo linux-tools-generic); }

# Names, one a line, the Debian packages that this run needs.
wanted_packages() {
  printf '%s\n' g++ make cmake ninja-build binutils libhwy-dev libisal-dev liburing-dev libgtest-dev librapidcheck-dev \
    libcli11-dev nlohmann-json3-dev pkg-config librocksdb-dev robin-map-dev libasio-dev libhiredis-dev libssl-dev libspdlog-dev
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  "$python" -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' 2>/dev/null || echo python3-dev
  case " $* " in *" --bench "*) printf '%s\n' maven unzip fio libabsl-dev ;; esac
  case " $* " in *" --test "*) printf '%s\n' redis-tools rocksdb-tools valgrind "$(perf_package)" ;; esac
  case " $* " in *" --fuzz "* | *" --test "*) printf '%s\n' "clang-$clang" "libclang-rt-$clang-dev" ;; esac
}

# Which clang: where apt has no list of packages yet, one is fetched first.
choose_clang() {
  missing=(clang-19 libclang-rt-19-dev)
  if ! clang=$(scripts/clang.sh --candidate 2>/dev/null); then
    find_root
    command -v apt-get >/dev/null && quietly "${sudo[@]}" apt-get -q update
    clang=$(scripts/clang.sh --candidate) || fail "the check of locks and the fuzz targets need clang of 14 or later, and apt offers none"
  fi
  say "check of locks, fuzz targets: clang-$clang"
}

# g++, make and cmake may come from elsewhere than apt.
has_command() {
  case $1 in
    g++ | make | cmake) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    binutils) command -v nm >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    maven) command -v mvn >/dev/null ;;
    fio) command -v fio >/dev/null ;;
    linux-perf | linux-tools-generic) command -v perf >/dev/null ;;
    unzip) command -v unzip >/dev/null ;;
    *) return 1 ;;
  esac
}

install_system_packages() {
  missing=()
  local package
  while read -r package; do
    has_command "$package" || is_installed "$package" || missing+=("$package")
  done < <(wanted_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v ccache >/dev/null || missing+=(ccache)
  apt_install
}

apt_install() {
  command -v apt-get >/dev/null || fail "no apt-get here; install what corresponds to: ${missing[*]}"
  say "apt: ${missing[*]}"
  find_root
  quietly "${sudo[@]}" apt-get -q update
  quietly "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
}

install_ccache() {
  ! command -v ccache >/dev/null || return 0
  missing=(ccache)
  (apt_install) || say "no ccache, so another build folder, or another clone, compiles everything again"
}

check_python() {
  command -v "$python" >/dev/null || fail "no $python: install Python 3.11 or later, or name one in PYTHON"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old: name Python 3.11 or later in PYTHON"
}

# An nvcc of at least 13.0 outside the venv, as cmake/cuda.cmake would find it.
has_own_nvcc() {
  local nvcc version
  nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  version=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\).*/\1/p') || return 1
  [ "${version:-0}" -ge 13 ]
}

wants_cuda_wheels() {
  case ${PERDURE_CUDA:-AUTO} in
    [Oo][Ff][Ff] | 0 | [Nn][Oo] | [Ff]*) return 1 ;;
    [Aa][Uu][Tt][Oo])
      case " $* " in
        *" --test "*) ;;
        *) [ -e /dev/nvidiactl ] || {
          say "no GPU here, so no CUDA compiler (PERDURE_CUDA=ON installs one all the same)"
          return 1
        } ;;
      esac
      ;;
  esac
  ! has_own_nvcc
}

pip_install() { quietly "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input "$@"; }

# CMake looks for lib64 and for an unversioned libcudart, which the wheels lack.
link_cuda() {
  local cuda
  cuda=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia/cu13
  [ -x "$cuda/bin/nvcc" ] || fail "the CUDA wheels left no $cuda/bin/nvcc"
  ln -sfn lib "$cuda/lib64"
  ln -sfn libcudart.so.13 "$cuda/lib/libcudart.so"
}

# A stamp holds what the venv was made of, so that a second run need not look.
is_stamped() { [ "$(cat "$venv/.perdure-$1" 2>/dev/null)" = "$2" ]; }
stamp() { printf '%s\n' "$2" >"$venv/.perdure-$1"; }
checksum() { sha256sum "$1" | cut -d' ' -f1; }

make_venv() {
  local now
  now=$("$python" -c 'import sys; print(sys.version, sys.prefix)')" in $PWD"
  ! is_stamped python "$now" || return 0
  quietly "$python" -m venv --clear $venv
  stamp python "$now"
  say "python: $("$venv/bin/python" --version) in $venv"
}

install_python_packages() {
  local now
  now=$(checksum requirements/dev.txt)
  ! is_stamped packages "$now" || return 0
  pip_install -r requirements/dev.txt
  stamp packages "$now"
  say "python: $(grep -c == requirements/dev.txt) packages of requirements/dev.txt"
}

install_cuda() {
  local now
  now=$(checksum requirements/cuda.txt)
  ! is_stamped cuda "$now" || return 0
  pip_install -r requirements/cuda.txt
  link_cuda
  stamp cuda "$now"
  say "cuda: no nvcc of at least 13.0 was here; $(grep -o '^cuda-toolkit.*' requirements/cuda.txt) is now in $venv"
}

# What fewer need, by the name of its file in requirements/.
install_more() {
  local now
  now=$(checksum "requirements/$1.txt")
  ! is_stamped "$1" "$now" || return 0
  pip_install -r "requirements/$1.txt"
  stamp "$1" "$now"
  say "python: requirements/$1.txt"
}

# A venv that finds in .venv what it lacks itself, the package in place too: PyTorch wants another
# CUDA runtime than nvcc. What it is stamped as, its size in words, and files of requirements/.
install_beside() {
  local made=.venv-$1 name=$1 size=$2 now pinned=() files=("${@:3}")
  now=$(cat "${files[@]}" "$venv/.perdure-python" | sha256sum)
  if [ -x "$made/bin/python" ] && is_stamped "$name" "$now"; then return; fi
  say "python: $(cat "${files[@]}" | grep -c ==) packages of ${files[*]}, $size"
  quietly "$venv/bin/python" -m venv --clear --without-pip "$made"
  site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
  printf 'import site; site.addsitedir("%s")\n' "$(site "$venv")" >"$(site "$made")/beside.pth"
  for file in "${files[@]}"; do pinned+=(-r "$file"); done
  quietly "$venv/bin/python" -m pip --python "$made/bin/python" install -q --disable-pip-version-check --no-input \
    --no-deps --ignore-installed "${pinned[@]}"
  stamp "$name" "$now"
}

install_frameworks() {
  local files=(requirements/frameworks.txt)
  [ ! -e /dev/nvidiactl ] || files+=(requirements/frameworks-gpu.txt)
  install_beside frameworks "2 to 3 GB" "${files[@]}"
}

mkdir -p build
check_python
if [ "$offline" != 0 ]; then
  exec scripts/offline.sh unpack
fi
case " $* " in *" --fuzz "* | *" --test "*) choose_clang ;; esac
install_system_packages "$@"
# else it comes with other packages or not at all
case " $* " in *" --test "*) install_ccache ;; esac
make_venv
install_python_packages
if wants_cuda_wheels "$@"; then
  install_cuda
fi
case " $* " in *" --test "*) install_more types ;; esac
case " $* " in *" --fuzz "*) install_more fuzz ;; esac
case " $* " in *" --frameworks "*) install_frameworks ;; esac
case " $* " in *" --kv "*) install_beside kv "6 GB" requirements/kv.txt ;; esac
case " $* " in *" --torchrec "*) install_beside torchrec "5 GB" requirements/torchrec.txt ;; esac
say "ready"
