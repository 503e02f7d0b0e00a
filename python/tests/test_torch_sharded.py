"""Trainings over several processes: killed, spread over other numbers of pools, and ill-matched."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest

pytestmark = pytest.mark.framework("torch")

KILLS = int(os.environ.get("PERDURE_TORCH_KILLS", "6"))
PROGRAM = Path(__file__).with_name("torch_sharded.py")
LOSSES = tuple("0123456789")


def execute(folder: Path, *plan: dict[str, Any]) -> None:
    """In a session of its own, so that nobody who waits for a process that is gone outlives it."""
    whole = [{"ranks": 2, "steps": 6, **run} for run in plan]
    with subprocess.Popen(
        [sys.executable, PROGRAM, folder, json.dumps(whole)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=300)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said.decode()


def told(folder: Path, name: str, rank: int) -> list[tuple[str, str]]:
    """The lines of a process's log: what, and how much."""
    lines = (folder / f"{name}-{rank}.log").read_text().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines]  # type: ignore[misc]


def ends(folder: Path, name: str) -> list[list[int]]:
    return [json.loads(line) for line in (folder / f"{name}.ends").read_text().splitlines()]


def losses(folder: Path, name: str, ranks: int) -> dict[str, str]:
    """Of each step, those of all processes in order."""
    whole: dict[str, list[str]] = {}
    for rank in range(ranks):
        for what, value in told(folder, name, rank):
            if what.startswith(LOSSES):
                whole.setdefault(what, []).append(value)
    return {step: ",".join(values) for step, values in whole.items()}


def model(folder: Path, name: str, rank: int = 0) -> str:
    return dict(told(folder, name, rank))["model"]


def rows(folder: Path, name: str, ranks: int) -> dict[tuple[str, int], bytes]:
    """Of all pools; no id is in two."""
    found: dict[tuple[str, int], bytes] = {}
    for rank in range(ranks):
        with perdure.open(folder / f"{name}-{rank}") as store:
            for table in ("user", "item"):
                for ids, values in store.table(table).scan():
                    for one, value in zip(ids.tolist(), values, strict=True):
                        assert found.setdefault((table, one), bytes(value)) == bytes(value)
    return found


def check_same(folder: Path, name: str, calm: str, ranks: int, kills: int = 0) -> None:
    """To the last bit. Who is killed may not have told of the step that it had just done."""
    for rank in range(ranks):
        expected = dict(told(folder, calm, rank))
        mine = [line for line in told(folder, name, rank) if line[0].startswith(LOSSES)]
        for step, value in mine:
            assert value == expected[step], f"rank {rank}, step {step}"
        steps = {one for one in expected if one.startswith(LOSSES)}
        assert len(steps - dict(mine).keys()) <= kills
    assert {model(folder, name, rank) for rank in range(ranks)} == {model(folder, calm)}
    assert rows(folder, name, ranks) == rows(folder, calm, ranks)


def kill_at_random(folder: Path, ranks: int, **how: Any) -> None:
    """Runs "killed", of which single processes are killed at random moments, and checks all against
    "calm"."""
    steps, chance = 10 + 4 * KILLS, random.Random(ranks)
    kills = [
        {"rank": chance.randrange(ranks), "lines": chance.randint(1, 5), "seed": n, "within": 0.06}
        for n in range(KILLS)
    ]
    run = {"ranks": ranks, "steps": steps}
    killed = {**run, "name": "killed", **how}
    runs = [{**killed, "pause": 0.01, "kill": kill} for kill in kills]
    execute(folder, {**run, "name": "calm"}, *runs, killed)
    check_same(folder, "killed", "calm", ranks, KILLS)


def check_nothing_lost(folder: Path, name: str, ranks: int) -> None:
    """A step whose end any process has seen is not lost, and all go on after the same."""
    starts: dict[int, set[int]] = {}  # of each run
    seen: dict[int, int] = {}
    for rank in range(ranks):
        run = -1
        for what, value in told(folder, name, rank):
            if what == "begins":
                run = int(value)
            elif what == "resumes":
                starts.setdefault(run, set()).add(int(value))
            elif what.startswith(LOSSES):
                seen[run] = max(seen.get(run, 0), int(what) + 1)
    done = 0
    for run, after in sorted(starts.items()):
        assert len(after) == 1, f"run {run} goes on after {after}"
        assert done <= min(after) <= done + 1
        done = max(seen.get(run, 0), *after)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_processes_that_are_killed_go_on_with_the_same_losses_to_the_last_bit(
    pools: Path, ranks: int
) -> None:
    kill_at_random(pools, ranks)
    check_nothing_lost(pools, "killed", ranks)


