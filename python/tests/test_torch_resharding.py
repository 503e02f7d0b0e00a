"""Pools for another number of processes: what goes along with the rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import perdure
import pytest
from test_torch_sharded import a_training, alone, steps_of

__all__ = ["alone"]  # a fixture
pytestmark = pytest.mark.framework("torch")


def test_new_rows_begin_by_the_trainings_seed_after_resharding_too(
    pools: Path, alone: None
) -> None:
    from perdure import torch as pt

    store, bags, trainer = a_training(pools / "one", "Sharded", seed=7)
    steps_of(bags, trainer, 0, 2)
    store.close()
    pt.reshard([pools / "one"], [pools / "two"])
    with perdure.open(pools / "two") as store:
        kinds = (store, bags.configs, bags.optimizer)
        with pytest.raises(ValueError, match="begin by seed 7, not 0"):
            pt.ShardedEmbeddingBagCollection(*kinds)
        pt.ShardedEmbeddingBagCollection(*kinds, seed=7)
    with pytest.raises(TypeError, match="is one path"):
        pt.reshard(pools / "one", [pools / "three"])
    with pytest.raises(ValueError, match="no new pool"):
        pt.reshard([pools / "one"], [])


def test_pools_of_any_length_are_spread_and_brought_together_again(
    pools: Path, alone: None
) -> None:
    import torch
    from perdure import torch as pt

    rule = pt.Adam(lr=0.1)
    tables = [pt.TableConfig("t", 4), pt.TableConfig("u", 9), pt.TableConfig("none", 5)]
    none = torch.nn.Linear(3, 3)

    def opened(store: perdure.Store) -> tuple[Any, Any]:
        bags = pt.ShardedEmbeddingBagCollection(store, tables, rule)
        sgd = torch.optim.SGD(none.parameters(), lr=0.1)
        return bags, pt.ShardedTrainer(store, bags, none, sgd)

    def rows(*names: str) -> dict[tuple[str, int], bytes]:
        found = {}
        for name in names:
            with perdure.open(pools / name) as store:
                for table in tables:
                    for ids, page in store.table(table.name).scan():
                        found.update(
                            {
                                (table.name, one): bytes(row)
                                for one, row in zip(ids.tolist(), page, strict=True)
                            }
                        )
        return found

    with perdure.create(pools / "one", 16, None) as store:
        bags, trainer = opened(store)
        assert trainer.resume() == 0
        steps_of(bags, trainer, 0, 4)
    three = [f"three-{rank}" for rank in range(3)]
    assert pt.reshard([pools / "one"], [pools / name for name in three]) == 4
    assert pt.reshard([pools / name for name in three], [pools / "again"]) == 4
    assert rows("again") == rows(*three) == rows("one")
    assert all(rows(name) for name in three)
    with perdure.open(pools / "again") as store, perdure.open(pools / "one") as first:
        for each in (store, first):
            bags, trainer = opened(each)
            assert trainer.resume() == 4
            steps_of(bags, trainer, 4, 6)
    assert rows("again") == rows("one")
