"""The README's ten lines of Python, run as they stand but for the path of the pool, and once more
over it."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_readme_python_runs_as_it_stands_twice(pool, capsys):
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    for _ in range(2):
        exec(compile(code.replace("/dev/shm/embeddings.pool", str(pool)), "README.md", "exec"), {})
        said = capsys.readouterr().out
        assert "process kill" in said.replace("_", " ").lower() and said.rstrip().endswith("True")
