"""How `perdure serve` ends, and what is there afterwards: in order, by SIGKILL under load, with a
pool that is full, with clients that misbehave. References are kept by the clients."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from serve_world import WAIT_S, Client, Closed, Program, Tree, program, request, served

KILLS = int(os.environ.get("PERDURE_SERVE_KILLS", "4"))
OK = ("+", b"OK")


def stats(server: Program) -> dict[str, object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/stats.json") as answer:
        return dict(json.load(answer))


def bulk(reply: Tree) -> bytes | None:
    sign, body = reply
    assert sign == "$", reply
    return body


def oks_until_the_end(client: Client) -> int:
    """How many come before the server closes the connection; half a one is none of them."""
    count, half = 0, None
    try:
        while client.read() == OK:
            count += 1
    except Closed as end:
        half = end.args[0]
    assert half == b"", "half a reply, or another one"
    return count


def test_sigterm_answers_what_has_come_and_leaves_a_clean_pool(pools: Path) -> None:
    with program(pools / "pool") as server:
        clients = [Client(server.port) for _ in range(10)]
        for number, client in enumerate(clients):
            client.send(b"".join(request("set", f"{number}:{i}", i) for i in range(500)))
        for client in clients:
            assert client.read() == OK  # so each has come in whole, or stays unanswered
        server.process.send_signal(signal.SIGTERM)
        acknowledged = [1 + oks_until_the_end(client) for client in clients]
        assert server.process.wait(WAIT_S) == 0
    with program(pools / "pool") as server:
        assert "opened" in server.said
        recovery = stats(server)["recovery"]
        assert isinstance(recovery, dict) and recovery["clean"]
        client = Client(server.port)
        for number, count in enumerate(acknowledged):
            for i in range(count):
                assert bulk(client.ask("get", f"{number}:{i}")) == b"%d" % i


@pytest.mark.parametrize(
    "words", [["shutdown"], ["shutdown", "nosave"], ["SHUTDOWN", "NOW", "FORCE"]]
)
def test_shutdown_ends_it_without_a_reply(pools: Path, words: list[str]) -> None:
    with program(pools / "pool") as server:
        client, other = Client(server.port), Client(server.port)
        assert other.ask("set", "a", 1) == OK
        client.send(request(*words))
        assert client.is_closed()
        assert other.is_closed()
        assert server.process.wait(WAIT_S) == 0
    with served(pools / "pool") as again:
        assert Client(again.port).ask("get", "a") == ("$", b"1")


@dataclass
class Writer:
    """One client that pipelines writes of keys of its own, and what each of its keys may have."""

    number: int
    seed: int
    known: dict[str, bytes | None] = field(default_factory=dict)
    counter: int = 0
    groups: int = 0
    flying: list[dict[str, bytes | None]] = field(default_factory=list)  # one atomic step each
    counted_flying: int = 0

    def key(self, i: int) -> str:
        return f"w{self.number}:{i}"

    def step(self, random: random.Random) -> tuple[list[bytes], int, dict[str, bytes | None]]:
        """Requests that are one atomic step, how many replies they get, and what they change."""
        value = b"%d:%d:" % (self.seed, random.randrange(10**9)) + b"x" * random.randrange(200)
        keys = [self.key(random.randrange(300)) for _ in range(8)]
        kind = random.randrange(5)
        if kind == 0:
            change: dict[str, bytes | None] = dict.fromkeys(keys, value)
            return [request("mset", *(word for key in change for word in (key, value)))], 1, change
        if kind == 1:
            change = dict.fromkeys(keys, value)
            change[keys[0]] = None
            body = [request("set", key, value) for key in change if key != keys[0]]
            body.append(request("del", keys[0]))
            return [request("multi"), *body, request("exec")], len(body) + 2, change
        if kind == 2:
            return [request("del", keys[0])], 1, {keys[0]: None}
        return [request("set", keys[0], value)], 1, {keys[0]: value}

    def run(self, port: int, started: threading.Event) -> None:
        """Until the server is gone."""
        random_ = random.Random(self.seed * 1000 + self.number)
        client = Client(port)
        try:
            while True:
                steps = [self.step(random_) for _ in range(random_.randrange(1, 24))]
                self.flying = [change for _, _, change in steps]
                self.counted_flying = len(steps)
                data = b"".join(
                    b"".join(parts) + request("incr", self.key(-1)) for parts, _, _ in steps
                )
                client.send(data)
                for _, replies, change in steps:
                    for _ in range(replies):
                        assert client.read()[0] != "-"
                    self.known.update(change)
                    self.flying.pop(0)
                    self.counter = int(client.read()[1])
                    self.counted_flying -= 1
                started.set()
        except (Closed, OSError):
            client.close()

    def check(self, client: Client) -> None:
        """Each step in flight is there or not, whole, and none without those before it."""
        keys = [self.key(i) for i in range(300)]
        found = dict(zip(keys, (bulk(one) for one in client.ask("mget", *keys)[1]), strict=True))
        expected = {key: self.known.get(key) for key in keys}
        for change in [{}, *self.flying]:
            expected.update(change)
            if expected == found:
                break
        else:
            wrong = {key for key in keys if found[key] != self.known.get(key)}
            raise AssertionError(f"seed {self.seed}, writer {self.number}: {sorted(wrong)}")
        counted = int(bulk(client.ask("get", self.key(-1))) or b"0")
        assert self.counter <= counted <= self.counter + self.counted_flying
        self.known, self.counter = {key: value for key, value in found.items() if value}, counted
        self.flying, self.counted_flying = [], 0


def kill_under_load(pools: Path, kills: int, *options: object, pool_is_lost: bool = False) -> None:
    writers = [Writer(number, 0) for number in range(4)]
    for kill in range(kills):
        with program(pools / "pool", *options) as server:
            client = Client(server.port)
            for writer in writers:
                writer.check(client)
                writer.seed = kill + 1
            events = [threading.Event() for _ in writers]
            threads = [
                threading.Thread(target=writer.run, args=(server.port, event))
                for writer, event in zip(writers, events, strict=True)
            ]
            for thread in threads:
                thread.start()
            assert all(event.wait(WAIT_S) for event in events)
            time.sleep(random.Random(kill).random() * 0.4)
            server.end(signal.SIGKILL)
            for thread in threads:
                thread.join(WAIT_S)
        if pool_is_lost:
            (pools / "pool").unlink()
    with program(pools / "pool", *options) as server:
        client = Client(server.port)
        for writer in writers:
            writer.check(client)
            assert writer.known, "nothing was written"


def test_nothing_acknowledged_is_lost_by_sigkill(pools: Path) -> None:
    kill_under_load(pools, KILLS)


def test_nothing_acknowledged_is_lost_with_the_pool_of_durability_power(
    pools: Path, log_dir: str
) -> None:
    """The pool is thrown away after each kill, as a power loss does; the log has it all."""
    options = ("--durability", "power", "--log-dir", log_dir, "--log-bytes", "64MiB")
    kill_under_load(pools, max(KILLS // 2, 1), *options, pool_is_lost=True)


def test_expired_keys_do_not_come_back_after_a_kill_or_with_a_clock_set_back(pools: Path) -> None:
    with program(pools / "pool") as server:
        client = Client(server.port)
        now_ms = time.time_ns() // 1_000_000
        for i in range(100):
            assert client.ask("set", f"soon:{i}", i, "pxat", now_ms + 300) == OK
            assert client.ask("set", f"late:{i}", i, "ex", 3600) == OK
        assert client.ask("set", "seen", 1, "px", 200) == OK
        time.sleep(0.5)
        assert client.ask("get", "seen") == ("$", None)
        assert client.ask("get", "soon:7") == ("$", None)
        server.end(signal.SIGKILL)
    with program(pools / "pool", env=clock_set_back(pools, 3000)) as server:
        client = Client(server.port)
        assert int(client.ask("pttl", "late:1")[1]) > 3600 * 1000, "the clock was not set back"
        assert client.ask("get", "seen") == ("$", None)
        assert client.ask("get", "soon:7") == ("$", None)
        assert client.ask("get", "late:7") == ("$", b"7")


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec* to) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int const status = real(which, to);
  char const* const back = getenv("CLOCK_BACK_S");
  if (status == 0 && which == CLOCK_REALTIME && back) to->tv_sec -= atol(back);
  return status;
}
"""


