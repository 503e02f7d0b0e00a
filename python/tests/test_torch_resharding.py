"""Pools for another number of processes: what goes along with the rows, and what is refused."""

from __future__ import annotations

from pathlib import Path

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
