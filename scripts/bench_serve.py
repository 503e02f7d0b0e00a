"""Measures `perdure serve` beside Redis, in turns within one run: scripts/bench_serve.py [PART ...]

Parts: throughput, single, power, latency, connections, memory (and start); default: all. Needs
redis-tools, whose redis-check-rdb is the server's binary under another name; scripts/setup.sh
--test and scripts/build.sh PERDURE_BENCH=ON come before. RUNS (5), REQUESTS (1000000), KEYS
(10000000, of memory and start), SHM (/dev/shm, for pools) and DISK (build, for logs and
append-only files) change how much and where.

A ratio is the median of the ratios of neighbouring runs. Each server has the machine to itself
while it is measured, but for the client.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = int(os.environ.get("RUNS", "5"))
REQUESTS = int(os.environ.get("REQUESTS", "1000000"))
KEYS = int(os.environ.get("KEYS", "10000000"))
SHM = Path(os.environ.get("SHM", "/dev/shm"))
DISK = Path(os.environ.get("DISK", str(ROOT / "build")))
PERDURE = os.environ.get("PERDURE", str(ROOT / ".venv" / "bin" / "perdure")).split()
LOAD = os.environ.get(
    "PERDURE_BENCH_SERVE", str(ROOT / "build/release/bench/serve/perdure-bench-serve")
)
KEY_SPACE = 1_000_000

Command = Callable[[Path, int], list[str]]


def redis(*more: str) -> Command:
    def command(folder: Path, port: int) -> list[str]:
        binary = folder / "redis-server"
        binary.symlink_to("/usr/bin/redis-check-rdb")  # one binary, which goes by its name
        return [str(binary), "--port", str(port), "--save", "", "--dir", str(folder), *more]

    return command


def perdure(*more: str, log: bool = False) -> Command:
    def command(folder: Path, port: int) -> list[str]:
        logs = ["--durability", "power", "--log-dir", str(folder)] if log else []
        pool = SHM / f"bench-serve-{port}.pool"
        return [*PERDURE, "serve", str(pool), "--port", str(port), *logs, *more]

    return command


class Server:
    """One of those that are compared; a process from start to stop."""

    def __init__(self, command: list[str], port: int) -> None:
        self.command, self.port = command, port
        self.start()

    def start(self) -> float:
        """Seconds until it answered."""
        began = time.monotonic()
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while True:
            try:
                if self.ask(b"*1\r\n$4\r\nPING\r\n").startswith(b"+PONG"):
                    return time.monotonic() - began
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit(f"{' '.join(self.command)} ended") from None
            time.sleep(0.002)

    def ask(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port)) as to:
            to.sendall(request)
            return to.recv(1 << 16)

    def info(self, name: str) -> int:
        text = self.ask(b"*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n").decode()
        return next(
            int(v) for k, _, v in (row.partition(":") for row in text.split("\r\n")) if k == name
        )

    def own_mib(self, of: str = "RssAnon") -> float:
        """By default, the memory that is its own: the pool's is the file's."""
        rows = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) / 1024 for row in rows if row.startswith(of + ":"))

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait()


@contextlib.contextmanager
def servers(**commands: Command) -> Iterator[dict[str, Server]]:
    with contextlib.ExitStack() as stack:
        made: dict[str, Server] = {}
        for port, (name, command) in enumerate(commands.items(), 17_000):
            folder = Path(tempfile.mkdtemp(prefix="bench-serve-", dir=DISK))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            pool = SHM / f"bench-serve-{port}.pool"
            pool.unlink(missing_ok=True)
            stack.callback(pool.unlink, missing_ok=True)
            made[name] = Server(command(folder, port), port)
            stack.callback(made[name].stop)
        yield made


def benchmark(server: Server, requests: int, *how: str) -> tuple[float, float]:
    """Requests a second by redis-benchmark, and microseconds of the server's CPU for each."""
    cpu = server.cpu_seconds()
    clients = [] if "-c" in how else ["-c", "50"]
    arguments = ["-p", str(server.port), "-n", str(requests), "-r", str(KEY_SPACE), *clients]
    answer = subprocess.run(
        ["redis-benchmark", "--csv", *arguments, *how], check=True, capture_output=True, text=True
    )
    rows = [row for row in answer.stdout.splitlines() if row.startswith('"') and '"rps"' not in row]
    each = (server.cpu_seconds() - cpu) / requests * 1e6
    return float(rows[-1].split('","')[1].strip('"')), each


RESULTS: list[dict[str, object]] = []


def say(part: str, what: str, value: float, target: str, good: bool | None, detail: str) -> None:
    RESULTS.append({"part": part, "what": what, "value": value, "target": target, "detail": detail})
    verdict = "" if good is None else "reached" if good else "MISSED"
    print(f"{part:<11} {what:<34} {value:>8.2f}  {target:<9} {verdict:<8} {detail}", flush=True)


def compare(
    part: str, what: str, those: dict[str, Server], requests: int, least: float, *how: str
) -> None:
    """Perdure over the faster of the others, run by run."""
    rates: dict[str, list[float]] = {name: [] for name in those}
    cpu: dict[str, list[float]] = {name: [] for name in those}
    for _ in range(RUNS):
        for name, server in those.items():
            rate, each = benchmark(server, requests, *how)
            rates[name].append(rate)
            cpu[name].append(each)
    others = [name for name in those if name != "perdure"]
    ratios = [
        ours / max(rates[name][run] for name in others) for run, ours in enumerate(rates["perdure"])
    ]
    detail = "; ".join(
        f"{name} {statistics.median(rates[name]):,.0f}/s, {statistics.median(cpu[name]):.2f} us CPU"
        for name in those
    )
    ratio = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    say(part, what, ratio, f">= {least}", ratio >= least, f"{spread}; {detail}")


