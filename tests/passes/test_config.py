"""Recipes as people write them: typed, in TOML and JSON; typos are named with their path."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from espalier.model.document.codec import decode_format
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, FormatError, OptionsError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.passes.base import NoOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.select import Select
from tests.strategies import recipes

PORTS = {p: Integer(8, 4) for p in ("data_in", "weight", "bias")}
LINEAR = Rule(Select("type", ("linear",)), PORTS)  # type: ignore[arg-type]


def test_an_alias_says_what_it_means() -> None:
    assert parse_format("int4") == parse_format("scaled_integer(width=4)")
    assert parse_format("affine(width=4)") == parse_format("scaled_integer(width=4, symmetric=false)")
    assert parse_format("zero_one") == parse_format("binary(bipolar=false)")
    assert parse_format("LinearInteger(width=6)") == parse_format("FixedPoint(width=6)") == Integer(6)
    assert decode_format({"name": "Block_FP"}) == parse_format("bfp")
    with pytest.raises(FormatError, match="There is no format 'linearintegr'"):
        parse_format("linearintegr")


def test_rules_name_the_gradient() -> None:
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "integer"}, "gradient": "identity"}
    recipe = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": [rule]}}]})
    assert recipe.steps[0].options.rules[0].gradient == "identity"
    assert load_recipe(json.loads(json.dumps(recipe_to_dict(recipe)))) == recipe
    error = wrong({"steps": [{"pass": "quantize", "options": {"rules": [{**rule, "gradient": "idenity"}]}}]})
    assert "gradient" in error.message and "'identity'" in error.hint


def test_the_callers_dict_is_left_alone() -> None:
    data = {"steps": [{"pass": "prune", "options": {"sparsity": 0.3, "select": {"by": "all"}}}]}
    kept = copy.deepcopy(data)
    first, second = load_recipe(data), load_recipe(data)
    assert data == kept and json.dumps(data) == json.dumps(kept) and first == second


# -- our own form

STEPS = Recipe((
    Step("quantize", QuantizeOptions((LINEAR, Rule(Select("regex", ("head$",)), {"weight": None})))),
    Step("prune", PruneOptions(0.3, "random", "global", Select("name", ("a", "b"))), seed=4, enabled=False),
    Step("remove_dropout", NoOptions()),
))  # fmt: skip

TOML = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "type", values = ["linear"]}
formats = {data_in = "integer(width=8, frac_width=4)", weight = {name = "integer", width = 8}, bias = "integer"}
[[steps.options.rules]]
select = {by = "regex", values = ["head$"]}
[steps.options.rules.formats]

[[steps]]
pass = "prune"
seed = 4
enabled = false
options = {sparsity = 0.3, method = "random", scope = "global", select = {by = "name", values = ["a", "b"]}}

[[steps]]
pass = "remove_dropout"
"""


def test_recipes_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(TOML)
    recipe = load_recipe(path)
    assert recipe.steps[0] == Step("quantize", QuantizeOptions((LINEAR, Rule(Select("regex", ("head$",)), {}))))
    assert recipe.steps[1:] == STEPS.steps[1:]


def test_recipes_in_json(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe_to_dict(STEPS)))
    assert load_recipe(path) == load_recipe(str(path)) == STEPS
    path.write_text(json.dumps({"prune": {"sparsity": 0.5}}))
    assert load_recipe(path, seed=3) == Recipe((Step("prune", PruneOptions(0.5), 3),))


@given(recipes)
@settings(derandomize=True, max_examples=60)
def test_any_recipe_round_trips(recipe: Recipe) -> None:
    assert load_recipe(json.loads(json.dumps(recipe_to_dict(recipe)))) == recipe


def test_seeds_are_for_steps_that_name_none() -> None:
    recipe = load_recipe({"steps": [{"pass": "remove_dropout"}, {"pass": "remove_dropout", "seed": 0}]}, seed=7)
    assert [s.seed for s in recipe.steps] == [7, 0]


# -- what is wrong


def wrong(data: Any) -> EspalierError:
    with pytest.raises((OptionsError, FormatError)) as caught:
        load_recipe(data)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "data, path, hint",
    [
        ({"prun": {}}, "'prun'", "prune"),
        ({"steps": [{"pass": "prune", "option": {}}]}, "Step 1 (prune): option", "options"),
        ({"steps": [{"pass": "prune", "options": {"sparsty": 1}}]}, "Step 1 (prune): options.sparsty", "sparsity"),
        ({"steps": [{}, {"pass": "prune"}]}, "Step 1: pass", "pass"),
        ({"steps": [{"pass": 3}]}, "Step 1 (3): pass", "text"),
        ({"steps": [{"pass": "prune", "seed": "x"}]}, "Step 1 (prune): seed", "whole number"),
        ({"steps": [{"pass": "prune", "enabled": 1}]}, "Step 1 (prune): enabled", "true or false"),
        ({"steps": [{"pass": "prune", "options": [1]}]}, "Step 1 (prune): options", "table"),
        ({"steps": ["prune"]}, "Step 1 is", "pass"),
        ({"steps": [{"pass": "prune"}, {"pass": "prun"}]}, "Step 2 (prun): There is no pass", "'prune'"),
        ({"steps": {"pass": "prune"}}, "steps", "["),
        ({"steps": [], "step": 1}, "step", "steps"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_path(data: Any, path: str, hint: str) -> None:
    error = wrong(data)
    assert path in error.message and hint in error.hint, (error.message, error.hint)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="no recipe"):
        load_recipe(tmp_path / "none.toml")
    for name, text in (
        ("a.toml", b"x = ["),
        ("b.json", b"{"),
        ("c.json", b"[1]"),
        ("d.toml", b"\xff"),
        ("e.json", b"[" * 9999),
    ):
        (tmp_path / name).write_bytes(text)
        assert name in wrong(tmp_path / name).message
    with pytest.raises(OptionsError):
        load_recipe(tmp_path)


def test_a_pass_that_nobody_has_names_the_nearest() -> None:
    with pytest.raises(OptionsError) as caught:
        load_recipe({"quantise_transform_pass": {}})
    assert caught.value.hint == "Did you mean 'quantize_transform_pass'?"
    with pytest.raises(OptionsError) as caught:
        load_recipe({"xyzzy_plugh": {}})
    assert caught.value.hint.count(",") == 2 and len(caught.value.hint) < 200 and "--plugin" in caught.value.hint
