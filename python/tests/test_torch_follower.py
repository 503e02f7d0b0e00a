"""Tables beside the process that trains them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import perdure
import pytest

pytestmark = pytest.mark.framework("torch")

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


@pytest.mark.parametrize("layout", ["word", "log"])
def test_a_follower_elsewhere_sees_whole_rows_of_each_commit(pools: Path, layout: str) -> None:
    import torch
    from perdure import torch as pt

    path, rule, tables = (
        str(pools / "pool"),
        pt.SGD(lr=-1.0),
        [pt.TableConfig("t", 4, init_bound=0.0)],
    )
    with pytest.raises(perdure.NotFound):
        pt.Follower(path)
    store = pt.create(path, tables, rule, index=perdure.GPHash(layout=layout))
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
        (lambda: follower.table("new", 16), perdure.InvalidArgument, "where it is written"),
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


def test_a_pass_is_of_one_pool_though_another_thread_goes_over_to_a_new_one_within_it(
    pools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    path, rule = str(pools / "pool"), pt.SGD(lr=1.0)

    def made(names: str, value: float) -> None:
        """Tables have other numbers, and rows of another width, in each pool."""
        tables = [pt.TableConfig(name, 4 * len(names)) for name in names]
        with pt.create(path, tables, rule, overwrite=True) as store:
            pt.EmbeddingCollection(store, tables, rule)
            for name in names:
                table = store.table(name)
                row = torch.full((1, table.value_bytes // 4), value + ord(name))
                table.put(torch.tensor([7]), row)

    made("ab", 1.0)
    follower = pt.Follower(path, threads=1)
    rows = pt.EmbeddingCollection(follower, [pt.TableConfig("b", 8)])
    look_up, calls = ops.rows_of, []

    def slow(*arguments: object, **options: object) -> object:
        if not calls:  # the numbers of tables are those of the old pool by now
            made("xb", 1000.0)
            follower.refresh()
        calls.append(follower.generation)
        return look_up(*arguments, **options)

    monkeypatch.setattr(ops, "rows_of", slow)
    ids = torch.tensor([7])
    assert rows({"b": (ids,)})["b"].tolist() == [[1000.0 + ord("b")] * 8]
    assert calls == [1, 1], "looked up anew in the pool that is there now"

    def closed(*arguments: object, **options: object) -> object:
        if len(calls) == 2:
            number = ops.number_of(follower)
            made("b", 5000.0)
            follower.refresh()
            torch.ops.perdure.get_rows(torch.tensor([[7, 1]]), number, 4)  # no pool has it now
        return look_up(*arguments, **options)

    monkeypatch.setattr(ops, "rows_of", closed)
    with pytest.raises(ValueError, match=r"rows of .* have 4 weights, and the model takes 8"):
        rows({"b": (ids,)})


def test_a_module_that_is_copied_names_the_pool_that_it_cannot_copy(pools: Path) -> None:
    """As torch.optim.swa_utils.AveragedModel copies whole models."""
    import torch
    from perdure import torch as pt

    tables, rule = [pt.TableConfig("t", 4)], pt.SGD(0.1)
    store = pt.create(pools / "pool", tables, rule)
    trains = pt.EmbeddingCollection(store, tables, rule)
    follows = pt.EmbeddingCollection(pt.Follower(pools / "pool"), tables)
    for module, says in ((trains, "a store is of one process"), (follows, "pass the path, and")):
        with pytest.raises(TypeError, match=says):
            torch.optim.swa_utils.AveragedModel(torch.nn.Sequential(module))


@pytest.mark.parametrize("layout", ["word", "log"])
def test_tables_of_several_widths_follow_from_a_pool_of_any_length(
    pools: Path, layout: str
) -> None:
    import torch
    from perdure import torch as pt

    path, rule = str(pools / "pool"), pt.SGD(lr=1.0)
    tables = [pt.TableConfig("wide", 64), pt.TableConfig("narrow", 2)]
    store = perdure.create(
        path, key_bytes=16, value_bytes=None, index=perdure.GPHash(layout=layout)
    )
    trained = pt.EmbeddingCollection(store, tables, rule)
    dense = torch.nn.Linear(1, 1)
    trainer = pt.Trainer(store, trained, dense, torch.optim.SGD(dense.parameters(), lr=0))
    follower = pt.Follower(path, threads=1)
    follows = pt.EmbeddingCollection(follower, tables)
    for step in range(3):
        batch = {"wide": (torch.arange(4 + step),), "narrow": (torch.arange(2, 9),)}
        with trainer.step():
            sum(rows.square().sum() for rows in trained(batch).values()).backward()
        seen, expected = follows(batch), trained(batch)
        assert all(torch.equal(seen[name], expected[name]) for name in batch), step
    keys = torch.tensor([[1, follower.table("narrow").number]])
    with pytest.raises(perdure.InvalidArgument, match="look up rows of its tables"):
        follower.get(keys)
    store.put(np.array([[7, follower.table("narrow").number]]), [b"no row"])
    with pytest.raises(perdure.InvalidArgument, match="a value is no row of its table"):
        follower.table("narrow").get([7])
    assert not follower.table("narrow").get([7], check=False).found.any()
