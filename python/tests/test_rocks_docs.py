"""Docstrings of perdure.rocks, as test_docs.py has them of the rest: examples run, and what is
taken, answered and raised is said."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perdure
import pytest
from rocks_world import rocks
from test_docs import names, sections

ALSO = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__")


def public() -> Iterator[tuple[str, Any]]:
    yield "rocks", rocks
    yield "open", rocks.open
    yield "Ranges", rocks.Ranges
    for kind in (rocks.Database, rocks.Snapshot):
        yield kind.__name__, kind
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") or (kind is rocks.Database and name in ALSO):
                yield f"{kind.__name__}.{name}", member


CALLS = {
    name: call
    for name, call in public()
    if inspect.isfunction(call) and call.__name__ not in ("__contains__", "__iter__")
}
EXAMPLES = {name: thing for name, thing in public() if ">>>" in (inspect.getdoc(thing) or "")}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_as_they_are_printed(name: str, pools: Path) -> None:
    text = (inspect.getdoc(EXAMPLES[name]) or "").replace("/dev/shm/", f"{pools}/")
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said: list[str] = []
    failed = doctest.DocTestRunner().run(examples, out=said.append).failed
    assert not failed, "".join(said)


@pytest.mark.parametrize("name", [name for name, _ in public()])
def test_everything_public_says_what_it_is(name: str) -> None:
    first = (inspect.getdoc(dict(public())[name]) or "").partition("\n\n")[0]
    assert 10 < len(first) < 120 and first.rstrip().endswith((".", ":")), first


@pytest.mark.parametrize("name", CALLS)
def test_calls_list_their_parameters_their_answer_and_what_they_raise(name: str) -> None:
    call, said = CALLS[name], sections(CALLS[name])
    signature = inspect.signature(call)
    parameters = [one for one in signature.parameters if one != "self"]
    assert names(said.get("Parameters", "")) == parameters
    answers = signature.return_annotation not in (None, "None")
    assert ("Returns" in said or "Yields" in said) == answers
    assert name == "Snapshot.release" or "Raises" in said
    assert "Examples" in said or name.endswith("item__")
    builtin = {"TypeError": TypeError, "ValueError": ValueError, "KeyError": KeyError}
    for raised in names(said.get("Raises", "")):
        assert raised in builtin or issubclass(getattr(perdure, raised), perdure.Error)


def test_modules_of_the_surface_stay_small() -> None:
    modules = {Path(inspect.getfile(part)) for part in rocks.Database.__mro__[:-1]}
    for module in modules | {Path(rocks.__file__)}:
        assert len(module.read_text("utf-8").splitlines()) < 400, module.name
