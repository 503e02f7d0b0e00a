"""New ids begin alike in a training, beside it, and wherever its rows go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import perdure
import pytest

pytestmark = pytest.mark.framework("torch")


def new_of(collection: Any) -> Any:
    import torch

    ids = torch.tensor([5, -6, 2**63 - 1])
    with torch.no_grad():
        rows = collection({config.name: (ids,) for config in collection.configs})
    return torch.cat([rows[name] for name in sorted(rows)])


def test_inference_has_the_seeds_of_the_training(pools: Path) -> None:
    """It had its own, by default 0: ids without a row read otherwise than in the training."""
    import torch
    from perdure import torch as pt

    rule, pool = pt.SGD(0.1), pools / "pool"
    one, other = [pt.TableConfig("a", 4), pt.TableConfig("b", 4)], [pt.TableConfig("c", 3)]
    store = pt.create(pool, [*one, *other], rule)
    trained = [
        pt.EmbeddingCollection(store, one, rule, seed=7),
        pt.EmbeddingCollection(store, other, rule, seed=-1),
    ]
    expected = [new_of(collection) for collection in trained]
    for tables in (store, pt.Follower(pool)):
        assert torch.equal(new_of(pt.EmbeddingCollection(tables, one)), expected[0])
        assert torch.equal(new_of(pt.EmbeddingCollection(tables, other, seed=3)), expected[1])
        both = pt.EmbeddingCollection(tables, [one[1], pt.TableConfig("c", 3)])
        ids = torch.tensor([5, -6, 2**63 - 1])
        assert torch.equal(both({"b": (ids,), "c": (ids,)})["c"], expected[1])
        assert torch.equal(both({"b": (ids,)})["b"], expected[0][3:])


@pytest.mark.parametrize("seed", [2**32, 2**40, 2**63 - 1, 2**64 - 1, -(2**63), 0xDEAD << 80])
def test_any_integer_is_a_seed(seed: int) -> None:
    """As torch.initial_seed() answers them: a pool took them for its own, and no lookup worked."""
    import torch
    from perdure import torch as pt

    tables, rule = [pt.TableConfig("t", 4)], pt.SGD(0.1)
    store = pt.create(f"memfd:seed-{seed}", tables, rule)
    first = new_of(pt.EmbeddingCollection(store, tables, rule, seed=seed))
    assert torch.equal(first, new_of(pt.EmbeddingCollection(store, tables)))
    other = pt.create(f"memfd:seed-{seed}-other", tables, rule)
    assert torch.equal(first, new_of(pt.EmbeddingCollection(other, tables, rule, seed=seed)))


def test_new_ids_begin_alike_where_parts_are_loaded_and_where_pools_are_spread(
    pools: Path, tmp_path: Path
) -> None:
    """Tables had other numbers where parts were loaded, and spread pools no seed."""
    import torch
    from perdure import torch as pt
    from perdure.torch import parts

    tables = [pt.TableConfig("t", 4), pt.TableConfig("u", 4), pt.TableConfig("v", 4)]
    rule, none = pt.SGD(0.1), torch.nn.Linear(1, 1)
    with pt.create(pools / "pool", tables, rule) as store:
        bags = pt.EmbeddingCollection(store, tables, rule, seed=7)
        trainer = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
        with trainer.step():
            bags({"t": (torch.arange(3),)})["t"].sum().backward()
        trainer.export(tmp_path)
        expected = new_of(bags)
    with pt.create(pools / "loaded", tables, rule) as loaded:
        parts.load_parts(tmp_path, loaded, tables, rule)
        found = new_of(pt.EmbeddingCollection(loaded, tables, rule, seed=7))
        assert torch.equal(found, expected)
    pt.reshard([pools / "pool"], [pools / "first", pools / "second"])
    for name in ("first", "second"):
        with perdure.open(pools / name) as spread:
            assert torch.equal(new_of(pt.EmbeddingCollection(spread, tables)), expected)


@contextmanager
def by_default(dtype: Any) -> Iterator[None]:
    import torch

    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_numbers_of_another_kind_by_default_change_no_row(dtype: str) -> None:
    """Of float64 lookups raised, and of bfloat16 new rows had other bounds."""
    import torch
    from perdure import torch as pt

    tables, rule = [pt.TableConfig("t", 3), pt.TableConfig("u", 3)], pt.Adagrad(0.1)
    ids, one = torch.tensor([5, 6, 7]), torch.ones(3, dtype=torch.int64)
    weights, none = torch.tensor([0.5, 2.0, -1.0]), torch.nn.Linear(1, 1)

    def rows(name: str) -> Any:
        store = pt.create(f"memfd:{name}", tables, rule)
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        trainer = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
        with trainer.step():
            pooled = bags({"t": (ids, one, weights), "u": (ids, one)})
            (pooled["t"] * pooled["u"]).sum().backward()
        assert pooled["t"].dtype == torch.float32
        each = [store.table(table.name).get(ids, dtype=torch.float32) for table in tables]
        return torch.cat([one.values for one in each])

    expected = rows(f"as-ever-{dtype}")
    with by_default(getattr(torch, dtype)):
        assert torch.equal(rows(dtype), expected)
