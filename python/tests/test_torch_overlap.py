"""Steps that are committed beside the next one: the same training, of which a kill may lose the
last step that ended."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest

pytestmark = pytest.mark.framework("torch")

KILLS = int(os.environ.get("PERDURE_TORCH_KILLS", "6"))
PROGRAM = Path(__file__).with_name("torch_training.py")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits wait for lookups of the next step, or for who waits for them, however long."""
    from perdure.torch import overlap

    monkeypatch.setattr(overlap, "_PATIENCE_SECONDS", 60)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As the program has it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(pool: Path, steps: int, log: Path, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, PROGRAM, pool, str(steps), log, *more])


@pytest.mark.usefixtures("one_thread")
def test_an_overlapped_training_is_the_synchronous_one_to_the_last_bit(pools: Path) -> None:
    from torch_training import Training

    seen: list[list[Any]] = []
    for overlap in (False, True):
        training = Training(str(pools / str(overlap)), overlap=overlap)
        steps: list[Any] = []
        for number in range(40):
            loss = training.step(number)
            evicted = training.trainer.evicted
            steps.append((loss, {name: ids.tolist() for name, ids in evicted.items()}))
        assert training.trainer.ended == 40
        seen.append([*steps, training.digest()])
        assert training.trainer.done == 40
        training.store.close()
    assert seen[0] == seen[1]
    assert sum(len(ids) for _, evicted in seen[0][:-1] for ids in evicted.values()) > 30


def test_a_kill_loses_the_last_step_that_ended_at_most(pools: Path, tmp_path: Path) -> None:
    steps = 20 + 5 * KILLS
    assert train(pools / "calm", steps, tmp_path / "calm").wait() == 0
    calm = dict(line.split() for line in (tmp_path / "calm").read_text().splitlines())
    chance, log, killed = random.Random(5), tmp_path / "killed", pools / "killed"
    for _ in range(KILLS):
        with train(killed, steps, log, "0.005", "overlap") as process:
            seen = len(log.read_text().splitlines()) if log.exists() else 0
            until, lines = time.monotonic() + 60, seen
            while lines < seen + chance.randint(1, 6) and process.poll() is None:
                assert time.monotonic() < until
                time.sleep(chance.random() / 50)
                lines = len(log.read_text().splitlines()) if log.exists() else 0
            process.send_signal(signal.SIGKILL)
    assert train(killed, steps, log, "0", "overlap").wait() == 0
    done = -1
    for line in log.read_text().splitlines():
        what, value = line.split()
        if what == "resumes":
            assert done <= int(value) <= done + 2, "more than one step that ended is lost"
            done = int(value) - 1
        else:
            assert value == calm[what], f"step {what}"
            done = int(what) if what != "digest" else done
    assert done == steps - 1 and "digest" in log.read_text()


@pytest.mark.usefixtures("held")
def test_lookups_see_the_step_that_is_under_way_and_the_pool_does_not() -> None:
    import torch
    from perdure import torch as pt
    from torch_overlap import Small

    small = Small()
    small.step([1, 2, 3])  # a pool's first step is committed when it ends
    assert small.in_pool([1, 2, 3]) == [1, 1, 1] and small.trainer.done == 1
    before = small.look_up([1, 2, 3, 4]).detach()
    small.step([2, 3, 4])
    assert small.in_pool([1, 2, 3, 4]) == [1, 1, 1, 0]
    assert (small.trainer.done, small.trainer.ended) == (1, 2)
    small.trainer._committer._commit._lookups = 3
    now = small.look_up([1, 2, 3, 4]).detach()
    assert torch.equal(now[0], before[0]) and torch.equal(now[1:], before[1:] - 1)
    of_inference = pt.EmbeddingBagCollection(small.store, small.tables)
    small.bags = of_inference
    assert torch.equal(now, small.look_up([1, 2, 3, 4]))
    assert small.in_pool([1, 2, 3, 4]) == [1, 1, 1, 0]
    small.trainer.wait()
    assert small.in_pool([1, 2, 3, 4]) == [1, 2, 2, 1] and small.trainer.done == 2
    assert torch.equal(now, small.look_up([1, 2, 3, 4]))