def test_a_kill_before_after_and_while_a_step_is_taken_back(pools: Path) -> None:
    run = {"ranks": 3, "steps": 12}
    killed = {**run, "name": "killed"}
    moments = [
        {"rank": 1, "when": "in agreement"},  # while pools are given their ranks
        {"rank": 0, "when": "in commit", "step": 1},  # the others go back to a pool without steps
        {"rank": 2, "when": "in commit", "step": 5},
        {"rank": 1, "when": "taking back"},
        {"rank": 0, "when": "after commit", "step": 7},
        {"rank": 1, "when": "in commit", "step": 8},
    ]
    runs = [{**killed, "kill": kill} for kill in moments]
    execute(pools, {**run, "name": "calm"}, *runs, killed)
    ended = zip(ends(pools, "killed"), moments, strict=False)
    assert [end[kill["rank"]] for end, kill in ended] == [-9] * 6
    check_same(pools, "killed", "calm", 3, 1)
    check_nothing_lost(pools, "killed", 3)
    lives = [value for what, value in told(pools, "killed", 0) if what == "resumes"]
    assert lives == ["0", "0", "4", "4", "7", "7"]
    back = [[value for what, value in told(pools, "killed", r) if what == "back"] for r in range(3)]
    assert back[0] == ["5", "8"] and back[2] == ["1", "8"] and back[1] == ["1", "5", "5"]


def test_a_commit_that_fails_in_one_process_ends_in_all_and_they_go_on(pools: Path) -> None:
    failing = {"name": "failing", "fails": {"rank": 1, "step": 3}}
    execute(pools, {"name": "calm"}, failing)
    check_same(pools, "failing", "calm", 2)
    said = [dict(told(pools, "failing", rank))["failed"] for rank in range(2)]
    assert said[0].startswith("step 3: rank 1 could not commit step 3; call resume()")
    assert said[1] == "no space is left, says the test"


def test_a_process_may_have_nothing_for_a_pass(pools: Path) -> None:
    execute(pools, {"name": "a", "idle": True}, {"name": "b"})
    assert ends(pools, "a") == [[0, 0]]
    a, b = rows(pools, "a", 2), rows(pools, "b", 2)
    assert a.keys() == b.keys() and a != b


def test_other_numbers_of_processes_go_on_with_the_same_losses_to_the_last_bit(
    pools: Path,
) -> None:
    run = {"chunks": True, "steps": 12}
    execute(
        pools,
        {**run, "name": "two"},
        {**run, "name": "three", "ranks": 3},
        {**run, "name": "a", "steps": 4},
        {"name": "b", "reshard": ["a", 2, 3]},
        {**run, "name": "b", "ranks": 3, "kill": {"rank": 1, "when": "in commit", "step": 8}},
        {"name": "c", "reshard": ["b", 3, 2]},  # two of which are a step ahead
        {**run, "name": "c"},
    )
    calm = losses(pools, "two", 2)
    assert losses(pools, "three", 3) == calm, "the order of sums depends on the processes"
    parts = [losses(pools, name, ranks) for name, ranks in (("a", 2), ("b", 3), ("c", 2))]
    assert [sorted(map(int, part)) for part in parts] == [
        [*range(4)],
        [*range(4, 7)],
        [*range(7, 12)],
    ]
    assert {**parts[0], **parts[1], **parts[2]} == calm
    assert model(pools, "c") == model(pools, "two")
    assert rows(pools, "c", 2) == rows(pools, "two", 2)
    assert rows(pools, "three", 3) == rows(pools, "two", 2)


