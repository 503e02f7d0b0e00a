"""What the tests of perdure.serve share: a server in this process or in one of its own, Redis's own
server beside it, and a client that sends bytes and reads replies as they came."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

try:
    import perdure.serve
except ImportError:
    if os.environ.get("PERDURE_OFFLINE", "0") == "0":
        raise
    pytest.skip("not packed: Asio, hiredis, OpenSSL", allow_module_level=True)

CHECK_RDB = shutil.which("redis-check-rdb")  # the server's own binary, by another name
WAIT_S = 60.0  # for what takes a part of a second where nothing else runs

Tree = Any  # a reply: its sign and its text, or its sign and its elements


def request(*words: str | bytes | int) -> bytes:
    """A command as clients send it."""
    all_words = [one if isinstance(one, bytes) else str(one).encode() for one in words]
    parts = [b"*%d\r\n" % len(all_words)]
    parts += [b"$%d\r\n%s\r\n" % (len(one), one) for one in all_words]
    return b"".join(parts)


class Closed(Exception):
    """The server has closed the connection; what it had sent of a reply by then."""


class Client:
    """One connection, which neither hides nor repeats anything."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout: float = WAIT_S) -> None:
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _fill(self) -> None:
        try:
            more = self.socket.recv(1 << 16)
        except ConnectionResetError:
            more = b""
        if not more:
            raise Closed(self._buffer)
        self._buffer += more

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._fill()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def read(self) -> Tree:
        """The next reply. Each byte of it shows in what this returns."""
        line = self._line()
        sign, rest = line[:1].decode(), line[1:]
        if sign in "+-:_#,(":
            return (sign, rest)
        size = int(rest)
        assert rest == b"%d" % size, line
        if size < 0:
            return (sign, None)
        if sign in "$=":
            data = self._exactly(size + 2)
            assert data[-2:] == b"\r\n", data[-40:]
            return (sign, data[:-2])
        assert sign in "*%~>", line
        return (sign, [self.read() for _ in range(size * (2 if sign == "%" else 1))])

    def ask(self, *words: str | bytes | int) -> Tree:
        self.send(request(*words))
        return self.read()

    def is_closed(self) -> bool:
        """Waits for the end, which must come without another byte."""
        try:
            self._fill()
        except Closed as end:
            return end.args[0] == b""
        return False

    def is_silent(self) -> bool:
        """Whether every reply has been read: a PING's comes next."""
        return self.ask("ping", "end") == ("$", b"end")

    def close(self) -> None:
        self.socket.close()

    __del__ = close


def value(reply: Tree) -> bytes | int | None:
    """Of a reply that is a string, a number or nothing."""
    sign, text = reply
    assert sign in "$:_+", reply
    return int(text) if sign == ":" else None if sign == "_" else text


@contextmanager
def served(path: Path, **options: Any) -> Iterator[perdure.serve.Server]:
    """A server in this process."""
    with perdure.serve.Server(path, port=0, **options) as server:
        yield server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(*options: str, password: str = "") -> Iterator[int]:
    """Redis's own server, which redis-tools brings as redis-check-rdb; its port."""
    assert CHECK_RDB is not None, "no redis-check-rdb: scripts/setup.sh --test"
    with tempfile.TemporaryDirectory(prefix="perdure-redis-") as folder:
        server = Path(folder) / "redis-server"
        server.symlink_to(CHECK_RDB)
        usual = ["--save", "", "--appendonly", "no", "--dir", folder, "--requirepass", password]
        for _ in range(20):
            port = free_port()
            with subprocess.Popen(
                [server, "--port", str(port), *usual, *options],
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            ) as process:
                try:
                    if is_redis(process, port, password):
                        yield port
                        return
                finally:
                    process.kill()
        raise AssertionError(f"Redis's server ended each time: {usual}, {options}")


def is_redis(process: subprocess.Popen[bytes], port: int, password: str) -> bool:
    """Waits until it is this process that answers there. False: the process has ended, as where
    somebody else took the port meanwhile."""
    until = time.monotonic() + WAIT_S
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as client:
            login = request("auth", password) if password else b""
            client.sendall(login + request("info", "server") + request("quit"))
            with client.makefile("rb") as said:
                if b"process_id:%d\r" % process.pid in said.read():
                    return True
        assert time.monotonic() < until, "Redis's server does not listen"
        time.sleep(0.02)
    return False


@dataclass
class Program:
    """`perdure serve` in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    http_port: int
    said: str

    def end(self, number: int) -> int:
        """Its exit status after that signal."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def rss(self) -> int:
        """Bytes of memory that are its own: a pool in memory is shared, and not counted."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert found, status
        return int(found[1]) * 1024


@contextmanager
def program(
    path: Path, *options: object, env: dict[str, str] | None = None, host: str = "127.0.0.1"
) -> Iterator[Program]:
    command = [sys.executable, "-m", "perdure.cli", "serve", path, "--port", "0", *options]
    if "--http-port" not in options:
        command += ["--http-port", "0"]
    if host != "127.0.0.1":
        command += ["--bind", host]
    with subprocess.Popen(
        [str(one) for one in command],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"listening at .*:(\d+); http://.*:(\d+)/", said)
        try:
            if not found:
                process.kill()
                raise AssertionError(said + process.stderr.read())
            yield Program(process, int(found[1]), int(found[2]), said)
        finally:
            process.kill()
