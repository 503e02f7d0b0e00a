"""Ids that get a row after some sightings of all processes, beside a training of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_torch_sharded import check_same, execute, losses, model, rows, told
from torch_ops import one_thread

pytestmark = pytest.mark.framework("torch")
_one_thread = pytest.fixture(autouse=True)(one_thread)

RUN = {"chunks": True, "steps": 8, "admit": [4, 1 << 16]}
Has = dict[int, dict[str, tuple[list[int], list[int], int]]]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def has(folder: Path, name: str, ranks: int) -> Has:
    """After each step, of each table: ids that have rows in any pool, ids that it evicted, and how
    many sightings are counted."""
    found: Has = {}
    for rank in range(ranks):
        for what, value in told(folder, name, rank):
            if what != "has":
                continue
            step, mine = value.split(" ", 1)
            whole = found.setdefault(int(step), {})
            for table, (ids, gone, seen) in json.loads(mine).items():
                others, before, counted = whole.get(table, ([], [], 0))
                whole[table] = sorted(others + ids), sorted(before + gone), counted + seen
    return found


def test_several_processes_admit_the_same_ids_at_the_same_steps_as_one(pools: Path) -> None:
    runs = {"one": 1, "two": 2, "three": 3}
    execute(
        pools, *({**RUN, "name": name, "ranks": n, "plain": n == 1} for name, n in runs.items())
    )
    one = has(pools, "one", 1)
    admitted = [len(one[step]["item"][0]) for step in range(8)]
    assert admitted == sorted(admitted) and admitted[0] == 0 < admitted[2] < admitted[-1]
    assert any(one[step]["user"][1] for step in range(8)), "evictions"
    calm = losses(pools, "one", 1)
    for name, ranks in runs.items():
        assert has(pools, name, ranks) == one
        assert losses(pools, name, ranks) == calm
        assert model(pools, name) == model(pools, "one")
        assert rows(pools, name, ranks) == rows(pools, "one", 1)


def test_kills_and_other_numbers_of_processes_lose_no_sighting(pools: Path) -> None:
    execute(
        pools,
        {**RUN, "name": "one", "ranks": 1, "plain": True},
        {**RUN, "name": "a", "kill": {"rank": 1, "when": "in commit", "step": 2}},
        {**RUN, "name": "a", "steps": 3},  # rank 0 goes back
        {"name": "b", "reshard": ["a", 2, 3]},
        {**RUN, "name": "b", "ranks": 3, "kill": {"rank": 1, "when": "in commit", "step": 6}},
        {"name": "c", "reshard": ["b", 3, 2]},  # two of which are a step ahead
        {**RUN, "name": "c"},
    )
    one, calm = has(pools, "one", 1), losses(pools, "one", 1)
    back = [[value for what, value in told(pools, "a", r) if what == "back"] for r in range(2)]
    assert back == [["2"], []]
    for name, ranks, steps in (("a", 2, range(3)), ("b", 3, range(3, 5)), ("c", 2, range(5, 8))):
        here, mine = has(pools, name, ranks), losses(pools, name, ranks)
        assert sorted(map(int, mine)) == list(steps)
        for step in steps:
            assert mine[str(step)] == calm[str(step)]
            assert all(here[step][name][:2] == of_one[:2] for name, of_one in one[step].items())
    assert model(pools, "c") == model(pools, "one")
    assert rows(pools, "c", 2) == rows(pools, "one", 1)


def test_processes_that_are_killed_admit_what_they_would_have_admitted(pools: Path) -> None:
    """Few counters, halved now and then; passes that were begun ahead, and for which one has
    nothing."""
    run = {"steps": 9, "admit": [2, 64], "idle": True}
    killed = {**run, "name": "killed"}
    moments = [
        {"rank": 0, "when": "in commit", "step": 4},
        {"rank": 1, "when": "after commit", "step": 6},
    ]
    execute(pools, {**run, "name": "calm"}, *({**killed, "kill": one} for one in moments), killed)
    check_same(pools, "killed", "calm", 2, 1)
    calm, mine = has(pools, "calm", 2), has(pools, "killed", 2)
    assert all(mine[step] == calm[step] for step in range(9) if step != 5)  # which nobody told of
    seen = [calm[step]["item"][2] for step in range(9)]
    assert seen != sorted(seen), "halved"


def test_a_step_that_is_taken_back_has_evicted_nothing(pools: Path) -> None:
    run = {**RUN, "admit": [2, 1 << 16]}
    failing = {**run, "name": "failing", "fails": {"rank": 0, "step": 6}}
    execute(pools, {**run, "name": "calm"}, failing)
    assert has(pools, "calm", 2)[5]["user"][1] == [0, 8], "of rank 1's pool, in the sixth step"
    for rank in range(2):
        log = told(pools, "failing", rank)
        assert [value for what, value in log if what == "resumes"] == ["0", "5"]
        assert [value for what, value in log if what == "evicted"] == ["[]", "[]"]
    assert [value for what, value in told(pools, "failing", 1) if what == "back"] == ["6"]
    assert has(pools, "failing", 2)[5]["user"][1] == [0, 8]


def test_a_first_step_that_fails_in_one_process_has_counted_nothing_in_all(pools: Path) -> None:
    calm = {**RUN, "steps": 4}
    execute(
        pools,
        {**calm, "name": "calm"},
        {**calm, "name": "failing", "fails": {"rank": 1, "step": 1}},
    )
    assert "failed" in dict(told(pools, "failing", 0)), "which had committed"
    assert has(pools, "failing", 2) == has(pools, "calm", 2)


def test_processes_that_would_admit_otherwise_are_refused_in_all(pools: Path) -> None:
    tables = {f"of {rank}": {"pool": f"x-{rank}"} for rank in range(2)}
    bad: dict[str, tuple[dict[str, Any], str]] = {
        "later": ({"of 1": {"admit": [5, 1 << 16]}}, "tables: rank 1 has TableConfig(name='user'"),
        "wider": ({"of 1": {"admit": [4, 1 << 17]}}, "admit_counters=131072), TableConfig"),
        "resized": ({**tables, "admit": [4, 64]}, "admit_after or admit_counters was another"),
        "all": ({**tables, "admit": [None, 64]}, "pass the same"),
        "eager": ({"admit": [256, 64]}, "admit_after 256; pass 1 to 255, or None"),
    }
    runs = [{**RUN, "name": name, **run} for name, (run, _) in bad.items()]
    execute(pools, {**RUN, "name": "x", "steps": 2}, *runs, {**RUN, "name": "x", "steps": 3})
    for name, (_, error) in bad.items():
        for rank in range(2):
            what, value = told(pools, name, rank)[-1]
            assert what == "error" and error in value, (name, rank, value)
    assert "2" in losses(pools, "x", 2), "what was refused has changed nothing"


def training(path: Path, kind: str, after: int | None = 3, counters: int = 48) -> Any:
    import torch
    from perdure import torch as pt

    rule = pt.Adagrad(lr=0.1)
    tables = [
        pt.TableConfig("t", 4, max_rows=30, admit_after=after, admit_counters=counters),
        pt.TableConfig("u", 4, ttl_steps=4),  # of the same width
        pt.TableConfig("v", 9, ttl_steps=4, admit_after=after, admit_counters=counters),
    ]
    store = pt.create(path, tables, rule)
    bags = getattr(pt, f"{kind}EmbeddingBagCollection")(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    dense = torch.optim.SGD(none.parameters(), lr=0)
    trainer = getattr(pt, f"{kind}Trainer")(store, bags, none, dense)
    trainer.resume()
    return bags, trainer


def step(bags: Any, trainer: Any, number: int) -> None:
    """Passes with gradients, without any, and one that is no training."""
    import torch

    chance = np.random.default_rng(number)
    with trainer.step():
        for what in ("all", "some", "none", "eval"):
            features = {}
            for name in ("t", "u", "v"):
                ids = torch.from_numpy(chance.zipf(1.3, 12) % 90 - 5)
                features[name] = (ids, torch.ones_like(ids))
            if what == "some" and hasattr(bags, "begin"):
                bags.begin(features)
            with torch.set_grad_enabled(what != "eval"):
                pooled = bags(features)
            if what in ("all", "some"):
                kept = list(pooled.values())[: 3 if what == "all" else 2]
                sum(one.square().sum() for one in kept).backward()


def contents(bags: Any) -> dict[str, dict[int, bytes]]:
    found: dict[str, dict[int, bytes]] = {}
    for config in bags.configs:
        mine = found.setdefault(config.name, {})
        for ids, values in bags.store.table(config.name).scan():
            mine.update(zip(ids.tolist(), map(bytes, values), strict=True))
    return found


def test_one_process_counts_as_collections_that_are_not_sharded(pools: Path, alone: None) -> None:
    """Also where counters are few, so that ids share them and they are halved."""
    several, one = training(pools / "several", "Sharded"), training(pools / "one", "")
    halved = 0
    for number in range(15):
        before = one[0].sightings.of["t"].total
        for bags, trainer in (several, one):
            step(bags, trainer, number)
        mine, theirs = (bags.sightings.state_dict() for bags, _ in (several, one))
        for name in ("t", "v"):
            assert mine[name]["cells"].equal(theirs[name]["cells"])
            assert mine[name]["total"] == theirs[name]["total"]
        assert contents(several[0]) == contents(one[0])
        gone = [
            {name: ids.tolist() for name, ids in trainer.evicted.items()}
            for _, trainer in (several, one)
        ]
        assert gone[0] == gone[1]
        halved += mine["t"]["total"] < before
    assert halved > 3 and 5 < len(contents(one[0])["t"]) < 60


@pytest.mark.parametrize("after", [None, 2])
def test_times_travel_with_gradients_and_only_where_a_table_of_the_width_admits(
    pools: Path, alone: None, monkeypatch: pytest.MonkeyPatch, after: int | None
) -> None:
    import torch
    from perdure.torch.exchange import Exchange

    bags, trainer = training(pools / "p", "Sharded", after)
    sent, usual = [], Exchange.all_to_all

    def counting(self: Any, one: Any, *sizes: Any) -> Any:
        sent.append(one.numel())
        return usual(self, one, *sizes)

    monkeypatch.setattr(Exchange, "all_to_all", counting)
    features = dict.fromkeys("tuv", (torch.tensor([7, 8, 8]), torch.tensor([1, 2])))
    with trainer.step():
        sum(one.sum() for one in bags(features).values()).backward()
    groups, keys = 2, 2 + 2 + 2
    weights = 2 * (4 + 4 + 9)
    times = 0 if after is None else keys
    assert sent == [1 + groups, 2 * keys, weights, groups + weights + times]


def test_times_come_whole_where_floats_that_small_are_taken_for_zero(
    pools: Path, alone: None
) -> None:
    """By a setting of the program's, which is the thread's."""
    import torch

    bags, trainer = training(pools / "p", "Sharded", counters=64)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such setting")
    try:
        step(bags, trainer, 1)
    finally:
        torch.set_flush_denormal(False)
    assert bags.sightings.of["t"].total == bags.sightings.of["v"].total == 3 * 12


def test_sketches_that_become_one_count_nobody_too_rarely_and_nobody_twice() -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch.admission import Sightings, together

    tables = [pt.TableConfig("t", 4, admit_after=3, admit_counters=256)]
    several, every = [Sightings(tables) for _ in range(3)], torch.arange(90)
    times = every % 5
    for rank, one in enumerate(several):
        one.of["t"].add(every[rank::3], times[rank::3])
    states = [one.state_dict() for one in several]
    whole = Sightings(tables)
    whole.load_state_dict(together(states))
    estimate = whole.of["t"].estimate(every).to(torch.int64)
    assert bool((estimate >= times).all()) and int((estimate > times).sum()) < 10
    assert 60 <= whole.of["t"].total <= 180, "between what one has seen and what all have"
    alone, again = together(states[:1]), together([whole.state_dict()] * 3)
    for state, same in ((alone, states[0]), (again, whole.state_dict())):
        assert state["t"]["cells"].equal(same["t"]["cells"])
        assert state["t"]["total"] == same["t"]["total"]
    for one in several:  # so full that all of them together are halved
        one.of["t"].cells.fill_(2)
    full = together([one.state_dict() for one in several])
    assert full["t"]["total"] == 256 and bool((full["t"]["cells"] == 1).all())


@pytest.mark.parametrize("buckets", [5, 64, 1024])
def test_who_had_buckets_before_is_found_whatever_the_numbers(buckets: int) -> None:
    from perdure.torch.buckets import owners_before

    for before in range(1, 6):
        for ranks in range(1, 6):
            for rank in range(ranks):
                mine = [one for one in range(buckets) if one * ranks // buckets == rank]
                expected = sorted({one * before // buckets for one in mine})
                assert list(owners_before(rank, ranks, before, buckets)) == expected
