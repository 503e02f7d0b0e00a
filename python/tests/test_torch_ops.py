"""Operators of perdure.torch: get_rows by itself, and collections in compiled code, which do what
they do uncompiled."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from torch_ops import Training, batch, compiled, rows_of, tables_of

pytestmark = pytest.mark.framework("torch")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Of PyTorch, so that tests beside each other do not wait for each other's threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def store() -> Iterator[perdure.Store]:
    """Two tables, of which one is narrower than the pool."""
    with perdure.create("memfd:ops", 16, 64, overwrite=True) as made:
        made.table("wide", 64).put([1, 2, 3], np.arange(48, dtype=np.float32).reshape(3, 16))
        made.table("narrow", 16).put([1, -1], np.float32([[1, 2, 3, 4], [5, 6, 7, 8]]))
        yield made


def keys(store: perdure.Store, table: str, *ids: int) -> Any:
    import torch

    return torch.tensor([[one, store.table(table).number] for one in ids], dtype=torch.int64)


def get_rows(*arguments: Any) -> Any:
    import torch

    return torch.ops.perdure.get_rows(*arguments)


# --- get_rows


@pytest.mark.parametrize(("table", "columns"), [("wide", 16), ("narrow", 4), ("wide", 3)])
def test_get_rows_answers_what_the_store_answers(
    store: perdure.Store, table: str, columns: int
) -> None:
    from perdure.torch import ops

    ids = [3, 1, 1, 9, -1]
    rows, statuses = get_rows(keys(store, table, *ids), ops.number_of(store), columns)
    expected = store.table(table).get(ids, dtype=np.float32)
    assert rows.tolist() == expected.values[:, :columns].tolist()
    assert statuses.tolist() == expected.statuses.tolist() and rows.is_contiguous()
    none, _ = get_rows(keys(store, table, *ids)[:0], ops.number_of(store), columns)
    assert none.shape == (0, columns)
    apart = keys(store, table, *ids).T.contiguous().T
    assert get_rows(apart, ops.number_of(store), columns)[0].equal(rows)


def test_get_rows_does_what_pytorch_asks_of_operators(store: perdure.Store) -> None:
    import torch
    from perdure.torch import ops

    for several in (keys(store, "narrow", 1, 1, 5), keys(store, "narrow", 1)[:0]):
        for check in (True, False):
            arguments = (several, ops.number_of(store), 4, check)
            torch.library.opcheck(torch.ops.perdure.get_rows.default, arguments)


def test_get_rows_is_compiled_for_any_number_of_keys(store: perdure.Store) -> None:
    import torch
    from perdure.torch import ops

    number, counter = ops.number_of(store), compiled.counter()

    @torch.compile(fullgraph=True, backend=counter, dynamic=True)
    def sums(several: Any) -> Any:
        return torch.ops.perdure.get_rows(several, number, 4)[0].sum(dim=1)

    for ids in ([1, 1, 9], [1, -1, 1, 8], [-1] * 70):
        expected = store.table("narrow").get(ids, dtype=np.float32).values.sum(axis=1)
        assert sums(keys(store, "narrow", *ids)).tolist() == expected.tolist()
    assert counter.frame_count == 1


def test_get_rows_refuses_what_does_not_fit_and_names_it(store: perdure.Store) -> None:
    import torch
    from perdure.torch import ops

    number, some = ops.number_of(store), keys(store, "wide", 1)
    other = perdure.create("memfd:others", 8, 8, overwrite=True)
    odd = perdure.create("memfd:odd", 16, 62, overwrite=True)
    for arguments, says in (
        ((some.int(), number, 4), "keys are int64 of shape"),
        ((some[0], number, 4), "keys are int64 of shape"),
        ((some.reshape(1, 1, 2), number, 4), "keys are int64 of shape"),
        ((torch.zeros(1, 3, dtype=torch.int64), number, 4), "keys are int64 of shape"),
        ((some, number, 0), "columns is the number of float32"),
        ((some, number, -1), "columns is the number of float32"),
        ((some, number, 1 << 62), "columns is the number of float32"),
        ((some, number, 17), "rows of this pool have 64 bytes"),
        ((some, ops.number_of(odd), 4), "rows of this pool have 62 bytes"),
        ((some, ops.number_of(other), 1), "keys of this pool have 8 bytes"),
        ((some, 1 << 40, 4), "no open store has this number"),
        ((some, -1, 4), "no open store has this number"),
    ):
        with pytest.raises(RuntimeError, match=says):
            get_rows(*arguments)


def test_a_closed_store_has_no_number_and_its_old_one_is_dead(pools: Path) -> None:
    from perdure.torch import ops

    path = str(pools / "pool")
    store = perdure.create(path, 16, 64)
    some, number = keys(store, "wide", 1) if store.table("wide", 64) else None, ops.number_of(store)
    assert ops.number_of(store) == number
    store.close()
    with pytest.raises(RuntimeError, match="no open store has this number"):
        get_rows(some, number, 4)
    with pytest.raises(perdure.Closed):
        ops.number_of(store)
    with perdure.open(path) as again:  # nothing keeps the pool
        assert ops.number_of(again) != number
        assert get_rows(some, ops.number_of(again), 4)[1].tolist() == [1]


def test_a_store_that_nobody_holds_is_freed_though_it_has_a_number(pools: Path) -> None:
    from perdure.torch import ops

    path = str(pools / "pool")
    store = perdure.create(path, 16, 64)
    number, seen = ops.number_of(store), weakref.ref(store)
    del store
    gc.collect()
    assert seen() is None
    perdure.open(path).close()
    with pytest.raises(RuntimeError, match="no open store has this number"):
        get_rows(np_keys(), number, 4)


def np_keys() -> Any:
    import torch

    return torch.zeros((1, 2), dtype=torch.int64)


def test_a_store_is_closed_under_threads_that_look_up(pools: Path) -> None:
    from perdure.torch import ops

    path = str(pools / "pool")
    for _ in range(20):
        store = perdure.create(path, 16, 64, overwrite=True)
        store.table("wide", 64).put([1], np.ones((1, 16), np.float32))
        some, number = keys(store, "wide", 1), ops.number_of(store)
        answers: list[str] = []

        def look_up(some: Any = some, number: int = number, answers: Any = answers) -> None:
            try:
                while True:
                    assert get_rows(some, number, 16)[0].sum() == 16
            except RuntimeError as error:
                answers.append(str(error))

        threads = [threading.Thread(target=look_up) for _ in range(3)]
        for one in threads:
            one.start()
        store.close()
        for one in threads:
            one.join()
        assert len(answers) == 3 and all("closed" in one or "no open" in one for one in answers)
        perdure.open(path).close()


def test_damage_is_told_by_the_operator_and_by_a_collection_in_its_own_words(pools: Path) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    path, tables = pools / "pool", [pt.TableConfig("t", 4)]
    store = pt.create(str(path), tables, pt.SGD(lr=1.0))
    bags = pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
    table = store.table("t")
    row = np.arange(table.value_bytes, dtype=np.uint8) + 40
    table.put([5], row[None])
    with open(path, "r+b") as file:
        at = file.read().index(row.tobytes())
        file.seek(at)
        file.write(b"\xff")
    some = torch.tensor([[5, table.number], [6, table.number]])
    with pytest.raises(RuntimeError, match="key 0 of 2: the stored record fails its checksum"):
        get_rows(some, ops.number_of(store), 4)
    assert get_rows(some, ops.number_of(store), 4, False)[1].tolist() == [3, 1]
    with pytest.raises(perdure.Corrupt, match="key 0 of 2"):
        bags({"t": (torch.tensor([5, 6]),)})


# --- other processes, and the end of this one


def _in_child(number: int, some: Any, bags: Any, to: Any) -> None:
    import torch
    from perdure.torch import ops

    answers = []
    for call in (lambda: get_rows(some, number, 4), lambda: bags({"t": (torch.arange(2),)})):
        try:
            call()
            answers.append("answered")
        except (RuntimeError, perdure.Closed) as error:
            answers.append(f"{type(error).__name__}: {error}")
    with perdure.create("memfd:child", 16, 64) as own:
        own.table("t", 64).put([7], np.ones((1, 16), np.float32))
        answers.append(str(get_rows(keys(own, "t", 7), ops.number_of(own), 16)[0].sum().item()))
    to.send(answers)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_so_and_may_have_a_pool_of_its_own() -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    tables = [pt.TableConfig("t", 4)]
    store = pt.create("memfd:parent", tables, pt.SGD(lr=1.0))
    bags = pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
    some, number = torch.zeros((1, 2), dtype=torch.int64), ops.number_of(store)
    stop = threading.Event()

    def busy() -> None:  # somebody looks at the list of stores while the process forks
        while not stop.is_set():
            get_rows(some, number, 4)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for one in threads:
        one.start()
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        here, there = context.Pipe()
        child = context.Process(target=_in_child, args=(number, some, bags, there))
        child.start()
        assert here.poll(30), "the child waits for a lock of its parent"
        by_number, by_module, own = here.recv()
        child.join()
        assert by_number.startswith("RuntimeError: perdure::get_rows") and "process" in by_number
        assert by_module.startswith("Closed") and own == "16.0"
    stop.set()
    for one in threads:
        one.join()


ENDS = """
import torch
from perdure import torch as pt
from perdure.torch import ops
tables = [pt.TableConfig("t", 4)]
store = pt.create("memfd:ends", tables, pt.SGD(lr=1.0))
bags = pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
print(ops.native, bags({"t": (torch.arange(3),)})["t"].shape)
"""


def test_a_program_that_closes_nothing_ends_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("True")


# --- collections in compiled code


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
    arguments = (hook, ids, lengths, of_ids, number, passes.collection, which, False)
    torch.library.opcheck(torch.ops.perdure.look_up.default, arguments)
    answers, weights, following = ops.look_up(*arguments)
    assert following == 8
    gradients = [torch.rand_like(one) for one in answers]
    kept = None if of_ids is None else of_ids.detach()
    weights = [one.detach() for one in weights]
    dims = list(range(len(gradients)))
    torch.library.opcheck(
        torch.ops.perdure.look_up_backward.default,
        (gradients, dims, lengths, kept, weights, number, passes.collection, which, False),
    )


@pytest.mark.parametrize("bags", [True, False])
@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
def test_a_compiled_training_has_no_graph_break_and_the_same_rows(
    bags: bool, optimizer: str
) -> None:
    import torch

    counter = compiled.counter()
    plain, made = Training(optimizer, bags), Training(optimizer, bags)
    step = torch.compile(made.model, fullgraph=True, backend=counter)
    for number, samples in enumerate([5, 5, 7, 11, 2, 30]):
        features = batch(number, samples, bags)
        assert plain.step(plain.model, features) == made.step(step, features)
    assert rows_of(plain).equal(rows_of(made)) and len(plain.store) == len(made.store)
    assert counter.frame_count <= 3, "sizes of batches are no constants of a graph"
    plain.model.eval(), made.model.eval()
    before = rows_of(made)
    with torch.no_grad():
        assert step(features).equal(plain.model(features))
    assert rows_of(made).equal(before)


@pytest.mark.skipif(not compiled.has_compiler(), reason="no C++ compiler")
def test_inductor_compiles_a_training() -> None:
    import torch

    plain, made = Training("SGD", True), Training("SGD", True)
    step = torch.compile(made.model, fullgraph=True, dynamic=True)
    for number, samples in enumerate([5, 9]):
        features = batch(number, samples, True)
        losses = plain.step(plain.model, features), made.step(step, features)
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert torch.allclose(rows_of(plain), rows_of(made), atol=1e-6)
    assert len(plain.store) == len(made.store)


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
        torch.ops.perdure.look_up(hook, [], [], None, number, 123456789, [], False)


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
        rows, statuses = get_rows(keys(store, "t", 3, 4), numbers[-1], 2)
        assert rows.tolist() == [[value] * 2, [0.0] * 2] and statuses.tolist() == [0, 1]
        store.close()
    with pytest.raises(RuntimeError, match="no open store has this number"):
        get_rows(np_keys(), numbers[0], 2)


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


def test_sharded_collections_are_compiled_but_for_passes_that_were_begun(pools: Path) -> None:
    import torch
    import torch.distributed as dist
    from perdure import torch as pt

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        tables, rule = tables_of(), pt.Adagrad(lr=0.1)
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
                    pooled = call(batch(number, 6, True))
                    sum(one.square().sum() for one in pooled.values()).backward()
            found = [store.table(name).get(np.arange(20), dtype=np.float32) for name in "abc"]
            results.append([one.values.tolist() for one in found])
            if how:
                features = batch(9, 6, True)
                bags.begin(features)
                with pytest.raises(RuntimeError, match="call the module uncompiled"):
                    call(features)
        assert results[0] == results[1]
    finally:
        dist.destroy_process_group()


@pytest.mark.gpu
def test_rows_stay_on_the_gpu_and_wait_for_the_callers_stream() -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    with perdure.create("memfd:gpu", 16, 64, device="cuda") as store:
        table = store.table("t", 64)
        table.put(np.arange(5000), np.arange(80000, dtype=np.float32).reshape(5000, 16))
        some = torch.stack([torch.arange(5001), torch.full((5001,), table.number)], dim=1).cuda()
        expected = torch.arange(80000, dtype=torch.float32).reshape(5000, 16).cuda()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            large = torch.rand(4000, 4000, device="cuda")
            late = torch.zeros_like(some)
            for _ in range(20):
                large = large @ large
            late.copy_(some)  # once the products are done
            for columns in (16, 5):
                rows, statuses = get_rows(late, ops.number_of(store), columns)
                assert rows.is_cuda and not statuses.is_cuda
                assert rows[:5000].equal(expected[:, :columns]) and not rows[5000].any()
                assert statuses.tolist() == [0] * 5000 + [1]
        torch.library.opcheck(
            torch.ops.perdure.get_rows.default, (some[:7], ops.number_of(store), 4)
        )
    plain, made = Training("Adagrad", True, device="cuda"), Training("Adagrad", True, device="cuda")
    step = torch.compile(made.model, fullgraph=True, backend="aot_eager")
    for number, samples in enumerate([5, 5, 7, 11]):
        features = batch(number, samples, True, device="cuda")
        assert plain.step(plain.model, features) == pytest.approx(
            made.step(step, features), rel=1e-4
        )
    assert torch.allclose(rows_of(plain), rows_of(made), atol=1e-5)
    with pt.create("memfd:host", [pt.TableConfig("t", 4)], pt.SGD(lr=1.0)) as host:
        number = ops.number_of(host)
        with pytest.raises(RuntimeError, match="this store runs on the CPU"):
            get_rows(some, number, 4)
