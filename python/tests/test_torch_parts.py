"""Exports of trained tables: a whole and what follows, loaded into another pool."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest

pytestmark = pytest.mark.framework("torch")


def trained(
    pool: str, folders: list[tuple[Path, int]], steps: int, rule: Any, format: str | None = None
) -> Any:
    """A training of so many steps, which exports to each folder after every n-th."""
    import torch
    from perdure import torch as pt

    tables = [
        pt.TableConfig("t", 4, max_rows=40),
        pt.TableConfig("u", 6, ttl_steps=8),
        pt.TableConfig("v", 6),
    ]
    store = pt.create(pool, tables, rule)
    bags = pt.EmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    trainer = pt.Trainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0))
    for step in range(1, steps + 1):
        random = np.random.default_rng(step)
        features = {}
        for name in ("t", "u", "v"):
            ids = torch.from_numpy(random.zipf(1.4, 15) % 300)
            features[name] = (ids, torch.ones(15, dtype=torch.int64))
        with trainer.step():
            sum(one.square().sum() for one in bags(features).values()).backward()
        for folder, every in folders:
            if step % every == 0:
                trainer.export(folder, format=format, keep_evictions=len(folders) > 1)
    return store, tables, trainer


def held(store: perdure.Store, name: str, ages: int) -> dict[int, tuple[bytes, int, int]]:
    """Rows: weights and state, steps, and how long ago the last one was."""
    rows = {}
    for ids, page in store.table(name).scan():
        scores = np.ascontiguousarray(page[:, -8:]).view(np.int32)
        for one, row, (steps, last) in zip(ids.tolist(), page, scores.tolist(), strict=True):
            rows[one] = (bytes(row[:-8]), steps, ages - last)
    return rows


SAFETENSORS = pytest.param("safetensors", marks=pytest.mark.framework("safetensors"))


@pytest.mark.parametrize("format", ["parquet", SAFETENSORS])
@pytest.mark.parametrize("rule", ["SGD", "Adam"])
def test_parts_that_are_loaded_make_the_tables_that_were_trained(
    pools: Path, tmp_path: Path, rule: str, format: str
) -> None:
    from perdure import torch as pt
    from perdure.torch.parts import load_parts, parts_of

    optimizer = getattr(pt, rule)(lr=0.05)
    folders = [(tmp_path / "parts", 7)]
    store, tables, trainer = trained(str(pools / "one"), folders, 42, optimizer, format)
    parts = parts_of(tmp_path / "parts")
    assert [(part.since, part.step) for part in parts] == [
        *((None, 7), (7, 14), (14, 21), (21, 28), (28, 35), (35, 42))
    ]
    assert sum(part.tables["t"]["evicted"] + part.tables["u"]["evicted"] for part in parts) > 20
    assert all(part.tables["v"]["rows"] < parts[0].tables["v"]["rows"] + 90 for part in parts)
    other = pt.create(str(pools / "other"), tables, optimizer)
    load_parts(tmp_path / "parts", other, tables, optimizer)
    for name in ("t", "u", "v"):
        assert held(other, name, 0) == held(store, name, 42)
    bags = pt.EmbeddingBagCollection(other, tables, optimizer)
    again = pt.Trainer(
        other, bags, trainer._dense.parts["model"], trainer._dense.parts["optimizer"]
    )
    assert again.resume() == 0
    assert again._rows.count == trainer._rows.count
    with pytest.raises(ValueError, match="rows already"):
        load_parts(tmp_path / "parts", other, tables, optimizer)


def test_folders_that_do_not_follow_are_refused(pools: Path, tmp_path: Path) -> None:
    from perdure import torch as pt
    from perdure.torch.parts import load_parts, parts_of

    rule = pt.SGD(lr=0.05)
    one, two = tmp_path / "one", tmp_path / "two"
    _, tables, trainer = trained(str(pools / "pool"), [(one, 5), (two, 10)], 20, rule)
    assert len(parts_of(one)) == 4 and len(parts_of(two)) == 2
    with pytest.raises(ValueError, match="has step 20 already"):
        trainer.export(one)
    trainer.export(tmp_path / "three")
    shutil.copytree(two, tmp_path / "late")
    shutil.rmtree(tmp_path / "late" / "part-00001")
    with pytest.raises(perdure.InvalidArgument, match="begin a new folder"):
        trainer.export(tmp_path / "late")
    fresh = pt.create(str(pools / "fresh"), tables, rule)
    with pytest.raises(ValueError, match="no part is there"):
        load_parts(tmp_path / "none", fresh, tables, rule)
    other = [*tables[:2], pt.TableConfig("v", 7)]
    with pytest.raises(ValueError, match=r"\[dim, state\]"):
        load_parts(one, fresh, other, rule)
    shutil.copytree(one, tmp_path / "gap")
    shutil.rmtree(tmp_path / "gap" / "part-00002")
    with pytest.raises(ValueError, match="part 2 is missing"):
        load_parts(tmp_path / "gap", fresh, tables, rule)
    shutil.copytree(one, tmp_path / "twice")
    shutil.copytree(one / "part-00003", tmp_path / "twice" / "part-00004")
    with pytest.raises(ValueError, match="it is part 3"):
        load_parts(tmp_path / "twice", fresh, tables, rule)
    shutil.copytree(one, tmp_path / "mixed")
    shutil.rmtree(tmp_path / "mixed" / "part-00001")
    shutil.copytree(two / "part-00001", tmp_path / "mixed" / "part-00001")
    with pytest.raises(ValueError, match="goes on after step 10"):
        load_parts(tmp_path / "mixed", fresh, tables, rule)
    (one / "part-00000" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="no manifest"):
        parts_of(one)
    assert not any(True for table in fresh.tables().values() for _ in table.scan())


def test_parts_of_two_trainings_and_half_loaded_pools_are_refused(
    pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import parts

    rule, folder = pt.SGD(lr=0.05), tmp_path / "parts"
    _, tables, trainer = trained(str(pools / "one"), [(folder, 3)], 6, rule)
    _, _, other = trained(str(pools / "other"), [], 9, rule)
    with pytest.raises(ValueError, match="another training"):
        other.export(folder)
    fresh = pt.create(str(pools / "fresh"), tables, rule)
    real = parts._rows_in
    monkeypatch.setattr(parts, "_rows_in", lambda files, now: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        parts.load_parts(folder, fresh, tables, rule)
    none = torch.nn.Linear(1, 1)
    bags = pt.EmbeddingBagCollection(fresh, tables, rule)
    sgd = torch.optim.SGD(none.parameters(), lr=0)
    with pytest.raises(perdure.InvalidArgument, match="into a new pool"):
        pt.Trainer(fresh, bags, none, sgd).resume()
    monkeypatch.setattr(parts, "_rows_in", real)
    whole = pt.create(str(pools / "whole"), tables, rule)
    parts.load_parts(folder, whole, tables, rule)
    bags = pt.EmbeddingBagCollection(whole, tables, rule)
    begun = pt.Trainer(whole, bags, none, sgd)
    with begun.step():  # without resume(), too, rows that were loaded count
        pass
    assert begun._rows.count == trainer._rows.count
    with pytest.raises(ValueError, match="another training"):
        begun.export(folder)


def test_a_row_that_comes_back_after_eviction_was_turned_off_is_exported(
    pools: Path, tmp_path: Path
) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch.parts import load_parts

    rule, none = pt.SGD(lr=0.05), torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(none.parameters(), lr=0)
    store = None
    tables = []
    for most, batches in ((3, [[1], [2, 3], [4, 5]]), (None, [[1]])):
        tables = [pt.TableConfig("../t", 4, max_rows=most)]
        store = store or pt.create(str(pools / "pool"), tables, rule)
        bags = pt.EmbeddingBagCollection(store, tables, rule)
        trainer = pt.Trainer(store, bags, none, sgd)
        trainer.resume()
        for number, several in enumerate(batches):
            with trainer.step():
                ids = torch.tensor(several)
                bags({"../t": (ids, torch.ones_like(ids))})["../t"].sum().backward()
            if number == 0:
                trainer.export(tmp_path / "parts", keep_evictions=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]
    other = pt.create(str(pools / "other"), tables, rule)
    load_parts(tmp_path / "parts", other, tables, rule)
    assert store is not None and held(other, "../t", 0) == held(store, "../t", 4)
    assert 1 in held(other, "../t", 0)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_step_that_ends_beside_an_export_of_another_thread_loses_no_eviction(
    pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    """Ids that it evicted were forgotten with those that the part has."""
    import torch
    from perdure import torch as pt
    from perdure.torch import parts

    tables, rule, none = [pt.TableConfig("t", 4, max_rows=2)], pt.SGD(0.1), torch.nn.Linear(1, 1)
    store = pt.create(pools / "pool", tables, rule)
    bags = pt.EmbeddingCollection(store, tables, rule)
    sgd = torch.optim.SGD(none.parameters(), lr=0)
    trainer = pt.Trainer(store, bags, none, sgd, overlap=overlap)

    def step(*ids: int) -> None:
        with trainer.step():
            bags({"t": (torch.tensor(ids),)})["t"].sum().backward()

    forget, meanwhile = parts.notes.forget_evicted, threading.Event()

    def forgets(*what: Any) -> None:
        meanwhile.set()
        deadline = time.monotonic() + 0.3
        while trainer.done < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        forget(*what)

    step(1, 2)
    step(3)
    monkeypatch.setattr(parts.notes, "forget_evicted", forgets)
    with ThreadPoolExecutor(1) as other:
        exported = other.submit(trainer.export, tmp_path)
        meanwhile.wait()
        step(4)
        assert trainer.evicted["t"].tolist() == [2] and exported.result().step == 2
    monkeypatch.undo()
    trainer.export(tmp_path)
    with pt.create(pools / "loaded", tables, rule) as loaded:
        parts.load_parts(tmp_path, loaded, tables, rule)
        assert set(held(loaded, "t", 0)) == set(held(store, "t", 0)) == {3, 4}


def test_a_table_whose_name_fills_what_names_may_have_is_exported_and_resumed(
    pools: Path, tmp_path: Path
) -> None:
    """Names of a pool of narrow rows have 16 bytes at most, and those of evicted ids had 8 more
    than the table's: once its first export had failed, no process could resume."""
    import torch
    from perdure import torch as pt
    from perdure.torch import parts

    narrow = {"max_rows": 2}
    tables = [pt.TableConfig("sixteen letters.", 3, **narrow), pt.TableConfig("u", 3, **narrow)]
    rule, none = pt.SGD(0.1), torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(none.parameters(), lr=0)
    with pytest.raises(ValueError, match="'/7': the trainer has tables of such names"):
        pt.TableConfig("/7", 3)
    pt.create(pools / "pool", tables, rule).close()
    for first, done in ((1, 0), (10, 2)):
        with perdure.open(pools / "pool") as store:
            bags = pt.EmbeddingCollection(store, tables, rule)
            trainer = pt.Trainer(store, bags, none, sgd)
            assert trainer.resume() == done
            for at in (first, first + 5):
                ids = torch.tensor([at, at + 1])
                with trainer.step():
                    rows = bags({config.name: (ids,) for config in tables})
                    sum(one.sum() for one in rows.values()).backward()
                part = trainer.export(tmp_path)
                gone = trainer.evicted["u"].tolist() if at > 1 else []
                assert [one["evicted"] for one in part.tables.values()] == [len(gone)] * 2
            with pt.create(pools / "loaded", tables, rule, overwrite=True) as loaded:
                parts.load_parts(tmp_path, loaded, tables, rule)
                for config in tables:
                    rows = held(loaded, config.name, 0)
                    assert rows.keys() == held(store, config.name, 0).keys() == {at, at + 1}