def clock_set_back(folder: Path, seconds: int) -> dict[str, str]:
    """An environment in which it is that much earlier."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_BACK_S": str(seconds)}


def test_a_full_pool_refuses_what_grows_and_does_the_rest(pools: Path) -> None:
    with served(pools / "pool", max_bytes=256 << 20) as server:
        client = Client(server.port)
        written, refused, value = 0, None, b"v" * 200_000
        while refused is None and written < 5000:
            reply = client.ask("set", f"k{written}", value)
            refused, written = (reply, written) if reply[0] == "-" else (None, written + 1)
        assert refused == ("-", b"OOM command not allowed when used memory > 'maxmemory'.")
        assert written > 100
        for i in range(written):
            assert client.ask("strlen", f"k{i}") == (":", b"200000")
        assert client.ask("mset", "k0", b"new", "more", value * 4)[0] == "-"
        assert client.ask("strlen", "k0") == (":", b"200000"), "MSET was not whole"
        client.send(request("multi") + request("del", "k1") + request("set", "k0", value * 4))
        assert [client.read()[0] for _ in range(3)] == ["+"] * 3
        assert client.ask("exec")[0] == "-"
        assert client.ask("exists", "k1") == (":", b"1"), "EXEC was not whole"
        assert client.ask("del", *(f"k{i}" for i in range(written // 2))) == (
            ":",
            b"%d" % (written // 2),
        )
        assert client.ask("set", "again", value) == OK
        assert client.ask("dbsize") == (":", b"%d" % (written - written // 2 + 1))
        assert server.stats()["refused_writes"] >= 3


def test_a_full_pool_answers_the_neighbours_of_what_it_refuses(pools: Path) -> None:
    """In one pipeline, so in one batch."""
    with served(pools / "pool", max_bytes=256 << 20) as server:
        client = Client(server.port)
        assert client.ask("set", "small", 1) == OK
        while client.ask("append", "filler", b"f" * 400_000)[0] == ":":
            pass
        fill, value = 0, b"v" * 400_000
        while client.ask("set", f"fill{fill}", value) == OK:
            fill += 1
        client.send(
            request("incr", "small") + request("set", "large", value) + request("incr", "small")
        )
        replies = [client.read() for _ in range(3)]
        assert replies[0] == (":", b"2") and replies[2] == (":", b"3")
        assert replies[1][1].startswith(b"OOM")


def allow_files_of(server: Program, most: int) -> None:
    """As a disk has room: what makes a file longer fails."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def test_a_disk_without_room_for_the_pool_refuses_what_grows_until_there_is_some(
    pools: Path,
) -> None:
    path, value = pools / "pool", b"v" * 200_000
    with program(path) as server:
        client = Client(server.port)
        assert client.ask("set", "first", value) == OK
        allow_files_of(server, path.stat().st_size)
        written = 0
        while (reply := client.ask("set", f"k{written}", value)) == OK:
            written += 1
        assert reply[1].startswith(b"OOM") and written < 1000
        assert client.ask("strlen", "first") == (":", b"200000")
        allow_files_of(server, resource.RLIM_INFINITY)
        assert client.ask("set", "last", value) == OK
        assert server.end(signal.SIGTERM) == 0
    with served(path) as again:
        assert Client(again.port).ask("dbsize") == (":", b"%d" % (written + 2))


