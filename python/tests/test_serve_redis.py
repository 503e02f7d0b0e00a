"""perdure.serve beside Redis's own server: the same bytes to both, and the same bytes back, but for
what differs by its nature (identities, moments, orders that nobody promises) and for what
docs/serve.md lists."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve_grammar import ARGUMENTS, SEQUENCE, Words
from serve_world import Client, Closed, Tree, redis_server, request, served

HERE = Path(__file__).parent
LISTED = [
    "get",
    "set",
    "mget",
    "mset",
    "del",
    "unlink",
    "exists",
    "incr",
    "incrby",
    "decr",
    "decrby",
    "append",
    "strlen",
    "getrange",
    "setrange",
    "getdel",
    "getex",
    "expire",
    "pexpire",
    "ttl",
    "pttl",
    "persist",
    "type",
    "scan",
    "keys",
    "dbsize",
    "randomkey",
    "flushdb",
    "hset",
    "hget",
    "hmget",
    "hgetall",
    "hdel",
    "hlen",
    "hexists",
    "hincrby",
    "info",
    "config",
    "command",
    "ping",
    "echo",
    "hello",
    "auth",
    "select",
    "client",
    "multi",
    "exec",
    "discard",
    "watch",
    "wait",
    "save",
    "bgsave",
    "lastsave",
    "shutdown",
]
MOMENTS = {b"ttl": 1000, b"pttl": 1, b"expiretime": 1000, b"pexpiretime": 1}
SORTED = {b"keys", b"hkeys", b"hvals"}
UNLIKE = {b"info", b"time", b"lastsave", b"randomkey"}


@dataclass
class Pair:
    """Perdure's port and Redis's."""

    ports: tuple[int, int]

    def clients(self) -> tuple[Client, Client]:
        return Client(self.ports[0]), Client(self.ports[1])


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        served(Path(folder) / "pool", device=request.param) as server,
        redis_server() as redis,
    ):
        yield Pair((server.port, redis))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both ask for a password."""
    folder = tmp_path_factory.mktemp("pool")
    with (
        served(folder / "pool", password="right") as server,
        redis_server(password="right") as redis,
    ):
        yield Pair((server.port, redis))


def plain(words: Words, reply: Tree) -> Tree:
    """The reply without what the two servers cannot have alike."""
    sign, body = reply
    name = words[0].lower()
    if sign in "-+" or body is None:
        return reply
    if name in UNLIKE:
        return (sign,)
    if name == b"hello":
        pairs = [(body[i], body[i + 1]) for i in range(0, len(body), 2)]
        return (sign, [one for one in pairs if one[0] != ("$", b"id")])
    if name == b"client" and sign != "_":
        return (sign,)
    if name == b"scan":
        return (sign, [body[0], sorted(body[1][1])])
    if name in SORTED or words[:2] == (b"command", b"list"):
        return (sign, sorted(body))
    if name == b"hgetall":
        return (sign, sorted((body[i], body[i + 1]) for i in range(0, len(body), 2)))
    return reply


@dataclass
class Twins:
    """A connection to each server, the commands queued by MULTI, and what was asked."""

    clients: tuple[Client, Client]
    began: float = field(default_factory=time.monotonic)
    queued: list[Words] = field(default_factory=list)
    in_multi: bool = False
    asked: list[Words] = field(default_factory=list)

    def ask(self, group: list[Words]) -> None:
        data = b"".join(request(*words) for words in group)
        for client in self.clients:
            client.send(data)
        for words in group:
            self.asked.append(words)
            self.compare(words, *(client.read() for client in self.clients))

    def compare(self, words: Words, ours: Tree, theirs: Tree) -> None:
        name = words[0].lower()
        if name == b"exec" and theirs[0] == "*" and theirs[1] is not None:
            assert ours[0] == "*" and len(ours[1]) == len(theirs[1]) == len(self.queued)
            for queued, one, other in zip(self.queued, ours[1], theirs[1], strict=True):
                self.compare_one(queued, one, other)
        else:
            self.compare_one(words, ours, theirs)
        if name == b"multi" and theirs == ("+", b"OK"):
            self.in_multi, self.queued = True, []
        elif theirs == ("+", b"QUEUED"):
            self.queued.append(words)
        elif name in (b"exec", b"discard", b"reset"):
            self.in_multi = False

    def compare_one(self, words: Words, ours: Tree, theirs: Tree) -> None:
        unit = MOMENTS.get(words[0].lower())
        if unit and ours[0] == theirs[0] == ":" and int(theirs[1]) > 0 < int(ours[1]):
            apart_s = time.monotonic() - self.began + 1
            assert abs(int(ours[1]) - int(theirs[1])) * unit <= apart_s * 1000 + unit, words
        else:
            assert plain(words, ours) == plain(words, theirs), (words, self.asked)

    def close(self) -> None:
        for client in self.clients:
            client.close()


def groups(sequence: list[tuple[int, Words]], pipelined: bool) -> Iterator[tuple[int, list[Words]]]:
    """What one connection sends at once."""
    at: int | None = None
    group: list[Words] = []
    for which, words in sequence:
        if at is not None and (which != at or not pipelined):
            yield at, group
            group = []
        at = which
        group.append(words)
    if at is not None:
        yield at, group


