"""Options of stores: each is defined, documented and checked in one place, and reaches the
engine."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields

import perdure
import pytest
from perdure import GPHash, Options, _native

CLASSES = (Options, GPHash)
OTHERS = {  # another value than the default, of every option
    Options: {
        "verify_reads": False,
        "count_accesses": True,
        "lock_memory": True,
        "displacement": False,
        "grow": False,
        "residency": "pm",
        "gather": "by_host",
        "gets_by": "measured",
        "memory_budget": 1 << 20,
        "cache_bytes": 1 << 10,
        "cache_policy": "random",
        "collectors": 2,
        "most_queued": 3,
    },
    GPHash: {"layout": "in_place", "levels": 3, "hashes": 1, "slots": 4},
}


def taken(options: Options | GPHash) -> dict[str, object]:
    """What the engine is told."""
    expected = _native.OpenOptions() if isinstance(options, Options) else _native.CreateOptions()
    options.fill(expected)  # type: ignore[arg-type]
    told = {name: getattr(expected, name) for name in dir(expected) if not name.startswith("_")}
    return {name: repr(value) if name == "shape" else value for name, value in told.items()}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, field.name) for kind in CLASSES for field in fields(kind)]
)
def test_every_option_reaches_the_engine_and_no_other_changes(kind, name):
    usual, other = taken(kind()), taken(kind(**{name: OTHERS[kind][name]}))
    changed = {one for one in usual if usual[one] != other[one]}
    assert changed == {name if name in usual else "shape"}


def test_the_defaults_are_the_engines_own():
    untouched = {name: getattr(_native.OpenOptions(), name) for name in taken(Options())}
    assert taken(Options()) == untouched
    assert (
        taken(GPHash())["shape"] == "2L-2H-8S" and taken(GPHash())["layout"] is _native.Layout.word
    )


def test_an_option_has_one_home():
    """What a class holds is no parameter of any call."""
    rare = {field.name for kind in CLASSES for field in fields(kind)}
    for call in (perdure.create, perdure.open, perdure.restore):
        given = set(inspect.signature(call).parameters)
        assert not given & rare and {"device", "threads", "options"} <= given


@pytest.mark.parametrize("kind", CLASSES)
def test_options_are_documented_frozen_and_shown(kind):
    documented = [
        line.split(" : ")[0].strip() for line in (kind.__doc__ or "").splitlines() if " : " in line
    ]
    assert documented == [field.name for field in fields(kind)]
    options = kind(**OTHERS[kind])
    assert eval(repr(options), {kind.__name__: kind}) == options != kind()
    with pytest.raises(FrozenInstanceError):
        setattr(options, fields(kind)[0].name, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"residency": "elsewhere"},
            "residency: 'elsewhere' is not one of 'automatic', 'pm', 'mirrored'",
        ),
        ({"gather": None}, "gather: None is not one of 'automatic', 'at_once'"),
        ({"cache_policy": "mru"}, "cache_policy: 'mru' is not one of 'lfu', 'lru', 'random'"),
        ({"memory_budget": 0}, "memory_budget: 0 is out of range; pass at least 1"),
        ({"cache_bytes": 1e9}, "cache_bytes: expected a whole number, not 1000000000.0"),
        ({"collectors": 0}, "collectors: 0 is out of range; pass at least 1"),
        ({"collectors": 1 << 32}, "collectors: 4294967296 is .* pass at most 4294967295"),
        ({"most_queued": "8"}, "most_queued: expected a whole number, not '8'"),
        ({"grow": "no"}, "grow: expected True or False, not 'no'"),
        ({"lock_memory": 1}, "lock_memory: expected True or False, not 1"),
    ],
)
def test_options_that_cannot_be_are_refused_when_they_are_made(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "heap"}, "layout: 'heap' is not one of 'word', 'in_place', 'log'"),
        ({"levels": 0}, "levels: 0 is out of range; pass at least 1"),
        ({"slots": 8.0}, "slots: expected a whole number, not 8.0"),
    ],
)
def test_an_index_that_cannot_be_is_refused_when_it_is_made(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GPHash(**options)
