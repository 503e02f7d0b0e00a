"""Checkpoints of torch.distributed.checkpoint in pools: beside plain states, over ranks that are
killed, by the pieces that are put, and what is refused."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from torch_bags import Bags, a_table

pytestmark = [
    pytest.mark.framework("torch"),
    pytest.mark.filterwarnings("ignore:torch.distributed is"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

KILLS = int(os.environ.get("PERDURE_TORCH_KILLS", "3"))
PROGRAM = Path(__file__).with_name("torch_checkpoints.py")
PIECE = 16 << 10


def a_writer(target: Any, **options: Any) -> Any:
    from perdure.torch.checkpoint import CheckpointWriter

    return CheckpointWriter(target, **{"piece_bytes": PIECE, **options})


def save(state: Any, writer: Any, **options: Any) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save(state, storage_writer=writer, **options)


def load(state: Any, target: Any, id: str | None = None, **options: Any) -> Any:
    import torch.distributed.checkpoint as dcp
    from perdure.torch.checkpoint import CheckpointReader

    reader = CheckpointReader(target, **options)
    dcp.load(state, storage_reader=reader, checkpoint_id=id)
    return reader.checkpoint


def kept(target: Any, **options: Any) -> list[int]:
    from perdure.torch.checkpoint import CheckpointReader

    return [one.number for one in CheckpointReader(target, **options).checkpoints()]


def refused(call: Any) -> BaseException:
    """What the call raised within torch.distributed.checkpoint's own exception."""
    from torch.distributed.checkpoint import CheckpointException

    with pytest.raises((CheckpointException, perdure.Error)) as raised:
        call()
    error = raised.value
    return error.failures[0][0] if isinstance(error, CheckpointException) else error


def says(call: Any) -> str:
    """What a load is refused for, by an error of ours."""
    error = refused(call)
    assert isinstance(error, perdure.Error), error
    return str(error)


def same(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return bool(one == other)


# --- beside plain states


def a_tensor(chance: random.Random) -> Any:
    import torch

    dtypes = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8)
    shape = [chance.choice((0, 1, 3, 40)) for _ in range(chance.randint(0, 3))]
    if chance.random() < 0.3:
        shape = [chance.randint(1, 300), chance.randint(1, 200)]
    many = torch.randint(
        0, 100, shape, generator=torch.Generator().manual_seed(chance.getrandbits(30))
    )
    made = many.to(chance.choice(dtypes))
    return made.mT.contiguous().mT if made.dim() > 1 and chance.random() < 0.3 else made


def a_state(chance: random.Random, depth: int = 2) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for number in range(chance.randint(1, 6)):
        kind = chance.random()
        if kind < 0.2 and depth:
            state[f"part{number}"] = a_state(chance, depth - 1)
        elif kind < 0.35:
            state[f"{number}"] = chance.choice(
                (7, "text" * chance.randint(0, 9000), None, [1, "a"])
            )
        else:
            state[f"{number}"] = a_tensor(chance)
    return state


def cleared(state: Any) -> Any:
    import torch

    if isinstance(state, torch.Tensor):
        return torch.zeros_like(state)
    if isinstance(state, dict):
        return {name: cleared(one) for name, one in state.items()}
    return "?" if isinstance(state, str) else 0