def test_a_disk_without_room_for_a_checkpoint_ends_the_server_and_loses_nothing(
    pools: Path, tmp_path: Path
) -> None:
    path, value = pools / "pool", b"v" * 100_000
    options = ("--durability", "power", "--log-dir", tmp_path / "log", "--log-bytes", "4MiB")
    with program(path, *options) as server:
        client = Client(server.port)
        for i in range(20):
            assert client.ask("set", f"k{i}", value) == OK
        allow_files_of(server, 5 << 20)  # the log is there, and an image is longer
        written = 20
        with suppress(Closed):
            while (reply := client.ask("set", f"k{written}", value)) == OK:
                written += 1
            assert reply[1].startswith(b"MISCONF"), reply
        assert server.process.wait(WAIT_S) != 0
        assert server.process.stderr is not None
        assert "/log/image-" in server.process.stderr.read()
    with program(path, *options) as again:
        client = Client(again.port)
        for i in range(written):
            assert client.ask("strlen", f"k{i}") == (":", b"100000")
        assert client.ask("set", "again", value) == OK


def test_a_client_that_never_reads_is_dropped_and_the_others_go_on(pools: Path) -> None:
    with served(pools / "pool", max_unread_bytes=8 << 20, slow_client_seconds=2) as server:
        other, slow = Client(server.port), Client(server.port)
        assert other.ask("set", "k", b"v" * 500_000) == OK
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.socket.settimeout(0.2)
        until, dropped = time.monotonic() + WAIT_S, False
        while not dropped and time.monotonic() < until:
            try:
                slow.send(request("get", "k") * 100)
            except TimeoutError:
                pass
            except OSError:
                break
            began = time.monotonic()
            assert other.ask("get", "k")[0] == "$"
            assert time.monotonic() - began < 5
            dropped = server.stats()["dropped_slow"] > 0
        assert server.stats()["dropped_slow"] == 1
        assert other.is_silent()


