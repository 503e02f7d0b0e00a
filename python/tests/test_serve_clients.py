"""perdure.serve as clients of the field use it: redis-py, valkey-py, redis-cli, redis-benchmark."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
import valkey
from serve_world import Client, request, served

LIBRARIES = [redis, valkey]
# The libraries leave their connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def connect(library: Any, port: int, **more: Any) -> Any:
    return (library.Redis if library is redis else library.Valkey)(port=port, **more)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(tmp_path_factory.mktemp("pool") / "pool") as server:
        yield server.port


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("protocol", [2, 3])
def test_the_usual_calls_work_unchanged(port: int, library: Any, protocol: int) -> None:
    client = connect(library, port, protocol=protocol, decode_responses=True)
    client.flushdb()
    assert client.ping()
    began = time.monotonic()
    assert client.set("a", "1", ex=100) and client.get("a") == "1"
    assert 100 >= client.ttl("a") >= 98 - (time.monotonic() - began)
    assert client.set("a", "2", nx=True) is None
    assert client.set("a", "2", keepttl=True, get=True) == "1"
    assert client.mset({"b": 1, "c": 2}) and client.mget("a", "b", "nope") == ["2", "1", None]
    assert client.incrby("b", 5) == 6 and client.append("c", "x") == 2
    person = {"name": "Ada", "born": "1815"}
    assert client.hset("h", mapping=person) == 2
    assert client.hgetall("h") == person and client.hincrby("h", "born", 1) == 1816
    assert client.type("h") == "hash" and client.exists("a", "h", "nope") == 2
    assert sorted(client.scan_iter("?")) == ["a", "b", "c", "h"]
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.config_get("maxclients")["maxclients"] == "10000"
    assert client.delete("a", "b") == 2 and client.dbsize() == 2
    with pytest.raises(library.exceptions.ResponseError, match="WRONGTYPE"):
        client.get("h")
    client.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_counters_under_watch_lose_no_step(port: int, library: Any) -> None:
    connect(library, port).delete("counter")

    def count() -> None:
        client = connect(library, port)
        for _ in range(50):
            client.transaction(
                lambda pipe: (
                    value := int(pipe.get("counter") or 0),
                    pipe.multi(),
                    pipe.set("counter", value + 1),
                ),
                "counter",
            )

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(connect(library, port).get("counter")) == 200


def test_a_scan_beside_writers_and_a_growing_table_misses_nothing_that_stays(port: int) -> None:
    client = redis.Redis(port=port, decode_responses=True)
    client.flushdb()
    stays = {f"stays:{i}" for i in range(5000)}
    client.mset(dict.fromkeys(stays, "1"))
    done = threading.Event()

    def write() -> None:
        """A scan of a table that grows for ever may never end."""
        other, at = redis.Redis(port=port), 0
        while not done.is_set():
            other.mset({f"comes:{at + i}": "1" for i in range(20_000)})
            at = (at + 20_000) % 100_000

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            assert set(client.scan_iter("stays:*", count=500)) == stays
    finally:
        done.set()
        writer.join()


def test_pipelines_answer_in_order_with_errors_in_their_positions(port: int) -> None:
    client = redis.Redis(port=port)
    client.flushdb()
    with client.pipeline(transaction=False) as pipe:
        for i in range(5000):
            pipe.set(f"k{i}", i)
        pipe.hget("k1", "f")
        for i in range(5000):
            pipe.get(f"k{i}")
        answers = pipe.execute(raise_on_error=False)
    assert answers[:5000] == [True] * 5000
    assert isinstance(answers[5000], redis.ResponseError)
    assert answers[5001:] == [b"%d" % i for i in range(5000)]


def certificate(folder: Path) -> tuple[Path, Path]:
    key, made = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {made}"
        " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1".split(),
        check=True,
        capture_output=True,
    )
    return made, key


def test_tls_is_spoken_and_plain_text_is_not(pools: Path) -> None:
    made, key = certificate(pools)
    with served(pools / "pool", tls_certificate=made, tls_key=key) as server:
        client = redis.Redis(port=server.port, ssl=True, ssl_ca_certs=str(made))
        assert client.set("a", b"x" * 300_000) and client.get("a") == b"x" * 300_000
        with client.pipeline() as pipe:
            for i in range(1000):
                pipe.incr(f"k{i}")
            assert pipe.execute() == [1] * 1000
        plain = Client(server.port)
        plain.send(request("ping"))
        assert not plain.socket.recv(100).startswith(b"+PONG")
        with pytest.raises(redis.ConnectionError):
            redis.Redis(port=server.port, ssl=True).ping()  # signed by nobody it knows
        assert client.ping()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_password_is_asked_for(pools: Path, library: Any) -> None:
    with served(pools / "pool", password="s3cret") as server:
        for more in ({"protocol": 2}, {"protocol": 3}, {"username": "default"}):
            assert connect(library, server.port, password="s3cret", **more).ping()
        with pytest.raises(library.exceptions.AuthenticationError):
            connect(library, server.port, password="wrong").ping()
        with pytest.raises(library.exceptions.AuthenticationError):
            connect(library, server.port).get("a")


def test_ten_thousand_wrong_passwords_open_nothing_and_hold_up_nobody(pools: Path) -> None:
    with served(pools / "pool", password="s3cret") as server:
        friend, stranger = Client(server.port), Client(server.port)
        assert friend.ask("auth", "s3cret") == ("+", b"OK")
        for at in range(0, 10_000, 500):
            stranger.send(b"".join(request("auth", f"guess{at + i}") for i in range(500)))
            for _ in range(500):
                assert stranger.read()[1].startswith(b"WRONGPASS")
            assert friend.ask("set", "a", at) == ("+", b"OK")
        assert stranger.ask("get", "a") == ("-", b"NOAUTH Authentication required.")
        assert server.stats()["clients"] == 2


def own_address() -> str | None:
    """This machine's, as others see it; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith("127.") else found


