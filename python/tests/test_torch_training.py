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
import perdure
import pytest

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


def a_table(optimizer: Any, dim: int = 4, **options: Any) -> Any:
    from perdure import torch as pt

    tables = [pt.TableConfig("t", dim, **options)]
    store = pt.create("memfd:torch", tables, optimizer, overwrite=True)
    return store, tables


class Bags:
    """Ours, and PyTorch's over the same weights."""

    def __init__(self, optimizer: Any, pooling: str = "sum", ids: int = 20) -> None:
        import torch
        from perdure import torch as pt

        self.store, tables = a_table(optimizer, pooling=pooling)
        self.ours = pt.EmbeddingBagCollection(self.store, tables, optimizer)
        self.none = torch.nn.Linear(1, 1)
        self.trainer = pt.Trainer(
            self.store, self.ours, self.none, torch.optim.SGD(self.none.parameters(), lr=0)
        )
        every, one = torch.arange(ids), torch.ones(ids, dtype=torch.int64)
        first = self.ours({"t": (every, one)})["t"].detach()
        self.theirs = torch.nn.EmbeddingBag(
            ids, 4, mode=pooling, sparse=True, _weight=first.clone()
        )

    def weights(self) -> Any:
        import torch

        rows = self.store.table("t").get(torch.arange(20), dtype=torch.float32)
        return rows.values[:, :4], torch.from_numpy(rows.found)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_bags_are_pooled_as_pytorch_pools_them(pooling: str) -> None:
    import torch
    from perdure import torch as pt

    bags = Bags(pt.SGD(lr=1.0), pooling)
    lengths = torch.tensor([3, 0, 2, 5])
    ids = torch.tensor([1, 2, 1, 7, 7, 0, 19, 3, 3, 3])
    offsets = torch.cumsum(lengths, 0) - lengths
    mine, other = bags.ours({"t": (ids, lengths)})["t"], bags.theirs(ids, offsets)
    assert torch.allclose(mine, other)
    weights = torch.rand(10)
    if pooling == "sum":
        mine = bags.ours({"t": (ids, lengths, weights)})["t"]
        other = bags.theirs(ids, offsets, per_sample_weights=weights)
        assert torch.allclose(mine, other)


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


@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_that_come_too_late_or_from_nowhere_are_refused() -> None:
    import torch
    from perdure import torch as pt

    bags = Bags(pt.SGD(lr=1.0))
    ids, one = torch.arange(3), torch.ones(3, dtype=torch.int64)
    outside = bags.ours({"t": (ids, one)})["t"].sum()
    with pytest.raises(RuntimeError, match="outside of trainer"):
        outside.backward()
    with bags.trainer.step():
        late = bags.ours({"t": (ids, one)})["t"].sum()
    with bags.trainer.step(), pytest.raises(RuntimeError, match="an earlier step"):
        late.backward()
    assert not bags.weights()[1].any()
    with bags.trainer.step():
        bags.ours({"t": (ids, one)})["t"].sum().backward(create_graph=True)
    assert bags.weights()[1].sum() == 3


def test_batches_without_ids_are_zeros_and_change_nothing() -> None:
    import torch
    from perdure import torch as pt

    bags = Bags(pt.SGD(lr=1.0))
    none = torch.empty(0, dtype=torch.int64)
    with bags.trainer.step():
        for lengths in (none, torch.zeros(3, dtype=torch.int64)):
            pooled = bags.ours({"t": (none, lengths)})["t"]
            assert pooled.shape == (len(lengths), 4) and not pooled.any()
            pooled.sum().backward()
    assert not bags.weights()[1].any()


