"""A server that Redis's clients know, over a pool whose keys and values have any length.

>>> import perdure.serve
>>> with perdure.serve.Server("/dev/shm/cache.pool", port=0) as server:
...     server.port > 0
True

Requests of all clients gather into batches of the store, and a reply is sent once what it says is
durable. This module needs an extension module of its own, which is built where Asio, hiredis and
OpenSSL are installed.
"""

from __future__ import annotations

from typing import Any, Literal

from perdure import _checks, _log
from perdure.options import PathLike

try:
    from perdure import _serve
except ImportError as _error:
    raise ImportError(
        f"perdure.serve: this package was built without the server, or a library of it is not here"
        f" any more ({_error}); install libasio-dev, libhiredis-dev, libssl-dev and robin-map-dev"
        " and build again (in a checkout scripts/build.sh, elsewhere pip install with"
        " -C cmake.define.PERDURE_SERVE=ON)",
        name="perdure._serve",
    ) from _error

_log.begin(_serve)

__all__ = ["Server"]


class Server:
    """Answers clients from its making until `close`, on a thread of its own.

    The pool at `path` is opened, or made if there is none: index gphash, keys and values of any
    length. Of the options that make a pool (`records`, `max_bytes`, `durability`, `log_bytes`) one
    that is there takes no notice. `port=0` takes any that is free. Without a `password`, clients of
    other machines are refused unless `protected_mode=False`. Raises perdure's errors: Busy where
    the pool or the port is in use, and so on.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        host: str = "127.0.0.1",
        port: int = 6379,
        password: str = "",
        protected_mode: bool = True,
        records: int = 1 << 20,
        max_bytes: int = 0,
        durability: Literal["process", "power"] = "process",
        log_dir: PathLike | None = None,
        log_bytes: int = 0,
        device: Literal["cpu", "cuda"] = "cpu",
        threads: int = 0,
        tls_certificate: PathLike | None = None,
        tls_key: PathLike | None = None,
        tls_client_ca: PathLike | None = None,
        snapshot: PathLike | None = None,
        max_clients: int = 10_000,
        max_request_bytes: int = 64 << 20,
        max_unread_bytes: int = 64 << 20,
        slow_client_seconds: int = 30,
        idle_seconds: int = 0,
        max_turn_requests: int = 16_384,
    ) -> None:
        if not 0 <= port <= 65_535:
            raise ValueError(f"port {port}: give a number from 0 to 65535")
        options = _serve.ServeOptions()
        options.host, options.port = host, port
        options.password, options.protected_mode = password, protected_mode
        options.most_clients = max_clients
        options.most_request_bytes = max_request_bytes
        options.most_unread_bytes = max_unread_bytes
        options.slow_client_seconds, options.idle_seconds = slow_client_seconds, idle_seconds
        options.most_turn_requests = max_turn_requests
        options.snapshot_path = _text("snapshot", snapshot)
        options.set_tls(
            _text("tls_certificate", tls_certificate),
            _text("tls_key", tls_key),
            _text("tls_client_ca", tls_client_ca),
        )
        pool = _serve.PoolOptions(
            records=max(records, 1 << 20),  # so that values may have close to 1 MiB
            max_bytes=max_bytes,
            power=durability == "power",
            log_dir=_text("log_dir", log_dir),
            log_bytes=log_bytes,
            cuda=device == "cuda",
            threads=threads,
        )
        self.path = _checks.path("path", path)
        self._pool = _serve.ServedPool(self.path, pool, options)

    @property
    def port(self) -> int:
        return self._pool.port()

    @property
    def made(self) -> bool:
        """Whether the pool was not there before."""
        return self._pool.made()

    @property
    def running(self) -> bool:
        """Whether clients are still answered: not after SHUTDOWN, a failure, or `close`."""
        return self._pool.running()

    def wait(self, seconds: float) -> bool:
        """Until clients are no longer answered, or for so long: False."""
        return self._pool.wait(int(seconds * 1000))

    def stats(self) -> dict[str, Any]:
        """Counts since the server began, and what the pool's `stats` says of records and space.
        `latency_us[i]` counts requests that took less than 2**i microseconds in the server, and not
        less than half of that."""
        return {**self._pool.stats(), "pool": self._pool.store_stats()}

    def recovery(self) -> dict[str, Any]:
        """What opening the pool found."""
        return self._pool.recovery()

    def close(self) -> None:
        """Answers what has been read, closes the connections, and closes the pool."""
        self._pool.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(name: str, path: PathLike | None) -> str:
    return "" if path is None else _checks.path(name, path)
