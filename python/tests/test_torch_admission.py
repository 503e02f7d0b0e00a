"""Ids that get a row after some sightings, beside exact counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.framework("torch")


def training(pool: str, after: int | None = 3, counters: int = 1 << 16, **options: Any) -> Any:
    import os

    import perdure
    import torch
    from perdure import torch as pt

    rule = pt.Adagrad(lr=0.1)
    tables = [
        pt.TableConfig("t", 4, admit_after=after, admit_counters=counters, **options),
        pt.TableConfig("u", 4),
    ]
    made = os.path.exists(pool)
    store = perdure.open(pool) if made else pt.create(pool, tables, rule, overwrite=True)
    bags = pt.EmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    return bags, pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))


def step(bags: Any, trainer: Any, number: int, passes: int = 1) -> list[int]:
    """Ids of a step, some of them twice; each of both tables."""
    import torch

    ids = torch.from_numpy(np.random.default_rng(number).zipf(1.3, 12) % 100)
    one = torch.ones(len(ids), dtype=torch.int64)
    with trainer.step():
        for _ in range(passes):
            pooled = bags({"t": (ids, one), "u": (ids, one)})
            (pooled["t"].square().sum() + pooled["u"].sum()).backward()
    return ids.tolist() * passes


def rows_of(bags: Any, name: str = "t") -> dict[int, bytes]:
    found = {}
    for ids, rows in bags.store.table(name).scan():
        found.update(zip(ids.tolist(), map(bytes, rows), strict=True))
    return found


@pytest.mark.parametrize("passes", [1, 2])
def test_an_id_gets_a_row_in_the_step_after_so_many_sightings(passes: int) -> None:
    import torch
    from perdure.torch.keys import keys_of
    from perdure.torch.new_rows import new_weights

    bags, trainer = training("memfd:admits")
    seen: dict[int, int] = {}
    rows: set[int] = set()
    every = torch.arange(100)
    one = torch.ones(100, dtype=torch.int64)
    for number in range(40):
        ids = step(bags, trainer, number, passes)
        rows |= {each for each in ids if seen.get(each, 0) >= 3}
        for each in set(ids) - rows:
            seen[each] = seen.get(each, 0) + ids.count(each)
        assert rows_of(bags).keys() == rows
        assert trainer._rows.count["t"] == len(rows)
        weights = bags({"t": (every, one)})["t"].detach()
        number = bags.store.table("t").number
        begin = new_weights(keys_of(every, number), 4, torch.full((number + 1,), 0.5), 0)
        there = torch.tensor([each in rows for each in range(100)])
        assert torch.equal(weights[~there], begin[~there])
        assert not (weights[there] == begin[there]).all(dim=1).any()
    assert 5 < len(rows) < len(rows_of(bags, "u"))


def test_a_row_that_is_admitted_changes_as_one_that_always_was() -> None:
    import torch

    bags, trainer = training("memfd:later")
    other, always = training("memfd:always", None)
    ids, one = torch.tensor([7, 8]), torch.ones(2, dtype=torch.int64)
    for number in range(8):
        for which, by in ((bags, trainer), (other, always)):
            if which is bags or number >= 3:
                with by.step():
                    which({"t": (ids, one)})["t"].square().sum().backward()
    weights = [each({"t": (ids, one)})["t"] for each in (bags, other)]
    assert torch.equal(*weights)


def test_what_was_seen_is_of_the_steps_commit(pools: Path) -> None:
    import torch

    pool = str(pools / "pool")
    bags, trainer = training(pool, counters=16)
    other, calm = training(str(pools / "calm"), counters=16)
    for number in range(30):
        step(other, calm, number)
        if number % 7 == 3:  # begins, and ends without a commit
            before = bags.sightings.state_dict()
            with pytest.raises(ZeroDivisionError):
                fails(bags, trainer)
            now = bags.sightings.state_dict()
            assert torch.equal(before["t"]["cells"], now["t"]["cells"])
            bags.store.close()
            bags, trainer = training(pool, counters=16)
            assert trainer.resume() == number
        step(bags, trainer, number)
        mine, theirs = (each.sightings.state_dict()["t"] for each in (bags, other))
        assert torch.equal(mine["cells"], theirs["cells"]) and mine["total"] == theirs["total"]
        assert rows_of(bags) == rows_of(other)
    bags.store.close()
    _, changed = training(pool, counters=32)
    with pytest.raises(ValueError, match="admit_counters was another"):
        changed.resume()
    changed.store.close()
    _, without = training(pool, None)
    with pytest.raises(ValueError, match="pass the same"):
        without.resume()


def fails(bags: Any, trainer: Any) -> None:
    import torch

    ids = torch.arange(5)
    with trainer.step():
        bags({"t": (ids, torch.ones_like(ids))})["t"].sum().backward()
        raise ZeroDivisionError


def test_a_commit_that_fails_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.torch.dense import Dense

    bags, trainer = training("memfd:fails")
    monkeypatch.setattr(Dense, "check", lambda self: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        step(bags, trainer, 0)
    assert not bags.sightings.of["t"].cells.any()
    monkeypatch.undo()
    step(bags, trainer, 0)
    assert int(bags.sightings.of["t"].cells.sum()) == 4 * 12


def test_a_sketch_counts_nobody_too_rarely_and_few_too_often() -> None:
    import torch
    from perdure.torch.admission import Sketch

    sketch, counts = Sketch(4096), torch.zeros(5000, dtype=torch.int64)
    for number in range(20):
        random = torch.Generator().manual_seed(number)
        ids, times = torch.unique(
            torch.randint(0, 5000, (200,), generator=random), return_counts=True
        )
        sketch.add(ids - 2500, times)
        counts[ids] += times
    every = sketch.estimate(torch.arange(-2500, 2500)).to(torch.int64)
    assert bool((every >= counts).all())
    assert int((every > counts).sum()) < 500 and sketch.total == 4000
    sketch.add(torch.tensor([1]), torch.tensor([97]))
    assert sketch.total == 2048, "halved"
    assert int(sketch.estimate(torch.tensor([1]))) >= 48
    sketch = Sketch(1 << 16)
    sketch.add(torch.tensor([2**63 - 1, -(2**63)]), torch.tensor([300, 7]))
    assert sketch.estimate(torch.tensor([2**63 - 1, -(2**63), 0])).tolist() == [255, 7, 0]


def test_numbers_that_cannot_be_are_refused() -> None:
    from perdure import torch as pt

    for after in (0, 256):
        with pytest.raises(ValueError, match="pass 1 to 255"):
            pt.TableConfig("t", 4, admit_after=after)
    with pytest.raises(ValueError, match="admit_counters 0"):
        pt.TableConfig("t", 4, admit_after=2, admit_counters=0)
