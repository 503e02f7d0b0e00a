"""The pools that perdure.torch makes for tables: which layout they have."""

from __future__ import annotations

from typing import Any

import perdure
import pytest

pytestmark = pytest.mark.framework("torch")

LOG, WORD = perdure.GPHash(layout="log"), perdure.GPHash(layout="word")


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({}, None),
        ({"device": "cpu"}, None),
        ({"device": "cuda"}, LOG),
        ({"device": "cuda", "options": perdure.Options(cache_bytes=1 << 30)}, LOG),
        ({"device": "cuda", "index": WORD}, WORD),
        ({"device": "cuda", "durability": "power"}, None),
        ({"device": "cuda", "options": perdure.Options(residency="pm")}, None),
        ({"device": "cuda", "options": perdure.Options(memory_budget=1 << 30)}, None),
    ],
)
def test_pools_on_a_gpu_have_layout_log_unless_something_else_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], index: perdure.GPHash | None
) -> None:
    from perdure import torch as pt

    made: dict[str, Any] = {}
    monkeypatch.setattr(perdure, "create", lambda *_, **options: made.update(options))
    pt.create("a.pool", [pt.TableConfig("users", 8)], pt.SGD(lr=0.1), **asked)
    assert made.get("index") == index
    assert {name: made[name] for name in asked} == asked


def test_pools_on_a_cpu_have_layout_word() -> None:
    from perdure import torch as pt

    with pt.create("memfd:tables", [pt.TableConfig("users", 8)], pt.SGD(lr=0.1)) as store:
        assert store.stats().layout.name == "word"
