"""Collections in compiled code, which do what they do uncompiled: no graph break, the same losses,
the same rows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from torch_ops import (
    Training,
    batch,
    compilations,
    get_rows,
    keys_of,
    one_thread,
    rows_of,
    tables_of,
)

pytestmark = pytest.mark.framework("torch")
_one_thread = pytest.fixture(autouse=True)(one_thread)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of opcheck's own copies
@pytest.mark.parametrize(("bags", "weighted"), [(True, True), (True, False), (False, False)])
def test_passes_do_what_pytorch_asks_of_operators(bags: bool, weighted: bool) -> None:
    import torch
    from perdure.torch import ops

    training = Training("SGD", bags)
    passes = training.collection.compiled
    features = batch(1, 5, bags)
    ids = [one[0] for one in features.values()]
    lengths = [one[1] for one in features.values()] if bags else []
    count = sum(len(one) for one in ids)
    of_ids = torch.rand(count, requires_grad=True) if weighted else None
    hook, number = torch.zeros(1, requires_grad=True), torch.tensor(7)
    which = [passes.names.index(name) for name in features]
    constants = (passes.collection, which, [4 if name in "ac" else 8 for name in features], False)
    arguments = (hook, ids, lengths, of_ids, number, *constants)
    torch.library.opcheck(torch.ops.perdure.look_up.default, arguments)
    answers, weights, following = ops.look_up(*arguments)
    assert following == 8
    gradients = [torch.rand_like(one) for one in answers]
    kept = None if of_ids is None else of_ids.detach()
    weights = [one.detach() for one in weights]
    dims = list(range(len(gradients)))
    torch.library.opcheck(
        torch.ops.perdure.look_up_backward.default,
        (gradients, dims, lengths, kept, weights, number, *constants),
    )


@pytest.mark.parametrize("bags", [True, False])
@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
def test_a_compiled_training_has_no_graph_break_and_the_same_rows(
    bags: bool, optimizer: str
) -> None:
    import torch

    counter = compilations()
    plain, made = Training(optimizer, bags), Training(optimizer, bags)
    step = torch.compile(made.model, fullgraph=True, backend=counter)
    for number, samples in enumerate([5, 5, 7, 11, 2, 30]):
        features = batch(number, samples, bags)
        assert plain.step(plain.model, features) == made.step(step, features)
    assert rows_of(plain).equal(rows_of(made)) and len(plain.store) == len(made.store)
    assert counter.frame_count <= 3, "sizes of batches are no constants of a graph"
    plain.model.eval(), made.model.eval()
    before = rows_of(made)
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            assert step(features).equal(plain.model(features))
    assert rows_of(made).equal(before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own code
def test_inductor_compiles_a_training() -> None:
    import torch

    plain, made = Training("SGD", True), Training("SGD", True)
    backend = "inductor" if shutil.which("g++") else "aot_eager"
    step = torch.compile(made.model, fullgraph=True, dynamic=True, backend=backend)
    for number, samples in enumerate([5, 9]):
        features = batch(number, samples, True)
        losses = plain.step(plain.model, features), made.step(step, features)
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert torch.allclose(rows_of(plain), rows_of(made), atol=1e-6)
    assert len(plain.store) == len(made.store)


CACHED = """
import sys, torch
from perdure import torch as pt
tables, rule = [pt.TableConfig("t", int(sys.argv[1]))], pt.SGD(lr=1.0)
rows = pt.EmbeddingCollection(pt.create("memfd:cached", tables, rule), tables, rule)
with torch.no_grad():
    ids = torch.arange(5)
    assert torch.compile(rows, fullgraph=True)({"t": (ids,)})["t"].equal(rows({"t": (ids,)})["t"])
