"""PerdureStorage beside DynamicEmb's interface, and against a dictionary."""

from __future__ import annotations

import abc
import enum
import importlib
import inspect
import sys
import types
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytestmark = pytest.mark.framework("torch")

# The abstract methods of `Storage` in corelib/dynamicemb/dynamicemb/types.py of
# NVIDIA/recsys-examples: 1c4fee5680f0, and the two that a later version asks for too. Written down
# by hand from reading it, for the package itself needs CUDA.
RECORDED = {
    "find": ["unique_keys", "table_ids", "copy_mode", "lfu_accumulated_frequency=None"],
    "insert": ["keys", "table_ids", "values", "scores=None", "preserve_existing=False"],
    "dump": [
        *("table_id", "meta_file_path", "emb_key_path", "embedding_file_path"),
        *("score_file_path", "opt_file_path", "timestamp"),
    ],
    "load": [
        *("table_id", "meta_file_path", "emb_file_path", "embedding_file_path"),
        *("score_file_path", "opt_file_path", "include_optim", "timestamp"),
    ],
    "embedding_dtype": [],
    "embedding_dim": ["table_id"],
    "value_dim": ["table_id"],
    "max_embedding_dim": [],
    "max_value_dim": [],
    "init_optimizer_state": [],
    "export_keys_values": ["device", "batch_size=65536", "table_id=0"],
    "embedding_dims": ["on_device=False"],
    "all_dims_vec4": [],
}


class CopyMode(enum.Enum):
    EMBEDDING = "embedding"
    VALUE = "value"


class Options(NamedTuple):
    dim: int


class Moments:
    """Stands for DynamicEmb's Adam: two moments for each weight."""

    def get_state_dim(self, emb_dim: int) -> int:
        return 2 * emb_dim

    def get_initial_optim_states(self) -> float:
        return 0.5

    def get_opt_args(self) -> dict[str, Any]:
        return {"opt_type": "adam", "lr": 0.1}


class Padded(Moments):
    """One number a row, which takes four in memory."""

    def get_state_dim(self, emb_dim: int) -> int:
        return 4

    def get_ckpt_state_dim(self, emb_dim: int) -> int:
        return 1


def made(pool: str, optimizer: Any = None, dims: Any = (4, 8, 4)) -> Any:
    from perdure.torch.dynamicemb import PerdureStorage, create

    optimizer, options = optimizer or Moments(), [Options(dim) for dim in dims]
    return PerdureStorage(options, optimizer, store=create(pool, options, optimizer))


def parameters(method: Any) -> list[str]:
    given = list(inspect.signature(method).parameters.values())[1:]
    return [
        one.name + ("" if one.default is inspect.Parameter.empty else f"={one.default}")
        for one in given
    ]


def test_the_methods_are_those_of_the_interface() -> None:
    from perdure.torch.dynamicemb import PerdureStorage

    methods = {name: parameters(getattr(PerdureStorage, name)) for name in RECORDED}
    assert methods == RECORDED


def test_where_the_interface_is_there_it_is_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    import perdure.torch.dynamicemb as ours

    abstract = {name: abc.abstractmethod(lambda self: None) for name in RECORDED}
    stand_in = types.ModuleType("dynamicemb.types")
    stand_in.Storage = abc.ABCMeta("Storage", (), abstract)  # type: ignore[attr-defined]
    with monkeypatch.context() as here:
        here.setitem(sys.modules, "dynamicemb", types.ModuleType("dynamicemb"))
        here.setitem(sys.modules, "dynamicemb.types", stand_in)
        importlib.reload(ours)
        assert isinstance(made("memfd:dynamicemb"), stand_in.Storage)
    importlib.reload(ours)


