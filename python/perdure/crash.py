"""The crash run: replay in a child process, kill it at a random moment, reopen, check everything.

The child reports each acknowledged batch through a pipe; what arrived there is the record of
acknowledgements, kept outside the store. The pipe holds few of them: a parent that gets no
processor for a while holds the child up, and the trace does not end before the kill. What the pool
must then hold is worked out anew from the trace, by the sequential rule, in a dictionary.

Invariant of a sound store: every key stands as the acknowledged batches left it, or, if the one
batch that was under way at the kill touches it, as that batch leaves it; and no other key is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import perdure
from perdure import _cache, _contents, _player
from perdure._cache import HEAD_BYTES, Item
from perdure._player import FAULTS_KEPT, Limits, Plan
from perdure.cli_support import Failure, plural
from perdure.traces import Requests, TraceFormat

# Requests done. Shorter than PIPE_BUF, so written whole; and so long that few are under way.
_ACKNOWLEDGEMENT = struct.Struct("<Q504x")
_PIPE_BYTES = 4096  # the least that there is
_CHILD = "import sys; from perdure import crash; crash.child(*sys.argv[1:])"

Key = int | bytes
State = int | Item | None  # length of the value (look-aside), the item (operations), or absent


# --- the reference ------------------------------------------------------------------------------


class Reference:
    """What a cache holds after the requests so far: a dictionary and the sequential rule."""

    def __init__(self, form: TraceFormat, limits: Limits, value_bytes: int | None) -> None:
        self.states: dict[Key, int | Item] = {}
        self.hits = 0
        self._operations = form is TraceFormat.cache7
        self._limits = limits
        self._value_bytes = value_bytes
        self._done = 0

    def play(self, batch: Requests) -> None:
        first_version = self._done + 1
        self._done += len(batch)
        keys = batch.keys.to_pylist()
        rows = self._limits.fitting(batch).tolist()
        if self._operations:
            for row in rows:
                self._operate(keys[row], _player.request_at(batch, row, first_version + row))
            return
        lengths = _player.fill_lengths(batch, self._value_bytes).tolist()
        writes = _player.writes_of(batch).tolist()
        for row in rows:
            self._look_aside(keys[row], lengths[row], writes[row])

    def _look_aside(self, key: Key, length: int, write: bool) -> None:
        if key in self.states and not write:
            self.hits += 1
        elif length <= self._limits.value_bytes:
            self.states[key] = length

    def _operate(self, key: Key, request: _cache.Request) -> None:
        held = self.states.get(key)
        assert not isinstance(held, int)
        after = _cache.step(request, held, self._limits.value_bytes - HEAD_BYTES)
        self.hits += after.served and request.op in (_cache.Op.get, _cache.Op.gets)
        if after.item is not None:
            self.states[key] = after.item
        elif held is not None:
            del self.states[key]


def stored_form(keys: pa.Array, states: list[State], form: TraceFormat) -> pa.LargeBinaryArray:
    """The values that the store must give for these keys, null where it must have none."""
    seeds = _contents.seeds_of(keys)
    there = np.array([state is not None for state in states], np.bool_)
    held = [state for state in states if state is not None]
    if form is TraceFormat.cache7:
        values = _cache.values_of(seeds[there], held)
    else:
        values = _contents.make(seeds[there], np.uint64(0), np.array(held, np.int64))
    places = np.where(there, np.cumsum(there) - 1, 0)
    return (
        values.take(pa.array(places, mask=~there))
        if len(held)
        else pa.nulls(len(keys), values.type)
    )


# --- the child ----------------------------------------------------------------------------------


def child(plan: str, pipe: str) -> None:
    """Replays, and tells the parent after each batch how many requests are acknowledged."""
    _player.run(Plan(**json.loads(plan)), lambda done: _tell(int(pipe), done))


def _tell(pipe: int, done: int) -> None:
    os.write(pipe, _ACKNOWLEDGEMENT.pack(done))


@dataclass
class _Kill:
    acknowledged: int  # requests
    seconds: float  # from the first acknowledgement to the kill


def _replay_and_kill(plan: Plan, kill_after: int, moment: random.Random) -> _Kill:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with os.fdopen(reader, "rb") as acknowledgements:
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, json.dumps(asdict(plan)), str(writer)],
                pass_fds=[writer],
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(writer)
        try:
            kill = _kill_when_due(process, _read(acknowledgements), kill_after, moment)
        finally:
            process.kill()
            _, said = process.communicate()
    if process.returncode == -signal.SIGKILL:
        return kill
    if process.returncode == 0:
        raise Failure(
            f"--kill-after {kill_after}: the trace ended after "
            f"{plural(kill.acknowledged, 'request')},"
            " before the kill; kill earlier"
        )
    last = said.decode(errors="replace").strip().splitlines()
    raise Failure(
        f"the replaying process failed by itself (status {process.returncode}): "
        f"{last[-1] if last else ''}"
    )


def _kill_when_due(
    process: subprocess.Popen[bytes], done: Iterator[int], kill_after: int, moment: random.Random
) -> _Kill:
    acknowledged, arrivals = 0, []
    for acknowledged in done:
        arrivals.append(time.monotonic())
        if acknowledged >= kill_after:
            # Anywhere in the next two batches, so that the kill meets every phase of a batch.
            batch_seconds = (arrivals[-1] - arrivals[0]) / max(1, len(arrivals) - 1)
            time.sleep(moment.uniform(0, 2) * batch_seconds)
            process.kill()
            break
    seconds = time.monotonic() - arrivals[0] if arrivals else 0.0
    late = list(done)  # acknowledged before the kill arrived
    return _Kill(late[-1] if late else acknowledged, seconds)


def _read(acknowledgements: Any) -> Iterator[int]:
    while len(record := acknowledgements.read(_ACKNOWLEDGEMENT.size)) == _ACKNOWLEDGEMENT.size:
        yield _ACKNOWLEDGEMENT.unpack(record)[0]


# --- the check ----------------------------------------------------------------------------------


@dataclass
class Report:
    """What a crash run found."""

    plan: Plan
    format: str
    acknowledged: int  # requests
    seconds_to_kill: float = 0.0  # from the first acknowledgement
    in_flight: int = 0  # requests of the batch that was under way
    keys_checked: int = 0
    keys_found: int = 0
    from_in_flight: int = 0  # keys that stand as the batch under way leaves them, not as before it
    records: int = 0
    fault_count: int = 0
    faults: list[str] = field(default_factory=list)
    recovery: dict[str, Any] = field(default_factory=dict)
    verify_records: int = 0
    machine: str = ""
    survives: dict[str, Any] = field(default_factory=dict)

    def add_faults(self, faults: list[str]) -> None:
        self.fault_count += len(faults)
        self.faults += faults[: FAULTS_KEPT - len(self.faults)]

    def as_dict(self) -> dict[str, Any]:
        plan = asdict(self.plan)
        return {**plan, **{key: value for key, value in asdict(self).items() if key != "plan"}}

    def lines(self) -> list[str]:
        found, why = self.recovery, self.recovery["why_dropped"]
        verdict = "every acknowledged operation is there"
        if self.fault_count:
            verdict = (
                f"{plural(self.fault_count, 'FAULT')}: acknowledged operations are lost or wrong"
            )
        return [
            f"killed (SIGKILL) after {plural(self.acknowledged, 'acknowledged request')}"
            f" of {self.plan.trace} ({self.format}), {self.seconds_to_kill:.2f} s in, on "
            f"{self.machine}",
            f"  recovery: {'clean' if found['clean'] else 'unclean'} pool,"
            f" {plural(found['records'], 'record')},"
            f" {found['dropped']:,} dropped{f' ({why})' if why else ''},"
            f" {plural(found['duplicates'], 'duplicate')} removed,"
            f" growth {'resumed' if found['resize_resumed'] else 'not under way'};"
            f" {found['map_seconds'] + found['recover_seconds']:.3f} s",
            f"  {plural(self.keys_checked, 'key')} checked against the reference;"
            f" {self.from_in_flight:,} of them changed by the batch under way,"
            f" of {plural(self.in_flight, 'request')}",
            f"  verify: {plural(self.verify_records, 'record')} good",
            f"  {verdict}; survives {self.survives['description']}",
        ]

    def complaints(self) -> list[str]:
        more = self.fault_count - len(self.faults)
        return [f"fault: {fault}" for fault in self.faults] + (
            [f"({more:,} more faults)"] if more else []
        )


def run(plan: Plan, kill_after: int, seed: int | None = None) -> Report:
    """One crash run on an empty pool, from the child's first request to the last key checked."""
    form = _prepare(plan)
    kill = _replay_and_kill(plan, kill_after, random.Random(seed))
    done = check(plan, form, kill.acknowledged)
    done.seconds_to_kill = kill.seconds
    return done