"""


def test_what_pytorch_keeps_of_one_collection_is_not_taken_for_another() -> None:
    for dim in ("4", "8"):  # processes that name their collections alike, and have one cache
        subprocess.run([sys.executable, "-c", CACHED, dim], check=True)


def test_two_passes_of_one_graph_over_the_same_ids_stay_two() -> None:
    import torch

    def twice(model: Any) -> Callable[[Any], Any]:
        def loss(features: Any) -> Any:
            several = model.collection(features), model.collection(features)
            return sum(
                (one["a"] * (2 + number)).square().sum() for number, one in enumerate(several)
            )

        return loss

    options: dict[str, Any] = {"admit_after": 3}
    plain, made = Training("Adagrad", True, **options), Training("Adagrad", True, **options)
    step = torch.compile(twice(made), fullgraph=True, backend="aot_eager")
    for _ in range(4):  # what is admitted tells how many sightings were counted
        features = batch(3, 6, True)
        assert plain.step(twice(plain), features) == made.step(step, features)
        assert len(plain.store) == len(made.store)
        for name in "abc":
            mine, theirs = (one.collection.sightings.of[name] for one in (made, plain))
            assert mine.total == theirs.total and mine.cells.equal(theirs.cells)
    assert rows_of(plain).equal(rows_of(made))


@pytest.mark.parametrize("inside", [True, False])
def test_weights_of_ids_have_the_same_gradients(inside: bool) -> None:
    import torch

    results = []
    for how in (False, True):
        training = Training("SGD", True)
        weights = torch.rand(100, generator=torch.Generator().manual_seed(1), requires_grad=True)
        features = batch(2, 8, True)

        def loss(weights: Any, features: Any = features, training: Any = training) -> Any:
            pooled = training.collection(
                {name: (ids, of, weights[: len(ids)]) for name, (ids, of) in features.items()}
            )
            return sum(one.square().sum() for one in pooled.values())

        call = torch.compile(loss, fullgraph=True, backend="aot_eager") if how else loss
        if inside:
            with training.trainer.step():
                call(weights).backward()
        else:
            training.collection.eval()
            call(weights).backward()
        assert weights.grad is not None and weights.grad.abs().sum() > 0
        results.append((weights.grad, rows_of(training)))
    assert results[0][0].equal(results[1][0]) and results[0][1].equal(results[1][1])


def test_gradients_that_come_outside_of_their_step_raise() -> None:
    import torch

    training = Training("SGD", True)
    loss = torch.compile(training.model, fullgraph=True, backend="aot_eager")
    features = batch(1, 5, True)
    with pytest.raises(RuntimeError, match="look up and go backward within one step"):
        loss(features).backward()
    with training.trainer.step():
        late = loss(features)
    with training.trainer.step(), pytest.raises(RuntimeError, match="within one step"):
        late.backward()
    training.model.eval()
    loss(features).backward()  # changes nothing, and says nothing
    training.model.train()
    before = rows_of(training)
    training.step(loss, features)
    assert not rows_of(training).equal(before)


def test_activation_checkpointing_looks_nothing_up_again() -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    plain, made = Training("Adagrad", True), Training("Adagrad", True)

    def loss(features: Any) -> Any:
        return checkpoint(made.model, features, use_reentrant=False)

    step = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for number in range(3):
        features = batch(number, 5, True)
        assert plain.step(plain.model, features) == made.step(step, features)
    assert rows_of(plain).equal(rows_of(made))


def test_a_graph_whose_store_or_collection_is_gone_says_so() -> None:
    import torch

    training = Training("SGD", True)
    features = batch(1, 5, True)
    call = torch.compile(training.collection, fullgraph=True, backend="aot_eager")
    call(features)
    training.store.close()
    with pytest.raises(perdure.Closed, match="closed"):
        call(features)
    hook, number = torch.zeros(1), torch.tensor(0)
    with pytest.raises(RuntimeError, match="collection 123456789: it is gone"):
        torch.ops.perdure.look_up(hook, [], [], None, number, 123456789, [], [], False)


def test_lengths_that_do_not_fit_are_refused_in_compiled_code_too() -> None:
    import torch

    training = Training("SGD", True)
    call = torch.compile(training.collection, fullgraph=True, backend="aot_eager")
    ids, ones = torch.arange(4), torch.ones(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="lengths are integers"):
        call({"a": (ids, ones)})


def test_a_follower_is_read_by_the_operator_and_goes_over_to_a_new_pool(pools: Path) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    path, tables = str(pools / "pool"), [pt.TableConfig("t", 4, init_bound=0.0)]
    numbers = []
    follower = None
    for value in (1.0, 2.0):
        store = pt.create(path, tables, pt.SGD(lr=1.0), overwrite=True)
        pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
        table = store.table("t")
        table.put([3], np.full((1, table.value_bytes // 4), value, np.float32))
        if follower is None:
            follower = pt.Follower(path, threads=1)
            reads = pt.EmbeddingCollection(follower, tables)
            call = torch.compile(reads, fullgraph=True, backend="aot_eager")
        for look_up in (reads, call):
            assert look_up({"t": (torch.tensor([3, 4]),)})["t"][:, 0].tolist() == [value, 0.0]
        numbers.append(ops.number_of(follower))
        rows, statuses = get_rows(keys_of(store, "t", 3, 4), numbers[-1], 2)
        assert rows.tolist() == [[value] * 2, [0.0] * 2] and statuses.tolist() == [0, 1]
        store.close()
    with pytest.raises(RuntimeError, match="no open store has this number"):
        get_rows(torch.zeros((1, 2), dtype=torch.int64), numbers[0], 2)


def test_tables_of_one_dim_whose_rows_have_other_widths_are_told_apart() -> None:
    import torch
    from perdure import torch as pt

    tables = tables_of(dims={"a": 4, "b": 4, "c": 4})
    store = pt.create("memfd:widths", tables, pt.Adagrad(lr=1.0), overwrite=True)
    rules = {"a": pt.SGD(lr=1.0), "b": pt.Adagrad(lr=1.0), "c": pt.SGD(lr=1.0)}
    expected = {}
    features = batch(5, 6, True)
    for one in tables:
        pt.EmbeddingBagCollection(store, [one], rules[one.name])
        table = store.table(one.name)
        table.put(np.arange(20), np.arange(5 * table.value_bytes, dtype=np.float32).reshape(20, -1))
        alone = pt.EmbeddingBagCollection(store, [one])
        expected.update(alone({one.name: features[one.name]}))
    whole = pt.EmbeddingBagCollection(store, tables)
    call = torch.compile(whole, fullgraph=True, backend="aot_eager")
    for answer in (whole(features), call(features)):
        assert all(answer[name].equal(expected[name]) for name in "abc")
    store.close()


def test_a_build_without_native_operators_says_so_and_trains_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch
    from perdure.torch import ops

    with_it, without = Training("Adam", True), Training("Adam", True)
    step = torch.compile(without.model, fullgraph=True, backend="aot_eager")
    features = batch(1, 5, True)
    first = with_it.step(with_it.model, features)
    monkeypatch.setattr(ops, "native", False)
    assert without.step(step, features) == first and rows_of(with_it).equal(rows_of(without))
    with pytest.raises(perdure.Unsupported, match="no operators of its own"):
        ops.number_of(without.store)


@pytest.mark.parametrize("after", [None, 2])
def test_sharded_collections_are_compiled_but_for_passes_that_were_begun(
    pools: Path, after: int | None
) -> None:
    import torch
    import torch.distributed as dist
    from perdure import torch as pt

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        tables, rule = tables_of(admit_after=after), pt.Adagrad(lr=0.1)
        results = []
        for how in (False, True):
            store = pt.create(str(pools / f"pool{how}"), tables, rule)
            bags = pt.ShardedEmbeddingBagCollection(store, tables, rule)
            call = torch.compile(bags, fullgraph=True, backend="aot_eager") if how else bags
            linear = torch.nn.Linear(1, 1)
            optimizer = torch.optim.SGD(linear.parameters(), lr=0)
            trainer = pt.ShardedTrainer(store, bags, linear, optimizer)
            trainer.resume()
            for number in range(3):
                with trainer.step():
                    assert call({}) == {}  # as of a process without samples
                    pooled = call(batch(number, 6, True))
                    sum(one.square().sum() for one in pooled.values()).backward()
            found = [store.table(name).get(np.arange(20), dtype=np.float32) for name in "abc"]
            seen = [one.total for one in bags.sightings.of.values()]
            results.append([seen, *(one.values.tolist() for one in found)])
            if how:
                features = batch(9, 6, True)
                bags.begin(features)
                with pytest.raises(RuntimeError, match="call the module uncompiled"):
                    call(features)
        assert results[0] == results[1] and all(results[0][0])
    finally:
        dist.destroy_process_group()


@pytest.mark.gpu
def test_a_compiled_training_on_a_gpu_has_the_rows_of_one_that_is_not() -> None:
    import torch

    plain, made = Training("Adagrad", True, device="cuda"), Training("Adagrad", True, device="cuda")
    step = torch.compile(made.model, fullgraph=True, backend="aot_eager")
    for number, samples in enumerate([5, 5, 7, 11]):
        features = batch(number, samples, True, device="cuda")
        assert plain.step(plain.model, features) == pytest.approx(
            made.step(step, features), rel=1e-4
        )
    assert torch.allclose(rows_of(plain), rows_of(made), atol=1e-5)
