"""Plays a cache trace against a store, in batches.

A trace is replayed as a look-aside cache: get, and on a miss put; where it tells reads from writes,
a write puts. The seven-column trace brings its own operations and TTLs (see perdure._cache). Values
are made from the key and a version (perdure._contents), so that every value read back is checked.

A batch reads first and writes afterwards; what happens among its own requests is worked out here,
in order. Invariant: hits, misses and the store's contents after each batch are what a client
sending one request at a time would have got. A key that misses several times in a batch is one
miss, one put, and hits from then on; of several writes of a key in a batch, the store sees the
last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import perdure
from perdure import _cache, _contents
from perdure._cache import HEAD_BYTES, Item, Request
from perdure.cli_support import Failure, plural, show_size, show_width
from perdure.results import Result
from perdure.traces import MALFORMED_KEPT, Op, Requests, Trace, TraceFormat

VALUE_BYTES = 128  # of a trace that does not tell
FAULTS_KEPT = 20
_LOOK_ASIDE_VERSION = np.uint64(0)
_UNLIKE = "its value is not what a replay puts there"
_BLIND = (Op.set, Op.delete)  # operations that need no look at what is there


@dataclass(frozen=True)
class Plan:
    """What to replay, and how. Plain data: the crash run hands it to another process."""

    trace: str
    pool: str
    format: str = "auto"
    device: str = "cpu"
    threads: int | None = None
    batch: int = 16384
    limit: int | None = None
    value_bytes: int | None = None
    layout: str = "word"
    records: int = 1 << 16
    check: bool = True
    log_dir: str | None = None  # a new pool is then of durability power
    log_bytes: int | None = None
    columns: str | None = None  # of a csv trace

    def open_trace(self) -> Trace:
        return Trace(self.trace, self.format, self.columns)


@dataclass
class Tally:
    """What the requests came to."""

    ops: int = 0  # requests of the trace
    gets: int = 0  # of these, reads
    deletes: int = 0  # of these, deletes
    puts: int = 0  # values written: misses filled, or the trace's own writes that were done
    hits: int = 0
    hits_in_batch: int = 0  # of these, on a key that was not there before the batch
    expired: int = 0  # requests that met an item past its TTL
    too_large: int = 0  # writes and keys longer than the pool allows, not done
    store_ops: int = 0  # keys in all calls of the store
    checked: int = 0  # values read back and compared with what was put
    fault_count: int = 0  # of these, not what was put
    faults: list[str] = field(default_factory=list)


@dataclass
class Series:
    """One element a batch."""

    requests: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    store_seconds: list[float] = field(default_factory=list)


def show_key(key: Any) -> str:
    if isinstance(key, int):
        return str(key)
    text = key.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else f"hex:{key.hex()}"


class _TimedStore:
    """The store's calls, with the seconds and the keys they took."""

    def __init__(self, store: perdure.Store) -> None:
        self._store = store
        self.seconds = 0.0
        self.keys = 0

    def _timed(self, count: int, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        answer = call()
        self.seconds += time.perf_counter() - start
        self.keys += count
        return answer

    def get(self, keys: pa.Array) -> Result:
        return self._timed(len(keys), lambda: self._store.get(keys, check=False))

    def put(self, keys: pa.Array, values: pa.Array) -> None:
        self._timed(len(keys), lambda: self._store.put(keys, values))

    def apply(self, keys: pa.Array, kinds: npt.NDArray[np.uint8], values: pa.Array) -> None:
        self._timed(len(keys), lambda: self._store.apply(keys, kinds, values))


class Player:
    """Replays batches of one trace against one store, and keeps the tally."""

    def __init__(self, store: perdure.Store, form: TraceFormat, plan: Plan) -> None:
        stats = store.stats()
        self.tally = Tally()
        self.series = Series()
        self._store = _TimedStore(store)
        self._play = self._operations if form is TraceFormat.cache7 else self._look_aside
        self._limits = Limits(stats.max_key_bytes, stats.max_value_bytes)
        self._value_bytes = plan.value_bytes
        self._check = plan.check

    def play(self, batch: Requests) -> None:
        """One batch; when this returns, the store has acknowledged all of it."""
        tally, hits, seconds = self.tally, self.tally.hits, self._store.seconds
        versions = tally.ops + 1 + np.arange(len(batch))
        fitting = self._limits.fitting(batch)
        tally.ops += len(batch)
        tally.too_large += len(batch) - len(fitting)
        if len(fitting) < len(batch):
            batch, versions = batch.take(fitting), versions[fitting]
        self._play(batch, versions)
        tally.store_ops = self._store.keys
        self.series.requests.append(len(versions))
        self.series.hits.append(tally.hits - hits)
        self.series.store_seconds.append(self._store.seconds - seconds)

    def _get(self, keys: pa.Array) -> Result:
        """Reads keys that the pool can hold, so that a key is found, or absent, or its record is
        bad."""
        answer = self._store.get(keys)
        corrupt = np.flatnonzero(answer.statuses == int(perdure.KeyStatus.corrupt))
        self._note(keys, corrupt, "its record fails its checksum")
        return answer

    # --- look-aside -----------------------------------------------------------------------------

    def _look_aside(self, batch: Requests, versions: npt.NDArray[np.int64]) -> None:
        answer = self._get(batch.keys)
        writes = writes_of(batch)
        self.tally.gets += int((~writes).sum())
        self.tally.hits += int((answer.found & ~writes).sum())
        if self._check:
            self._check_fills(batch.keys, answer)
        open_rows = np.flatnonzero(~answer.found | writes)
        if open_rows.size:
            self._fill(batch, open_rows, writes[open_rows])

    def _fill(
        self, batch: Requests, rows: npt.NDArray[np.intp], writes: npt.NDArray[np.bool_]
    ) -> None:
        """Misses and writes, in order."""
        encoded = batch.keys.take(pa.array(rows)).dictionary_encode()
        codes, keys = encoded.indices.to_numpy(), encoded.dictionary
        lengths = fill_lengths(batch, self._value_bytes)[rows]
        fits = lengths <= self._limits.value_bytes
        place = np.arange(len(rows))
        # By key: the first request that left a value, and the last write that did.
        first = np.full(len(keys), len(rows))
        np.minimum.at(first, codes[fits], place[fits])
        last = np.full(len(keys), -1)
        np.maximum.at(last, codes[fits & writes], place[fits & writes])
        hits = ~writes & (first[codes] < place)  # on what the batch itself had put
        fills = ~writes & ~hits & fits
        self.tally.hits += int(hits.sum())
        self.tally.hits_in_batch += int(hits.sum())
        self.tally.too_large += int((~hits & ~fits).sum())
        self.tally.puts += int(fills.sum() + (fits & writes).sum())
        source = np.where(last >= 0, last, first)
        written = source < len(rows)
        if written.any():
            keys, lengths = keys.filter(pa.array(written)), lengths[source[written]]
            seeds = _contents.seeds_of(keys)
            self._store.put(keys, _contents.make(seeds, _LOOK_ASIDE_VERSION, lengths))

    def _check_fills(self, keys: pa.Array, answer: Result) -> None:
        found = answer.found
        values = found_values(answer)
        seeds = _contents.seeds_of(keys)[found]
        expected = _contents.make(seeds, _LOOK_ASIDE_VERSION, _contents.lengths_of(values))
        wrong = _contents.differing(values, expected)
        self.tally.checked += len(values)
        self._note(keys, np.flatnonzero(found)[wrong], _UNLIKE)

    def _note(self, keys: pa.Array, wrong: npt.NDArray[np.intp], why: str) -> None:
        tally = self.tally
        tally.fault_count += len(wrong)
        for row in wrong[: FAULTS_KEPT - len(tally.faults)]:
            tally.faults.append(f"key {show_key(keys[int(row)].as_py())}: {why}")

    # --- the trace's own operations -------------------------------------------------------------

    def _operations(self, batch: Requests, versions: npt.NDArray[np.int64]) -> None:
        assert batch.ops is not None and batch.times is not None
        seeds = _contents.seeds_of(batch.keys)
        reading = np.flatnonzero(~np.isin(batch.ops, _BLIND))
        answer = self._get(batch.keys.take(pa.array(reading)))
        rows, values = reading[answer.found], found_values(answer)
        if self._check:
            self.tally.checked += len(values)
            self._note(batch.keys, rows[_cache.faults_in(seeds[rows], values)], _UNLIKE)

        codes = batch.keys.dictionary_encode().indices.to_numpy()
        heads = _cache.heads_of(values)
        expires = heads[:, 0].astype(np.int64)
        expired = (expires != 0) & (expires <= batch.times[rows])
        in_turn = np.zeros(
            len(batch), np.bool_
        )  # by code: the order of this key's requests matters
        in_turn[codes[batch.ops > Op.gets]] = True
        in_turn[codes[rows[expired]]] = True

        self.tally.gets += int((batch.ops <= Op.gets).sum())
        self.tally.deletes += int((batch.ops == Op.delete).sum())
        self.tally.hits += int((~in_turn[codes[rows]]).sum())  # the others are all gets
        items = {
            int(codes[row]): _cache.item_of(heads[i], values[i])
            for i, row in enumerate(rows)
            if in_turn[codes[row]]
        }
        changes = self._take_turns(batch, versions, codes, np.flatnonzero(in_turn[codes]), items)
        if changes:
            self._write(batch, seeds, changes)

    def _take_turns(
        self,
        batch: Requests,
        versions: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int32],
        rows: npt.NDArray[np.intp],
        items: dict[int, Item],
    ) -> list[tuple[int, Item | None]]:
        """The requests of these rows one by one; what they change, as (row, item or None)."""
        tally, changes, written = self.tally, [], set()
        for row in map(int, rows):
            request, code = request_at(batch, row, int(versions[row])), int(codes[row])
            before = items.get(code)
            after = _cache.step(request, before, self._limits.value_bytes - HEAD_BYTES)
            tally.expired += after.expired
            tally.too_large += after.too_large
            if request.op in (Op.get, Op.gets) and after.served:
                tally.hits += 1
                tally.hits_in_batch += code in written
            # A delete is sent even where nothing is known to be there: it does not read first.
            if after.item is not before or request.op is Op.delete:
                changes.append((row, after.item))
                written.add(code)
            items[code] = after.item
        return changes

    def _write(
        self, batch: Requests, seeds: _contents.Words, changes: list[tuple[int, Item | None]]
    ) -> None:
        rows = np.array([row for row, _ in changes])
        items = [item for _, item in changes if item is not None]
        puts = np.array([item is not None for _, item in changes])
        values = _cache.values_of(seeds[rows[puts]], items)
        lengths = np.zeros(len(rows), np.int64)
        lengths[puts] = _contents.lengths_of(values)
        offsets, data = _contents.buffers(values)
        operands = _contents.from_buffers(lengths, data[offsets[0] : offsets[-1]])
        kinds = np.where(puts, int(perdure.OpKind.put), int(perdure.OpKind.erase)).astype(np.uint8)
        self._store.apply(batch.keys.take(pa.array(rows)), kinds, operands)
        self.tally.puts += len(items)


