"""Docstrings of the public surface: examples run, and what is taken, answered and raised is said.

What is public: `perdure.__all__`, `perdure.open`, and what a Store has without an underscore.
"""

from __future__ import annotations

import doctest
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perdure
import pytest

_HEAD = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_STORE = [name for name, _ in inspect.getmembers(perdure.Store) if not name.startswith("_")]
_CALLS = {
    **{name: getattr(perdure, name) for name in ("create", "open", "restore", "devices")},
    **{
        f"Store.{name}": getattr(perdure.Store, name)
        for name in _STORE
        if name not in ("path", "closed")
    },
}
CALLS = {name: call for name, call in _CALLS.items() if callable(call)}
ERRORS = {
    name: kind
    for name, kind in vars(perdure).items()
    if inspect.isclass(kind) and issubclass(kind, perdure.Error)
}


def sections(documented: Any) -> dict[str, str]:
    """The text under each heading of a NumPy-style docstring."""
    text = inspect.getdoc(documented) or ""
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head[1]: text[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def names(section: str) -> list[str]:
    """What a section lists: the names at the beginning of its lines."""
    lines = [line for line in section.splitlines() if line and not line.startswith(" ")]
    return [name.strip("* ") for line in lines for name in line.partition(" : ")[0].split(",")]


def public() -> Iterator[tuple[str, Any]]:
    yield "perdure", perdure
    for name in (*perdure.__all__, "open"):
        if inspect.isclass(getattr(perdure, name)) or inspect.isfunction(getattr(perdure, name)):
            yield name, getattr(perdure, name)
    for name in (*_STORE, "__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__"):
        yield f"Store.{name}", getattr(perdure.Store, name)


EXAMPLES = [(name, thing) for name, thing in public() if ">>>" in (inspect.getdoc(thing) or "")]


@pytest.mark.parametrize(("name", "thing"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples_run_as_they_are_printed(name: str, thing: Any, tmp_path: Path) -> None:
    text = (inspect.getdoc(thing) or "").replace("/dev/shm/", f"{tmp_path}/")
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said: list[str] = []
    failed = doctest.DocTestRunner().run(examples, out=said.append).failed
    assert not failed, "".join(said)


@pytest.mark.parametrize("name", [name for name, _ in public()])
def test_everything_public_says_what_it_is(name: str) -> None:
    text = inspect.getdoc(dict(public())[name]) or ""
    first = text.partition("\n\n")[0]
    assert 10 < len(first) < 120 and first.rstrip().endswith((".", ":")), first


@pytest.mark.parametrize("name", CALLS)
def test_calls_list_their_parameters_their_answer_and_what_they_raise(name: str) -> None:
    call, said = CALLS[name], sections(CALLS[name])
    signature = inspect.signature(call)
    parameters = [one for one in signature.parameters if one != "self"]
    assert names(said.get("Parameters", "")) == parameters
    answers = signature.return_annotation not in (None, "None", "Generator[None, None, None]")
    assert ("Returns" in said or "Yields" in said) == answers
    assert name == "devices" or "Raises" in said
    assert "Examples" in said


@pytest.mark.parametrize("name", CALLS)
def test_what_calls_say_that_they_raise_exists(name: str) -> None:
    builtin = {"TypeError": TypeError, "ValueError": ValueError, "KeyError": KeyError}
    for raised in names(sections(CALLS[name]).get("Raises", "")):
        assert raised in ERRORS or raised in builtin, raised


def test_every_error_is_said_to_be_raised_by_something() -> None:
    said = {raised for call in CALLS.values() for raised in names(sections(call).get("Raises", ""))}
    assert set(ERRORS) - said == {"Error"}


def test_a_star_import_leaves_pythons_open_alone() -> None:
    assert "open" not in perdure.__all__ and isinstance(perdure.open, types.FunctionType)
    bound: dict[str, Any] = {}
    exec("from perdure import *", bound)
    assert bound["create"] is perdure.create and "open" not in bound


@pytest.mark.parametrize(
    "name",
    ["CacheReport", "DeviceInfo", "Glance", "RecoveryReport", "Stats", "Survival", "VerifyReport"],
)
def test_records_list_their_fields(name: str) -> None:
    kind = getattr(perdure, name)
    assert names(sections(kind)["Attributes"]) == list(kind._fields)


def test_statuses_are_explained_and_told_apart_from_errors() -> None:
    assert names(sections(perdure.KeyStatus)["Attributes"]) == list(perdure.KeyStatus.__members__)
    assert "NotFound" in (perdure.KeyStatus.__doc__ or "") and "not_found" in (
        perdure.NotFound.__doc__ or ""
    )


def test_modules_of_the_surface_stay_small() -> None:
    """Each can be held in the head."""
    folder = Path(perdure.__file__).parent
    modules = {Path(inspect.getfile(part)) for part in perdure.Store.__mro__[:-1]}
    for module in modules | {folder / "pools.py", folder / "options.py", folder / "results.py"}:
        assert len(module.read_text("utf-8").splitlines()) < 400, module.name