def test_pools_that_do_not_belong_together_are_refused_by_all(pools: Path) -> None:
    bad = {
        "of other rules": ({"of 1": {"lr": 0.1}}, "optimizer: rank 1 has Adam(lr=0.1"),
        "of other buckets": ({"of 1": {"buckets": 64}}, "buckets: rank 1 has 64, and rank 0 has"),
        "of other tables": (
            {"of 1": {"dim": 4}},
            "tables: rank 1 has TableConfig(name='user', dim",
        ),
        "rebucketed": ({"pools": "x", "buckets": 64}, "has 1024 buckets, and 64 were asked for"),
        "half evaluating": (
            {"of 0": {"eval": True}},
            "forward: of the processes [False, True] are within trainer.step(), in training mode",
        ),
        "half ahead": (
            {"of 0": {"never ahead": True}},
            "begin: of the processes [False, True] began this pass ahead; call it in all or in",
        ),
        "few buckets": ({"buckets": 1}, "buckets: 1; pass 2 (a bucket a process) to"),
        "redimensioned": ({"pools": "x", "dim": 4}, "rows of"),
        "exchanged": (
            {"of 0": {"pool": "x-1"}, "of 1": {"pool": "x-0"}},
            "x-1 is of rank 1; give each process the pool of its own rank",
        ),
        "mixed": (
            {"of 0": {"pool": "x-0"}, "of 1": {"pool": "y-1"}},
            "y-1 is of another training than",
        ),
        "three": ({"pools": "x", "ranks": 3}, "x-0 is of 2 processes, and there are 3; reshard()"),
        "lost": ({"of 0": {"pool": "x-0"}}, "lost-1 is new, and the others have steps; give"),
        "outdated": (
            {"of 0": {"pool": "old-0"}, "of 1": {"pool": "old-1.kept"}},
            "pool of rank 0 has step 6, and that of rank 1 has step 2: it is older than",
        ),
    }
    runs: list[dict[str, Any]] = [
        {"name": "x"},
        {"name": "y"},
        {"name": "old", "steps": 2},
        {"copy": [["old-1", "old-1.kept"]]},
        {"name": "old"},
    ]
    for name, (run, _) in bad.items():
        ranks = run.get("ranks", 2)
        whole = {"name": name, **run}
        if "pools" in run:
            whole.update({f"of {r}": {"pool": f"{run['pools']}-{r}"} for r in range(ranks)})
        runs.append(whole)
    execute(pools, *runs, {"name": "x", "steps": 7})
    for name, (run, error) in bad.items():
        for rank in range(run.get("ranks", 2)):
            what, value = told(pools, name, rank)[-1]
            assert what == "error" and error in value, (name, rank, value)
    assert "6" in losses(pools, "x", 2), "what was refused has changed nothing"


def test_all_pools_can_be_restored_from_snapshots_of_one_step(pools: Path) -> None:
    execute(
        pools,
        {"name": "calm", "steps": 9},
        {"name": "again", "steps": 4},
        {"snapshot": "again"},
        {"name": "again", "steps": 7},
        {"restore": "again"},
        {"name": "again", "steps": 9},
    )
    check_same(pools, "again", "calm", 2)


def test_pools_that_came_to_one_step_in_different_runs_are_refused_by_all(pools: Path) -> None:
    from perdure import torch as pt

    execute(
        pools,
        {"name": "x", "steps": 4},
        {"copy": [["x-0", "y-0"], ["x-1", "y-1"]]},
        *({"name": name, "steps": 7} for name in "xy"),
        {"name": "mixed", "of 0": {"pool": "x-0"}, "of 1": {"pool": "y-1"}},
    )
    for rank in range(2):
        what, value = told(pools, "mixed", rank)[-1]
        assert what == "error" and "have step 7, but they came to it in different runs" in value
    with pytest.raises(ValueError, match="y-1: it came to step 7 in another run of the training"):
        pt.reshard([pools / "x-0", pools / "y-1"], [pools / "new-0"])


def test_parts_of_each_rank_are_loaded_into_pools_of_that_rank(pools: Path) -> None:
    execute(
        pools,
        {"name": "a", "export": True, "chunks": True},
        {"name": "b", "parts": "a", "steps": 0, "chunks": True},
        {
            "name": "d",
            "chunks": True,
            "parts": "a",
            "of 0": {"of parts": 1},
            "of 1": {"of parts": 0},
        },
    )
    before, after = rows(pools, "a", 2), rows(pools, "b", 2)
    assert {one: row[:-4] for one, row in before.items()} == {
        one: row[:-4] for one, row in after.items()
    }
    for rank in range(2):
        assert "that other ranks of 2 have" in told(pools, "d", rank)[-1][1]