@dataclass(frozen=True)
class Limits:
    """The longest key and value that the pool takes."""

    key_bytes: int
    value_bytes: int

    def fitting(self, batch: Requests) -> npt.NDArray[np.intp]:
        """The rows whose key the pool can hold."""
        if pa.types.is_uint64(batch.keys.type):
            return np.arange(len(batch))
        return np.flatnonzero(_contents.lengths_of(batch.keys) <= self.key_bytes)


def fill_lengths(batch: Requests, value_bytes: int | None) -> npt.NDArray[np.int64]:
    """Bytes of the value that a miss or a write puts."""
    if value_bytes is not None or batch.sizes is None:
        return np.full(len(batch), VALUE_BYTES if value_bytes is None else value_bytes, np.int64)
    if not batch.key_counted:
        return batch.sizes
    numeric = pa.types.is_uint64(batch.keys.type)
    return np.maximum(batch.sizes - (8 if numeric else _contents.lengths_of(batch.keys)), 0)


def writes_of(batch: Requests) -> npt.NDArray[np.bool_]:
    """Which requests of a look-aside trace write."""
    return np.zeros(len(batch), np.bool_) if batch.ops is None else batch.ops == Op.set


def request_at(batch: Requests, row: int, version: int) -> Request:
    assert batch.ops is not None and batch.times is not None
    assert batch.sizes is not None and batch.ttls is not None
    numbers = batch.times[row], batch.sizes[row], batch.ttls[row]
    return Request(Op(int(batch.ops[row])), *map(int, numbers), version)


