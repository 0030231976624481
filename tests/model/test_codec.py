"""Typed values ↔ JSON: nothing is lost, and what is wrong is named with its path and the nearest valid name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.document.codec import decode, decode_arg, decode_format, encode, encode_arg
from espalier.model.document.project import recipe_from_json, recipe_to_json, step_from_json
from espalier.model.document.recipe import Raw, Recipe
from espalier.model.errors import EspalierError, FormatError, OptionsError
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision, Sparsity, TensorMeta, Weight
from espalier.model.graph.node import Arg
from espalier.model.registry import PASSES
from espalier.model.sources.info import SourceInfo
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions
from tests.strategies import args, formats, json_values, metas, recipes, sparsities, weights

fixed = settings(derandomize=True, max_examples=80)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


@dataclass(frozen=True)
class Inner:
    number: float = 1.5
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    """One of every kind of field."""

    count: int
    kind: Literal["a", "b", 3] = "a"
    inner: Inner = field(default_factory=Inner)
    maybe: int | None = None
    either: int | str = 0
    pair: tuple[int, str] = (1, "x")
    table: dict[str, Inner] = field(default_factory=dict)
    flag: bool = False
    fmt: Format | None = None
    anything: Any = None


numbers = st.floats(allow_nan=False)
inners = st.builds(Inner, numbers, st.lists(st.text(max_size=3), max_size=3).map(tuple))
outers = st.builds(
    Outer,
    st.integers(),
    st.sampled_from(("a", "b", 3)),
    inners,
    st.none() | st.integers(),
    st.integers() | st.text(max_size=3),
    st.tuples(st.integers(), st.text(max_size=3)),
    st.dictionaries(st.text(max_size=3), inners, max_size=2),
    st.booleans(),
    st.none() | formats,
)


# -- round trips


@given(outers)
@fixed
def test_dataclasses_round_trip(value: Outer) -> None:
    assert decode(Outer, through_json(encode(value))) == value


@given(formats)
@fixed
def test_formats_round_trip(fmt: Format) -> None:
    for kind in (Format, Integer, Format | None):
        assert decode(kind, through_json(encode(fmt))) == fmt
    assert decode_format(str(fmt)) == fmt and decode_format(fmt) is fmt
    assert through_json(encode(fmt))["name"] == fmt.name


@given(recipes)
@fixed
def test_recipes_round_trip(recipe: Recipe) -> None:
    assert recipe_from_json(through_json(recipe_to_json(recipe))) == recipe


@given(args)
@fixed
def test_arguments_round_trip(value: Arg) -> None:
    back = decode_arg(through_json(encode_arg(value)))
    assert back == value and repr(back) == repr(value)


@given(metas, weights, sparsities, formats)
@fixed
def test_facts_and_choices_round_trip(meta: TensorMeta, weight: Weight, pruned: Sparsity, fmt: Format) -> None:
    for value in (meta, weight, pruned, Precision(fmt), SourceInfo("demo:x", "X", ("a", "b"), 3, None, "d")):
        assert decode(type(value), through_json(encode(value))) == value


@pytest.mark.parametrize("name", list(PASSES))
def test_the_options_of_every_pass_round_trip(name: str) -> None:
    options = PASSES.get(name).options()
    data = through_json(encode(options))
    assert data == {}, "defaults are left out"
    assert decode(PASSES.get(name).options, data) == options
    assert step_from_json({"pass": name}).options == options


def test_numbers_that_json_lacks() -> None:
    for value in (float("inf"), float("-inf")):
        assert decode(Inner, through_json(encode(Inner(value)))) == Inner(value)
        assert decode_arg(through_json(encode_arg((value,)))) == (value,)
    back = decode(Inner, through_json(encode(Inner(float("nan")))))
    assert back.number != back.number


def test_defaults_are_left_out_and_come_back() -> None:
    assert encode(Outer(1)) == {"count": 1}
    assert encode(Outer(1, inner=Inner(2.0))) == {"count": 1, "inner": {"number": 2.0}}
    assert decode(Outer, {"count": 2}) == Outer(2)
    assert decode(Inner, {"number": 3}) == Inner(3.0) and isinstance(decode(Inner, {"number": 3}).number, float)


def test_passes_that_are_not_here_keep_their_options() -> None:
    data = {"steps": [{"pass": "from_elsewhere", "options": {"a": [1, {"b": None}]}, "seed": 4, "enabled": False}]}
    recipe = recipe_from_json(data)
    assert recipe.steps[0].options == Raw({"a": [1, {"b": None}]})
    assert recipe_to_json(recipe) == data


def test_foreign_types_are_a_bug_not_a_file() -> None:
    with pytest.raises(TypeError, match="object"):
        encode(object())


# -- what is wrong is named

RULE = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": {"name": "integer", "width": 8}}}


def wrong(kind: Any, data: Any, path: str = "") -> EspalierError:
    with pytest.raises(EspalierError) as caught:
        decode(kind, data, path)
    assert isinstance(caught.value, OptionsError | FormatError)
    return caught.value


@pytest.mark.parametrize(
    "kind, data, path, near",
    [
        (Outer, {"count": 1, "kid": "a"}, "kid", "kind"),
        (Outer, {"count": 1, "inner": {"numbr": 1}}, "inner.numbr", "number"),
        (Outer, {"count": 1, "table": {"k": {"word": []}}}, "table.k.word", "words"),
        (PruneOptions, {"sparsty": 0.5}, "sparsty", "sparsity"),
        (PruneOptions, {"select": {"bye": "all"}}, "select.bye", "by"),
        (QuantizeOptions, {"rules": [RULE, {**RULE, "format": {}}]}, "rules[1].format", "formats"),
        (QuantizeOptions, {"rules": [{**RULE, "formats": {"weigth": None}}]}, "weigth", "weight"),
        (
            QuantizeOptions,
            {"rules": [{**RULE, "formats": {"weight": {"name": "integer", "widht": 8}}}]},
            "rules[0].formats.weight",
            "width",
        ),
        (
            QuantizeOptions,
            {"rules": [{**RULE, "formats": {"weight": {"name": "interger"}}}]},
            "rules[0].formats.weight",
            "integer",
        ),
    ],
)
def test_unknown_names_give_their_path_and_the_nearest(kind: Any, data: Any, path: str, near: str) -> None:
    error = wrong(kind, data, "steps[2]")
    assert f"steps[2].{path}" in error.message or (path == "weigth" and path in error.message)
    assert near in error.hint


@pytest.mark.parametrize(
    "kind, data, path, what",
    [
        (Outer, {"count": "one"}, "count", "whole number"),
        (Outer, {"count": True}, "count", "whole number"),
        (Outer, {"count": 1.0}, "count", "whole number"),
        (Outer, {"count": 1, "flag": 1}, "flag", "true or false"),
        (Outer, {"count": 1, "inner": {"number": "2"}}, "inner.number", "number"),
        (Outer, {"count": 1, "inner": {"number": True}}, "inner.number", "number"),
        (Outer, {"count": 1, "inner": {"words": "abc"}}, "inner.words", "list"),
        (Outer, {"count": 1, "inner": {"words": ["a", 3]}}, "inner.words[1]", "text"),
        (Outer, {"count": 1, "inner": []}, "inner", "table"),
        (Outer, {"count": 1, "pair": [1]}, "pair", "list of 2"),
        (Outer, {"count": 1, "pair": ["x", 1]}, "pair[0]", "whole number"),
        (Outer, {"count": 1, "table": []}, "table", "table"),
        (Outer, {"count": 1, "kind": "c"}, "kind", "a"),
        (Outer, {"count": 1, "kind": ["a"]}, "kind", "a"),
        (Outer, {"count": 1, "maybe": "x"}, "maybe", "whole number"),
        (Outer, {"count": None}, "count", "whole number"),
        (Outer, {"count": 1, "fmt": 8}, "fmt", "format"),
        (Outer, {"count": 1, "fmt": {"width": 8}}, "fmt", "format"),
        (Outer, {}, "count", "value"),
        (Outer, [], "", "table"),
        (Inner, {"number": {"float": "much"}}, "number", "number"),
        (PruneOptions, {"sparsity": 1.5}, "", "0 to 1"),
        (PruneOptions, {"method": "l11"}, "method", "l1"),
    ],
)
def test_wrong_values_give_their_path_and_what_is_right(kind: Any, data: Any, path: str, what: str) -> None:
    error = wrong(kind, data, "options")
    assert f"options.{path}".rstrip(".") in error.message
    assert what in error.hint


def test_impossible_formats_give_their_path() -> None:
    error = wrong(
        QuantizeOptions, {"rules": [{**RULE, "formats": {"bias": {"name": "integer", "width": 99}}}]}, "steps[0]"
    )
    assert "steps[0].rules[0].formats.bias" in error.message and "width is 99" in error.message
    assert error.hint == "width must be a whole number from 1 to 32."


@pytest.mark.slow
@given(json_values)
@settings(derandomize=True, max_examples=300)
def test_any_json_is_read_or_refused(data: Any) -> None:
    kinds: list[Any] = [Outer, PruneOptions, QuantizeOptions, Format, Weight, TensorMeta, Sparsity, SourceInfo]
    for kind in kinds:
        try:
            decode(kind, data)
        except (OptionsError, FormatError) as error:
            assert error.message and error.hint


steplike = st.fixed_dictionaries(
    {"pass": st.sampled_from(sorted(PASSES)) | json_values},
    optional={
        "options": json_values
        | st.fixed_dictionaries({}, optional={"rules": json_values, "sparsity": json_values, "select": json_values}),
        "seed": json_values,
        "enabled": json_values,
    },
)


@pytest.mark.slow
@given(steplike)
@settings(derandomize=True, max_examples=300)
def test_any_step_is_read_or_refused(data: Any) -> None:
    try:
        step = step_from_json(data)
    except (OptionsError, FormatError) as error:
        assert error.message
    else:
        assert step.pass_name == data["pass"] and isinstance(step.seed, int) and isinstance(step.enabled, bool)


@dataclass(frozen=True)
class Ranged:
    ratio: float | None = field(default=0.5, metadata={"min": 0, "max": 1})
    count: int = field(default=1, metadata={"min": 1})


@pytest.mark.parametrize("good", [{"ratio": 0}, {"ratio": 1.0}, {"ratio": None}, {"count": 1}])
def test_numbers_in_the_range_of_their_metadata(good: dict[str, Any]) -> None:
    assert getattr(decode(Ranged, good), *good) == next(iter(good.values()))


@pytest.mark.parametrize(
    ("wrong", "legal"),
    [({"ratio": 1.5}, "from 0 to 1"), ({"ratio": {"float": "nan"}}, "from 0 to 1"), ({"count": 0}, "at least 1")],
)
def test_numbers_out_of_the_range_of_their_metadata(wrong: dict[str, Any], legal: str) -> None:
    with pytest.raises(OptionsError) as found:
        decode(Ranged, wrong, "options")
    assert found.value.message.startswith(f"options.{next(iter(wrong))} is") and legal in found.value.hint


def test_a_missing_selection_says_what_it_is() -> None:
    """A rule of a quantisation without its selection, as one that writes a recipe by hand forgets it."""
    data = {"rules": [{"formats": {"weight": "integer"}}]}
    with pytest.raises(OptionsError, match=r"rules\[0\]\.select is missing") as found:
        decode(PASSES.get("quantize").options, data)
    assert found.value.hint.startswith("Give it a table of by, values, nodes, where by is one of all, type,")
