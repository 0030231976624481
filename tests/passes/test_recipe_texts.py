"""Recipes from text: TOML, JSON and notebook cells, none of which is executed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.export.recipe import to_toml
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.pasted import load_recipe_file, parse_recipe

LABS = """
from chop.pipelines import CompressionPipeline
import os

quantization_config = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8,
                          "weight_frac_width": 4, "bias_width": 8, "bias_frac_width": 4}},
}
pruning_config = {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}}

pipe = CompressionPipeline()
os.system("touch RAN")
mg, _ = pipe(mg, pass_args={"quantize_transform_pass": quantization_config})
pass_args = {
    "quantize_transform_pass": quantization_config,
    "prune_transform_pass": pruning_config,
}
"""


def test_the_labs_dict_with_names_from_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(LABS)
    assert [s.pass_name for s in recipe.steps] == ["quantize", "prune"]
    assert recipe.steps[1].options.sparsity == 0.5
    assert not (tmp_path / "RAN").exists()


def test_a_bare_dict_of_python() -> None:
    text = "{'prune': {'sparsity': 0.25}, 'quantize': {'by': 'type', 'default': {'config': {'name': None}}}}"
    recipe = parse_recipe(text, seed=7)
    assert recipe.steps[0].options.sparsity == 0.25 and recipe.steps[0].seed == 7


def test_json_and_toml_as_they_are_exported(tmp_path: Path) -> None:
    recipe = parse_recipe(LABS)
    data = recipe_to_dict(recipe)
    assert parse_recipe(json.dumps(data)) == recipe
    assert parse_recipe(to_toml(data)) == recipe
    (tmp_path / "notebook.py").write_text(LABS)
    assert load_recipe_file(tmp_path / "notebook.py") == recipe


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "no recipe"), ("hello", "no recipe"), ("[1, 2]", "no recipe"), ("{", "no recipe"), ("f()", "no recipe"),
     ("steps = []", "no steps"), ('{"prun": {}}', "prun"), ('{"prune": {"sparsty": 1}}', "sparsty"),
     ("x = {'prune': open('f')}", "no recipe"), ("((" * 500, "no recipe")],
)  # fmt: skip
def test_what_is_no_recipe(text: str, told: str) -> None:
    with pytest.raises(EspalierError, match=told):
        parse_recipe(text)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    for name, told in (("x.json", "cannot be read"), ("missing.toml", "no recipe")):
        with pytest.raises(OptionsError, match=told):
            load_recipe_file(tmp_path / name)