def found_values(answer: Result) -> pa.LargeBinaryArray:
    """The values of the keys that were found, not copied: absent ones take no bytes."""
    offsets, data = _contents.buffers(answer.values)
    lengths = np.diff(offsets)[answer.found]
    return _contents.from_buffers(lengths, data[offsets[0] : offsets[-1]])


# --- the run ------------------------------------------------------------------------------------


def open_pool(plan: Plan, trace: Trace) -> perdure.Store:
    """The pool of the plan, made if it is missing, refused if its sizes do not fit the trace."""
    width = 8 if trace.numeric else None
    try:
        store = perdure.open(
            plan.pool, log_dir=plan.log_dir, device=plan.device, threads=plan.threads
        )
    except perdure.NotFound:
        return perdure.create(
            plan.pool,
            width,
            None,
            expected_records=plan.records,
            index=perdure.GPHash(layout=plan.layout),
            durability="process" if plan.log_dir is None else "power",
            log_dir=plan.log_dir,
            log_bytes=plan.log_bytes,
            device=plan.device,
            threads=plan.threads,
        )
    if (store.key_bytes, store.value_bytes) == (width, None):
        return store
    with store:
        raise Failure(
            f"--pool {plan.pool}: has keys of {show_width(store.key_bytes)} and values of"
            f" {show_width(store.value_bytes)}; a {trace.format} trace needs keys of "
            f"{show_width(width)} and"
            " values of varying length: name another pool"
        )


