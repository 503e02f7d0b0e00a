"""Steps of several processes that are committed beside the next one: the same training, of which a
kill may lose the last step that ended, in all processes the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from test_torch_sharded import (
    LOSSES,
    check_same,
    contents,
    ends,
    execute,
    kill_at_random,
    steps_of,
    told,
)
from torch_ops import one_thread

pytestmark = pytest.mark.framework("torch")
_one_thread = pytest.fixture(autouse=True)(one_thread)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits wait for lookups of the next step, or for who waits for them, however long."""
    from perdure.torch import overlap

    monkeypatch.setattr(overlap, "_PATIENCE_SECONDS", 60)


def lives(folder: Path, name: str, rank: int) -> list[int]:
    """After which steps a process went on, each time."""
    return [int(value) for what, value in told(folder, name, rank) if what == "resumes"]


def check_one_step_lost(folder: Path, name: str, ranks: int) -> None:
    """Of the steps that any process has seen end the last may be lost, and is then in all."""
    seen: dict[int, int] = {}  # in each run the last step, and after which all go on
    after: dict[int, set[int]] = {}
    for rank in range(ranks):
        run = -1
        for what, value in told(folder, name, rank):
            if what == "begins":
                run = int(value)
            elif what == "resumes":
                after.setdefault(run, set()).add(int(value))
            elif what.startswith(LOSSES):
                seen[run] = max(seen.get(run, 0), int(what) + 1)
    ended = 0
    for run, steps in sorted(after.items()):
        assert len(steps) == 1, f"run {run} goes on after {steps}"
        assert ended - 1 <= min(steps) <= ended + 1
        ended = max(seen.get(run, 0), *steps)


@pytest.mark.parametrize("ranks", [2, 3])
def test_overlapped_steps_are_the_synchronous_ones_though_each_rank_commits_when_it_likes(
    pools: Path, ranks: int
) -> None:
    run = {"ranks": ranks, "steps": 16}
    execute(
        pools,
        {**run, "name": "calm"},
        {**run, "name": "beside", "overlap": True},
        {**run, "name": "late", "overlap": True, "lags": 0.02, "pause": 0.01},
    )
    for name in ("beside", "late"):
        assert ends(pools, name) == [[0] * ranks]
        check_same(pools, name, "calm", ranks)


def test_processes_without_ids_and_parts_of_a_batch_overlap_as_well(pools: Path) -> None:
    for number, kind in enumerate(({"idle": True}, {"chunks": True})):
        a, b = f"a{number}", f"b{number}"
        execute(pools, {**kind, "name": a}, {**kind, "name": b, "overlap": True})
        check_same(pools, b, a, 2)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_kill_at_any_moment_loses_the_last_step_that_ended_at_most_and_in_all_the_same(
    pools: Path, ranks: int
) -> None:
    kill_at_random(pools, ranks, overlap=True)
    check_one_step_lost(pools, "killed", ranks)


def test_a_kill_before_in_and_after_a_commit_beside_the_next_step(pools: Path) -> None:
    run = {"ranks": 3, "steps": 12}
    killed = {**run, "name": "killed", "overlap": True}
    moments = [
        {"rank": 0, "when": "in commit", "step": 1},  # which is not overlapped
        {"rank": 2, "when": "in commit", "step": 4},
        {"rank": 1, "when": "taking back"},
        {"rank": 1, "when": "prepared", "step": 6},
        {"rank": 0, "when": "after commit", "step": 7},
        {"rank": 1, "when": "in commit", "step": 9},
    ]
    runs = [{**killed, "kill": kill} for kill in moments]
    execute(pools, {**run, "name": "calm"}, *runs, killed)
    ended = zip(ends(pools, "killed"), moments, strict=False)
    assert [end[kill["rank"]] for end, kill in ended] == [-9] * 6
    check_same(pools, "killed", "calm", 3, 1)
    check_one_step_lost(pools, "killed", 3)
    assert lives(pools, "killed", 0) == [0, 0, 3, 3, 5, 7, 8]
    back = [[value for what, value in told(pools, "killed", r) if what == "back"] for r in range(3)]
    assert back == [["4", "9"], ["1", "4", "4"], ["1", "9"]]


@pytest.mark.parametrize("where", ["_write", "_fill"])
def test_what_fails_in_one_process_ends_a_step_in_all_and_they_go_on(
    pools: Path, where: str
) -> None:
    fails = {"rank": 1, "step": 3, "where": where}
    failing = {"ranks": 3, "name": "failing", "overlap": True, "fails": fails, "lags": 0.01}
    failing["of 2"] = {"rests": 0.2}  # it could know that a commit failed when its next step begins
    execute(pools, {"ranks": 3, "name": "calm"}, failing)
    check_same(pools, "failing", "calm", 3)
    for rank in range(3):
        assert lives(pools, "failing", rank) == [0, 2]
        said = dict(told(pools, "failing", rank))["failed"]
        if rank == 1:
            assert said == "no space is left, says the test"
        else:
            assert said.startswith("step 3: rank 1 could not commit step 3; call resume() in all")
        steps = [what for what, _ in told(pools, "failing", rank) if what.startswith(LOSSES)]
        beside = ["2"] if where == "_write" else []  # it had ended, and the next one raised
        assert steps == ["0", "1", *beside, "2", "3", "4", "5"]