def hits_and_misses(client: Client) -> tuple[int, int]:
    text = client.ask("info", "stats")[1].decode()
    found = dict(line.split(":") for line in text.split("\r\n") if ":" in line)
    return int(found["keyspace_hits"]), int(found["keyspace_misses"])


# A push compares the same sequences each time; PERDURE_SERVE_SEQUENCES asks for that many others.
SEQUENCES = int(os.environ.get("PERDURE_SERVE_SEQUENCES", "0"))


@settings(
    max_examples=SEQUENCES or 150,
    derandomize=not SEQUENCES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(SEQUENCE, st.booleans(), st.sampled_from([b"2", b"3"]))
def test_two_connections_are_answered_as_redis_answers_them(
    pair: Pair, sequence: list[tuple[int, Words]], pipelined: bool, protocol: bytes
) -> None:
    twins = (Twins(pair.clients()), Twins(pair.clients()))
    looking = pair.clients()
    try:
        for one in twins:
            one.ask([(b"hello", protocol), (b"flushall",)])
        before = [hits_and_misses(client) for client in looking]
        for which, group in groups(sequence, pipelined):
            twins[which].ask(group)
        for one in twins:
            one.ask([(b"ping", b"end")])
        counted = [
            tuple(now - then for now, then in zip(hits_and_misses(client), at_first, strict=True))
            for client, at_first in zip(looking, before, strict=True)
        ]
        assert counted[0] == counted[1], (pipelined, sequence)
    finally:
        for one in twins:
            one.close()
        for client in looking:
            client.close()


def test_every_command_is_drawn(pair: Pair) -> None:
    listed = {name.encode() for name in LISTED}
    assert listed <= set(ARGUMENTS)
    ours = Client(pair.ports[0])
    assert {name for _, name in ours.ask("command", "list")[1]} == set(ARGUMENTS)


def test_commands_describe_themselves_as_redis_has_them(pair: Pair) -> None:
    twins = pair.clients()
    for name in ARGUMENTS:
        ours, theirs = (client.ask("command", "info", name)[1][0][1] for client in twins)
        assert ours[:2] == theirs[:2], name
        assert ours[3:6] == theirs[3:6], name
        assert {flag for _, flag in ours[2][1]} <= {flag for _, flag in theirs[2][1]}, name


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_lines_as_people_type_them(pair: Pair, protocol: str) -> None:
    """serve_lines.txt has every error that a command can answer with."""
    twins = Twins(pair.clients())
    twins.ask([(b"hello", protocol.encode()), (b"flushall",)])
    lines = (HERE / "serve_lines.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if not line or line.startswith("#"):
            continue
        for client in twins.clients:
            client.send(line.encode() + b"\r\n")
        words = tuple(word.encode() for word in line.split())
        twins.compare(words, *(client.read() for client in twins.clients))


def all_until_pong(port: int, data: bytes) -> bytes:
    """What comes back until the server has closed the connection or answers PING."""
    client = Client(port)
    got = b""
    try:
        client.send(data + b"\r\nPING\r\n")
        while not got.endswith(b"+PONG\r\n"):
            more = client.socket.recv(1 << 16)
            if not more:
                return got + b"closed"
            got += more
    except (ConnectionResetError, BrokenPipeError):
        return got + b"closed"
    finally:
        client.close()
    return got


def all_until_closed(port: int, data: bytes) -> bytes:
    """What comes back until the server has closed the connection, at the latest for QUIT."""
    client = Client(port)
    got = b""
    try:
        client.send(data + b"\r\nQUIT\r\n")
        while more := client.socket.recv(1 << 16):
            got += more
    except (ConnectionResetError, BrokenPipeError):
        pass
    finally:
        client.close()
    return got


PING = b"$4\r\nPING\r\n"
NO_BULKS = (
    r"+PING :1 -ERR _ #t ,1.5 (12 =8 %0 ~0 >0 |0 !3 . ? @ PING *1 \ $ $-1 $-2 $abc $4x $04 $+4"
)
NO_BULKS += ' " $99999999999 $9223372036854775808'
BYTES = [b"*1\r\n" + head.encode() + b"\r\n" for head in NO_BULKS.split()]
BYTES += [b"*1\r\n" + head + b"\r\n" for head in [b"", b"\xff", b"\t", b"\x07", b"$ 4"]]
BYTES += [head + b"\r\n" + PING for head in [b"*abc", b"*01", b"* 1", b"*+1", b"*1x", b"*"]]
BYTES += [head + b"\r\n" for head in [b"*4294967297", b"*9223372036854775808", b"*0", b"*-1"]]
BYTES += [
    b"*2\r\n" + PING + b":1\r\n",
    b"*2\r\n$-1\r\n$1\r\na\r\n",
    b"*2\r\n" + PING + b"$99999999999\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n",
    b'"unbalanced\r\n',
    b"'foo\r\n",
    b'"a"b\r\n',
    b"\r\n",
    b"\n",
    b"  \r\n",
    b"PING",
    b'echo "\\x41\\n\\t\\"\\z"\r\n',
    b"echo 'it\\'s \\n'\r\n",
    b'echo ""\r\n',
    b"%1\r\n",
    b"+PING\r\n",
    b"\xff\xfe\r\n",
    b"GET / HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nset a hacked\r\n",
    b"host: x\r\n",
    b"*1\r\n$5\r\nhost:\r\n",
    b"quit\r\n",
    b"quit now\r\n",
    b"multi\r\nquit\r\n",
]


def without_id(data: bytes) -> bytes:
    before, _, after = data.partition(b"\r\nid\r\n:")
    return before + after[after.find(b"\r") :] if after else before


@pytest.mark.parametrize("data", BYTES, ids=repr)
def test_bytes_that_are_no_request_end_as_with_redis(pair: Pair, data: bytes) -> None:
    ours, theirs = (all_until_pong(port, data) for port in pair.ports)
    assert ours == theirs


LINES_BEFORE_AUTH = """
    nosuch|get|get a|exec|multi|client foo|client id|hello|hello 3|hello 2 auth default wrong
    hello 3 auth default right|hello 3 auth default right setname n|hello 3 setname n
    hello 3 setname n auth default right|hello 3 setname 'a b' auth default right|auth|auth right
    auth wrong|auth default right|auth default wrong|auth other right|auth a b c|quit|reset|ping
    auth right{}reset|auth right{}auth wrong|multi{}exec|hello 3 auth default right{}hello 9
""".replace("\n", "|").replace("{}", "\r\n")
BEFORE_AUTH = [line.strip().encode() for line in LINES_BEFORE_AUTH.split("|") if line.strip()]
BEFORE_AUTH += [b"*11", b"*1\r\n$16385", b"*1\r\n$99999999999", b"host: x", b"*1\r\n+a"]


@pytest.mark.parametrize("data", BEFORE_AUTH, ids=repr)
def test_who_has_not_said_who_it_is_gets_what_redis_gives(guarded: Pair, data: bytes) -> None:
    ours, theirs = (without_id(all_until_closed(port, data)) for port in guarded.ports)
    assert ours == theirs


def drained(client: Client) -> list[Tree]:
    """Replies until that of an ECHO that is certain to be answered."""
    client.send(request("client", "reply", "on") + request("echo", "that was all"))
    replies = []
    while (reply := client.read()) != ("$", b"that was all"):
        replies.append(reply)
    return replies


@pytest.mark.parametrize(
    "lines",
    [
        ["client reply off", "set a 1", "get a", "nosuch", "client reply skip", "ping"],
        ["client reply skip", "set a 2", "get a"],
        ["client reply skip", "client reply skip", "ping", "ping"],
        ["client reply skip", "client reply on", "ping"],
        ["client reply skip", "client reply off", "ping"],
        ["client reply off", "client reply on", "ping"],
        ["client reply skip", "nosuch", "ping"],
        ["client reply skip", "get", "ping"],
        ["client reply", "client reply foo", "client reply skip now", "ping"],
        ["client reply off", "client id", "client getname", "hello 3", "ping"],
        ["client reply skip", "hello 3", "hello 2"],
    ],
    ids=" / ".join,
)
def test_clients_that_ask_for_no_replies_get_none(pair: Pair, lines: list[str]) -> None:
    for pipelined in (True, False):
        got = []
        for client in pair.clients():
            if pipelined:
                client.send("".join(f"{line}\r\n" for line in lines).encode())
            else:
                for line in lines:
                    client.send(f"{line}\r\n".encode())
                    time.sleep(0.001)
            got.append(
                [plain((b"hello",), one) if one[0] in "%*" else one for one in drained(client)]
            )
            client.close()
        assert got[0] == got[1]


def test_a_client_that_kills_itself_gets_its_answer_and_no_more(pair: Pair) -> None:
    got = []
    for client in pair.clients():
        number = int(client.ask("client", "id")[1])
        client.send(request("client", "kill", "id", number, "skipme", "no") + request("ping"))
        got.append([client.read(), client.is_closed()])
    assert got[0] == got[1] == [(":", b"1"), True]


def test_a_client_can_kill_another_one(pair: Pair) -> None:
    for client, other in zip(pair.clients(), pair.clients(), strict=True):
        number = int(other.ask("client", "id")[1])
        assert client.ask("client", "kill", "id", number) == (":", b"1")
        assert client.ask("client", "kill", "id", number) == (":", b"0")
        with pytest.raises((Closed, BrokenPipeError)):
            other.ask("ping")
        assert client.is_silent()


def test_a_wait_for_replicas_blocks_only_the_client_that_waits(pair: Pair) -> None:
    for client, other in zip(pair.clients(), pair.clients(), strict=True):
        began = time.monotonic()
        client.send(request("set", "a", 1) + request("wait", 1, 300) + request("ping"))
        assert other.ask("ping") == ("+", b"PONG")
        assert client.read() == ("+", b"OK")
        assert client.read() == (":", b"0")
        assert time.monotonic() - began >= 0.29
        assert client.read() == ("+", b"PONG")
        assert client.is_silent()
