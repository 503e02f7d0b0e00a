"""Commands of perdure.serve's clients, as Hypothesis draws them: with their options and with
arguments that are wrong, of few keys and fields.

Invariant: no key expires while a sequence runs, so that two servers that run it at slightly
different moments answer alike. Moments are far off or over.
"""

from __future__ import annotations

from hypothesis import strategies as st

Words = tuple[bytes, ...]

KEYS = [b"a", b"b", b"h", b"key:4"]
KEY = st.sampled_from(KEYS)
FIELD = st.sampled_from([b"f", b"g", b"", b"7"])
VALUE = st.sampled_from(
    [b"", b"1", b"-5", b"text", b"two words", b"\r\n", b"\0\xff", b"9223372036854775807", b"v" * 40]
)
NUMBER = st.sampled_from(
    [
        b"0",
        b"1",
        b"-1",
        b"3",
        b"-3",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"9223372036854775808",
        b"1.5",
        b"01",
        b"+1",
        b" 1",
        b"",
        b"x",
    ]
)
SECONDS = st.sampled_from([b"100", b"5000", b"0", b"-1", b"9223372036854775807", b"x", b""])
MOMENT = st.sampled_from([b"4000000000", b"5000000000", b"1", b"0", b"-7", b"x"])
MOMENT_MS = st.sampled_from([b"4000000000000", b"5000000000000", b"1", b"-9", b"x"])
BAD_WORD = st.sampled_from([b"foo", b"", b"EXX"])


def word(*choices: bytes) -> st.SearchStrategy[bytes]:
    """One of these, in small or in capital letters."""
    return st.sampled_from([*choices, *(one.upper() for one in choices)])


def words(*parts: st.SearchStrategy[bytes] | st.SearchStrategy[Words]) -> st.SearchStrategy[Words]:
    def flat(drawn: tuple[bytes | Words, ...]) -> Words:
        return tuple(one for part in drawn for one in ([part] if isinstance(part, bytes) else part))

    return st.tuples(*parts).map(flat)


def some(
    part: st.SearchStrategy[bytes] | st.SearchStrategy[Words], least: int = 0, most: int = 3
) -> st.SearchStrategy[Words]:
    return st.lists(words(part), min_size=least, max_size=most).map(
        lambda drawn: tuple(one for part in drawn for one in part)
    )


EXPIRY = st.one_of(
    words(word(b"ex"), SECONDS),
    words(word(b"px"), st.sampled_from([b"100000", b"0", b"x"])),
    words(word(b"exat"), MOMENT),
    words(word(b"pxat"), MOMENT_MS),
)
SET_OPTION = st.one_of(EXPIRY, words(word(b"nx", b"xx", b"keepttl", b"get")), words(BAD_WORD))
GETEX_OPTION = st.one_of(EXPIRY, words(word(b"persist")), words(BAD_WORD))
# GT and LT compare moments: of two that are relative the difference is the servers' own time.
WHEN = some(word(b"nx", b"xx", b"foo"), 0, 2)
WHEN_AT = some(word(b"nx", b"xx", b"gt", b"lt", b"foo"), 0, 2)
SCAN_OPTION = st.one_of(
    words(
        word(b"match"), st.sampled_from([b"*", b"a*", b"[ab]", b"[^a]", b"k?y*", b"\\a", b"[b-"])
    ),
    words(word(b"count"), st.sampled_from([b"1000", b"0", b"-1", b"x"])),
    words(word(b"type"), word(b"string", b"hash", b"list")),
    words(BAD_WORD),
)