@pytest.mark.usefixtures("held")
def test_a_commit_begins_once_the_next_step_has_looked_up_as_often() -> None:
    from torch_overlap import Small

    small = Small()
    small.step([1])
    with small.trainer.step():
        for ids in ([1, 2], [3]):
            small.look_up(ids).sum().backward()
    with small.trainer.step():
        small.look_up([1]).sum().backward()
        time.sleep(0.05)
        assert small.in_pool([1]) == [1], "it waits for the second lookup"
        small.look_up([5]).sum().backward()
        until = time.monotonic() + 20
        while small.trainer.done < 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        assert small.in_pool([1, 2, 3]) == [2, 1, 1]
    small.trainer.wait()
    assert small.in_pool([1, 5]) == [3, 1]


def test_a_training_that_pauses_has_its_last_step_durable_soon() -> None:
    from torch_overlap import Small

    small = Small()
    small.step([1])
    small.step([1])
    until = time.monotonic() + 20
    while small.trainer.done < 2:
        assert time.monotonic() < until
        time.sleep(0.001)
    assert small.in_pool([1]) == [2]


@pytest.mark.usefixtures("held")
def test_several_passes_and_collections_are_one_step_as_ever() -> None:
    import torch
    from perdure import torch as pt

    losses: list[list[str]] = []
    for overlap in (False, True):
        rule = pt.Adam(lr=0.1)
        tables = [pt.TableConfig("a", 4, max_rows=24), pt.TableConfig("b", 4, ttl_steps=3)]
        store = pt.create("memfd:several", tables, rule, overwrite=True)
        first = pt.EmbeddingCollection(store, tables[:1], rule, seed=1)
        second = pt.EmbeddingCollection(store, tables[1:], rule, seed=2)
        model = torch.nn.Linear(4, 1)
        torch.nn.init.ones_(model.weight)
        torch.nn.init.zeros_(model.bias)
        sgd = torch.optim.SGD(model.parameters(), lr=0.01)
        trainer = pt.Trainer(store, [first, second], model, sgd, overlap=overlap)
        seen = []
        for number in range(30):
            with trainer.step():
                for part in range(2):
                    chance = torch.Generator().manual_seed(2 * number + part)
                    ids = torch.randint(-(2**62), 2**62, (12,), generator=chance) % (20 + number)
                    far = ids * (2**57 + 1)  # more bits than a key has in one number
                    rows = first({"a": (far,)})["a"] + second({"b": (ids,)})["b"]
                    loss = model(rows).square().mean()
                    loss.backward()
                    seen.append(loss.item().hex())
                sgd.step()
                sgd.zero_grad()
            seen.append(str(sorted((k, v.tolist()) for k, v in trainer.evicted.items())))
        trainer.wait()
        losses.append(seen)
        store.close()
    assert losses[0] == losses[1]


def fill(small: Any) -> None:
    for number in range(1000):
        small.step(np.arange(number * 5000, (number + 1) * 5000))


def test_a_full_pool_is_raised_by_the_next_step_and_nothing_is_torn() -> None:
    from torch_overlap import Small

    small = Small(max_bytes=16 << 20)
    with pytest.raises(perdure.NoSpace, match="allows") as raised:
        fill(small)
    ended = small.trainer.ended
    assert f"in the commit of step {ended}" in raised.value.__notes__[0]
    assert small.trainer.done == ended - 1
    with pytest.raises(perdure.InvalidArgument, match="resume"), small.trainer.step():
        pass
    small.trainer.wait()  # it was told
    assert small.trainer.resume() == ended - 1 and small.store.verify().faults == []
    edge = [(ended - 1) * 5000 - 1, (ended - 1) * 5000]
    assert small.in_pool(edge) == [1, 0]
    assert not small.look_up(edge[1:]).isnan().any()
    small.step([1])
    small.trainer.wait()
    assert small.in_pool([1]) == [2] and small.trainer.done == ended


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("who", ["step", "wait", "export", "resume", "close"])
def test_whoever_comes_next_is_told_once_why_a_step_was_not_committed(
    who: str, tmp_path: Path
) -> None:
    from torch_overlap import Small, a_failure

    if who == "export":
        pytest.importorskip("pyarrow")
    small = Small()
    a_failure(small)
    calls = {
        "step": lambda: small.step([1]),
        "wait": small.trainer.wait,
        "export": lambda: small.trainer.export(tmp_path / "parts"),
        "resume": small.trainer.resume,
        "close": small.store.close,
    }
    with pytest.raises(perdure.SystemFailure, match="on fire") as raised:
        calls[who]()
    assert "step 2" in raised.value.__notes__[0]
    if who == "close":
        assert small.store.closed
        return
    assert small.trainer.resume() == 1
    small.step([1])
    small.trainer.wait()
    assert small.in_pool([1]) == [2]