class Sampler:
    def __init__(self, at: Any) -> None:
        self.at = at

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def test_state_that_could_not_be_loaded_is_refused_before_the_first_step() -> None:
    import torch
    from perdure import torch as pt

    store, tables = a_table(pt.SGD(lr=1.0))
    bags = pt.EmbeddingBagCollection(store, tables, pt.SGD(lr=1.0))
    model = torch.nn.Linear(4, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    bad = pt.Trainer(store, bags, model, sgd, random=Sampler(np.random.default_rng(1)))
    with pytest.raises(TypeError, match="random: its state_dict"), bad.step():
        pass
    good = pt.Trainer(store, bags, model, sgd, random=Sampler(7))
    good.resume()
    with good.step():
        pass
    adam = torch.optim.Adam(model.parameters())
    with pytest.raises(ValueError, match="Adam"):
        pt.Trainer(store, bags, model, adam, random=Sampler(0)).resume()
    sampler = Sampler(0)
    again = pt.Trainer(store, bags, model, sgd, random=sampler)
    assert again.resume() == 1 and sampler.at == 7


def test_a_dense_optimizer_that_begins_late_has_room() -> None:
    import torch
    from perdure import torch as pt

    store, tables = a_table(pt.SGD(lr=1.0))
    bags = pt.EmbeddingBagCollection(store, tables, pt.SGD(lr=1.0))
    model = torch.nn.Linear(300, 300)
    adam = torch.optim.Adam(model.parameters())
    trainer = pt.Trainer(store, bags, model, adam)
    for step in range(4):
        with trainer.step():
            model(torch.ones(300)).sum().backward()
            if step % 2 == 1:
                adam.step()
    small, tables = a_table(pt.SGD(lr=1.0))
    bags = pt.EmbeddingBagCollection(small, tables, pt.SGD(lr=1.0))
    more = Sampler(torch.zeros(1))
    none = torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(none.parameters(), lr=1)
    trainer = pt.Trainer(small, bags, none, sgd, dense_bytes=100_000, more=more)
    with trainer.step():
        pass
    more.at = torch.zeros(100_000)
    with pytest.raises(ValueError, match="dense_bytes="), trainer.step():
        pass
    with pytest.raises(perdure.InvalidArgument, match="call resume"), trainer.step():
        pass


def test_old_rows_go_though_no_step_of_the_look_changes_their_table() -> None:
    import torch
    from perdure import torch as pt

    rule = pt.SGD(lr=1.0)
    store, tables = a_table(rule, ttl_steps=16)
    bags = pt.EmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    trainer = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
    for step in range(1, 40):
        with trainer.step():
            if step % 2:  # looks are at even ones
                ids = torch.tensor([step])
                bags({"t": (ids, torch.ones(1, dtype=torch.int64))})["t"].sum().backward()
    assert len([one for ids, _ in store.table("t").scan() for one in ids]) <= 10
    assert set(store.tables()) == {"t", "perdure.torch"}, "nothing is kept for exports"


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
    from perdure.torch.new_rows import new_weights

    ids = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 12345])
    whole = new_weights(ids, 64, 0.5, 7)
    assert torch.equal(whole[2:4], new_weights(ids[2:4], 64, 0.5, 7))
    assert not torch.equal(whole, new_weights(ids, 64, 0.5, 8))
    many = new_weights(torch.arange(20_000), 16, 0.5, 0)
    assert many.min() >= -0.5 and many.max() < 0.5
    assert abs(many.mean()) < 0.005 and abs(many.var() - 1 / 12) < 0.002
    assert torch.unique(many[:, 0]).numel() > 19_900