ARGUMENTS: dict[bytes, st.SearchStrategy[Words]] = {
    b"get": words(KEY),
    b"set": words(KEY, VALUE, some(SET_OPTION)),
    b"setnx": words(KEY, VALUE),
    b"setex": words(KEY, SECONDS, VALUE),
    b"psetex": words(KEY, st.sampled_from([b"100000", b"0", b"-1", b"x"]), VALUE),
    b"getset": words(KEY, VALUE),
    b"mget": words(some(KEY, 1, 4)),
    b"mset": words(some(words(KEY, VALUE), 1, 4)),
    b"msetnx": words(some(words(KEY, VALUE), 1, 3)),
    b"del": words(some(KEY, 1, 3)),
    b"unlink": words(some(KEY, 1, 3)),
    b"exists": words(some(KEY, 1, 3)),
    b"touch": words(some(KEY, 1, 3)),
    b"incr": words(KEY),
    b"incrby": words(KEY, NUMBER),
    b"decr": words(KEY),
    b"decrby": words(KEY, NUMBER),
    b"append": words(KEY, VALUE),
    b"strlen": words(KEY),
    b"getrange": words(KEY, NUMBER, NUMBER),
    b"setrange": words(KEY, st.sampled_from([b"0", b"2", b"60", b"-1", b"x"]), VALUE),
    b"getdel": words(KEY),
    b"getex": words(KEY, some(GETEX_OPTION, 0, 2)),
    b"expire": words(KEY, SECONDS, WHEN),
    b"pexpire": words(KEY, st.sampled_from([b"100000", b"0", b"-1", b"x"]), WHEN),
    b"expireat": words(KEY, MOMENT, WHEN_AT),
    b"pexpireat": words(KEY, MOMENT_MS, WHEN_AT),
    b"ttl": words(KEY),
    b"pttl": words(KEY),
    b"expiretime": words(KEY),
    b"pexpiretime": words(KEY),
    b"persist": words(KEY),
    b"type": words(KEY),
    b"scan": words(st.sampled_from([b"0", b"x", b"-", b" 0"]), some(SCAN_OPTION)),
    b"keys": words(st.sampled_from([b"*", b"[a-b]", b"?", b"h", b"[^h]*", b"", b"k**4", b"\\"])),
    b"dbsize": words(),
    b"randomkey": words(),
    b"flushdb": words(some(word(b"async", b"sync", b"foo"), 0, 1)),
    b"flushall": words(some(word(b"async", b"sync", b"foo"), 0, 1)),
    b"hset": words(KEY, some(words(FIELD, VALUE), 1, 3)),
    b"hmset": words(KEY, some(words(FIELD, VALUE), 1, 3)),
    b"hsetnx": words(KEY, FIELD, VALUE),
    b"hget": words(KEY, FIELD),
    b"hmget": words(KEY, some(FIELD, 1, 3)),
    b"hgetall": words(KEY),
    b"hkeys": words(KEY),
    b"hvals": words(KEY),
    b"hdel": words(KEY, some(FIELD, 1, 3)),
    b"hlen": words(KEY),
    b"hexists": words(KEY, FIELD),
    b"hstrlen": words(KEY, FIELD),
    b"hincrby": words(KEY, FIELD, NUMBER),
    b"info": words(some(word(b"server", b"nothing"), 0, 2)),
    b"config": words(st.just(b"get"), some(st.sampled_from([b"save", b"nothing"]), 1, 2)),
    b"command": words(st.sampled_from([b"getkeys"]), st.sampled_from([b"get", b"mset"]), KEY, KEY),
    b"ping": words(some(VALUE, 0, 1)),
    b"echo": words(VALUE),
    b"hello": words(some(st.sampled_from([b"2", b"3", b"4", b"x"]), 0, 1), some(BAD_WORD, 0, 1)),
    b"auth": words(some(VALUE, 1, 3)),
    b"select": words(st.sampled_from([b"0", b"x", b"-1", b"99999"])),
    b"client": words(
        word(b"id", b"getname", b"setname", b"list", b"info", b"kill", b"no-evict", b"foo"),
        some(st.sampled_from([b"id", b"0", b"on", b"name", b"a b"]), 0, 2),
    ),
    b"multi": words(),
    b"exec": words(),
    b"discard": words(),
    b"watch": words(some(KEY, 1, 2)),
    b"unwatch": words(),
    b"wait": words(st.sampled_from([b"0", b"1", b"x"]), st.sampled_from([b"5", b"-1", b"x"])),
    b"time": words(),
    b"save": words(st.just(b"foo")),
    b"bgsave": words(st.just(b"foo")),
    b"lastsave": words(),
    b"shutdown": words(st.sampled_from([b"foo", b"abort"]), some(st.just(b"nosave"), 0, 1)),
    b"reset": words(),
    b"quit": words(),
}
# Those that end a connection, or the server, come in tests of their own.
DRAWN = [name for name in ARGUMENTS if name not in (b"quit",)]
OFTEN = [b"set", b"hset", b"multi", b"exec", b"watch", b"mset", b"incr"]


@st.composite
def commands(draw: st.DrawFn) -> Words:
    name = draw(st.sampled_from(DRAWN + OFTEN))
    drawn = [name, *draw(ARGUMENTS[name])]
    spoiled = draw(st.integers(0, 15))
    if spoiled == 0 and len(drawn) > 1 and name not in (b"save", b"bgsave", b"shutdown"):
        drawn.pop()
    elif spoiled == 1 and name not in (b"flushdb", b"flushall"):
        drawn.append(draw(VALUE))
    if name == b"shutdown" and b"foo" not in drawn:
        drawn = [name, b"abort", b"now"]  # what is refused by all
    if spoiled == 2:
        drawn[0] = name.upper()
    return tuple(drawn)


UNKNOWN = st.sampled_from(
    [(b"nosuch",), (b"nosuch", b"a", b"b" * 200), (b"",), (b"get\r\n", b"\n")]
)
COMMAND = st.one_of(commands(), commands(), commands(), commands(), UNKNOWN)
SEQUENCE = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), COMMAND), min_size=5, max_size=40)
