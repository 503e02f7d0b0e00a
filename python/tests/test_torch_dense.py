"""What becomes of a training's state beside its rows: schedulers, rates, numbers that change their
types."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.framework("torch")


def test_state_that_becomes_one_that_cannot_be_loaded_is_refused_by_its_step_and_named(
    pools: Path,
) -> None:
    """A rate that NumPy works out once the warm-up is over was committed, and no process could
    resume from then on."""
    import torch
    from perdure import torch as pt

    tables, rule, model = [pt.TableConfig("t", 4)], pt.SGD(0.1), torch.nn.Linear(4, 1)
    with pt.create(pools / "pool", tables, rule) as store:
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        adam = torch.optim.Adam(model.parameters(), lr=0.5)
        each = torch.optim.lr_scheduler.LambdaLR(
            adam, lambda step: 1.0 if step < 3 else np.cos(step / 100)
        )
        trainer = pt.Trainer(store, bags, model, adam, scheduler=each)
        trainer.resume()

        def step() -> None:
            with trainer.step():
                adam.step()
                each.step()

        step()
        step()
        named = r"optimizer: its state_dict has a numpy.float64 at \['param_groups'\]\[0\]\['lr'\],"
        with pytest.raises(TypeError, match=named):
            step()
        assert trainer.resume() == 2 and adam.param_groups[0]["lr"] == 0.5
        each.lr_lambdas = [lambda step: float(np.cos(step / 100))]
        step()
        assert trainer.resume() == 3 and adam.param_groups[0]["lr"] == 0.5 * np.cos(0.03)


def test_milestones_of_a_scheduler_are_a_counter_again(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    tables, rule, model = [pt.TableConfig("t", 4)], pt.SGD(0.1), torch.nn.Linear(4, 1)
    with pt.create(pools / "pool", tables, rule) as store:
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        each = torch.optim.lr_scheduler.MultiStepLR(sgd, [1, 3, 3])
        trainer = pt.Trainer(store, bags, model, sgd, scheduler=each)
        with trainer.step():
            sgd.step()
            each.step()
        again = torch.optim.lr_scheduler.MultiStepLR(sgd, [7])
        assert pt.Trainer(store, bags, model, sgd, scheduler=again).resume() == 1
        assert again.milestones == Counter({1: 1, 3: 2}) and type(again.milestones) is Counter
