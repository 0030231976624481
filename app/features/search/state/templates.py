"""Templates of searches: built-in ones, those in files, and one that fits any model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from espalier.app.widgets.style import RESOURCES
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category, offered
from espalier.passes.export.recipe import pairs
from espalier.passes.recipes.config import read_file, recipe_to_dict
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.goals import with_main
from espalier.passes.search.spec import Goal, SearchSpec, Vary
from espalier.passes.search.spec_file import load_search, search_to_dict
from espalier.passes.select import Select

KINDS = ("linear", "embedding")
ROWS = ("goals", "space", "steps")  # written as separate tables
BITS = 4.5  # average bits per weight in the default search
FOLDER = RESOURCES / "studies"
NAMES = {"nas": "NAS", "lora": "LoRA"}


@dataclass(frozen=True, slots=True)
class Template:
    """A search in a file: name, description and path."""

    title: str
    about: str
    path: Path


def templates(folder: Path = FOLDER) -> tuple[Template, ...]:
    """The templates, sorted by name, without unreadable ones."""
    loaded: list[Template] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            about = str(read_file(path).get("about", ""))
        except EspalierError:
            continue
        loaded.append(Template(_title(path.stem), " ".join(about.split()), path))
    return tuple(loaded)


def _title(stem: str) -> str:
    """`nas` → NAS, `lora-rank` → LoRA rank, `all-formats` → All formats."""
    parts = [NAMES.get(w, w) for w in stem.split("-")]
    if parts[0] not in NAMES.values():
        parts[0] = parts[0].capitalize()
    return " ".join(parts)


def load(path: Path, score: EvaluateOptions, main: str = "accuracy") -> tuple[Recipe, SearchSpec]:
    """The search in a file, on the data in use if it names none; `main`: the task's metric. Raises OptionsError."""
    recipe, spec = load_search(path)
    spec = with_main(spec, main)
    return recipe, spec if spec.score.data else replace(spec, score=score)


def to_toml(spec: SearchSpec, recipe: Recipe) -> str:
    """A search as TOML for `load` and the command line."""
    tables = {**search_to_dict(spec), **(recipe_to_dict(recipe) if recipe.steps else {})}
    rows = {k: v for k, v in tables.items() if k in ROWS}
    text = list(pairs({k: v for k, v in tables.items() if k not in ROWS}))
    for name, items in rows.items():
        for item in items:
            text += ["", f"[[{name}]]", *pairs(item)]
    return "\n".join(text) + "\n"


def beginning(graph: Graph, score: EvaluateOptions, main: str = "accuracy") -> SearchSpec:
    """Mixed precision: a width per layer's weight, best at `main` with 4.5 bits per weight on average."""
    nodes = [n for n in graph if category(n) in KINDS and "weight" in offered(n) and "weight" in n.weights]
    types = tuple(sorted({n.op for n in nodes})) or ("linear",)
    vary = Vary("format", Select("type", types), ("weight",), "integer(width=2|3|4|5|6|8)")
    within = (f"weight_bits<={_limit(graph, nodes):g}",)
    return SearchSpec(space=(vary,), goals=(Goal(main),), within=within, trials=30, warm=8, score=score)


def _limit(graph: Graph, nodes: list[Node]) -> float:
    """Average bits per parameter if the weights of `nodes` take BITS and the others are unchanged; rounded up."""
    weights = {w for n in nodes for w in n.weights.values() if w in graph.weights and len(graph.weights[w].shape) > 1}
    parameters = {k: w for k, w in graph.weights.items() if w.role == "parameter"}
    total = sum(w.elements for w in parameters.values())
    bits = sum(w.elements * (BITS if k in weights else w.float_bits) for k, w in parameters.items())
    return math.ceil(10 * bits / total) / 10 if total else BITS