KINDS = {
    "SET": ("-t", "set"),
    "GET": ("-t", "get"),
    "INCR": ("INCR", "key:__rand_int__"),
    "MSET of 10": ("-t", "mset"),
}


def throughput(part: str, pipeline: int, least: float, requests: int) -> None:
    for bytes_ in (8, 128):
        for kind, how in KINDS.items():
            if kind == "INCR" and bytes_ != 8:
                continue
            # INCR finds numbers alone: servers of its own.
            with servers(
                redis=redis(),
                aof=redis("--appendonly", "yes", "--appendfsync", "no"),
                perdure=perdure(),
            ) as those:
                some = requests // 10 if kind.startswith("MSET") else requests
                if kind == "GET":
                    for server in those.values():
                        fill(server, KEY_SPACE, b"v" * bytes_)
                before = ("-P", str(pipeline), "-d", str(bytes_))
                compare(part, f"{kind}, {bytes_} bytes", those, some, least, *before, *how)


def power() -> None:
    always = redis("--appendonly", "yes", "--appendfsync", "always")
    for pipeline, requests in ((1, 20_000), (16, 200_000)):
        with servers(redis=always, perdure=perdure(log=True)) as those:
            how = ("-P", str(pipeline), "-d", "128", "-t", "set")
            compare("power", f"SET, pipeline {pipeline}", those, requests, 5.0, *how)


def latency() -> None:
    for name, command in (("redis", redis()), ("perdure", perdure())):
        with servers(**{name: command}) as those:
            server = those[name]
            highest = statistics.median(
                benchmark(server, REQUESTS // 5, "-P", "1", "-d", "100", "-t", "set")[0]
                for _ in range(3)
            )
            load = [LOAD, "--port", str(server.port), "--seconds", "10", "--json", "--rate"]
            runs = [
                json.loads(
                    subprocess.run(
                        [*load, str(highest / 2)], check=True, capture_output=True, text=True
                    ).stdout
                )
                for _ in range(RUNS)
            ]
            p99 = statistics.median(run["p99_us"] for run in runs) / 1e3
            p50 = statistics.median(run["p50_us"] for run in runs)
            detail = f"highest {highest:,.0f}/s; p50 {p50:,.0f} us"
            good = p99 <= 2 if name == "perdure" else None
            say("latency", f"{name}: p99 at half, ms", p99, "<= 2", good, detail)


def fill(server: Server, keys: int, value: bytes) -> None:
    """SETs of 16-byte keys, 1,000 at a time."""
    with socket.create_connection(("127.0.0.1", server.port)) as to:
        for first in range(0, keys, 1000):
            batch = range(first, min(first + 1000, keys))
            to.sendall(
                b"".join(
                    b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n" % (i, len(value), value)
                    for i in batch
                )
            )
            left = 5 * len(batch)
            while left > 0:
                left -= len(to.recv(1 << 16))


def memory_and_start() -> None:
    used = {}
    for name, command in (("redis", redis()), ("perdure", perdure())):
        with servers(**{name: command}) as those:
            server = those[name]
            fill(server, KEYS, b"v" * 100)
            used[name] = server.info("used_memory") / KEYS
            if name == "perdure":
                seconds = []
                for _ in range(RUNS):
                    server.stop(signal.SIGKILL)
                    seconds.append(server.start())
                    if (
                        server.ask(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:%012d\r\n" % (KEYS - 1))[:4]
                        != b"$100"
                    ):
                        raise SystemExit("the last key is not there after SIGKILL")
    ratio = used["perdure"] / used["redis"]
    detail = f"{used['perdure']:.1f} and {used['redis']:.1f} bytes a key, {KEYS:,} keys"
    say("memory", "over Redis, 16 + 100 bytes", ratio, "<= 0.8", ratio <= 0.8, detail)
    median = statistics.median(seconds)
    detail = (
        f"{min(seconds):.2f} to {max(seconds):.2f} s; process start to PONG, Python's start in it"
    )
    say("start", f"after SIGKILL, {KEYS:,} keys, s", median, "<= 1", median <= 1, detail)


def connections() -> None:
    """10,000 clients at once, ten million requests: what the server takes for them at most."""
    with servers(perdure=perdure("--max-clients", "10100")) as those:
        server = those["perdure"]
        before = server.own_mib()
        for kind in ("set", "get"):
            how = ("-c", "10000", "-P", "16", "-d", "128", "-t", kind)
            rate, _ = benchmark(server, 10 * REQUESTS, *how)
            most = server.own_mib("VmHWM") - server.own_mib("RssShmem")
            detail = f"{rate:,.0f}/s; {before:.0f} MiB before, {server.own_mib():.0f} after"
            what = f"{10 * REQUESTS:,} {kind.upper()}s, MiB at most"
            say("connections", what, most, "", None, detail)


def main(parts: list[str]) -> None:
    known = {
        "throughput": lambda: throughput("throughput", 16, 1.0, REQUESTS),
        "single": lambda: throughput("single", 1, 0.9, REQUESTS // 5),
        "power": power,
        "latency": latency,
        "connections": connections,
        "memory": memory_and_start,
    }
    unknown = [part for part in parts if part not in known]
    if unknown:
        raise SystemExit(f"bench_serve: no part {unknown[0]}; there are {', '.join(known)}")
    for part in parts or known:
        known[part]()
    figures = ROOT / "build" / "figures-serve.json"
    figures.write_text(json.dumps(RESULTS, indent=1) + "\n")
    print(f"as JSON: {figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
