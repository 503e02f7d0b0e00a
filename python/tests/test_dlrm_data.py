"""examples/dlrm/data.py: both formats against lines written by hand, and batches that follow from
the step."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "dlrm"
HEADER = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,"
    "user-item_affinity_0,user-item_affinity_1,user-item_affinity_2"
)
ROW = "0,2019-11-24 06:00:17.004101+00:00,2,3,1,0.5,ffffffffffffffff01,0a,1.0,0.0,3.0"


@pytest.fixture(scope="module")
def data() -> Any:
    spec = importlib.util.spec_from_file_location("dlrm_data", FOLDER / "data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def written(folder: Path, *lines: str) -> Path:
    path = folder / "clicks.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def criteo(label: str = "0", **cells: str) -> str:
    """A line whose cells are empty but for those that are named."""
    names = [*(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    return "\t".join([label, *(cells.get(name, "") for name in names)])


def test_criteo_lines(data: Any, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        criteo("1", I1="4", I2="-2", I13="0", C1="68fd1e64", C26="ffffffff"),
        criteo("0", C1="00000001"),
        criteo("0", I1="0", C26="a"),
    )
    clicks = data.read(path)
    assert (len(clicks), clicks.clicked, clicks.numbers, clicks.distinct_ids()) == (3, 1, 13, 4)
    whole = clicks.rows(np.array([2, 0, 1]))
    assert whole.labels.tolist() == [0, 1, 0] and whole.labels.dtype == np.float32
    assert whole.dense.dtype == np.float32 and whole.dense[[0, 2]].any() == np.False_
    assert whole.dense[1].tolist() == [np.float32(math.log(5)), *[0] * 12]
    assert list(whole.features) == [f"C{i}" for i in range(1, 27)]
    first, last, empty = (whole.features[name] for name in ("C1", "C26", "C9"))
    assert first.ids.tolist() == [0x68FD1E64, 1] and first.lengths.tolist() == [0, 1, 1]
    assert last.ids.tolist() == [10, 0xFFFFFFFF] and last.lengths.tolist() == [1, 1, 0]
    assert empty.ids.dtype == np.int64 and empty.lengths.tolist() == [0, 0, 0]
    assert first.weights is None


def test_open_bandit_lines(data: Any, tmp_path: Path) -> None:
    bare = "1,2019-11-24 00:00:00+00:00,1,1,0,1.0,8000000000000000,,0.0,0.0,0.0"
    clicks = data.read(written(tmp_path, HEADER, ROW, bare))
    assert clicks.tables["clicked_before"] == clicks.tables["item"] == "item"
    assert clicks.distinct_ids() == 3 + 2 + 2 + 1
    whole = clicks.rows(np.arange(2))
    assert np.allclose(whole.dense[0], [1, 0, math.log(0.5), math.log(4), math.log(5)], atol=1e-6)
    assert np.allclose(whole.dense[1], [0, 1, 0, 0, 0], atol=1e-6)
    before = whole.features["clicked_before"]
    assert before.ids.tolist() == [0, 2] and before.lengths.tolist() == [2, 0]
    assert before.weights.tolist() == [1, 3] and before.weights.dtype == np.float32
    assert whole.features["item"].ids.tolist() == [2, 1]
    assert whole.features["user_feature_0"].ids.tolist() == [-1, -(2**63)]
    assert whole.features["user_feature_1"].lengths.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("lines", "number", "says"),
    [
        ([criteo(), criteo() + "\t"], 2, "41 columns"),
        ([criteo("2")], 1, "the label is '2'"),
        ([criteo(), criteo(), criteo(I3="1.5")], 3, "I3 is '1.5', and should be an integer"),
        ([criteo(C2="xyz")], 1, "C2 is 'xyz', and should be hexadecimal"),
        ([HEADER + ",colour", ROW + ",red"], 1, "unknown columns ['colour'], missing columns []"),
        ([HEADER.replace(",click,", ",clicks,"), ROW], 1, "missing columns ['click']"),
        ([HEADER.replace("_feature_1", "_feature_0"), ROW], 1, "missing columns"),
        ([HEADER.replace("affinity_1", "affinity_7"), ROW], 1, "['user-item_affinity_7']"),
        ([HEADER + ",click", ROW + ",0"], 1, "a column is there twice"),
        ([HEADER, ROW, ROW + ",0"], 3, "12 columns, and the header has 11"),
        ([HEADER, ROW.replace("3.0", "nan")], 2, "user-item_affinity_2 is 'nan'"),
        ([HEADER, ROW.replace(",0.5,", ",0.0,")], 2, "propensity_score is 0.0"),
        ([HEADER, ROW.replace("2019-11-24 ", "")], 2, "has no hour"),
        ([HEADER], 1, "no rows follow the header"),
        ([], 1, "neither Criteo's 40 columns nor"),
    ],
)
def test_what_is_refused_and_in_which_line(
    data: Any, tmp_path: Path, lines: list[str], number: int, says: str
) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(data.DataError) as refused:
        data.read(path)
    said = str(refused.value)
    assert said.startswith(f"{path}, line {number}: ") and says in said and "\n" not in said


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_packed_files_and_a_limit(data: Any, tmp_path: Path, suffix: str, pack: Any) -> None:
    path = tmp_path / f"clicks.tsv{suffix}"
    path.write_bytes(pack("\r\n".join([criteo("1"), criteo("0"), criteo("1")]).encode()))
    assert len(data.read(path)) == 3
    assert (len(data.read(path, 2)), data.read(path, 2).clicked) == (2, 1)
    assert len(data.read(path, 1)) == 1


def test_a_batch_follows_from_its_step_and_a_pass_has_each_row_once(
    data: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, *(criteo(I1=str(i), C1=f"{i:x}") for i in range(10)))
    clicks, again = data.read(path), data.read(path)
    steps = [clicks.batch(step, 3).features["C1"].ids.tolist() for step in range(6)]
    assert again.batch(4, 3).features["C1"].ids.tolist() == steps[4]
    for epoch in (steps[:3], steps[3:]):
        assert len({one for step in epoch for one in step}) == 9
    assert steps[:3] != steps[3:]
    batch = clicks.batch(5, 3)
    assert np.allclose(batch.dense[:, 0], np.log1p(batch.features["C1"].ids))
    with pytest.raises(data.DataError, match="the file has 10 rows"):
        clicks.batch(0, 11)


def test_the_sample(data: Any) -> None:
    clicks = data.read(data.SAMPLE)
    assert (len(clicks), clicks.clicked, clicks.numbers, len(clicks.tables)) == (10_000, 42, 5, 7)
    batch = clicks.rows(np.arange(len(clicks)))
    assert batch.features["clicked_before"].lengths.sum() == 517
    assert all(len(bags.lengths) == 10_000 for bags in batch.features.values())