def test_resharding_names_what_is_missing_and_leaves_nothing_half_made(pools: Path) -> None:
    from perdure import torch as pt

    execute(pools, {"name": "a"}, {"name": "b"})
    a, b = ([pools / f"{name}-{rank}" for rank in range(2)] for name in "ab")
    new = [pools / f"new-{rank}" for rank in range(3)]
    with pytest.raises(perdure.NotFound, match="gone-1: not there, and it has rows that no other"):
        pt.reshard([a[0], pools / "gone-1"], new)
    with pytest.raises(ValueError, match="is of 2 pools, and 1 were given"):
        pt.reshard(a[:1], new)
    with pytest.raises(ValueError, match="a-1: it is of rank 1, and stands at 0"):
        pt.reshard(a[::-1], new)
    with pytest.raises(ValueError, match="b-1: it is of another training than"):
        pt.reshard([a[0], b[1]], new)
    with pytest.raises(perdure.AlreadyExists):
        pt.reshard(a, [new[0], a[1]])
    assert not any(path.exists() for path in new)
    assert pt.reshard(a, new) == 6
    assert rows(pools, "new", 3) == rows(pools, "a", 2)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def a_training(path: Path, kind: str, **options: Any) -> Any:
    import torch
    from perdure import torch as pt

    rule = pt.Adagrad(lr=0.1)
    tables = [pt.TableConfig("t", 4, max_rows=30), pt.TableConfig("u", 7, ttl_steps=3)]
    store = pt.create(path, tables, rule)
    bags = getattr(pt, f"{kind}EmbeddingBagCollection")(store, tables, rule, **options)
    none = torch.nn.Linear(3, 3)
    make = getattr(pt, f"{kind}Trainer")
    trainer = make(store, bags, none, torch.optim.SGD(none.parameters(), lr=0.1))
    trainer.resume()
    return store, bags, trainer


def steps_of(bags: Any, trainer: Any, first: int, last: int) -> None:
    import torch

    for step in range(first, last):
        random = np.random.default_rng(step)
        features = {}
        for name in ("t", "u"):
            ids = torch.from_numpy(random.zipf(1.4, 15) % 60)
            features[name] = (ids, torch.ones(15, dtype=torch.int64))
        with trainer.step():
            for _ in range(2):  # passes
                sum(one.square().sum() for one in bags(features).values()).backward()


def contents(store: perdure.Store) -> dict[bytes, bytes]:
    """All records but the catalogue, and those that taking a step back needs."""
    hidden = [0] + [
        t.number for name, t in store.tables().items() if name.startswith("perdure.torch")
    ]
    return {
        bytes(key): bytes(row)
        for keys, values in store.scan(key_dtype=np.int64)
        for key, row in zip(keys, values, strict=True)
        if key[1] not in hidden
    }


def test_a_step_that_is_taken_back_leaves_the_pool_as_it_was(
    pools: Path, tmp_path: Path, alone: None
) -> None:
    store, bags, trainer = a_training(pools / "p", "Sharded")
    steps_of(bags, trainer, 0, 4)
    trainer.export(tmp_path / "parts", keep_evictions=True)  # so evicted ids are kept from here on
    taken = 0
    for step in range(4, 30):
        before, dense = contents(store), trainer._bytes.clone()
        steps_of(bags, trainer, step, step + 1)
        taken += bool(trainer.evicted)
        after = contents(store)
        assert after != before
        trainer._take_back()
        assert contents(store) == before and trainer._bytes.equal(dense)
        assert trainer.resume() == step
        steps_of(bags, trainer, step, step + 1)
        assert contents(store) == after
    assert taken > 5, "steps that evict"
    trainer._take_back()
    with pytest.raises(perdure.InvalidArgument, match="no commit to take back"):
        trainer._take_back()


def test_one_process_trains_as_collections_that_are_not_sharded(pools: Path, alone: None) -> None:
    several, one = a_training(pools / "several", "Sharded"), a_training(pools / "one", "")
    for _, bags, trainer in (several, one):
        steps_of(bags, trainer, 0, 12)
    assert contents(several[0]) == contents(one[0])


