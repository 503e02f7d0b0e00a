"""Steps whose commit failed, or may have to be taken back, and what others do meanwhile: whoever is
told of it, and whoever writes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import perdure
import pytest
from test_torch_dcp import a_writer, kept, load, refused, save
from test_torch_sharded import (
    a_training,
    alone,
    check_same,
    contents,
    execute,
    steps_of,
    told,
)

__all__ = ["alone"]  # a fixture
pytestmark = [
    pytest.mark.framework("torch"),
    pytest.mark.filterwarnings("ignore:torch.distributed is"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def told_in_a_thread(wait: Any) -> None:
    said: list[BaseException] = []

    def ask() -> None:
        try:
            wait()
        except perdure.SystemFailure as error:
            said.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert said, "it was told"


def told_here(wait: Any) -> None:
    with pytest.raises(perdure.SystemFailure):
        wait()


@pytest.mark.parametrize("told", [told_here, told_in_a_thread])
def test_a_block_that_goes_on_after_a_failed_commit_loses_no_row_of_the_step_before(
    told: Any,
) -> None:
    from torch_overlap import Small, a_failure

    small = Small()
    a_failure(small)

    def step() -> None:
        with small.trainer.step():
            small.look_up([2]).sum().backward()
            told(small.trainer.wait)

    with pytest.raises(perdure.InvalidArgument, match=r"not committed.*resume\(\)"):
        step()
    assert small.trainer.resume() == 1
    assert small.in_pool([1, 2]) == [1, 0]
    small.step([1, 2])
    small.trainer.wait()
    assert small.in_pool([1, 2]) == [2, 1]


def test_a_checkpoint_beside_a_step_that_may_be_taken_back_lets_it_be_taken_back(
    pools: Path, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    store, bags, trainer = a_training(pools / "p", "Sharded")
    writer = a_writer(store)
    steps_of(bags, trainer, 0, 4)
    before = contents(store)
    save({"t": torch.zeros(3)}, writer)
    steps_of(bags, trainer, 4, 5)
    trainer._take_back()
    trainer.resume()
    before = contents(store)
    usual, saved = trainer._told, []

    def gone(doing: int, step: int) -> Any:
        """Another process goes while this one waits for it; a checkpoint is saved meanwhile."""
        assert (doing, step) == (1, 5)
        saved.append(dcp.async_save({"t": torch.ones(3)}, storage_writer=writer, no_dist=True))
        with pytest.raises(TimeoutError):
            saved[0].result(0.3)
        raise RuntimeError("connection closed")

    monkeypatch.setattr(trainer, "_told", gone)
    with pytest.raises(RuntimeError, match="connection closed"):
        steps_of(bags, trainer, 4, 5)
    monkeypatch.setattr(trainer, "_told", usual)
    for call in (saved[0].result, lambda: save({"t": torch.ones(3)}, writer, no_dist=True)):
        said = refused(call)
        assert isinstance(said, perdure.Busy) and "resume() in all processes" in str(said)
    assert contents(store) != before
    trainer._take_back()
    assert contents(store) == before
    assert trainer.resume() == 4 and kept(store) == [1]
    steps_of(bags, trainer, 4, 5)
    save({"t": torch.ones(3)}, writer)
    got = {"t": torch.zeros(3)}
    assert load(got, store).step == 5 and got["t"].tolist() == [1, 1, 1]


def test_a_writer_of_checkpoints_that_is_made_before_resume_writes_nothing(
    pools: Path, alone: None
) -> None:
    store, bags, trainer = a_training(pools / "p", "Sharded")
    steps_of(bags, trainer, 0, 3)
    a_writer(store)
    assert store.can_revert(), "another process may not have the step"


def test_tables_that_are_added_after_a_kill_keep_no_step_from_being_taken_back(
    pools: Path,
) -> None:
    run = {"name": "killed", "steps": 8}
    new = {**run, "new tables": ["more"]}
    execute(
        pools,
        {**run, "name": "calm"},
        {**run, "kill": {"rank": 1, "when": "in commit", "step": 4}},
        {**run, "new tables": ["users"]},  # of a name that was mistyped, say
        {**run, "steps": 6},
        new,  # all have the same step by now
    )
    for rank in range(2):
        said = dict(told(pools, "killed", rank))
        assert said["error"].startswith(
            "ValueError: tables: rank 0 has step 4, and rank 1 has step 3, so none can be added"
            " (users): call resume() with the tables of the last run first"
        )
        with perdure.open(pools / f"killed-{rank}") as store:
            assert "more" in store.tables() and "users" not in store.tables()
    check_same(pools, "killed", "calm", 2)