def check(plan: Plan, form: TraceFormat, acknowledged: int) -> Report:
    """Opens the pool and holds it against the reference of so many acknowledged requests."""
    with perdure.open(
        plan.pool, log_dir=plan.log_dir, device=plan.device, threads=plan.threads
    ) as store:
        done = Report(plan, str(form), acknowledged)
        done.recovery = store.recovery().as_dict()
        done.machine, done.survives = store.stats().machine, store.survives().as_dict()
        _check(store, plan, form, done)
        found = store.verify()
        done.verify_records = found.records
        done.add_faults([f"verify: {fault}" for fault in found.faults])
    return done


def _prepare(plan: Plan) -> TraceFormat:
    """An empty pool: what was in it before could not be told from what the replay puts there."""
    with plan.open_trace() as trace, _player.open_pool(plan, trace) as store:
        if len(store):
            raise Failure(
                f"--pool {plan.pool}: a crash run needs an empty pool, this one holds"
                f" {plural(len(store), 'record')}: remove it, or name another"
            )
        return trace.format


def _check(store: perdure.Store, plan: Plan, form: TraceFormat, done: Report) -> None:
    limits = Limits(store.stats().max_key_bytes, store.stats().max_value_bytes)
    reference = Reference(form, limits, plan.value_bytes)
    before = _before_and_after(reference, plan, done)
    keys = list(before | reference.states)
    for start in range(0, len(keys), plan.batch):
        some = keys[start : start + plan.batch]
        after = [reference.states.get(key) for key in some]
        acknowledged = [before.get(key, state) for key, state in zip(some, after, strict=True)]
        _check_keys(store, some, acknowledged, after, form, done)
    done.records = len(store)
    if done.records != done.keys_found:
        done.add_faults(
            [f"the pool holds {done.records:,} records, but only {done.keys_found:,} of known keys"]
        )


