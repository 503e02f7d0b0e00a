"""The README's ten lines of Python, run as they stand but for the path of the pool, and once more
over it; and the Python of the pages that a new user reads first."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"


def test_readme_python_runs_as_it_stands_twice(pool, capsys):
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    for _ in range(2):
        exec(compile(code.replace("/dev/shm/embeddings.pool", str(pool)), "README.md", "exec"), {})
        said = capsys.readouterr().out
        assert "process kill" in said.replace("_", " ").lower() and said.rstrip().endswith("True")


@pytest.mark.parametrize("page", ["index.md", "start.md", "guide/python.md"])
def test_python_of_the_pages_runs(page, tmp_path):
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    blocks = [block for block in blocks if "log_dir" not in block]  # that needs a disk
    if find_spec("perdure._rocks") is None and os.environ.get("PERDURE_OFFLINE", "0") != "0":
        blocks = [block for block in blocks if "perdure.rocks" not in block]
    assert blocks
    for block in blocks:
        code = block.replace("/dev/shm/", f"{tmp_path}/")
        exec(compile(code, page, "exec"), names)


def test_the_page_of_the_api_has_every_public_name():
    import perdure

    page = (DOCS / "api" / "python.md").read_text()
    listed = set(re.findall(r"auto\w+:: perdure\.(\w+)$", page, re.MULTILINE))
    assert set(perdure.__all__) - {"__version__", "built_with_cuda"} <= listed