def test_one_pool_of_a_trainer_is_spread_and_trains_on(pools: Path, alone: None) -> None:
    import torch
    from perdure import torch as pt

    whole, bags, trainer = a_training(pools / "whole", "")
    steps_of(bags, trainer, 0, 9)
    store, bags, trainer = a_training(pools / "one", "")
    steps_of(bags, trainer, 0, 5)
    store.close()
    for name in ("half-made", "good"):
        assert pt.reshard([pools / "one"], [pools / name]) == 5
    with perdure.open(pools / "half-made") as spoilt:
        pt.notes.set_loading(spoilt, True)
    rule, none = bags.optimizer, torch.nn.Linear(3, 3)
    with (
        perdure.open(pools / "half-made") as spoilt,
        pytest.raises(ValueError, match="rows were being loaded into it"),
    ):
        pt.ShardedEmbeddingBagCollection(spoilt, bags.configs, rule)
    with (
        perdure.open(pools / "one") as old,
        pytest.raises(ValueError, match="of a training of one process; reshard\\(\\) makes pools"),
    ):
        pt.ShardedEmbeddingBagCollection(old, bags.configs, rule)
    store = perdure.open(pools / "good")
    bags = pt.ShardedEmbeddingBagCollection(store, bags.configs, rule)
    dense = torch.optim.SGD(none.parameters(), lr=0.1)
    trainer = pt.ShardedTrainer(store, bags, none, dense)
    assert trainer.resume() == 5
    steps_of(bags, trainer, 5, 9)
    assert contents(store) == contents(whole)


def test_trainers_say_which_pools_are_theirs(pools: Path, alone: None) -> None:
    import torch
    from perdure import torch as pt

    store, bags, trainer = a_training(pools / "p", "Sharded")
    steps_of(bags, trainer, 0, 1)
    none = torch.nn.Linear(3, 3)
    parts = (none, torch.optim.SGD(none.parameters(), lr=0.1))
    with pytest.raises(perdure.InvalidArgument, match="ShardedTrainer trains pools of several"):
        pt.Trainer(store, bags, *parts)
    other = pt.ShardedTrainer(store, bags, *parts)
    with pytest.raises(perdure.InvalidArgument, match="another trainer is at work on it"):
        steps_of(bags, other, 1, 2)
    assert other.resume() == 1
    with pytest.raises(perdure.InvalidArgument, match="another trainer is at work on it"):
        steps_of(bags, trainer, 1, 2)
    plain, plain_bags, _ = a_training(pools / "q", "")
    with pytest.raises(perdure.InvalidArgument, match="and Trainer all others"):
        pt.ShardedTrainer(plain, plain_bags, *parts)
    rule, tables = pt.Adagrad(lr=0.1), plain_bags.configs
    assert pt.ShardedEmbeddingBagCollection(plain, tables, rule).shard.ranks == 1
    new = pt.create(pools / "r", tables, rule)
    fresh = pt.ShardedEmbeddingBagCollection(new, tables, rule)
    at_once = pt.ShardedTrainer(new, fresh, *parts)
    with pytest.raises(perdure.InvalidArgument, match="call resume\\(\\) in all processes before"):
        steps_of(fresh, at_once, 0, 1)


def test_ids_of_a_begun_pass_that_is_refused_are_forgotten(pools: Path, alone: None) -> None:
    import torch

    bags = a_training(pools / "p", "Sharded")[1]
    one = torch.ones(2, dtype=torch.int64)
    wrong = {name: (torch.arange(3), one) for name in bags._table_of}
    bags.begin(wrong)
    with pytest.raises(ValueError, match="lengths"):
        bags(wrong)
    right = {name: (torch.arange(2) + 7, one) for name in bags._table_of}
    first, again = bags(right), bags(right)
    assert all(torch.equal(first[name], again[name]) for name in right)


@pytest.mark.gpu
@pytest.mark.parametrize("store", ["cpu", "cuda"])
def test_two_gpus_go_on_with_the_same_losses_after_a_kill(pools: Path, store: str) -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    run = {"cuda": True, "store": store, "steps": 8}
    killed = {**run, "name": "killed"}
    kill = {"rank": 1, "when": "in commit", "step": 3}
    execute(pools, {**run, "name": "calm"}, {**killed, "kill": kill}, killed)
    check_same(pools, "killed", "calm", 2)
