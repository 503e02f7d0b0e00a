"""The extension module over perdure/serve.h, with a pool of its own. Users go through
perdure.serve."""

from collections.abc import Callable
from typing import Any

from perdure._native import LogLevel

def set_log_sink(
    sink: Callable[[LogLevel, str, str, str, dict[str, Any]], None] | None, least: LogLevel
) -> None: ...

class PoolOptions:
    def __init__(
        self,
        *,
        records: int,
        max_bytes: int,
        power: bool,
        log_dir: str,
        log_bytes: int,
        cuda: bool,
        threads: int,
    ) -> None: ...

class ServeOptions:
    host: str
    port: int
    password: str
    protected_mode: bool
    most_clients: int
    most_value_bytes: int
    most_request_bytes: int
    most_unread_bytes: int
    slow_client_seconds: int
    idle_seconds: int
    most_turn_requests: int
    snapshot_path: str
    def __init__(self) -> None: ...
    def set_tls(self, certificate: str, key: str, client_ca: str, /) -> None: ...

class ServedPool:
    def __init__(self, path: str, pool: PoolOptions, options: ServeOptions) -> None: ...
    def wait(self, most_ms: int) -> bool: ...
    def close(self) -> None: ...
    def made(self) -> bool: ...
    def port(self) -> int: ...
    def running(self) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
    def store_stats(self) -> dict[str, Any]: ...
    def recovery(self) -> dict[str, Any]: ...