@dataclass
class Report:
    """A replay that came to its end."""

    plan: Plan
    format: str
    tally: Tally
    series: Series
    seconds: float  # all of it, reading the trace and checking values included
    malformed_count: int
    malformed: list[tuple[int, str]]
    stats: dict[str, Any]
    survives: dict[str, Any]

    def latency_us(self, percent: float) -> float:
        """Percentile of the time in the store of one batch."""
        held = self.series.store_seconds
        return float(np.percentile(held, percent)) * 1e6 if held else 0.0

    @property
    def store_seconds(self) -> float:
        return sum(self.series.store_seconds)

    @property
    def mops(self) -> float:
        return self.tally.ops / self.store_seconds / 1e6 if self.store_seconds else 0.0

    @property
    def fault_count(self) -> int:
        return self.tally.fault_count

    @property
    def hit_rate(self) -> float:
        return self.tally.hits / self.tally.gets if self.tally.gets else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self.plan),
            "format": self.format,
            "layout": self.stats["layout"],
            **asdict(self.tally),
            "hit_rate": self.hit_rate,
            "mops": self.mops,
            "mops_end_to_end": self.tally.ops / self.seconds / 1e6 if self.seconds else 0.0,
            "p50_us": self.latency_us(50),
            "p99_us": self.latency_us(99),
            "seconds": self.seconds,
            "store_seconds": self.store_seconds,
            "malformed": self.malformed_count,
            "malformed_lines": [{"line": line, "why": why} for line, why in self.malformed],
            "machine": self.stats["machine"],
            "medium": self.stats["medium"],
            "survives": self.survives,
            "stats": self.stats,
        }

    def lines(self) -> list[str]:
        """The summary for people."""
        tally, plan, stats = self.tally, self.plan, self.stats
        checked = f"{tally.checked:,} values checked, {plural(tally.fault_count, 'fault')}"
        lines = [
            f"replayed {plural(tally.ops, 'request')} of {plan.trace} ({self.format}) on "
            f"{stats['machine']}",
            f"  {tally.gets:,} gets, {tally.puts:,} puts, {tally.deletes:,} deletes;"
            f" {tally.hits:,} hits ({self.hit_rate:.2%} of gets)",
            f"  {self.mops:.2f} M requests/s in the store; batches of {plan.batch:,}:"
            f" p50 {self.latency_us(50):,.0f} us, p99 {self.latency_us(99):,.0f} us;"
            f" {self.seconds:.1f} s in all",
            f"  {checked if plan.check else 'values not checked (--no-check)'}",
            f"  {plural(stats['records'], 'record')} in {plan.pool}, "
            f"{show_size(stats['pool_bytes'])}"
            f" on {stats['medium']}; survives {self.survives['description']}",
        ]
        if tally.expired:
            lines.append(f"  {tally.expired:,} requests met an expired item")
        if tally.too_large:
            lines.append(
                f"  {tally.too_large:,} requests not done: key or value longer than the pool allows"
            )
        return lines

    def complaints(self) -> list[str]:
        """Malformed lines and faults, for standard error."""
        lines = [f"{self.plan.trace}:{line}: skipped: {why}" for line, why in self.malformed]
        if self.malformed_count > MALFORMED_KEPT:
            lines.append(
                f"{self.plan.trace}: {self.malformed_count - MALFORMED_KEPT:,} more malformed "
                "lines skipped"
            )
        lines += [f"fault: {fault}" for fault in self.tally.faults]
        if self.tally.fault_count > len(self.tally.faults):
            lines.append(f"({self.tally.fault_count - len(self.tally.faults):,} more faults)")
        return lines


def run(
    plan: Plan,
    acknowledge: Callable[[int], None] = lambda _: None,
    show: Callable[[float], None] = lambda _: None,
) -> Report:
    """Replays the whole plan. `acknowledge` hears how many requests are done after each batch,
    `show` which fraction."""
    start = time.perf_counter()
    with plan.open_trace() as trace, open_pool(plan, trace) as store:
        player = Player(store, trace.format, plan)
        for batch in trace.batches(plan.batch, plan.limit):
            player.play(batch)
            acknowledge(player.tally.ops)
            show(player.tally.ops / plan.limit if plan.limit else trace.fraction_read())
        return Report(
            plan,
            str(trace.format),
            player.tally,
            player.series,
            time.perf_counter() - start,
            trace.malformed.count,
            trace.malformed.first,
            store.stats().as_dict(),
            store.survives().as_dict(),
        )
