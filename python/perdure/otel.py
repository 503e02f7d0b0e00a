"""OpenTelemetry: spans of calls, and instruments that read a store's statistics.

`instrument` turns both on, for stores that are opened from then on. It needs the package
opentelemetry-api (`pip install perdure[otel]`); what becomes of spans and measurements, the program
says by the SDK that it sets up. Nothing of this is imported by `import perdure`, and a program that
does not ask for it runs no line of it.

Spans: `perdure create`, `perdure open`, `perdure restore`, `perdure close`, `perdure snapshot`,
`perdure verify`, and `perdure get`, `view`, `put`, `update`, `erase` and `apply` of batches of
`least_keys` keys or more; single keys have none. Their attributes are those of OpenTelemetry's
conventions for databases, and what recovery found where a pool is opened.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

import perdure
from perdure import _hooks, _native, errors
from perdure.store import Store

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

_BATCHES = ("get", "view", "put", "update", "erase", "apply")
_WHOLE = ("snapshot", "verify", "close")
_FRESH_SECONDS = 0.05  # statistics are read once for all instruments of a collection

_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_kept: dict[str, Any] = {}  # the methods that stand behind ours
_instruments: list[Any] = []  # a meter may keep them weakly


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    least_keys: int = 1000,
) -> None:
    """Makes spans and measurements of all stores that this process opens from here on.

    Parameters
    ----------
    tracer_provider, meter_provider : optional
        Those of OpenTelemetry's API unless given.
    least_keys : int
        Batches of so many keys or more have a span.

    Raises
    ------
    RuntimeError
        It is on already.

    Examples
    --------
    >>> from perdure import otel
    >>> otel.instrument(least_keys=4096)
    >>> otel.uninstrument()
    """
    if _hooks.around is not None:
        raise RuntimeError("perdure.otel is on already; uninstrument() turns it off")
    tracer = trace.get_tracer("perdure", perdure.__version__, tracer_provider)
    _hooks.around = _openings(tracer)
    for name in _BATCHES:
        _stand_before(name, _batch(tracer, name, least_keys))
    for name in _WHOLE:
        _stand_before(name, _whole(tracer, name))
    _instruments.extend(_made_instruments(meter_provider))


def uninstrument() -> None:
    """Turns it off. Instruments that were made stay with their meter, and observe nothing."""
    _hooks.around = None
    for name, method in _kept.items():
        setattr(Store, name, method)
    _kept.clear()
    _stores.clear()
    _instruments.clear()


def _attributes(what: str, path: str) -> dict[str, Any]:
    return {"db.system.name": "perdure", "db.operation.name": what, "db.namespace": path}


def _openings(tracer: Tracer) -> Any:
    @contextmanager
    def around(what: str, path: str) -> Generator[Callable[[Store], None]]:
        with tracer.start_as_current_span(
            f"perdure {what}", attributes=_attributes(what, path)
        ) as span:

            def made(store: Store) -> None:
                found = store.recovery()
                span.set_attribute("perdure.recovery.clean", found.clean)
                span.set_attribute("perdure.recovery.dropped", found.dropped)
                span.set_attribute("perdure.recovery.replayed", found.replayed)
                if found.counted:
                    span.set_attribute("perdure.records", found.records)
                _stores.add(store)

            yield made

    return around


def _stand_before(name: str, make: Callable[[Any], Any]) -> None:
    _kept[name] = method = getattr(Store, name)
    setattr(Store, name, functools.wraps(method)(make(method)))


def _batch(tracer: Tracer, what: str, least_keys: int) -> Callable[[Any], Any]:
    def make(method: Any) -> Any:
        def call(store: Store, *arguments: Any, **named: Any) -> Any:
            count = _keys(arguments[0] if arguments else named.get("keys"))
            if count < least_keys:
                return method(store, *arguments, **named)
            attributes = _attributes(what, store.path) | {"db.operation.batch.size": count}
            with tracer.start_as_current_span(f"perdure {what}", attributes=attributes):
                return method(store, *arguments, **named)

        return call

    return make


def _keys(keys: Any) -> int:
    """How many; of one key 1, whose own length is none."""
    if isinstance(keys, str | bytes | bytearray | memoryview):
        return 1
    try:
        return len(keys)
    except TypeError:
        return 1


def _whole(tracer: Tracer, what: str) -> Callable[[Any], Any]:
    def make(method: Any) -> Any:
        def call(store: Store, *arguments: Any, **named: Any) -> Any:
            if what == "close" and store.closed:
                return method(store, *arguments, **named)
            attributes = _attributes(what, store.path)
            with tracer.start_as_current_span(f"perdure {what}", attributes=attributes) as span:
                answer = method(store, *arguments, **named)
                if isinstance(answer, _native.VerifyReport):
                    span.set_attribute("perdure.verify.faults", answer.fault_count)
                return answer

        return call

    return make


# --- instruments --------------------------------------------------------------------------------

# Name, unit, what it is, and what of the statistics.
_GAUGES: tuple[tuple[str, str, str, Callable[[_native.Stats], float]], ...] = (
    ("perdure.records", "{record}", "Records in the pool", lambda s: s.records),
    ("perdure.load_factor", "1", "Records to a slot", lambda s: s.load_factor),
    ("perdure.pool.size", "By", "Size of the pool's file", lambda s: s.pool_bytes),
    ("perdure.pool.used", "By", "Of it, in use", lambda s: s.used_bytes),
    ("perdure.mirror.size", "By", "Index in the device's memory", lambda s: s.mirror_bytes),
    ("perdure.log.used", "By", "Log not covered by both images", lambda s: s.log_used_bytes),
)
_COUNTERS: tuple[tuple[str, str, str, Callable[[_native.Stats], float]], ...] = (
    ("perdure.batches", "{batch}", "Batches since open", lambda s: s.batches),
    ("perdure.growths", "{growth}", "Growths of the table since open", lambda s: s.growths),
    ("perdure.checkpoints", "{checkpoint}", "Checkpoints since open", lambda s: s.checkpoints),
)


def _made_instruments(provider: MeterProvider | None) -> list[Any]:
    meter = metrics.get_meter("perdure", perdure.__version__, provider)
    seen: weakref.WeakKeyDictionary[Store, tuple[float, _native.Stats]]
    seen = weakref.WeakKeyDictionary()

    def statistics() -> Iterable[tuple[Store, _native.Stats]]:
        for store in list(_stores):
            if store.closed:
                _stores.discard(store)
                continue
            at, stats = seen.get(store, (-1.0, None))
            try:
                if stats is None or time.monotonic() - at > _FRESH_SECONDS:
                    stats = store.stats()
                    seen[store] = (time.monotonic(), stats)
            except errors.Closed:  # by another thread, or in the process that forked this one
                continue
            yield store, stats

    def observing(of: Callable[[_native.Stats], float]) -> Any:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(of(stats), {"db.namespace": os.fspath(store.path)})
                for store, stats in statistics()
            ]

        return observe

    made: list[Any] = []
    for name, unit, about, of in _GAUGES:
        made.append(meter.create_observable_gauge(name, [observing(of)], unit, about))
    for name, unit, about, of in _COUNTERS:
        made.append(meter.create_observable_counter(name, [observing(of)], unit, about))
    return made