@pytest.mark.usefixtures("held")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_trainer_that_is_lost_reports_a_failure_that_nobody_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch_overlap import Small, a_failure

    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: reported.append(one.exc_value))
    small = Small()
    a_failure(small)
    commit = small.trainer._committer._commit
    del small.trainer
    gc.collect()
    assert not reported, "the commit has the trainer"
    commit.wait()
    until = time.monotonic() + 20
    while not reported:
        assert time.monotonic() < until
        gc.collect()
        time.sleep(0.001)
    assert isinstance(reported[0], perdure.SystemFailure)


@pytest.mark.usefixtures("held")
def test_a_block_that_raises_leaves_the_step_before_it_as_it_is() -> None:
    from torch_overlap import Small

    small = Small()
    small.step([1])
    small.step([1, 2])
    with suppress(ZeroDivisionError), small.trainer.step():
        small.look_up([1, 2, 3]).sum().backward()
        raise ZeroDivisionError
    assert small.trainer.resume() == 2
    assert small.in_pool([1, 2, 3]) == [2, 1, 0]
    small.step([1])
    assert small.trainer.resume() == 3, "it waits for the commit"


@pytest.mark.usefixtures("held")
def test_another_trainer_takes_over_after_the_commit_that_is_under_way() -> None:
    from torch_overlap import Small, a_failure

    small = Small()
    small.step([1])
    small.step([1])
    for overlap in (False, True):
        first, small.trainer = small.trainer, small.another(overlap=overlap)
        with pytest.raises(perdure.InvalidArgument, match="another trainer"):
            small.step([1])
        assert small.trainer.resume() == first.ended
        with pytest.raises(perdure.InvalidArgument, match="another trainer"), first.step():
            pass
        first.wait()
        small.step([1])
    a_failure(small)
    failed, small.trainer = small.trainer, small.another()
    assert small.trainer.resume() == 5, "what failed there is told there"
    with pytest.raises(perdure.SystemFailure):
        failed.wait()
    small.step([1])
    small.trainer.wait()
    assert small.in_pool([1]) == [6]


@pytest.mark.usefixtures("held")
def test_an_export_has_the_step_that_was_under_way(tmp_path: Path) -> None:
    from torch_overlap import Small

    pytest.importorskip("pyarrow")
    from perdure import torch as pt
    from perdure.torch.parts import load_parts

    small = Small()
    small.step([1])
    small.step([1, 2])
    assert small.trainer.export(tmp_path / "parts").step == 2
    small.step([2, 3])
    assert small.trainer.export(tmp_path / "parts").step == 3
    again = pt.create("memfd:parts", small.tables, small.rule, overwrite=True)
    load_parts(tmp_path / "parts", again, small.tables, small.rule)
    rows = again.table("t").get([1, 2, 3], dtype=np.int32).values
    assert rows[:, 4].tolist() == [2, 2, 1]


@pytest.mark.usefixtures("held")
def test_a_transaction_of_the_thread_is_refused_for_a_commit_would_wait_for_it() -> None:
    from torch_overlap import Small

    small = Small()
    small.step([1])
    small.step([1])
    with small.store.transaction():
        for call in (small.trainer.wait, small.trainer.resume):
            with pytest.raises(perdure.Busy, match="end it first"):
                call()
    small.trainer.wait()
    assert small.trainer.resume() == 2
    with small.store.transaction(), pytest.raises(perdure.Busy):
        small.step([1])
    assert small.trainer.resume() == 2
    small.step([1])
    small.trainer.wait()
    assert small.in_pool([1]) == [3]


