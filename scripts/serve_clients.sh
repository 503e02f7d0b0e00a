#!/usr/bin/env bash
# Runs clients that are not Python, unchanged, against `perdure serve`, and checks what they are
# answered: Jedis (Java), go-ycsb with its workloads A, B, C, D and F, and the dashboard in headless
# Chromium under load. Needs redis-tools, for jedis java 17 and mvn, for ycsb go 1.21 or later (in
# PATH or /usr/local/go/bin) and a C compiler, for browser node 20.11 or later, npm and libnss3.
# Everything that is downloaded goes to build/serve-clients; versions are pinned.
#   scripts/serve_clients.sh [jedis] [ycsb] [browser]     default: all
# PERDURE names the program (.venv/bin/perdure), CHROMIUM a browser to use instead of the one from
# npm, which is for x86-64. RECORDS (100000) and OPERATIONS (200000) are those of a workload.
set -euo pipefail
cd "$(dirname "$0")/.."

perdure=${PERDURE:-.venv/bin/perdure}
records=${RECORDS:-100000}
operations=${OPERATIONS:-200000}
ycsb_version=v1.0.3
[ $# -gt 0 ] && parts=("$@") || parts=(jedis ycsb browser)
PATH=$PATH:/usr/local/go/bin

fail() {
  echo "serve clients: $*" >&2
  exit 1
}
need() {
  local program=$1 what=$2
  command -v "$program" >/dev/null || fail "no $program: $what"
}
need redis-cli "apt-get install redis-tools"
need "$perdure" "run scripts/setup.sh and scripts/build.sh, or name it in PERDURE"

mkdir -p build/serve-clients
out=$PWD/build/serve-clients
pools=$(mktemp -d -p /dev/shm perdure-serve-clients.XXXXXX)
work=$(mktemp -d -p "$out" run.XXXXXX)
trap 'kill -KILL $(jobs -p) 2>/dev/null || true; wait 2>/dev/null; rm -rf "$pools" "$work"' EXIT

# Starts a server over the pool NAME: sets pid, port, http_port.
serve() {
  local name=$1 said=
  shift
  : >"$work/$name.said"
  "$perdure" serve "$pools/$name" --port 0 --http-port 0 "$@" >/dev/null 2>>"$work/$name.said" &
  pid=$!
  for _ in $(seq 600); do
    said=$(cat "$work/$name.said")
    [[ $said =~ listening\ at\ [^\;]*:([0-9]+)\;\ http://[^\;]*:([0-9]+)/ ]] && break
    kill -0 "$pid" 2>/dev/null || fail "the server ended: $said"
    sleep 0.1
  done
  port=${BASH_REMATCH[1]:-} http_port=${BASH_REMATCH[2]:-}
  [ -n "$port" ] || fail "the server does not listen: $said"
}

# Ends the server PID in order.
ends() {
  kill -TERM "$1"
  wait "$1" || fail "the server ended with status $?"
}

jedis() {
  need mvn "apt-get install maven"
  need java "apt-get install openjdk-17-jdk-headless"
  local open first
  mvn -B -q -f scripts/serve_clients/jedis/pom.xml -Dout="$out/jedis" -Dmaven.repo.local="$out/m2" \
    compile dependency:copy-dependencies >"$out/mvn.log" 2>&1 || {
    cat "$out/mvn.log" >&2
    fail "mvn"
  }
  serve jedis
  open=$pid first=$port
  serve jedis-password --requirepass s3cret
  java -cp "$out/jedis/classes:$out/jedis/jars/*" JedisCheck "$first" "$port" s3cret
  ends "$open"
  ends "$pid"
}

# Builds go-ycsb within its own module: `go install` refuses it, for its go.mod replaces a module.
# That takes 2 GB and minutes, once; the program and its workloads are kept.
build_ycsb() {
  need go "install Go 1.21 or later (https://go.dev/dl)"
  local go=$out/go module
  module=$go/modules/github.com/pingcap/go-ycsb@$ycsb_version
  ycsb=$out/go-ycsb-$ycsb_version
  [ -x "$ycsb/go-ycsb" ] && return
  (
    export GOMODCACHE=$go/modules GOCACHE=$go/cache GOFLAGS=-modcacherw
    cd "$work" && go mod download "github.com/pingcap/go-ycsb@$ycsb_version" && mkdir -p "$ycsb" &&
      cp -r "$module/workloads" "$ycsb" && cd "$module" && go build -buildvcs=false -o "$ycsb" ./cmd/go-ycsb
  ) >"$out/go.log" 2>&1 || {
    tail -n 30 "$out/go.log" >&2
    fail "go build of go-ycsb"
  }
  rm -rf "$go"
}

info() { redis-cli -p "$port" info stats | sed -nE "s/^$1:([0-9]+).*/\1/p"; }

# One run of go-ycsb: `load` or `run`, a workload, a data type. A wrong value ends it; an operation
# that failed is a line of its own.
ycsb_run() {
  local command=$1 workload=$2 type=$3 said="$work/ycsb" drop=false
  [ "$command" = run ] || drop=true
  "$ycsb/go-ycsb" "$command" redis -P "$ycsb/workloads/workload$workload" -p redis.addr="127.0.0.1:$port" \
    -p redis.datatype="$type" -p recordcount="$records" -p operationcount="$operations" -p threadcount=16 \
    -p dropdata=$drop -p dataintegrity=true -p fieldlengthdistribution=constant -p silence=false >"$said" 2>&1 || {
    tail -n 30 "$said" >&2
    fail "go-ycsb $command $workload $type"
  }
  if grep -qE '_ERROR|operation err' "$said" || ! grep -q '^Run finished' "$said"; then
    tail -n 30 "$said" >&2
    fail "go-ycsb $command $workload $type: see above"
  fi
  sed '1,/^Run finished/d' "$said" >"$work/totals"
}

# The number NAME (Count, OPS) of operation WHAT in what the last run said; 0 where there is none.
total() {
  local found
  found=$(sed -nE "s/^$1 .* $2: ([0-9]+).*/\1/p" "$work/totals")
  echo "${found:-0}"
}

# go-ycsb takes a hash that cannot be read for an empty one, so that is looked for otherwise: in the
# bytes that the server sent meanwhile, ten fields of 100 for each read, and in the hashes.
whole_hashes() {
  local workload=$1 sent=$2 keys=$3 least fields
  least=$(($(total READ Count) * (5 + 10 * 108) + ($(total UPDATE Count) + $(total INSERT Count)) * 4))
  [ "$sent" -ge "$least" ] || fail "workload $workload: $sent bytes were sent, not $least"
  fields=$(redis-cli -p "$port" --scan | sed 's/^/hlen /' | redis-cli -p "$port" | sort | uniq -c | xargs)
  [ "$fields" = "$keys 10" ] || fail "workload $workload: hashes and their fields: $fields"
}

ycsb() {
  build_ycsb
  local type workload loaded ran sent misses keys
  for type in hash string; do
    serve "ycsb-$type"
    for workload in a b c d f; do
      ycsb_run load "$workload" "$type"
      loaded=$(total INSERT OPS)
      sent=$(info total_net_output_bytes) misses=$(info keyspace_misses)
      ycsb_run run "$workload" "$type"
      sent=$(($(info total_net_output_bytes) - sent)) misses=$(($(info keyspace_misses) - misses))
      # Each operation of F reads once; its total counts reads and writes.
      [ "$workload" = f ] && ran=$(total READ OPS) || ran=$(total TOTAL OPS)
      keys=$(redis-cli -p "$port" dbsize)
      [ "$keys" -eq $((records + $(total INSERT Count))) ] || fail "workload $workload, $type: $keys keys"
      [ "$misses" -eq 0 ] || fail "workload $workload, $type: $misses keys were not found"
      [ "$type" = string ] || whole_hashes "$workload" "$sent" "$keys"
      echo "ycsb: $type, workload ${workload^^}: load $loaded/s, run $ran/s, $keys keys, no error, no wrong value"
    done
    ends "$pid"
  done
}

browser() {
  need node "install Node.js 20.11 or later"
  need npm "install it with Node.js"
  local load keys status=0
  mkdir -p "$out/browser"
  cp scripts/serve_clients/browser/* "$out/browser"
  (cd "$out/browser" && npm ci --no-audit --no-fund --cache "$out/npm") >"$out/npm.log" 2>&1 || {
    cat "$out/npm.log" >&2
    fail "npm ci"
  }
  mkdir "$work/log"
  local power=(--durability power --log-dir "$work/log")
  serve browser "${power[@]}"
  redis-benchmark -p "$port" -q -t set -n 200000 -r 200000 -P 16 >/dev/null
  keys=$(redis-cli -p "$port" dbsize)
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null || true
  serve browser "${power[@]}"
  timeout 120 redis-benchmark -p "$port" -q -t set -n 100000000 -r 1000000 -P 4 >/dev/null &
  load=$!
  TMPDIR=$work node "$out/browser/dashboard.mjs" "http://127.0.0.1:$http_port/" "$out/dashboard.png" "$keys" ||
    status=$?
  kill "$load" 2>/dev/null || true
  wait "$load" 2>/dev/null || true
  [ "$status" -eq 0 ] || fail "the dashboard"
  ends "$pid"
  echo "browser: screenshot in ${out#"$PWD"/}/dashboard.png"
}

for part in "${parts[@]}"; do
  case $part in
    jedis | ycsb | browser) ;;
    *)
      echo "no such part: $part (jedis ycsb browser)" >&2
      exit 2
      ;;
  esac
done
for part in "${parts[@]}"; do
  echo "== $part"
  "$part"
done