def send_until_refused(client: Client) -> None:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        client.send(b"a")
        time.sleep(0.01)


def test_memory_is_bounded_whatever_clients_send(pools: Path) -> None:
    with program(pools / "pool") as server:
        keeper = Client(server.port)
        assert keeper.ask("set", "k", "v") == OK
        before = server.rss()
        halves = [Client(server.port) for _ in range(50)]
        for client in halves:  # 512 MiB are announced, and no more comes
            client.send(b"*2\r\n$3\r\nGET\r\n$536870912\r\n")
        assert all(client.read()[0] == "-" and client.is_closed() for client in halves)
        endless = Client(server.port, timeout=0.5)
        try:
            for _ in range(400):  # 56 MB of requests, and no reply is read
                endless.send(request("ping", b"p" * 100) * 1000)
        except OSError:
            pass
        lines = Client(server.port)
        with suppress(OSError):
            for _ in range(64):
                lines.send(b"a" * (1 << 16))
        # closed, whether or not the error could still be read
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_until_refused(lines)
        assert keeper.ask("get", "k") == ("$", b"v")
        assert server.rss() - before < 192 << 20


def test_half_requests_are_waited_for_and_those_who_vanish_are_forgotten(pools: Path) -> None:
    with served(pools / "pool") as server:
        keeper = Client(server.port)
        whole = request("set", "key", b"v" * 300_000) + request("strlen", "key")
        slow = Client(server.port)
        for at in range(0, len(whole), 20_011):
            slow.send(whole[at : at + 20_011])
            assert keeper.ask("ping") == ("+", b"PONG")
        assert slow.read() == OK and slow.read() == (":", b"300000")
        for byte in request("set", "k", "v"):
            slow.send(bytes([byte]))
        assert slow.read() == OK
        random_ = random.Random(5)
        for i in range(200):
            client = Client(server.port)
            client.send(request("watch", "k") + request("multi") + request("set", "k", i))
            client.send(whole[: random_.randrange(len(whole))])
            linger = b"\1\0\0\0\0\0\0\0" if i % 2 else b"\0" * 8  # RST, or FIN
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.close()
        assert keeper.ask("get", "k") == ("$", b"v")
        until = time.monotonic() + WAIT_S
        while server.stats()["clients"] != 2 and time.monotonic() < until:
            time.sleep(0.02)
        assert server.stats()["clients"] == 2
        assert keeper.ask("set", "k", "w") == OK


def test_a_thousand_connections_are_all_answered(pools: Path) -> None:
    with program(pools / "pool") as server:
        before = server.rss()
        clients = [Client(server.port) for _ in range(1000)]
        for turn in range(3):
            for number, client in enumerate(clients):
                client.send(request("set", f"k{number}", turn) + request("incr", f"k{number}"))
            for client in clients:
                assert client.read() == OK and client.read() == (":", b"%d" % (turn + 1))
        assert server.rss() - before < 1000 * 64 * 1024
        assert clients[0].ask("dbsize") == (":", b"1000")


def test_a_server_is_back_at_once_after_a_kill(pools: Path) -> None:
    """The best of several times: what else the machine does only makes them longer."""
    took = []
    with program(pools / "pool") as server:
        client = Client(server.port)
        for at in range(0, 200_000, 10_000):
            pairs = [word for i in range(at, at + 10_000) for word in (f"key:{i}", f"value:{i}")]
            assert client.ask("mset", *pairs) == OK
        server.end(signal.SIGKILL)
    while not took or (min(took) >= 1 and len(took) < 10):
        with program(pools / "pool") as server:
            recovery = stats(server)["recovery"]
            assert isinstance(recovery, dict) and not recovery["clean"]
            assert recovery["records"] == 200_000
            took.append(recovery["map_seconds"] + recovery["recover_seconds"])
            assert Client(server.port).ask("get", "key:123456") == ("$", b"value:123456")
            server.end(signal.SIGKILL)
    assert min(took) < 1, took