@pytest.mark.usefixtures("held")
def test_control_c_while_a_step_waits_for_the_one_before_loses_nothing() -> None:
    from torch_overlap import Small

    small = Small()
    small.step([1])
    waits, goes_on = threading.Event(), threading.Event()

    def slow() -> None:
        waits.set()
        goes_on.wait(60)

    def interrupt() -> None:
        waits.wait(60)
        time.sleep(0.1)  # the step's end waits by then
        os.kill(os.getpid(), signal.SIGINT)

    with small.trainer.step():
        small.look_up([1]).sum().backward()
        small.trainer.commit_with_step(slow)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), small.trainer.step():
        pass  # and no lookup: the pool's readers would wait for the commit
    thread.join()
    goes_on.set()
    assert small.trainer.resume() == 2 and small.in_pool([1]) == [2]
    small.step([1])
    small.trainer.wait()
    assert small.in_pool([1]) == [3]


@pytest.mark.usefixtures("held")
def test_a_forked_process_is_refused_and_waits_for_nothing() -> None:
    from torch_overlap import Small

    small = Small()
    small.step([1])
    small.step([1])
    child = os.fork()
    if child == 0:
        told = 0
        try:
            for call in (
                small.trainer.wait,
                lambda: small.look_up([1]),
                lambda: small.step([1]),
                small.trainer.resume,
                small.store.close,
            ):
                try:
                    call()
                except perdure.Closed:
                    told += 1
        finally:
            os._exit(told)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 5
    small.step([1])
    small.trainer.wait()
    assert small.in_pool([1]) == [3]


@pytest.mark.usefixtures("held")
def test_a_thread_that_evaluates_sees_a_whole_step_at_any_moment() -> None:
    import torch
    from torch_overlap import Small

    small = Small()
    ids = list(range(64))
    small.step(ids)
    base = small.look_up(ids).detach() + 1
    ends, seen, wrong = threading.Event(), set(), []

    def evaluate() -> None:
        while not ends.is_set():
            with torch.no_grad():
                behind = base - small.look_up(ids)
            steps = behind.round().unique()
            if len(steps) != 1:
                wrong.append(steps.tolist())
            seen.add(float(steps[0]))

    thread = threading.Thread(target=evaluate)
    thread.start()
    for _ in range(200):
        small.step(ids)
    ends.set()
    thread.join()
    assert not wrong and len(seen) > 1


def ended(pool: str, how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PROGRAM.with_name("torch_overlap.py"), pool, how]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_a_program_that_ends_has_committed_its_last_step(how: str, pool: str) -> None:
    done = ended(pool, how)
    assert done.returncode == (how == "raises"), done.stderr
    with perdure.open(pool) as store:
        assert store.table("t").get([1], dtype=np.int32).values[0, 4] == 2


def test_a_program_that_ends_says_that_its_last_step_failed(pool: str) -> None:
    done = ended(pool, "fails")
    assert "the disk is on fire" in done.stderr and "commit of step 2" in done.stderr
    with perdure.open(pool) as store:
        assert store.table("t").get([1], dtype=np.int32).values[0, 4] == 1


@pytest.mark.gpu
def test_on_a_gpu_it_is_the_synchronous_training_to_the_last_bit(pools: Path) -> None:
    import torch
    from perdure import torch as pt
    from torch_overlap import Small

    seen: list[list[Any]] = []
    for overlap in (False, True):
        small = Small(str(pools / str(overlap)), rule=pt.Adam(lr=0.1), device="cuda")
        small.trainer, rows = small.another(overlap=overlap), []
        for number in range(40):
            with torch.cuda.stream(torch.cuda.Stream()), small.trainer.step():
                weights = small.look_up(np.random.default_rng(number).integers(0, 300, 200))
                weights.square().sum().backward()
                rows.append(weights.detach().cpu().numpy().tobytes())
        small.trainer.wait()
        found = small.store.table("t").get(np.arange(300))
        seen.append([*rows, found.values.tobytes(), found.found.tolist()])
        small.store.close()
    assert seen[0] == seen[1]