def test_protected_mode_refuses_other_machines(pools: Path) -> None:
    address = own_address()
    if address is None:
        pytest.skip("no address but loopback")
    with served(pools / "pool", host="0.0.0.0") as server:
        stranger = Client(server.port, host=address)
        sign, text = stranger.read()
        assert sign == "-" and text.startswith(b"DENIED")
        assert stranger.is_closed()
        assert Client(server.port).ask("ping") == ("+", b"PONG")
    with served(pools / "pool", host="0.0.0.0", password="p") as server:
        assert Client(server.port, host=address).ask("auth", "p") == ("+", b"OK")
    with served(pools / "pool", host="0.0.0.0", protected_mode=False) as server:
        assert Client(server.port, host=address).ask("ping") == ("+", b"PONG")


def test_one_client_too_many_is_told_so(pools: Path) -> None:
    with served(pools / "pool", max_clients=3) as server:
        inside = [Client(server.port) for _ in range(3)]
        assert all(client.ask("ping") == ("+", b"PONG") for client in inside)
        late = Client(server.port)
        assert late.read() == ("-", b"ERR max number of clients reached")
        assert late.is_closed()
        inside.pop().close()
        for _ in range(100):
            again = Client(server.port)
            again.send(request("ping"))
            if (reply := again.read())[0] == "+":
                break
        assert reply == ("+", b"PONG")


def command(name: str) -> str:
    found = shutil.which(name)
    assert found, f"no {name}: scripts/setup.sh --test"
    return found


def test_redis_cli_works_unchanged(port: int) -> None:
    def cli(*words: str, text: str | None = None) -> str:
        done = subprocess.run(
            [command("redis-cli"), "-p", str(port), *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    assert cli("flushdb") == "OK\n"
    assert cli("-3", "hset", "h", "f", "v") == "1\n"
    assert cli(text="set a 1\nincr a\nget a\nhgetall h\n") == "OK\n2\n2\nf\nv\n"
    assert cli("--scan", "--pattern", "h*") == "h\n"
    assert "errors: 0, replies: 2" in cli("--pipe", text="set b 1\r\nincr b\r\n")
    assert "redis_version:7.0.15" in cli("info", "server")


def test_redis_benchmark_works_unchanged(port: int) -> None:
    usual = ["-q", "-n", "2000", "-r", "500", "-t", "ping,set,get,incr,hset,mset"]
    for more in (["-P", "16"], ["--threads", "2", "-3"]):
        done = subprocess.run(
            [command("redis-benchmark"), "-p", str(port), *usual, *more],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert len(re.findall(r"[\d.]+ requests per second", done.stdout)) == 7, done.stdout
        assert "rror" not in done.stdout + done.stderr


def test_three_servers_share_the_keys_by_their_hashes(pools: Path) -> None:
    """The ring of docs/serve-sharding.md."""
    page = Path(__file__).parents[2] / "docs" / "serve-sharding.md"
    code = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(code[0], scope)
    with ExitStack() as stack:
        servers = [stack.enter_context(served(pools / f"pool{i}")) for i in range(3)]
        ring = scope["Ring"](f"127.0.0.1:{server.port}" for server in servers)
        for i in range(3000):
            assert ring.of(f"k{i}").set(f"k{i}", i)
        sizes = [redis.Redis(port=server.port).dbsize() for server in servers]
        assert sum(sizes) == 3000 and min(sizes) > 500
        assert all(int(ring.of(f"k{i}").get(f"k{i}")) == i for i in range(3000))
        answers = ring.mget(f"k{i}" for i in range(3001))
        assert answers == [b"%d" % i for i in range(3000)] + [None]
        two = scope["Ring"](f"127.0.0.1:{server.port}" for server in servers[:2])
        moved = sum(two.name_of(f"k{i}") != ring.name_of(f"k{i}") for i in range(3000))
        assert moved == sizes[2], "only the keys of the server that left have moved"