def test_an_export_that_fails_leaves_no_part(
    pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure import torch as pt
    from perdure.torch import parts

    _, _, trainer = trained(str(pools / "pool"), [], 6, pt.SGD(lr=0.05))
    write = parts._as_page
    monkeypatch.setattr(parts, "_as_page", lambda *a: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        trainer.export(tmp_path / "parts")
    assert list((tmp_path / "parts").iterdir()) == []
    assert trainer._keeps_evicted, "from the first try on"
    monkeypatch.setattr(parts, "_as_page", write)
    assert trainer.export(tmp_path / "parts").number == 0


@pytest.mark.framework("safetensors")
def test_a_safetensors_file_is_what_its_library_reads(pools: Path, tmp_path: Path) -> None:
    from perdure import torch as pt
    from safetensors.numpy import load_file

    store, _, _ = trained(
        str(pools / "pool"), [(tmp_path / "parts", 4)], 12, pt.RowWiseAdagrad(lr=0.1), "safetensors"
    )
    parts = sorted((tmp_path / "parts").iterdir())
    names = [f"{what}-{number}.safetensors" for what in ("evicted", "table") for number in range(3)]
    assert [one.name for one in sorted(parts[0].iterdir())] == sorted([*names, "manifest.json"])
    first = load_file(parts[0] / "table-1.safetensors")
    shapes = {name: (one.dtype.name, one.shape[1:]) for name, one in first.items()}
    assert shapes == {
        "id": ("int64", ()),
        "weights": ("float32", (6,)),
        "state": ("float32", (1,)),
        "steps": ("int32", ()),
        "last_step": ("int32", ()),
    }
    rows: dict[int, tuple[bytes, int, int]] = {}
    for part in parts:
        columns = load_file(part / "table-1.safetensors")
        floats = np.concatenate([columns["weights"], columns["state"]], axis=1)
        scores = zip(columns["steps"].tolist(), (12 - columns["last_step"]).tolist(), strict=True)
        for one, row, score in zip(columns["id"].tolist(), floats, scores, strict=True):
            rows[one] = (row.tobytes(), *score)
        for one in load_file(part / "evicted-1.safetensors")["id"].tolist():
            del rows[one]
    assert rows == held(store, "u", 12)


@pytest.mark.parametrize("format", ["parquet", SAFETENSORS])
def test_a_file_that_is_cut_short_is_named(pools: Path, tmp_path: Path, format: str) -> None:
    from perdure import torch as pt
    from perdure.torch import parts

    rule = pt.SGD(0.1)
    store, tables, _ = trained(str(pools / "pool"), [(tmp_path, 3)], 6, rule, format)
    cut = tmp_path / "part-00001" / f"table-2.{format}"
    os.truncate(cut, 30)
    with (
        pt.create(pools / "loaded", tables, rule) as loaded,
        pytest.raises(ValueError, match=f"{cut}: damaged, or cut short"),
    ):
        parts.load_parts(tmp_path, loaded, tables, rule)
    store.close()


@pytest.mark.parametrize("format", ["parquet", SAFETENSORS])
def test_a_file_of_which_a_bit_has_flipped_is_named_or_loads_as_it_was(
    pools: Path, tmp_path: Path, format: str
) -> None:
    from perdure import torch as pt
    from perdure.torch import parts

    rule = pt.Adagrad(0.1)
    store, tables, _ = trained(str(pools / "pool"), [(tmp_path, 3)], 6, rule, format)
    store.close()

    def loaded() -> Any:
        with pt.create("memfd:loaded", tables, rule) as into:
            parts.load_parts(tmp_path, into, tables, rule)
            return {table.name: held(into, table.name, 0) for table in tables}

    expected = loaded()
    random = np.random.default_rng(5)
    refused = []
    files = sorted(one for part in tmp_path.iterdir() for one in part.iterdir())
    for file in files:
        before = file.read_bytes()
        damaged = bytearray(before)
        damaged[random.integers(len(before))] ^= 1 << random.integers(8)
        file.write_bytes(damaged)
        try:
            assert loaded() == expected
        except ValueError as error:
            names = file.parent if file.suffix == ".json" else file
            refused.append((str(error), f"{names}: "))
        file.write_bytes(before)
    assert len(refused) >= len(files) - 2, "but for the names of sums in manifests"
    assert all(said.startswith(names) for said, names in refused)


def test_a_folder_has_one_format(pools: Path, tmp_path: Path) -> None:
    from perdure import torch as pt
    from perdure.torch.parts import parts_of

    folder = tmp_path / "parts"
    _, _, trainer = trained(str(pools / "pool"), [(folder, 3)], 3, pt.SGD(lr=0.1), "safetensors")
    with trainer.step():
        pass
    with pytest.raises(ValueError, match="its parts are safetensors, not parquet"):
        trainer.export(folder, format="parquet")
    with pytest.raises(ValueError, match="pass 'parquet' or 'safetensors'"):
        trainer.export(tmp_path / "other", format="csv")
    assert trainer.export(folder).format == "safetensors"
    manifest = folder / "part-00001" / "manifest.json"
    told = {**json.loads(manifest.read_text()), "format": "parquet"}
    del told["check"]  # as a part from before there was one
    manifest.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="its files are parquet"):
        parts_of(folder)


def test_pages_of_a_file_take_no_more_memory_than_a_page(tmp_path: Path) -> None:
    import tracemalloc

    from perdure.torch.part_files import FORMATS

    columns = {"id": (np.int64, 0), "weights": (np.float32, 16)}
    page = {"id": np.arange(10_000), "weights": np.ones((10_000, 16), np.float32)}
    tracemalloc.start()
    with FORMATS["safetensors"].write(tmp_path / "file", columns) as write:
        for _ in range(40):
            write(page)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "file").stat().st_size > 400_000 * 72
    assert most < 4 << 20
