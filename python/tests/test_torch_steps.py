"""What perdure.torch refuses, and what becomes of steps that are not as they must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from torch_bags import Bags, a_table

pytestmark = pytest.mark.framework("torch")


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
    second = bags.trainer.step()
    with bags.trainer.step(), pytest.raises(RuntimeError, match="under way"):
        second.__enter__()
    assert not bags.weights()[1].any()
    with bags.trainer.step():
        bags.ours({"t": (ids, one)})["t"].sum().backward(create_graph=True)
    assert bags.weights()[1].sum() == 3


def test_embeddings_may_be_the_whole_model(pools: Path) -> None:
    """Matrix factorisation: two tables, and nothing dense."""
    import torch
    from perdure import torch as pt

    rule = pt.Adagrad(lr=0.1)
    tables = [pt.TableConfig("user", 8), pt.TableConfig("item", 8)]
    ratings = torch.randint(0, 50, (200, 2), generator=torch.Generator().manual_seed(1))

    def losses(store: perdure.Store, steps: int) -> list[float]:
        rows = pt.EmbeddingCollection(store, tables, rule)
        trainer = pt.Trainer(store, rows)
        first = trainer.resume() or 0
        found = []
        for step in range(first, steps):
            users, items = ratings[step * 10 % 200 :][:10].T
            with trainer.step():
                both = rows({"user": (users,), "item": (items,)})
                loss = (both["user"] * both["item"]).sum(dim=1).sub(1).square().sum()
                loss.backward()
            found.append(loss.item())
        return found

    with pt.create(pools / "calm", tables, rule) as calm:
        expected = losses(calm, 40)
    assert expected[-1] < expected[0] / 2
    with pt.create(pools / "pool", tables, rule) as store:
        begun = losses(store, 17)
    with perdure.open(pools / "pool") as store:
        assert begun + losses(store, 40) == expected
    with perdure.open(pools / "pool") as store:
        model = torch.nn.Linear(1, 1)
        trainer = pt.Trainer(store, pt.EmbeddingCollection(store, tables, rule), model)
        with pytest.raises(ValueError, match="model"):
            trainer.resume()


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


def test_state_that_its_owner_changes_in_its_own_hands_is_kept_anew(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    class Seen:
        def __init__(self) -> None:
            self.names: set[str] = set()

        def state_dict(self) -> dict[str, set[str]]:
            return {"names": self.names}

        def load_state_dict(self, state: dict[str, set[str]]) -> None:
            self.names = set(state["names"])

    tables, rule, model = [pt.TableConfig("t", 4)], pt.SGD(0.1), torch.nn.Linear(4, 1)
    with pt.create(pools / "pool", tables, rule) as store:
        bags, seen = pt.EmbeddingBagCollection(store, tables, rule), Seen()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = pt.Trainer(store, bags, model, optimizer, seen=seen)
        for name in "abc":
            with trainer.step():
                seen.names.add(name)
        seen.names = set()
        assert trainer.resume() == 3 and seen.names == {"a", "b", "c"}


def test_state_that_is_equal_and_yet_another_one_is_kept_anew(pools: Path) -> None:
    """The order of a dictionary, a number's type, and versions of modules."""
    import torch
    from perdure import torch as pt

    class Queue:
        state: dict[str, object]

        def state_dict(self) -> dict[str, object]:
            return self.state

        def load_state_dict(self, state: dict[str, object]) -> None:
            self.state = state

    versions: list[object] = []

    class Versioned(torch.nn.BatchNorm1d):
        def _load_from_state_dict(self, state, prefix, metadata, *others) -> None:
            versions.append(metadata.get("version"))
            super()._load_from_state_dict(state, prefix, metadata, *others)

    tables, rule, model = [pt.TableConfig("t", 4)], pt.SGD(0.1), Versioned(4)
    with pt.create(pools / "pool", tables, rule) as store:
        bags, queue = pt.EmbeddingBagCollection(store, tables, rule), Queue()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = pt.Trainer(store, bags, model, optimizer, queue=queue)
        states = [{"a": 1, "b": 1}, {"b": 1, "a": 1}, {"b": True, "a": 0.0}, {"b": True, "a": -0.0}]
        for number, state in enumerate(states, 1):
            with trainer.step():
                queue.state = state
            queue.state = {}
            assert trainer.resume() == number
            assert repr(queue.state) == repr(state)
        assert versions == [2] * len(states)