def changed(state: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    import torch

    after = {}
    for name, one in state.items():
        if isinstance(one, dict):
            after[name] = changed(one, chance)
        elif isinstance(one, torch.Tensor) and one.numel() and chance.random() < 0.4:
            after[name] = one.clone()
            first = after[name].as_strided((1,), (1,))
            first.copy_(first.logical_not() if one.dtype == torch.bool else first + 1)
        else:
            after[name] = one
    return after if chance.random() < 0.8 else a_state(chance)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_loaded_is_what_was_saved(pools: Path, seed: int) -> None:
    chance = random.Random(seed)
    folder, keep = str(pools / "run"), chance.randint(1, 3)
    writer = a_writer(folder, keep=keep)
    states: list[Any] = []
    state = a_state(chance)
    for number in range(1, 8):
        state = changed(state, chance)
        states.append(state)
        save(state, writer)
        if chance.random() < 0.3:
            writer = a_writer(folder, keep=keep)
        assert kept(folder) == list(range(max(1, number - keep + 1), number + 1))
        for one in kept(folder):
            found = cleared(states[one - 1])
            assert load(found, folder, number=one).number == one
            assert same(found, states[one - 1]), one
    assert perdure.open(str(pools / "run" / "rank-0.pool"), live=True).verify().faults == []


def test_only_new_pieces_are_put_and_unneeded_ones_go(pools: Path) -> None:
    import torch

    def records() -> int:
        return len(perdure.open(str(pools / "run" / "rank-0.pool"), live=True))

    writer = a_writer(str(pools / "run"))
    octets = torch.randint(0, 256, (10 * PIECE + 100,), dtype=torch.uint8)
    state = {"a": octets, "b": octets[: 5 * PIECE].clone(), "c": torch.ones(7)}
    save(state, writer)
    assert (writer.pieces_put, writer.pieces_used) == (11, 11), "b has pieces of a; tails share one"
    fixed = records() - 11
    save(state, writer)
    assert (writer.pieces_put, writer.pieces_used) == (0, 11)
    octets[3 * PIECE] += 1
    octets[7 * PIECE - 1] += 1
    save(state, writer)
    assert (writer.pieces_put, writer.pieces_used) == (2, 12), "b has one still that a had"
    state["c"][2] = 5
    save(state, writer)
    assert (writer.pieces_put, writer.pieces_used) == (1, 12)
    for _ in range(3):
        save(state, writer)
        assert writer.pieces_put == 0
    held = records()
    assert held == 12 + fixed + 2, "of three manifests more than the first save had, and no tail"
    del state["b"]
    for _ in range(4):
        save(state, writer)
    assert writer.pieces_used == 11 and records() == held - 1


def test_async_saves_are_as_others(pools: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    writer = a_writer(str(pools / "run"))
    state = {"a": torch.arange(100_000), "n": 3}
    done = dcp.async_save(state, storage_writer=writer, checkpoint_id="first")
    done.result()
    found = {"a": torch.zeros(100_000, dtype=torch.int64), "n": 0}
    assert load(found, str(pools / "run"), "first").id == "first"
    assert same(found, state)


# --- several ranks


def start(
    what: str, folder: Path, meet: Path, ranks: int, first: int, last: int, log: Any = ""
) -> list[Any]:
    meet.unlink(missing_ok=True)
    numbers = [str(ranks), str(first), str(last)]
    return [
        subprocess.Popen(
            [sys.executable, PROGRAM, what, folder, meet, str(rank), *numbers, str(log)]
        )
        for rank in range(ranks)
    ]


def ended(processes: list[Any]) -> bool:
    return [process.wait(120) for process in processes] == [0] * len(processes)


def test_checkpoints_are_loaded_on_other_numbers_of_ranks(pools: Path, tmp_path: Path) -> None:
    from torch_checkpoints import empty, whole

    folder, meet = pools / "run", tmp_path / "meet"
    assert ended(start("save", folder, meet, 2, 1, 2))
    assert ended(start("load", folder, meet, 3, 2, 2))
    state = empty()
    assert load(state, str(folder)).ranks == 2
    assert same(state, whole(2))
    assert {one.name for one in folder.iterdir()} == {
        "checkpoints.pool",
        "rank-0.pool",
        "rank-1.pool",
    }
    (folder / "rank-1.pool").rename(folder / "away")
    lost = refused(lambda: load(empty(), str(folder)))
    assert isinstance(lost, perdure.NotFound) and "rank 1 saved a part" in str(lost)
    (folder / "away").rename(folder / "rank-1.pool")
    writer = a_writer(str(folder))
    for number in (3, 4, 5):  # on one rank: once no checkpoint has rank 1, its pool goes
        save(whole(number), writer)
        state = empty()
        load(state, str(folder), number=number - 1)
        assert same(state, whole(number - 1))
    assert not (folder / "rank-1.pool").exists()


def test_a_kill_leaves_the_old_or_the_new_checkpoint_whole(pools: Path, tmp_path: Path) -> None:
    from torch_checkpoints import empty, whole

    folder, meet, log = pools / "run", tmp_path / "meet", tmp_path / "log"
    chance = random.Random(os.getpid())
    last = 0
    for _ in range(KILLS):
        log.write_text("")
        processes = start("save", folder, meet, 2, last + 1, 1 << 20, log)
        until, lines = time.monotonic() + 60, chance.randint(2, 6)
        while len(log.read_text().split()) < lines:
            assert time.monotonic() < until and processes[0].poll() is None
            time.sleep(0.005)
        time.sleep(chance.random() / 10)
        chance.shuffle(processes)
        for process in processes:
            process.send_signal(signal.SIGKILL)
            time.sleep(chance.choice((0, 0.01)))
        for process in processes:
            process.wait()
        logged = int(log.read_text().split()[-1])
        for number in reversed(kept(str(folder))):
            state = empty()
            load(state, str(folder), number=number)
            assert same(state, whole(state["number"])), "a mixture"
            assert state["number"] == number
        assert number in (logged - 1, logged)
        last = kept(str(folder))[-1]
        assert last in (logged, logged + 1), "a checkpoint is lost that counted"
    writer = a_writer(str(folder), keep=1)
    for _ in range(2):
        save(whole(last), writer)
    held = len(perdure.open(str(folder / "rank-0.pool"), live=True))
    assert held == writer.pieces_used + 3, "nothing stays of saves that were killed"


# --- with the tables of a training


def test_after_a_kill_the_checkpoint_and_the_tables_are_of_one_step(
    pools: Path, tmp_path: Path
) -> None:
    from torch_checkpoints import empty, trained, whole

    pool, log = pools / "model.pool", tmp_path / "log"
    chance = random.Random(os.getpid())
    for _ in range(KILLS):
        log.write_text("")
        (process,) = start("train", pool, tmp_path / "meet", 1, 1, 1 << 20, log)
        until, lines = time.monotonic() + 60, chance.randint(2, 12)
        while len(log.read_text().split()) < lines:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.002)
        time.sleep(chance.random() / 30)
        process.send_signal(signal.SIGKILL)
        process.wait()
        store, bags, trainer = trained(str(pool))
        done, state = trainer.resume(), empty()
        assert done - int(log.read_text().split()[-1]) in (0, 1)
        found = load(state, store)
        assert found.step == state["number"] == done and same(state, whole(done))
        rows = store.table("t").get([0], dtype=np.int32).values
        assert rows[0, 4:6].tolist() == [done, done], "as many steps have changed it"
        del bags, trainer
        store.close()


@pytest.mark.parametrize("overlap", [False, True])
def test_a_checkpoint_takes_effect_with_the_step_that_saves_it(pools: Path, overlap: bool) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from perdure import torch as pt
    from torch_checkpoints import trained

    path = str(pools / "model.pool")
    store, bags, trainer = trained(path, overlap=overlap)
    ids = {"t": (torch.arange(3), torch.ones(3, dtype=torch.int64))}
    writer = a_writer(store)
    for number in (1, 2):
        with trainer.step():
            bags(ids)["t"].sum().backward()
            save({"dense": torch.full((9,), float(number))}, writer)
            assert kept(store) == list(range(1, number)), "not before the step"
        assert kept(store) == list(range(1, number + 1))
    with suppress(ZeroDivisionError), trainer.step():
        bags(ids)["t"].sum().backward()
        save({"dense": torch.full((9,), 3.0)}, writer)
        raise ZeroDivisionError
    assert trainer.resume() == 2
    found = {"dense": torch.zeros(9)}
    assert load(found, store).step == 2 and found["dense"][0] == 2
    follower = {"dense": torch.zeros(9)}
    assert load(follower, pt.Follower(path)).number == 2 and follower["dense"][0] == 2
    with trainer.step():
        bags(ids)["t"].sum().backward()
    assert "belongs to step 2 of the tables, which are at step 3" in says(
        lambda: load(found, store)
    )
    load(found, store, any_step=True)
    save({"dense": torch.full((9,), 4.0)}, writer)  # between two steps
    assert load(found, store).step == 3 and found["dense"][0] == 4
    with trainer.step():  # one that goes on beside a step is of the one before
        state = {"dense": torch.full((9,), 5.0)}
        dcp.async_save(state, storage_writer=a_writer(store)).result()
        assert load(found, store, any_step=True).step == 4 and found["dense"][0] == 5
    alone = refused(lambda: save(found, a_writer(path + ".checkpoints")))
    assert isinstance(alone, perdure.InvalidArgument) and "belong to the tables" in str(alone)
    other, _ = a_table(pt.SGD(lr=1.0))
    elsewhere = refused(lambda: save(found, a_writer(other, folder=path + ".checkpoints")))
    assert isinstance(elsewhere, perdure.InvalidArgument)
    with pytest.raises(ValueError, match="pass folder="):
        a_writer(other)


def test_a_transaction_has_the_checkpoint_or_not(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    store = Bags(pt.SGD(lr=1.0)).store
    writer = a_writer(store, folder=pools / "run", step=7)
    with suppress(ZeroDivisionError), store.transaction():
        save({"a": torch.ones(3)}, writer)
        raise ZeroDivisionError
    assert kept(store, folder=pools / "run") == []
    with store.transaction():
        save({"a": torch.ones(3)}, writer)
    found = {"a": torch.zeros(3)}
    assert load(found, store, folder=pools / "run", step=7).step == 7 and found["a"].all()
    assert "at step 8" in says(lambda: load(found, store, folder=pools / "run", step=8))


# --- what is refused


def test_what_is_not_there_is_named(pools: Path) -> None:
    import torch

    state = {"a": torch.ones(3)}
    assert "there is no checkpoint; dcp.save" in says(lambda: load(state, str(pools / "none")))
    writer = a_writer(str(pools / "run"))
    save(state, writer, checkpoint_id="epoch-1")
    save(state, writer)
    unknown = says(lambda: load(state, str(pools / "run"), "epoch-2"))
    assert "id 'epoch-2' is kept; there are 1 ('epoch-1'), 2" in unknown
    assert "of number 9 is kept" in says(lambda: load(state, str(pools / "run"), number=9))
    assert load(state, str(pools / "run"), "epoch-1").number == 1
    for call, why in (
        (lambda: a_writer("x", keep=0), "at least one"),
        (lambda: a_writer("x", piece_bytes=1000), "multiple of 16384"),
        (lambda: a_writer("x", folder="y"), "pass it once"),
    ):
        with pytest.raises(ValueError, match=why):
            call()
    writer.close()
    with perdure.open(str(pools / "run" / "rank-0.pool")):
        busy = refused(lambda: save(state, a_writer(str(pools / "run"))))
    assert isinstance(busy, perdure.Busy)
    save(state, a_writer(str(pools / "run")))
    sparse = refused(lambda: save({"a": torch.eye(3).to_sparse()}, writer))
    assert isinstance(sparse, TypeError) and "dense tensors" in str(sparse)
    assert kept(str(pools / "run")) == [2, 3]


def test_a_damaged_piece_is_found_and_an_older_checkpoint_loads(pools: Path) -> None:
    import torch

    writer = a_writer(str(pools / "run"))
    old, new = torch.arange(40_000), torch.arange(40_000) + 10**6
    save({"a": old}, writer)
    save({"a": new}, writer)
    writer.close()
    path = pools / "run" / "rank-0.pool"
    content = path.read_bytes()
    at = content.index(new[5000:5010].numpy().tobytes())
    with path.open("r+b") as to:
        to.seek(at)
        to.write(b"\xff")
    found = {"a": torch.zeros_like(old)}
    damaged = refused(lambda: load(found, str(pools / "run")))
    assert isinstance(damaged, perdure.Corrupt) and "with number=; there is 1" in str(damaged)
    load(found, str(pools / "run"), number=1)
    assert torch.equal(found["a"], old)


def test_a_full_pool_leaves_the_older_checkpoint(pools: Path) -> None:
    import torch

    writer = a_writer(str(pools / "run"), max_bytes=24 << 20, keep=1)
    first = {"a": torch.rand(1 << 20)}
    save(first, writer)
    for _ in range(3):
        full = refused(lambda: save({"a": torch.rand(8 << 20)}, writer))
        assert isinstance(full, perdure.NoSpace)
        found = {"a": torch.zeros(1 << 20)}
        load(found, str(pools / "run"))
        assert same(found, first)
    second = {"a": torch.rand(1 << 20)}
    save(second, writer)
    load(found, str(pools / "run"))
    assert same(found, second)


def test_plans_of_an_earlier_save_are_refused(pools: Path) -> None:
    import torch
    from torch.distributed.checkpoint import DefaultSavePlanner

    writer = a_writer(str(pools / "run"))
    state = {"a": torch.ones(3)}
    save(state, writer, planner=DefaultSavePlanner(enable_plan_caching=True))
    stale = refused(
        lambda: save(state, writer, planner=DefaultSavePlanner(enable_plan_caching=True))
    )
    assert isinstance(stale, perdure.Unsupported) and "enable_plan_caching" in str(stale)
    assert load(state, str(pools / "run")).number == 1