def _before_and_after(reference: Reference, plan: Plan, done: Report) -> dict[Key, State]:
    """Plays the acknowledged batches and the one under way; returns what the keys of the latter
    were."""
    with plan.open_trace() as trace:
        played = 0
        for batch in trace.batches(plan.batch, plan.limit):
            if played == done.acknowledged:
                done.in_flight = len(batch)
                before = {key: reference.states.get(key) for key in batch.keys.to_pylist()}
                reference.play(batch)
                return before
            reference.play(batch)
            played += len(batch)
    return {}


def _check_keys(
    store: perdure.Store,
    some: list[Key],
    acknowledged: list[State],
    after: list[State],
    form: TraceFormat,
    done: Report,
) -> None:
    keys = pa.array(some, pa.uint64() if isinstance(some[0], int) else pa.large_binary())
    answer = store.get(keys, check=False)
    done.keys_checked += len(some)
    done.keys_found += int(answer.found.sum())
    unlike = _contents.differing(answer.values, stored_form(keys, acknowledged, form))
    if not unlike.size:
        return
    rows = pa.array(unlike)
    also = stored_form(keys.take(rows), [after[row] for row in unlike], form)
    wrong = unlike[_contents.differing(answer.values.take(rows), also)]
    done.from_in_flight += len(unlike) - len(wrong)
    done.add_faults([_fault(some[row], acknowledged[row], answer, row) for row in map(int, wrong)])


def _fault(key: Key, expected: State, answer: perdure.Result, row: int) -> str:
    status = perdure.KeyStatus(int(answer.statuses[row]))
    got = (
        f"{len(answer.values[row].as_py())} bytes that differ"
        if answer.found[row]
        else f"nothing ({status.name})"
    )
    want = "nothing" if expected is None else f"the value that was acknowledged ({expected})"
    return f"key {_player.show_key(key)}: holds {got}, must hold {want}"
