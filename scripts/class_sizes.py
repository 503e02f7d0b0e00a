"""How many members the classes of the sources have, largest first: scripts/class_sizes.py [N]

Members are the distinct names of data and functions of a class or struct, inherited ones not among
them, without constructors, destructors and operators. Needs Universal Ctags (apt-get install
universal-ctags).
"""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "include", "bench", "baselines")
MOST = 30
MEMBERS = {"member", "prototype", "function"}
CLASSES = ("class:", "struct:")
SCOPES = (*CLASSES, "namespace:")


def members() -> dict[str, set[str]]:
    command = ["ctags", "-R", "--languages=C++", "--c++-kinds=+p-d", "--fields=+sK", "-f", "-"]
    try:
        tags = subprocess.run(
            [*command, *FOLDERS], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    except FileNotFoundError:
        sys.exit("class_sizes: no ctags here (apt-get install universal-ctags)")
    found: dict[str, set[str]] = collections.defaultdict(set)
    for line in tags.splitlines():
        name, _, _, kind, *fields = line.split("\t")
        if kind in {"class", "struct"}:
            scope = next((f.split(":", 1)[1] for f in fields if f.startswith(SCOPES)), "")
            found.setdefault(f"{scope}::{name}" if scope else name, set())
        owner = next((f.split(":", 1)[1] for f in fields if f.startswith(CLASSES)), None)
        if kind not in MEMBERS or owner is None:
            continue
        own = owner.rsplit("::", 1)[-1]
        if name not in {own, f"~{own}"} and not name.startswith("operator"):
            found[owner].add(name)
    return found


def main() -> int:
    shown = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    sizes = sorted(((len(names), owner) for owner, names in members().items()), reverse=True)
    large = sum(size > MOST for size, _ in sizes)
    print(f"{len(sizes)} classes, {large} with more than {MOST} members")
    for size, owner in sizes[:shown]:
        print(f"{size:5d}  {owner}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
