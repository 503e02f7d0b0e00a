"""OpenTelemetry: spans and measurements, by the SDK's exporters in memory; and that nobody who does
not ask for it pays for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import perdure
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from perdure import otel

KEYS = np.arange(5000)


class Seen:
    """What was exported."""

    def __init__(self, least_keys: int) -> None:
        self.spans = InMemorySpanExporter()
        tracer = TracerProvider()
        tracer.add_span_processor(SimpleSpanProcessor(self.spans))
        self._reader = InMemoryMetricReader()
        self._meter = MeterProvider([self._reader])
        otel.instrument(tracer_provider=tracer, meter_provider=self._meter, least_keys=least_keys)

    def names(self) -> list[str]:
        return [one.name for one in self.spans.get_finished_spans()]

    def span(self, name: str) -> Any:
        (found,) = [one for one in self.spans.get_finished_spans() if one.name == name]
        return found

    def points(self) -> dict[str, list[tuple[str, float]]]:
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: [(p.attributes["db.namespace"], p.value) for p in metric.data.data_points]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def end(self) -> None:
        otel.uninstrument()
        self._meter.shutdown()


@pytest.fixture
def seen() -> Iterator[Seen]:
    one = Seen(least_keys=1000)
    yield one
    one.end()


def test_the_life_of_a_store_is_spans(pool: str, seen: Seen, tmp_path: Any) -> None:
    with perdure.create(pool, 8, 8) as store:
        store.put(KEYS, KEYS)
        store.get(KEYS[:999])
        store.get(KEYS[:1000])
        store[1] = 5
        store.erase(keys=KEYS[:2000])
        store.verify()
        store.snapshot(tmp_path / "snapshot")
    names = ["create", "put", "get", "erase", "verify", "snapshot", "close"]
    assert seen.names() == [f"perdure {one}" for one in names]
    put = seen.span("perdure put")
    assert put.attributes == {
        "db.system.name": "perdure",
        "db.operation.name": "put",
        "db.namespace": pool,
        "db.operation.batch.size": 5000,
    }
    assert put.end_time > put.start_time
    perdure.restore(tmp_path / "snapshot", f"{pool}", overwrite=True).close()
    assert seen.span("perdure restore").attributes["perdure.records"] == 3000


def test_an_opening_says_what_recovery_found(pool: str, seen: Seen) -> None:
    program = (
        "import os, sys, perdure; store = perdure.create(sys.argv[1], 8, 8); store[1] = 2;"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, pool], check=False)
    perdure.open(pool).close()
    found = seen.span("perdure open").attributes
    assert found["perdure.recovery.clean"] is False and found["perdure.records"] == 1


def test_what_fails_is_a_span_with_its_exception(pool: str, seen: Seen) -> None:
    with pytest.raises(perdure.NotFound):
        perdure.open(pool)
    span = seen.span("perdure open")
    assert not span.status.is_ok and span.events[0].attributes["exception.type"].endswith(
        "NotFound"
    )
    with perdure.create(pool, 8, 8, expected_records=100, max_bytes=4 << 20) as store:
        with pytest.raises(perdure.NoSpace):
            store.put(np.arange(1_000_000), np.arange(1_000_000))
        assert not seen.span("perdure put").status.is_ok


def test_statistics_are_measured_for_each_open_store(pool: str, seen: Seen) -> None:
    other = f"memfd:{pool}"
    with perdure.create(pool, 8, 8) as store, perdure.create(other, 8, 8):
        store.put(KEYS, KEYS)
        points = seen.points()
        assert sorted(points["perdure.records"]) == sorted([(pool, 5000), (other, 0)])
        assert dict(points["perdure.pool.size"])[pool] == store.stats().pool_bytes
        assert dict(points["perdure.batches"])[pool] == store.stats().batches
        assert set(points) == {one[0] for one in (*otel._GAUGES, *otel._COUNTERS)}
    assert seen.points().get("perdure.records", []) == []


def test_off_again_nothing_is_seen_and_nothing_of_ours_is_left(pool: str) -> None:
    methods = {name: getattr(perdure.Store, name) for name in dir(perdure.Store)}
    one = Seen(least_keys=1)
    with pytest.raises(RuntimeError, match="uninstrument"):
        otel.instrument()
    assert perdure.Store.put.__doc__ == methods["put"].__doc__
    one.end()
    assert methods == {name: getattr(perdure.Store, name) for name in dir(perdure.Store)}
    with perdure.create(pool, 8, 8) as store:
        store.put(KEYS, KEYS)
    assert one.names() == []


def test_import_perdure_brings_neither_opentelemetry_nor_other_large_modules() -> None:
    program = """
import sys
import perdure
late = {"opentelemetry", "numpy", "pyarrow", "typer", "rich", "logging", "asyncio", "email", "json"}
print(sorted(late & {name.partition(".")[0] for name in sys.modules}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert ran.stdout == "[]\n"


def test_import_perdure_takes_150_ms_of_a_core_at_most() -> None:
    """The least of some runs, less what Python itself takes: what else the machine does only makes
    them longer."""
    program = """
import resource
before = resource.getrusage(resource.RUSAGE_SELF)
import perdure
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""
    took = min(
        float(
            subprocess.run(
                [sys.executable, "-c", program], check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(5)
    )
    assert took <= 0.150
