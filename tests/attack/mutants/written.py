"""What people write: recipes, searches, sweeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

# -- what people write


RECIPE: dict[str, Any] = {"steps": [
    {"pass": "quantize", "options": {"rules": [{"select": {"by": "type", "values": ["linear"]}, "formats": {
        "weight": "integer(width=6, frac_width=4)", "data_in": {"name": "integer", "width": 8, "frac_width": 4}}}]}},
    {"pass": "prune", "options": {"sparsity": 0.4, "method": "l1", "scope": "global"}, "seed": 3},
    {"pass": "remove_dropout", "enabled": False},
]}  # fmt: skip
TOML = """
[[steps]]
pass = "prune"
seed = 3
[steps.options]
sparsity = 0.5
method = "random"
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "regex", values = ["^first"]}
formats = {weight = "mxint", bias = "float"}
"""
LABS = {
    "quantize_transform_pass": {
        "by": "type", "default": {"config": {"name": None}},
        "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8,
                              "weight_frac_width": 4, "bias_width": 8, "bias_frac_width": 4}}},
    "prune_transform_pass": {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}},
}  # fmt: skip


def recipes(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(RECIPE))
    (folder / "b.toml").write_text(TOML)
    (folder / "c.json").write_text(json.dumps(LABS))
    (folder / "d.py").write_text(f"options = {LABS!r}\n")


def run_recipe(path: Path, rng: Random) -> None:
    from espalier.passes.base import Context
    from espalier.passes.recipes.config import load_recipe, recipe_to_dict
    from espalier.passes.recipes.pasted import load_recipe_file
    from espalier.passes.recipes.replay import replay
    from tests.model.zoo import case

    recipe = load_recipe_file(path)
    if path.suffix != ".py":
        recipe = load_recipe(path)
    json.dumps(recipe_to_dict(recipe))
    held = case("mlp")
    replay(held.graph, recipe, Context(held.store))


SEARCH = """
study = "s"
goals = ["accuracy", {figure = "weight_bits", weight = 2.0}]
within = ["size_bytes < 1000"]
sampler = "random"
trials = 12
[[space]]
per = "type"
select = {by = "all"}
ports = ["weight"]
values = "integer(width=2|4|6|8)"
[[space]]
kind = "option"
key = "prune.sparsity"
values = "0.1:0.9:0.2"
[score]
data = "demo:digits-mlp"
limit = 60
[[steps]]
pass = "prune"
[steps.options]
sparsity = 0.5
"""


def searches(folder: Path) -> None:
    import tomllib

    from espalier.app.features.search.commands.search_files import TEMPLATES
    from tests.model.zoo import case

    _ = case("mlp"), case("bert")  # traced once, which is no part of what is timed
    (folder / "a.toml").write_text(SEARCH)
    (folder / "b.json").write_text(json.dumps(tomllib.loads(SEARCH)))
    for path in sorted(TEMPLATES.glob("*.toml")):
        shutil.copyfile(path, folder / path.name)


def prepare(path: Path, rng: Random) -> None:
    from dataclasses import replace

    from espalier.model.document.codec import encode
    from espalier.passes.base import Context
    from espalier.passes.recipes.replay import Memo
    from espalier.passes.search.prepare import prepared as prepare
    from espalier.passes.search.search import Search
    from espalier.passes.search.spec_file import filled, load_search, search_to_dict
    from tests.model.zoo import case

    recipe, spec = load_search(path)
    search_to_dict(spec)
    held = case("mlp" if path.stem in ("a", "b") else "bert")
    score = spec.score if spec.score.data else replace(spec.score, data="demo:digits-mlp", limit=20)
    spec = replace(spec, score=score)
    search = Search(spec, filled(recipe, score), held.graph)
    json.dumps(encode(spec))
    prepare(search, Context(held.store), Memo())


SWEEP: dict[str, Any] = {**RECIPE, "over": "prune.sparsity=0.1:0.9:0.1", "along": ["quantize.weight.width=4:12:1"],
                         "variants": ["prune.method=l1,random"], "seeds": 2, "title": "t",
                         "score": {"data": "demo:digits-mlp", "limit": 20}}  # fmt: skip
SWEEP_TOML = 'over = "prune.sparsity=0.1:0.9:0.1"\nvariants = "prune.method=l1,random"\nseeds = 3\n' + TOML


def sweeps(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(SWEEP))
    (folder / "b.toml").write_text(SWEEP_TOML)


def points(path: Path, rng: Random) -> None:
    from espalier.passes.sweep.spec import build_sweep, load_spec
    from espalier.passes.sweep.sweep import points

    recipe, wish = load_spec(path)
    if wish.varies:
        points(build_sweep(recipe, wish, wish.score))
