"""`perdure serve`: the server of perdure.serve, and its port for people and monitors, until
SIGTERM, SIGINT or SHUTDOWN."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.cli_support import (
    DeviceChoice,
    DeviceOption,
    Failure,
    JsonOption,
    JsonResult,
    LogBytesOption,
    LogDirOption,
    OverwriteOption,
    PoolArgument,
    log_size,
    parse_size,
    plural,
    report,
)


class ServeDurability(StrEnum):
    process = "process"
    power = "power"


def _password(given: str | None, file: Path | None) -> str:
    if given is not None and file is not None:
        raise Failure("--requirepass and --requirepass-file: give one of them")
    if file is not None:
        text = file.read_text(encoding="utf-8").rstrip("\n")
        if not text:
            raise Failure(f"--requirepass-file {file}: it is empty")
        return text
    return given if given is not None else os.environ.get("PERDURE_PASSWORD", "")


HostOption = Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Address to listen at.")]
PortOption = Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")]
PasswordOption = Annotated[
    str | None,
    typer.Option(help="Password that clients must give; PERDURE_PASSWORD says it, too."),
]
PasswordFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file that has the password.")
]
ProtectedModeOption = Annotated[
    bool, typer.Option(help="Without a password, refuse clients of other machines.")
]
DurabilityOption = Annotated[
    ServeDurability, typer.Option(help="What a new pool's answers must outlive.")
]
RecordsOption = Annotated[
    int, typer.Option(min=1, help="Keys that a new pool is to expect; it grows past them.")
]
MaxBytesOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="A new pool never grows past this.")
]
ThreadsOption = Annotated[
    int, typer.Option(min=0, help="Threads that work on large batches; 0: one a core.")
]
TlsCertOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TLS: certificate chain, PEM.")
]
TlsKeyOption = Annotated[Path | None, typer.Option(metavar="FILE", help="TLS: its key, PEM.")]
TlsCaOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TLS: clients must have a certificate signed by this."),
]
SnapshotOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Where SAVE and BGSAVE write a snapshot.")
]
MaxClientsOption = Annotated[int, typer.Option(min=1, help="Clients at one time.")]
TimeoutOption = Annotated[
    int, typer.Option(min=0, help="Seconds after which an idle client is dropped; 0: never.")
]
HttpPortOption = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, help="Port of /metrics, /healthz and the dashboard."),
]
HttpBindOption = Annotated[str, typer.Option(metavar="ADDRESS", help="Address of that port.")]


def serve(
    pool: PoolArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 6379,
    requirepass: PasswordOption = None,
    requirepass_file: PasswordFileOption = None,
    protected_mode: ProtectedModeOption = True,
    durability: DurabilityOption = ServeDurability.process,
    log_dir: LogDirOption = None,
    log_bytes: LogBytesOption = None,
    records: RecordsOption = 1 << 20,
    max_bytes: MaxBytesOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    threads: ThreadsOption = 0,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    tls_ca: TlsCaOption = None,
    snapshot: SnapshotOption = None,
    max_clients: MaxClientsOption = 10_000,
    timeout: TimeoutOption = 0,
    http_port: HttpPortOption = None,
    http_bind: HttpBindOption = "127.0.0.1",
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Answer Redis's clients (RESP2 and RESP3) from a pool, until SIGTERM, SIGINT or SHUTDOWN. The
    pool is made if there is none."""
    try:
        from perdure import serve as serving
    except ImportError as error:
        raise Failure(str(error)) from None
    result = JsonResult(json_file, overwrite, pool)
    with serving.Server(
        pool,
        host=host,
        port=port,
        password=_password(requirepass, requirepass_file),
        protected_mode=protected_mode,
        records=records,
        max_bytes=parse_size("--max-bytes", max_bytes) if max_bytes else 0,
        durability=durability.value,
        log_dir=log_dir,
        log_bytes=log_size(log_dir, log_bytes) or 0,
        device=device.value,
        threads=threads,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        tls_client_ca=tls_ca,
        snapshot=snapshot,
        max_clients=max_clients,
        idle_seconds=timeout,
    ) as server:
        _serve_until_told(server, host, http_bind, http_port)
        stats = server.stats()
    answer: dict[str, Any] = {"pool": pool, **stats}
    report(
        result,
        answer,
        f"{pool}: {plural(stats['commands'], 'command')} in"
        f" {plural(stats['turns'], 'batch', 'batches')} of up to {stats['largest_turn']};"
        f" {stats['pool']['records']} keys",
    )


def _serve_until_told(server: Any, host: str, http_bind: str, http_port: int | None) -> None:
    http = _http(server, http_bind, http_port)
    told: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: told.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    found = server.recovery()
    opened = "made" if server.made else f"opened, {found['records']} keys"
    page = f"; http://{http_bind}:{http.port}/" if http else ""
    print(
        f"{server.path} {opened}; listening at {host}:{server.port}{page}",
        file=sys.stderr,
        flush=True,
    )
    try:
        while not told and not server.wait(0.2):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if http:
            http.close()


def _http(server: Any, bind: str, port: int | None) -> Any:
    if port is None:
        return None
    try:
        from perdure._serve_http import HttpPort
    except ImportError as error:
        raise Failure(
            f"--http-port: {error}; pip install 'perdure[serve]', or leave the option out"
        ) from None
    try:
        return HttpPort(bind, port, server.stats, server.recovery(), lambda: server.running)
    except OSError as error:
        raise Failure(f"--http-port {port}: {error.strerror}; give another one") from None


def register(app: typer.Typer) -> None:
    app.command()(serve)