def test_processes_that_disagree_on_overlap_are_refused_by_name(pools: Path) -> None:
    mixed = {"ranks": 3, "name": "mixed", "overlap": True, "of 1": {"overlap": False}}
    execute(pools, mixed, {"ranks": 3, "name": "mixed", "overlap": True})
    for rank in range(3):
        value = dict(told(pools, "mixed", rank))["error"]
        assert "ranks [0, 2] commit beside the next step, and ranks [1] do not; pass the" in value
    assert lives(pools, "mixed", 0) == [0]


def test_an_overlapped_training_goes_on_synchronously_and_back(pools: Path) -> None:
    runs = [{"name": "turns", "steps": 3 * n, "overlap": n % 2 > 0} for n in range(1, 5)]
    execute(pools, {"name": "calm", "steps": 12}, *runs)
    check_same(pools, "turns", "calm", 2)


def test_processes_that_do_not_train_need_not_know_that_commits_have_a_group(pools: Path) -> None:
    run = {"outsider": True, "overlap": True}
    execute(pools, {"name": "calm"}, {**run, "name": "beside"})
    assert ends(pools, "beside") == [[0, 0, 0]]
    check_same(pools, "beside", "calm", 2)


# --- within one process


def a_training(path: Path, *, overlap: bool = True) -> Any:
    import torch
    from perdure import torch as pt

    rule = pt.Adagrad(lr=0.1)
    tables = [pt.TableConfig("t", 4, max_rows=30), pt.TableConfig("u", 7, ttl_steps=3)]
    store = pt.create(path, tables, rule)
    bags = pt.ShardedEmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(3, 3)
    sgd = torch.optim.SGD(none.parameters(), lr=0.1)
    trainer = pt.ShardedTrainer(store, bags, none, sgd, overlap=overlap)
    trainer.resume()
    return store, bags, trainer


@pytest.mark.usefixtures("alone", "held")
def test_lookups_see_the_step_that_is_under_way_and_the_pool_does_not(pools: Path) -> None:
    import torch

    store, bags, trainer = a_training(pools / "p")
    ids, one = torch.arange(3), torch.ones(3, dtype=torch.int64)
    seen = []
    for _ in range(3):
        with trainer.step():
            rows = bags({"t": (ids, one)})["t"]
            rows.sum().backward()
            seen.append(rows.detach().clone())
    assert not any(torch.equal(a, b) for a, b in ((seen[0], seen[1]), (seen[1], seen[2])))
    assert (trainer.done, trainer.ended) == (2, 3)
    steps = store.table("t").get(ids.numpy(), dtype=np.int32).values[:, 8]
    assert steps.tolist() == [2, 2, 2]
    trainer.wait()
    assert trainer.done == 3
    assert store.table("t").get(ids.numpy(), dtype=np.int32).values[:, 8].tolist() == [3, 3, 3]


@pytest.mark.usefixtures("alone")
def test_an_overlapped_step_that_is_taken_back_leaves_the_pool_as_it_was(
    pools: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    store, bags, trainer = a_training(pools / "p")
    steps_of(bags, trainer, 0, 4)
    trainer.export(tmp_path / "parts", keep_evictions=True)
    taken = 0
    for step in range(4, 20, 2):
        steps_of(bags, trainer, step, step + 1)
        trainer.wait()
        before = contents(store)
        steps_of(bags, trainer, step + 1, step + 2)  # which looks rows up in memory
        taken += bool(trainer.evicted)
        trainer.wait()
        after = contents(store)
        assert after != before
        trainer._take_back()
        assert contents(store) == before
        assert trainer.resume() == step + 1
        steps_of(bags, trainer, step + 1, step + 2)
        trainer.wait()
        assert contents(store) == after
    assert taken > 1, "steps that evict"
    store.close()


@pytest.mark.usefixtures("alone", "held")
def test_steps_one_after_another_go_back_to_where_a_synchronous_training_does(
    pools: Path,
) -> None:
    kept = []
    for overlap in (False, True):
        store, bags, trainer = a_training(pools / str(overlap), overlap=overlap)
        steps_of(bags, trainer, 0, 12)
        trainer.wait()
        trainer._take_back()
        kept.append(contents(store))
        assert trainer.resume() == 11
        store.close()
    assert kept[0] == kept[1]


@pytest.mark.usefixtures("alone", "held")
def test_a_commit_waits_for_a_transaction_and_says_so_before_the_others_are_told(
    pools: Path,
) -> None:
    store, bags, trainer = a_training(pools / "p")
    steps_of(bags, trainer, 0, 2)
    with store.transaction(), pytest.raises(perdure.Busy, match="end it first"):
        trainer.wait()
    trainer.wait()
    with store.transaction(), pytest.raises(perdure.Busy, match="end it first"):
        steps_of(bags, trainer, 2, 3)
    assert trainer.resume() == 2
    steps_of(bags, trainer, 2, 4)
    store.close()
    assert trainer.done == 4


@pytest.mark.usefixtures("alone")
def test_a_store_that_closes_takes_the_connections_of_its_commits_along(pools: Path) -> None:
    import os

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    seen = []
    for number in range(4):
        store, bags, trainer = a_training(pools / str(number))
        steps_of(bags, trainer, 0, 3)
        with_trainer = opened()
        store.close()
        seen.append(opened())
    assert seen == seen[:1] * 4 and with_trainer > seen[0]