def test_rows_of_one_width_may_have_other_dims(pools: Path) -> None:
    """Of tables that other optimizers trained, looked up together."""
    import torch
    from perdure import torch as pt

    a, b = [pt.TableConfig("a", 16)], [pt.TableConfig("b", 8)]
    with pt.create(pools / "pool", a, pt.SGD(0.1)) as store:
        pt.EmbeddingCollection(store, a, pt.SGD(0.1))
        pt.EmbeddingCollection(store, b, pt.Adagrad(0.1))
        assert store.table("a").value_bytes == store.table("b").value_bytes
        ids = torch.arange(3)
        for tables in (a + b, b + a):
            both = pt.EmbeddingCollection(store, tables)({"a": (ids,), "b": (ids,)})
            assert both["a"].shape == (3, 16) and both["b"].shape == (3, 8)
            alone = pt.EmbeddingCollection(store, b)({"b": (ids,)})
            assert torch.equal(both["b"], alone["b"])


def test_a_pool_remembers_the_seed_of_its_new_rows(pools: Path) -> None:
    from perdure import torch as pt

    tables, rule = [pt.TableConfig("t", 4)], pt.SGD(0.1)
    with pt.create(pools / "pool", tables, rule) as store:
        pt.EmbeddingBagCollection(store, tables, rule, seed=-1)
        pt.EmbeddingCollection(store, tables, rule, seed=-1)
        with pytest.raises(ValueError, match="by seed 9223372036854775807, not 0"):
            pt.EmbeddingBagCollection(store, tables, rule)
        pt.EmbeddingBagCollection(store, tables)  # for inference


