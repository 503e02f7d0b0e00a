"""perdure.torch beside PyTorch's own embeddings, and trainings that are killed."""

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
import pytest
from torch_bags import Bags, a_table

pytestmark = pytest.mark.framework("torch")

KILLS = int(os.environ.get("PERDURE_TORCH_KILLS", "6"))
PROGRAM = Path(__file__).with_name("torch_training.py")


def train(pool: str, steps: int, log: Path, pause: float = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, PROGRAM, pool, str(steps), log, str(pause)])


def test_a_training_that_is_killed_goes_on_with_the_same_losses_to_the_last_bit(
    pools: Path, tmp_path: Path
) -> None:
    steps = 20 + 5 * KILLS
    assert train(str(pools / "calm"), steps, tmp_path / "calm").wait() == 0
    calm = dict(line.split() for line in (tmp_path / "calm").read_text().splitlines())
    chance = random.Random(4)
    log = tmp_path / "killed"
    for _ in range(KILLS):
        with train(str(pools / "killed"), steps, log, 0.01) as process:
            seen = len(log.read_text().splitlines()) if log.exists() else 0
            until = time.monotonic() + 60
            lines = seen
            while lines < seen + chance.randint(1, 6) and process.poll() is None:
                assert time.monotonic() < until
                time.sleep(chance.random() / 50)
                lines = len(log.read_text().splitlines()) if log.exists() else 0
            process.send_signal(signal.SIGKILL)
    assert train(str(pools / "killed"), steps, log).wait() == 0
    done = -1
    for line in log.read_text().splitlines():
        what, value = line.split()
        if what == "resumes":
            assert int(value) in (done + 1, done + 2), "a step is lost that was committed"
            done = int(value) - 1
        else:
            assert value == calm[what], f"step {what}"
            done = int(what) if what != "digest" else done
    assert done == steps - 1 and "digest" in log.read_text()


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_bags_are_pooled_as_pytorch_pools_them(pooling: str) -> None:
    import torch
    from perdure import torch as pt

    bags = Bags(pt.SGD(lr=1.0), pooling)
    lengths = torch.tensor([3, 0, 2, 5])
    ids = torch.tensor([1, 2, 1, 7, 7, 0, 19, 3, 3, 3])
    offsets = torch.cumsum(lengths, 0) - lengths
    mine, other = bags.ours({"t": (ids, lengths)})["t"], bags.theirs(ids, offsets)
    assert torch.allclose(mine, other, atol=1e-6)
    weights = torch.rand(10)
    if pooling == "sum":
        mine = bags.ours({"t": (ids, lengths, weights)})["t"]
        other = bags.theirs(ids, offsets, per_sample_weights=weights)
        assert torch.allclose(mine, other, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam", "RowWiseAdagrad"])
def test_rows_change_as_pytorchs_optimizers_change_them(name: str) -> None:
    import torch
    from perdure import torch as pt

    torch.sparse.check_sparse_tensor_invariants.enable()
    optimizer = getattr(pt, name)(lr=0.1)
    bags = Bags(optimizer)
    start = bags.theirs.weight.detach().clone()
    theirs = {
        "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
        "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
        "Adam": lambda p: torch.optim.SparseAdam(list(p), lr=0.1),
        "RowWiseAdagrad": lambda p: RowWise(next(iter(p)), 0.1),
    }[name](bags.theirs.parameters())
    touched = torch.zeros(20, dtype=torch.bool)
    ids = torch.arange(0, 20, 2)  # Adam's counts are by the row here, and by the table there
    for step in range(5):
        several = ids[torch.randperm(10, generator=torch.Generator().manual_seed(step))]
        several = torch.cat([several, several[:4]])  # some twice
        lengths = torch.tensor([4, 6, 4])
        goal = torch.full((3, 4), float(step))
        with bags.trainer.step():
            (bags.ours({"t": (several, lengths)})["t"] - goal).square().sum().backward()
        theirs.zero_grad()
        offsets = torch.cumsum(lengths, 0) - lengths
        (bags.theirs(several, offsets) - goal).square().sum().backward()
        theirs.step()
        touched[ids] = True
        weights, found = bags.weights()
        assert torch.equal(found, touched)
        assert torch.allclose(weights[touched], bags.theirs.weight[touched], atol=1e-5)
        assert torch.equal(bags.theirs.weight[~touched], start[~touched])


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam"])
def test_a_rate_may_be_another_for_each_step_as_a_scheduler_has_it(name: str) -> None:
    import torch
    from perdure import torch as pt

    bags = Bags(getattr(pt, name)(lr=0.2))
    kind = {"SGD": "SGD", "Adagrad": "Adagrad", "Adam": "SparseAdam"}[name]
    theirs = getattr(torch.optim, kind)(bags.theirs.parameters(), lr=0.2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(theirs, 0.5)
    ids, lengths = torch.arange(20), torch.full((5,), 4)
    for step in range(5):
        bags.ours.lr = scheduler.get_last_lr()[0]
        assert bags.ours.lr == 0.2 * 0.5**step
        with bags.trainer.step():
            (bags.ours({"t": (ids, lengths)})["t"] - step).square().sum().backward()
        theirs.zero_grad()
        (bags.theirs(ids, torch.cumsum(lengths, 0) - lengths) - step).square().sum().backward()
        theirs.step()
        scheduler.step()
        assert torch.allclose(bags.weights()[0], bags.theirs.weight, atol=1e-5)
    for none in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="pass a finite number of at least 0"):
            bags.ours.lr = none
    tables = bags.ours.configs
    inference = pt.EmbeddingBagCollection(bags.store, tables)
    with pytest.raises(ValueError, match="for inference alone"):
        inference.lr = 0.1


class RowWise:
    """FBGEMM's formula, on a dense weight."""

    def __init__(self, weight: Any, lr: float) -> None:
        import torch

        self.weight, self.lr, self.sums = weight, lr, torch.zeros(weight.shape[0], 1)

    def zero_grad(self) -> None:
        self.weight.grad = None

    def step(self) -> None:
        import torch

        grad = self.weight.grad.to_dense()
        touched = grad.abs().sum(dim=1) > 0
        self.sums[touched] += grad[touched].square().mean(dim=1, keepdim=True)
        with torch.no_grad():
            self.weight[touched] -= self.lr * grad[touched] / (self.sums[touched].sqrt() + 1e-8)


def test_a_step_changes_nothing_before_it_ends_nor_if_it_raises() -> None:
    import torch
    from perdure import torch as pt

    bags = Bags(pt.SGD(lr=1.0))
    ids, one = torch.arange(3), torch.ones(3, dtype=torch.int64)
    before = len(bags.store)
    with suppress(ZeroDivisionError), bags.trainer.step():
        bags.ours({"t": (ids, one)})["t"].sum().backward()
        assert len(bags.store) == before
        raise ZeroDivisionError
    assert len(bags.store) == before and bags.trainer.done == 0
    with bags.trainer.step():
        pass
    assert not bags.weights()[1].any() and bags.trainer.done == 1
    bags.ours.eval()
    with bags.trainer.step():
        bags.ours({"t": (ids, one)})["t"].sum().backward()
    assert not bags.weights()[1].any(), "eval() changes no rows"
    bags.ours.train()
    with bags.trainer.step(), torch.no_grad():
        bags.ours({"t": (ids, one)})
    assert not bags.weights()[1].any(), "nor do ids without a gradient"


def test_two_passes_of_one_step_are_one_change() -> None:
    import torch
    from perdure import torch as pt

    twice, once = Bags(pt.Adagrad(lr=0.1)), Bags(pt.Adagrad(lr=0.1))
    ids, others = torch.tensor([1, 2, 2]), torch.tensor([2, 3])
    with twice.trainer.step():
        for part in (ids, others):
            one = torch.ones(len(part), dtype=torch.int64)
            twice.ours({"t": (part, one)})["t"].sum().backward()
    with once.trainer.step():
        whole = torch.cat([ids, others])
        once.ours({"t": (whole, torch.ones(5, dtype=torch.int64))})["t"].sum().backward()
    assert torch.allclose(twice.weights()[0], once.weights()[0])


@pytest.mark.parametrize("evict", ["lru", "lfu"])
def test_too_many_rows_and_old_ones_go_by_their_scores_and_are_named(evict: str) -> None:
    import torch
    from perdure import torch as pt

    rule = pt.RowWiseAdagrad(lr=0.1)
    store, tables = a_table(rule, max_rows=32, ttl_steps=24, evict=evict)
    bags = pt.EmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    trainer = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
    scores: dict[int, list[int]] = {}  # steps, and the last
    evictions = 0
    for step in range(1, 80):
        several = np.unique(np.random.default_rng(step).zipf(1.3, 12) % 200)
        with trainer.step():
            ids = torch.from_numpy(several)
            bags({"t": (ids, torch.ones(len(ids), dtype=torch.int64))})["t"].sum().backward()
        for one in several.tolist():
            scores[one] = [scores.get(one, [0])[0] + 1, step]
        expected = []
        if len(scores) > 32 or step % 3 == 0:
            rest = {one: score for one, score in scores.items() if one not in several}
            expected = [one for one, (_, last) in rest.items() if last + 24 <= step]
            if len(scores) - len(expected) > 32:
                which = 0 if evict == "lfu" else 1
                left = sorted((rest[one][which], one) for one in rest if one not in expected)
                surplus = len(scores) - len(expected) - 30
                expected += [one for _, one in left[:surplus]]
        for one in expected:
            del scores[one]
        assert trainer.evicted.get("t", np.empty(0)).tolist() == sorted(expected), step
        held = np.concatenate([ids for ids, _ in store.table("t").scan()])
        assert sorted(held.tolist()) == sorted(scores)
        evictions += len(expected)
    assert evictions > 50
    again = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
    assert again.resume() == 79 and again._rows.count == {"t": len(scores)}


def test_new_ids_begin_alike_wherever_they_are_first_seen() -> None:
    import torch
    from perdure.torch.keys import keys_of
    from perdure.torch.new_rows import new_weights

    keys = keys_of(torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 12345]), 1)
    bounds = torch.tensor([0.0, 0.5, 0.25])
    whole = new_weights(keys, 64, bounds, 7)
    assert torch.equal(whole[2:4], new_weights(keys[2:4], 64, bounds, 7))
    assert not torch.equal(whole, new_weights(keys, 64, bounds, 8))
    other = new_weights(keys_of(keys[:, 0], 2), 64, bounds, 7)
    assert other.abs().max() < 0.25 and not torch.equal(whole, 2 * other)
    many = new_weights(keys_of(torch.arange(20_000), 1), 16, bounds, 0)
    assert many.min() >= -0.5 and many.max() < 0.5
    assert abs(many.mean()) < 0.005 and abs(many.var() - 1 / 12) < 0.002
    assert torch.unique(many[:, 0]).numel() > 19_900
