"""The port for monitors beside `perdure serve`, as Prometheus and a load balancer see it."""

from __future__ import annotations

import gc
import json
import logging
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import perdure.serve
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serve_world import Client, Program, program, request


def get(server: Program, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.http_port}{path}", timeout=30
        ) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def samples(server: Program) -> dict[str, float]:
    status, kind, text = get(server, "/metrics")
    assert status == 200 and kind.startswith("text/plain")
    return {
        sample.name + "".join(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_what_clients_did(pools: Path) -> None:
    with program(pools / "pool") as server:
        client = Client(server.port)
        before = samples(server)
        client.send(b"".join(request("set", f"k{i}", i) for i in range(100)))
        for _ in range(100):
            client.read()
        client.ask("get", "k1")
        client.ask("get", "nope")
        now = samples(server)

        def grew(name: str) -> float:
            return now[name] - before[name]

        assert grew("perdure_serve_commands_total") == 102
        assert grew("perdure_serve_hits_total") == 1
        assert grew("perdure_serve_misses_total") == 1
        assert 3 <= grew("perdure_serve_turns_total") <= 102
        assert grew("perdure_serve_bytes_in_total") > 2000
        assert now["perdure_pool_records"] == 100
        assert now["perdure_serve_clients"] == 1
        assert grew("perdure_serve_latency_seconds_bucket+Inf") == 102


def test_the_buckets_of_the_histogram_grow(pools: Path) -> None:
    with program(pools / "pool") as server:
        client = Client(server.port)
        for i in range(50):
            client.ask("incr", i)
        buckets = [
            (float(name.removeprefix("perdure_serve_latency_seconds_bucket")), count)
            for name, count in samples(server).items()
            if name.startswith("perdure_serve_latency_seconds_bucket")
        ]
        buckets.sort()
        assert len(buckets) > 20
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)


def test_a_monitor_sees_it_well_until_it_is_gone(pools: Path) -> None:
    with program(pools / "pool") as server:
        assert get(server, "/healthz") == (200, "text/plain", "ok\n")
        client = Client(server.port)
        client.send(request("shutdown"))
        assert client.is_closed()
        assert server.process.wait(60) == 0
        with pytest.raises(urllib.error.URLError):  # a monitor's other way to see that it is down
            get(server, "/healthz")


def test_healthz_says_so_while_the_server_has_stopped_and_its_program_goes_on() -> None:
    from perdure._serve_http import HttpPort

    class Gone:
        http_port = 0

    port = HttpPort("127.0.0.1", 0, dict, {}, lambda: False)
    try:
        Gone.http_port = port.port
        assert get(Gone, "/healthz") == (503, "text/plain", "stopped\n")  # type: ignore[arg-type]
    finally:
        port.close()


def test_stats_have_what_the_dashboard_reads(pools: Path) -> None:
    with program(pools / "pool") as server:
        Client(server.port).ask("set", "a", 1)
        status, kind, text = get(server, "/stats.json")
        assert (status, kind) == (200, "application/json")
        stats = json.loads(text)
        status, kind, page = get(server, "/")
        assert status == 200 and kind.startswith("text/html")
        for name in set(re.findall(r"\b(?:now|before)\.pool\.(\w+)", page)):
            assert name in stats["pool"], name
        for name in set(re.findall(r"\b(?:now|before)\.(\w+)", page)):
            assert name in stats, name
        assert stats["recovery"]["clean"] is True or stats["recovery"]["records"] == 0


def test_other_paths_are_not_there_and_nothing_can_be_posted(pools: Path) -> None:
    with program(pools / "pool") as server:
        assert get(server, "/etc/passwd")[0] == 404
        assert get(server, "/../perdure/cli.py")[0] == 404
        url = f"http://127.0.0.1:{server.http_port}/"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, data=b"x"), timeout=30)
        with refused.value as answer:
            assert answer.code == 501


def test_a_port_in_use_is_said(pools: Path, cli) -> None:
    with program(pools / "pool") as server:
        other = cli("serve", pools / "other", "--port", 0, "--http-port", server.http_port)
        assert other.status != 0
        assert f"--http-port {server.http_port}" in other.err
        assert server.end(signal.SIGTERM) == 0


def test_the_log_has_the_events_of_the_server_and_of_its_pool(pools: Path) -> None:
    command = [sys.executable, "-m", "perdure.cli", "--log-level", "info", "--log-format", "json"]
    command += ["serve", str(pools / "pool"), "--port", "0", "--requirepass", "right"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        while not said or "listening at" not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], "it has ended"
        found = re.search(r"listening at .*:(\d+)", said[-1])
        assert found
        client = Client(int(found[1]))
        assert client.ask("auth", "wrong")[0] == "-"
        process.send_signal(signal.SIGTERM)
        said += process.stderr.read().splitlines()
    events = [json.loads(line) for line in said if line.startswith("{")]
    assert [event["event"] for event in events] == [
        *("created", "serving", "passwords_refused", "served", "closed")
    ]
    assert all(event["pool"] == str(pools / "pool") for event in events)
    assert events[1]["port"] == int(found[1]) and events[1]["password"] is True
    assert events[2]["level"] == "warning" and events[2]["count"] == 1


def test_a_server_that_is_let_go_of_ends_though_its_end_is_logged(
    pools: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perdure")
    server = perdure.serve.Server(pools / "pool", port=0)
    Client(server.port).ask("ping")
    del server
    gc.collect()
    events = [one.perdure for one in caplog.records if one.name == "perdure"]  # type: ignore[attr-defined]
    told = [event["event"] for event in events if event["pool"] == str(pools / "pool")]
    assert told == ["created", "serving", "served", "closed"]
