"""Writes python/share: man pages and shell completions of `perdure`, told from the command line
itself.

    .venv/bin/python scripts/share.py            after a command or an option has changed
    .venv/bin/python scripts/share.py --check    exit status 1 if a file is not as it would be
    written

The package installs them below share/, where man, bash, zsh and fish look. click-man would write
the pages, but it reads Click's commands, and Typer has had classes of its own since 0.26.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import perdure
import typer
from perdure.cli import app

SHARE = Path(__file__).resolve().parents[1] / "python" / "share"
COMPLETIONS = {
    "bash": "bash-completion/completions/perdure",
    "zsh": "zsh/site-functions/_perdure",
    "fish": "fish/vendor_completions.d/perdure.fish",
}


def quote(text: str) -> str:
    """As roff takes it: no line begins with a control character, and hyphens can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def section(title: str, *lines: str) -> str:
    return "\n".join([f".SH {title}", *lines])


def entries(records: list[tuple[str, str]]) -> list[str]:
    return [line for name, text in records for line in (".TP", f".B {quote(name)}", quote(text))]


def parts_of(command: Any) -> list[tuple[str, str]]:
    """The commands below a command, with what they do."""
    below = getattr(command, "commands", {})
    return [(name, " ".join(one.help.split())) for name, one in below.items()]


def page(context: Any, seen: list[tuple[str, str]]) -> str:
    """The manual page of one command; `seen` are those to see also, with what they do."""
    command, path = context.command, context.command_path
    records = {"argument": [], "option": []}
    for one in command.get_params(context):
        record = one.get_help_record(context)
        if record is not None:
            records[one.param_type_name].append(record)
    name = path.replace(" ", "-")
    usage = " ".join(command.collect_usage_pieces(context))
    about = " ".join(command.help.split())
    parts = [
        f'.TH "{name.upper()}" "1" "" "perdure {perdure.__version__}" "Perdure"',
        section("NAME", f"{quote(name)} \\- {quote(about)}"),
        section("SYNOPSIS", f".B {quote(path)}", quote(usage)),
        section("DESCRIPTION", quote(about)),
    ]
    if records["argument"]:
        parts.append(section("ARGUMENTS", *entries(records["argument"])))
    parts.append(section("OPTIONS", *entries(records["option"])))
    own = seen if command is context.find_root().command else parts_of(command)
    if own:
        parts.append(section("COMMANDS", *entries([(f"{path} {one}", text) for one, text in own])))
    parts.append(
        section(
            "EXIT STATUS",
            *entries(
                [
                    ("0", "good"),
                    ("1", "faults were found, some rows were rejected, or the key is not there"),
                    ("2", "wrong usage, or the command could not run"),
                ]
            ),
        )
    )
    also = [f"perdure-{one}" for one, _ in seen if path != f"perdure {one}"]
    also = ["perdure", *also] if path != "perdure" else also
    parts.append(section("SEE ALSO", ", ".join(f"\\fB{quote(one)}\\fR(1)" for one in also)))
    return "\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    group = typer.main.get_command(app)
    root = typer.Context(group, info_name="perdure", **group.context_settings)
    names = [
        name for name in group.list_commands(root) if name != "explore"
    ]  # which wheels are without
    commands = {name: group.resolve_command(root, [name])[1] for name in names}
    seen = [(name, " ".join(command.help.split())) for name, command in commands.items()]
    written = {"man/man1/perdure.1": page(root, seen)}
    for name, command in commands.items():
        context = typer.Context(command, info_name=name, parent=root)
        written[f"man/man1/perdure-{name}.1"] = page(context, seen)
        for part, one in getattr(command, "commands", {}).items():
            below = typer.Context(one, info_name=part, parent=context)
            written[f"man/man1/perdure-{name}-{part}.1"] = page(below, seen)
    return written


def completions() -> dict[str, str]:
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    found = {}
    for shell, path in COMPLETIONS.items():
        # By the name of the script: Typer names the program in it.
        code = f"import sys; sys.argv = ['perdure', '--show-completion', {shell!r}]"
        code += "; from perdure.cli import main; main()"
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found[path] = run.stdout
    return found


def main() -> int:
    expected = pages() | completions()
    there = {str(path.relative_to(SHARE)): path for path in SHARE.rglob("*") if path.is_file()}
    stale = [name for name in there if name not in expected]
    other = [
        name
        for name, text in expected.items()
        if name not in there or there[name].read_text() != text
    ]
    if "--check" in sys.argv[1:]:
        for name in stale + other:
            print(f"python/share/{name}: not as scripts/share.py writes it")
        return 1 if stale or other else 0
    for name in stale:
        there[name].unlink()
    for name in other:
        (SHARE / name).parent.mkdir(parents=True, exist_ok=True)
        (SHARE / name).write_text(expected[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