def test_rows_are_found_as_a_dictionary_has_them(pool: str) -> None:
    import perdure
    import torch
    from perdure.torch.dynamicemb import PerdureStorage

    storage = made(pool)
    dims, first, width = (4, 8, 4), 8, 24
    assert (storage.max_embedding_dim(), storage.max_value_dim()) == (first, width)
    assert storage.embedding_dims().tolist() == [4, 8, 4] and storage.all_dims_vec4()
    assert [storage.value_dim(table) for table in range(3)] == [12, 24, 12]
    known: dict[tuple[int, int], tuple[Any, int]] = {}
    for step in range(30):
        random = np.random.default_rng(step)
        pairs = [
            divmod(one, 50) for one in random.choice(150, random.integers(0, 30), replace=False)
        ]
        tables = torch.tensor([int(table) for table, _ in pairs], dtype=torch.int64)
        keys = torch.tensor([int(key) - 25 for _, key in pairs], dtype=torch.int64)
        values = torch.from_numpy(random.random((len(pairs), width), np.float32))
        for row, table in zip(values, tables.tolist(), strict=True):  # what a table has not
            row[dims[table] : first] = 0
            row[first + 2 * dims[table] :] = 0
        frequency = torch.from_numpy(random.integers(0, 2**40, len(pairs)))
        mode = CopyMode.VALUE if step % 2 else CopyMode.EMBEDDING
        many, missed, at, missed_frequency, founds, scores, rows = storage.find(
            keys, tables, mode, frequency
        )
        both = list(zip(tables.tolist(), keys.tolist(), strict=True))
        assert founds.tolist() == [one in known for one in both]
        assert many == len(missed) and torch.equal(missed, keys[at])
        assert torch.equal(at, torch.nonzero(~founds)[:, 0])
        assert torch.equal(missed_frequency, frequency[at])
        for number, one in enumerate(both):
            row, score = known.get(one, (torch.zeros(width), None))
            expected = 0 if score is None else score + int(frequency[number])
            assert torch.equal(rows[number], row[: rows.shape[1]]), one
            assert int(scores[number]) == expected
        keep = step % 3 == 0
        storage.insert(keys, tables, values, frequency, preserve_existing=keep)
        for number, one in enumerate(both):
            if not (keep and one in known):
                known[one] = (values[number], int(frequency[number]))
    assert len(known) > 100
    storage.store.close()
    again = PerdureStorage([Options(dim) for dim in dims], Moments(), store=perdure.open(pool))
    for table in range(3):
        held = {}
        for keys, weights, states, scores in again.export_keys_values(
            torch.device("cpu"), 7, table
        ):
            whole = torch.cat([weights, states], dim=1)
            held.update(zip(keys.tolist(), zip(whole, scores.tolist(), strict=True), strict=True))
        mine = {key: one for (of, key), one in known.items() if of == table}
        assert held.keys() == mine.keys()
        dim = dims[table]
        for key, (row, score) in mine.items():
            expected = torch.cat([row[:dim], row[first : first + 2 * dim]])
            assert torch.equal(held[key][0], expected) and held[key][1] == score


@pytest.mark.parametrize("with_states", [True, False])
def test_what_is_dumped_is_loaded(tmp_path: Path, with_states: bool) -> None:
    import torch

    one = made("memfd:dumped", Padded(), (4, 6))
    keys, tables = torch.arange(100), torch.arange(100) % 2
    values = torch.rand(100, 10)
    one.insert(keys, tables, values, keys * 3)
    meta, *files = (
        str(tmp_path / name) for name in ("meta", "keys", "weights", "scores", "states")
    )
    one.dump(1, meta, *files[:3], files[3] if with_states else None, 0)
    sizes = [Path(file).stat().st_size for file in files[:3]]
    assert sizes == [50 * 8, 50 * 24, 50 * 8]
    assert Path(files[3]).exists() == with_states
    if with_states:
        assert Path(files[3]).stat().st_size == 50 * 4
    other = made("memfd:loaded", Padded(), (4, 6))
    other.load(1, meta, *files[:3], files[3] if with_states else None, with_states, 0)
    odd = keys[1::2]
    _, _, _, _, founds, scores, rows = other.find(odd, torch.ones_like(odd), CopyMode.VALUE)
    assert founds.all() and torch.equal(scores, odd * 3)
    assert torch.equal(rows[:, :6], values[1::2, :6])
    expected = values[1::2, 6] if with_states else torch.full((50,), 0.5)
    assert torch.equal(rows[:, 6], expected) and bool((rows[:, 7:] == 0.5).all())
    with pytest.raises(ValueError, match="not 4 numbers for each of 50 keys"):
        other.load(0, meta, *files[:3], None, False, 0)
    if with_states:
        Path(meta).write_text('{"opt_type": "sgd"}')
        with pytest.raises(ValueError, match="states of sgd; the optimizer is adam"):
            other.load(1, meta, *files, True, 0)


def test_what_does_not_fit_is_refused_and_a_commit_has_all() -> None:
    import torch
    from perdure.torch.dynamicemb import PerdureStorage

    storage = made("memfd:refused")
    keys, tables = torch.arange(3), torch.tensor([0, 1, 2])
    with pytest.raises(ValueError, match=r"pass \(3, 24\)"):
        storage.insert(keys, tables, torch.zeros(3, 12))
    with pytest.raises(ValueError, match="optimizer's state"):
        PerdureStorage([Options(8)], Padded(), store=storage.store, names=["table-0"])
    with suppress(ZeroDivisionError), storage.store.transaction():
        storage.insert(keys, tables, torch.zeros(3, 24))
        raise ZeroDivisionError
    assert storage.find(keys, tables, CopyMode.EMBEDDING)[0] == 3
    with storage.store.transaction():
        storage.insert(keys, tables, torch.zeros(3, 24))
    assert storage.find(keys, tables, CopyMode.EMBEDDING)[0] == 0