def test_what_does_not_fit_is_refused(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    path = str(pools / "pool")
    tables = [pt.TableConfig("t", 4), pt.TableConfig("u", 8)]
    store = pt.create(path, tables, pt.Adagrad(lr=0.1))
    bags = pt.EmbeddingBagCollection(store, tables, pt.Adagrad(lr=0.1))
    ids, one = torch.arange(3), torch.ones(3, dtype=torch.int64)
    for call, error, says in (
        (lambda: bags({"v": (ids, one)}), KeyError, "there are t, u"),
        (lambda: bags({"t": (ids,)}), TypeError, "lengths"),
        (lambda: bags({"t": ([1], one)}), TypeError, "pass tensors"),
        (lambda: pt.TableConfig("t/evicted", 4), ValueError, "such names"),
        (lambda: bags({"t": (ids, one + 1)}), ValueError, "sum is the number of ids, 3"),
        (lambda: bags({"t": (ids.float(), one)}), TypeError, "integers"),
        (lambda: bags({"t": (ids, one, torch.ones(2))}), ValueError, "each of the 3 ids"),
        (lambda: pt.TableConfig("t", 0), ValueError, "at least one weight"),
        (lambda: pt.TableConfig("t", 4, pooling="max"), ValueError, "'sum' or 'mean'"),
        (lambda: pt.TableConfig("t", 4, max_rows=0), ValueError, "1 at least"),
        (lambda: pt.TableConfig("t", 4, evict="fifo"), ValueError, "'lru' or 'lfu'"),
        (lambda: pt.create("memfd:none", [], pt.SGD(lr=1)), ValueError, "none"),
        (
            lambda: pt.EmbeddingCollection(store, tables, pt.Adam(lr=0.1)),
            ValueError,
            "optimizer was another",
        ),
    ):
        with pytest.raises(error, match=says):
            call()
    model = torch.nn.Linear(4, 1)
    adam = torch.optim.Adam(model.parameters())
    for of, more, says in (
        ([bags, bags], {}, "two collections"),
        (bags, {"rows": adam}, "choose another"),
    ):
        with pytest.raises(ValueError, match=says):
            pt.Trainer(store, of, model, adam, **more)
    trainer = pt.Trainer(store, bags, model, adam)
    with trainer.step():
        bags({"t": (ids, one)})["t"].sum().backward()
    second = pt.Trainer(store, bags, model, adam)
    with pytest.raises(perdure.InvalidArgument, match="another trainer"), second.step():
        pass
    assert second.resume() == 1
    with pytest.raises(perdure.InvalidArgument, match="another trainer"), trainer.step():
        pass
    store.close()
    with perdure.open(path) as again:
        others = pt.EmbeddingBagCollection(again, tables, pt.Adagrad(lr=0.1))
        schedule = torch.optim.lr_scheduler.StepLR(adam, 1)
        with pytest.raises(ValueError, match="pass the same"):
            pt.Trainer(again, others, model, adam, scheduler=schedule).resume()
        with pytest.raises(ValueError, match="another store"):
            pt.Trainer(store, others, model, adam)
        third = pt.Trainer(again, others, model, adam)
        with pytest.raises(perdure.InvalidArgument, match="call resume"), third.step():
            pass
        assert third.resume() == 1
    with perdure.open(path) as again:
        others = pt.EmbeddingBagCollection(again, tables, pt.Adagrad(lr=0.1))
        fourth = pt.Trainer(again, others, model, adam)
        with pytest.raises(perdure.InvalidArgument, match="call resume"), fourth.step():
            pass
    assert np.isfinite(model.weight.detach().numpy()).all()


FOLLOWS = """
import sys, torch
from perdure import torch as pt
store = pt.Follower(sys.argv[1], threads=1)
bags = pt.EmbeddingBagCollection(store, [pt.TableConfig("t", 4, init_bound=0.0)])
print("ready", flush=True)
last = torch.zeros(64)
ids, one = torch.arange(64), torch.ones(64, dtype=torch.int64)
while last.max() < 300:
    rows = bags({"t": (ids, one)})["t"].detach()
    assert (rows == rows[:, :1]).all(), "a row of two steps"
    assert (rows[:, 0] >= last).all(), "a row of an earlier step"
    last = rows[:, 0]
print("done", int(last.max()), flush=True)
"""


def test_a_follower_in_another_process_sees_whole_rows_of_each_commit(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    path, rule, tables = (
        str(pools / "pool"),
        pt.SGD(lr=-1.0),
        [pt.TableConfig("t", 4, init_bound=0.0)],
    )
    with pytest.raises(perdure.NotFound):
        pt.Follower(path)
    store = pt.create(path, tables, rule)
    bags = pt.EmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    trainer = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWS, path], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
        steps = 0
        while reader.poll() is None and steps < 3000:
            ids = torch.arange(steps % 7, 64)
            with trainer.step():  # each weight grows by one
                bags({"t": (ids, torch.ones(len(ids), dtype=torch.int64))})["t"].sum().backward()
            steps += 1
        assert reader.stdout.read().startswith("done"), steps
        assert reader.wait() == 0
    follower = pt.Follower(path)
    for call, error, says in (
        (lambda: follower.table("new", 16), perdure.InvalidArgument, "where it is trained"),
        (
            lambda: pt.EmbeddingCollection(follower, [pt.TableConfig("t", 5)]),
            ValueError,
            "have 4 weights, and the model takes 5",
        ),
        (lambda: pt.EmbeddingCollection(follower, [pt.TableConfig("u", 4)]), KeyError, "'t'"),
        (
            lambda: pt.Trainer(
                store, pt.EmbeddingCollection(store, tables), none, torch.optim.SGD([none.weight])
            ),
            ValueError,
            "for inference alone",
        ),
    ):
        with pytest.raises(error, match=says):
            call()
    store.close()
    ids = torch.arange(4)
    before = pt.EmbeddingCollection(follower, tables)({"t": (ids,)})["t"]
    reading, taken = pt.EmbeddingCollection(follower, tables), follower.table("t")
    Path(path).unlink()
    assert torch.equal(reading({"t": (ids,)})["t"], before), "no pool: the old one"
    others = [pt.TableConfig("first", 2), *tables]
    made_anew = pt.create(path, others, rule)
    pt.EmbeddingBagCollection(made_anew, others, rule)
    after = reading({"t": (ids,)})["t"]
    names = ["first", "perdure.torch", "t"]
    assert before.max() > 0 and after.max() == 0 and sorted(follower.tables()) == names
    with pytest.raises(perdure.InvalidArgument, match="take it again"):
        taken.get(ids)
