"""The port for people and monitors beside `perdure serve`: /metrics, /healthz, /stats.json, and a
dashboard at /. It only reads what the server counts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

Sample = Callable[[], dict[str, Any]]

_COUNTERS = {
    "commands": "Commands that were answered.",
    "turns": "Batches of requests.",
    "connections": "Connections that were made.",
    "rejected_connections": "Connections that were refused.",
    "dropped_slow": "Clients that did not read what they were sent.",
    "hits": "Reads of keys that were there.",
    "misses": "Reads of keys that were not.",
    "expired_keys": "Keys that expired.",
    "refused_writes": "Commands that the store refused.",
    "bytes_in": "Bytes that clients sent.",
    "bytes_out": "Bytes that clients were sent.",
}
_GAUGES = {
    "clients": "Clients that are connected.",
    "largest_turn": "Requests of the largest batch.",
    "seconds": "Seconds since the server began.",
}
_POOL = {
    "records": "Keys in the pool.",
    "load_factor": "Records over slots of the index.",
    "pool_bytes": "Size of the pool's file.",
    "used_bytes": "Bytes of it in use.",
    "log_used_bytes": "Bytes of the log that no checkpoint covers yet (durability power).",
}


class _Collector:
    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def collect(self) -> Iterable[Metric]:
        now = self._sample()
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"perdure_serve_{name}", text, value=now[name])
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"perdure_serve_{name}", text, value=now[name])
        for name, text in _POOL.items():
            yield GaugeMetricFamily(f"perdure_pool_{name}", text, value=now["pool"][name])
        yield _latency(now["latency_us"])


def _latency(counts: list[int]) -> Metric:
    """The sum is not counted, so none is said."""
    below, buckets = 0, []
    for power, count in enumerate(counts[:-1]):
        below += count
        buckets.append((repr(2**power / 1e6), below))
    buckets.append(("+Inf", sum(counts)))
    family = HistogramMetricFamily(
        "perdure_serve_latency_seconds", "Time of requests in the server."
    )
    family.add_metric([], buckets, sum_value=None)
    return family


class HttpPort:
    """Serves until `close`, on a thread of its own."""

    def __init__(
        self,
        host: str,
        port: int,
        sample: Sample,
        recovery: dict[str, Any],
        running: Callable[[], bool],
    ) -> None:
        registry = CollectorRegistry()
        registry.register(_Collector(sample))
        page = resources.files("perdure").joinpath("dashboard.html").read_bytes()

        def stats() -> bytes:
            return json.dumps({**sample(), "recovery": recovery}).encode()

        answers: dict[str, tuple[str, Callable[[], bytes]]] = {
            "/": ("text/html; charset=utf-8", lambda: page),
            "/metrics": (
                "text/plain; version=0.0.4; charset=utf-8",
                lambda: generate_latest(registry),
            ),
            "/stats.json": ("application/json", stats),
        }

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                path = self.path.split("?")[0]
                if path == "/healthz":
                    well = running()
                    self._send(
                        200 if well else 503, "text/plain", b"ok\n" if well else b"stopped\n"
                    )
                elif path in answers:
                    kind, make = answers[path]
                    self._send(200, kind, make())
                else:
                    self._send(404, "text/plain", b"try /, /metrics, /healthz, /stats.json\n")

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