def test_what_does_not_fit_is_refused(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    path = str(pools / "pool")
    tables = [pt.TableConfig("t", 4), pt.TableConfig("u", 8)]
    store = pt.create(path, tables, pt.Adagrad(lr=0.1))
    bags = pt.EmbeddingBagCollection(store, tables, pt.Adagrad(lr=0.1))
    ids, one = torch.arange(3), torch.ones(3, dtype=torch.int64)
    wraps = [2**40, 2**63 - 1, 2**63 - 1 - 2**40, 5]  # a sum of 3 in int64; the process crashed
    for call, error, says in (
        (lambda: bags({"v": (ids, one)}), KeyError, "there are t, u"),
        (lambda: bags({"t": (ids,)}), TypeError, "lengths"),
        (lambda: bags({"t": ([1], one)}), TypeError, "pass tensors"),
        (lambda: pt.TableConfig("t/evicted", 4), ValueError, "such names"),
        (lambda: bags({"t": (ids, one + 1)}), ValueError, "sum is the number of ids, 3"),
        (lambda: bags({"t": (ids.float(), one)}), TypeError, "integers"),
        (lambda: bags({"t": (ids, one - torch.tensor([3, 0, -3]))}), ValueError, "none below 0"),
        (
            lambda: bags({"t": (ids, torch.tensor(wraps))}),
            ValueError,
            "sum is the number of ids, 3",
        ),
        (lambda: bags({"t": (ids, one, torch.ones(2))}), ValueError, "each of the 3 ids"),
        (lambda: pt.TableConfig("t", 4, features="uid"), TypeError, "a list of names"),
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


def test_one_trainer_at_a_time_goes_on_from_where_the_pool_is(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    path = str(pools / "pool")
    tables = [pt.TableConfig("t", 4), pt.TableConfig("u", 8)]
    store = pt.create(path, tables, pt.Adagrad(lr=0.1))
    bags = pt.EmbeddingBagCollection(store, tables, pt.Adagrad(lr=0.1))
    ids, one = torch.arange(3), torch.ones(3, dtype=torch.int64)
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


def test_tensors_are_rows_of_tables_in_pools_of_any_length() -> None:
    import torch

    store = perdure.create("memfd:tensors", 16, None)
    wide, narrow = store.table("wide", 64), store.table("narrow", 8)
    ids = torch.tensor([3, -1])
    wide.put(ids, torch.ones(2, 16))
    narrow.put(ids, torch.arange(4.0).reshape(2, 2))
    narrow.update(torch.tensor([3]), torch.full((1, 2), 10.0))
    found = narrow.get(torch.tensor([3, 5, -1]), dtype=torch.float32)
    assert found.values.tolist() == [[10.0, 11.0], [0.0, 0.0], [2.0, 3.0]]
    assert found.found.tolist() == [True, False, True]
    assert wide.get(ids[1:], dtype=torch.float32).values.sum() == 16
    none = narrow.get(torch.tensor([], dtype=torch.int64), dtype=torch.float32)
    assert none.values.shape == (0, 2)


@pytest.mark.parametrize("bits", [10, 43, 63])
def test_keys_are_found_among_others_whatever_their_bits(bits: int) -> None:
    import torch
    from perdure.torch.keys import Among, distinct, keys_of

    chance = torch.Generator().manual_seed(3)

    def some(count: int) -> Any:
        ids = torch.randint(-(2**bits), 2**bits - 1, (count,), generator=chance)
        return distinct(keys_of(ids, torch.randint(1, 4, (count,), generator=chance))).keys

    shared = some(50)
    held = distinct(torch.cat([some(200), shared])).keys
    asked = distinct(torch.cat([some(100), shared])).keys
    which, where = Among(held).find(asked)
    there = {tuple(key): number for number, key in enumerate(held.tolist())}
    expected = [
        (number, there[tuple(key)])
        for number, key in enumerate(asked.tolist())
        if tuple(key) in there
    ]
    assert list(zip(which.tolist(), where.tolist(), strict=True)) == expected
    assert len(expected) >= len(shared)
    found = Among(held).mask(asked)
    if bits == 63:
        assert found is None, "ids that no one number stands for with their tables"
    else:
        mask, at = found
        assert mask.nonzero()[:, 0].tolist() == which.tolist() and at[mask].equal(where)
    for none in (Among(held[:0]).find(asked), Among(held).find(asked[:0])):
        assert [one.numel() for one in none] == [0, 0]


def test_a_store_stays_open_that_is_closed_in_a_transaction_while_a_commit_waits_for_it(
    pools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure.torch import overlap
    from torch_overlap import Small

    monkeypatch.setattr(overlap, "_PATIENCE_SECONDS", 60)  # the commit waits for a lookup
    small = Small(str(pools / "pool"))
    small.step([1])
    small.step([1, 2])
    with small.store.transaction():
        with pytest.raises(perdure.Busy, match="end it first"):
            small.store.close()
        assert not small.store.closed
    small.store.close()
    with perdure.open(pools / "pool") as again:
        rows = again.table("t").get([1, 2], dtype=np.int32).values
        assert rows[:, 4].tolist() == [2, 1], "no step is lost"
        with pytest.raises(perdure.Closed), again.transaction():
            again.close()  # nobody waits for it


@pytest.mark.filterwarnings("ignore:Validating sparse")
def test_each_dense_state_is_kept_whole_whatever_changes_from_one_to_the_next(
    pools: Path,
) -> None:
    """Numbers change, tensors grow, go, become of another dtype or have no element, or one stands
    twice."""
    import torch
    from perdure import torch as pt

    one = torch.ones(3)
    states = [
        {"a": torch.arange(4.0), "n": 1},
        {"a": torch.arange(4.0) + 1, "n": 1},
        {"a": torch.arange(4.0) + 2, "n": 1},
        {"a": torch.arange(8.0).reshape(4, 2).T, "n": 2.5},  # not contiguous
        {"a": torch.arange(8.0).reshape(4, 2).T * 3, "n": 2.5},
        {"a": torch.arange(4.0).to(torch.bfloat16), "b": [torch.tensor(True), torch.empty(0)]},
        {"a": torch.arange(4.0).to(torch.bfloat16), "b": [torch.tensor(False), torch.empty(0)]},
        {"twice": [one, one], "n": 3},
        {"twice": [one * 2, one * 3], "n": 3},
        {"twice": [one * 4, one * 5], "n": 3},
        {"sparse": torch.eye(3).to_sparse(), "c": torch.tensor(2 + 1j)},
        {"sparse": torch.eye(3).to_sparse() * 2, "c": torch.tensor(2 - 1j)},
    ]
    rule, tables = pt.SGD(lr=1.0), [pt.TableConfig("t", 4)]
    model = torch.nn.Linear(2, 2)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with pt.create(pools / "pool", tables, rule) as store:
        bags, sampler = pt.EmbeddingBagCollection(store, tables, rule), Sampler(None)
        trainer = pt.Trainer(store, bags, model, sgd, sampler=sampler)
        for number, state in enumerate(states):
            sampler.at = state
            with trainer.step():
                pass
            if number % 4 == 3:
                assert trainer.resume() == number + 1
            store.snapshot(pools / "snapshot", overwrite=True)
            with perdure.restore(pools / "snapshot", pools / "copy", overwrite=True) as copy:
                again = Sampler(None)
                beside = pt.EmbeddingBagCollection(copy, tables, rule)
                assert pt.Trainer(copy, beside, model, sgd, sampler=again).resume() == number + 1
            assert str(again.at) == str(state)


def test_trainers_that_take_turns_keep_their_own_dense_state() -> None:
    import torch
    from perdure import torch as pt

    rule = pt.SGD(lr=1.0)
    store, tables = a_table(rule)
    bags, model = pt.EmbeddingBagCollection(store, tables, rule), torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    samplers = [Sampler(0), Sampler(0)]
    trainers = [pt.Trainer(store, bags, model, sgd, sampler=one) for one in samplers]
    for number in range(6):
        trainer, sampler = trainers[number % 2], samplers[number % 2]
        assert trainer.resume() == number and sampler.at == number
        sampler.at = number + 1
        with trainer.step():
            pass