def test_keys_of_no_table_are_refused_and_nothing_is_written() -> None:
    import torch

    storage = made("memfd:no-table")
    keys, rows = torch.arange(3), torch.zeros(3, 24)
    for tables, scores, says in (
        ([0, 1, -1], None, "table id -1: there are tables 0 to 2"),
        ([0, 1, 3], None, "table id 3"),
        ([0, 1], None, r"table_ids: of shape \(2,\); pass a number for each of the 3 keys"),
        ([0, 1, 2, 2], None, r"table_ids: of shape \(4,\)"),
        ([0, 1, 2], [1, 2], r"scores: of shape \(2,\)"),
    ):
        of_each = torch.tensor(tables)
        their = None if scores is None else torch.tensor(scores)
        with pytest.raises(ValueError, match=says):
            storage.insert(keys, of_each, rows, their)
        if scores is None:
            with pytest.raises(ValueError, match=says):
                storage.find(keys, of_each, CopyMode.VALUE)
    for wrong in (keys.float() + 0.5, keys.bool()):
        with pytest.raises(TypeError, match=r"keys: torch\.\w+; pass integers"):
            storage.insert(wrong, torch.tensor([0, 1, 2]), rows)
    with pytest.raises(ValueError, match="table id -1"):
        list(storage.export_keys_values(torch.device("cpu"), table_id=-1))
    assert storage.find(keys, torch.tensor([0, 1, 2]), CopyMode.VALUE)[0] == 3


def test_a_dump_that_was_cut_short_is_refused_by_its_file(tmp_path: Path) -> None:
    import torch

    storage = made("memfd:cut")
    storage.insert(torch.arange(50), torch.ones(50, dtype=torch.int64), torch.rand(50, 24))
    names = ("meta", "keys", "weights", "scores", "states")
    storage.dump(1, *(str(tmp_path / name) for name in names), 0)
    other = made("memfd:whole")
    for name, octets in (("meta", 3), ("keys", 3), ("keys", 8), ("scores", 8), ("states", 4)):
        files = {each: tmp_path / each for each in names}
        files[name] = tmp_path / "cut"
        files[name].write_bytes((tmp_path / name).read_bytes()[:-octets])
        named = "weights" if (name, octets) == ("keys", 8) else "cut"
        with pytest.raises(ValueError, match=f"^{tmp_path / named}: no"):
            other.load(1, *map(str, files.values()), True, 0)
    assert not list(other.export_keys_values(torch.device("cpu"), table_id=1))


def test_a_dump_that_does_not_come_to_its_end_leaves_the_one_before_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from perdure.torch import dynamicemb

    storage, other = made("memfd:dumping"), made("memfd:before")
    keys = torch.arange(50)
    storage.insert(keys, torch.ones_like(keys), torch.rand(50, 24), keys)
    names = ("meta", "keys", "weights", "scores", "states")
    files = [str(tmp_path / name) for name in names]
    storage.dump(1, *files, 0)
    storage.insert(keys, torch.ones_like(keys), torch.rand(50, 24), keys + 100)
    pages, replace = storage.export_keys_values, dynamicemb.os.replace

    def one_page(*given: Any, **more: Any) -> Any:
        yield next(pages(*given, **more))
        raise OSError("the disk is full")

    monkeypatch.setattr(storage, "export_keys_values", one_page)
    with pytest.raises(OSError, match="the disk is full"):
        storage.dump(1, *files, 0)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(names)
    other.load(1, *files, True, 0)
    assert other.find(keys, torch.ones_like(keys), CopyMode.VALUE)[5].equal(keys)

    def renamed(old: str, new: str) -> None:
        if new == files[2]:
            raise OSError("killed there")
        replace(old, new)

    monkeypatch.setattr(storage, "export_keys_values", pages)
    monkeypatch.setattr(dynamicemb.os, "replace", renamed)
    with pytest.raises(OSError, match="killed there"):
        storage.dump(1, *files, 0)
    with pytest.raises(FileNotFoundError, match="keys"):
        other.load(1, *files, True, 0)
    monkeypatch.setattr(dynamicemb.os, "replace", replace)
    storage.dump(1, *files, 0)
    other.load(1, *files, True, 0)
    assert other.find(keys, torch.ones_like(keys), CopyMode.VALUE)[5].equal(keys + 100)
    assert dynamicemb._is_special("/dev/null"), "which is no file to replace"


def test_collections_look_up_what_a_storage_has() -> None:
    import torch
    from perdure import torch as pt

    storage = made("memfd:looked-up")
    values = torch.rand(5, 24)
    storage.insert(torch.arange(5), torch.ones(5, dtype=torch.int64), values)
    rows = pt.EmbeddingCollection(storage.store, [pt.TableConfig("table-1", 8)])
    assert torch.equal(rows({"table-1": (torch.arange(5),)})["table-1"], values[:, :8])
