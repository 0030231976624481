"""Makes tests/golden/project-v1.espalier: a project of format 1 with all that one can hold.

It was run once; the file is kept and must open for ever. `python -m tests.golden.make_project_v1 FILE FACTS`
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from espalier.model.document.project import Project, save_project
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.formats.integer import Integer
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, NoOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.replay import replay
from espalier.passes.select import Select


class Net(nn.Module):
    """A convolution, a norm, an embedding, dropout, tied Linears and a few functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 2)
        self.norm = nn.BatchNorm2d(4)
        self.embed = nn.Embedding(5, 4)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, image: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.relu(self.norm(self.conv(image))).mean((2, 3)) + self.embed(ids).sum(1)
        a, b = self.head(self.drop(x)).chunk(2, -1)
        return {"logits": torch.cat([b, a], -1), "norm": x[:, 1:3].norm(dim=-1)}


RULES = (
    Rule(Select("type", ("linear",)), {"weight": Integer(8, 6), "data_in": Integer(8, 4)}),
    Rule(Select("all"), {"weight": Integer(6, 4, rounding="floor")}),
    Rule(Select("name", ("conv",)), {"bias": None}),
)
RECIPE = Recipe(
    (
        Step("quantize", QuantizeOptions(RULES)),
        Step("prune", PruneOptions(0.3, "random", "local", Select("regex", ("^conv$",))), seed=5),
        Step("remove_dropout", NoOptions(), enabled=False),
    )
)


def example() -> dict[str, torch.Tensor]:
    """Inputs without a random generator, so that the facts stay comparable."""
    image = torch.arange(2 * 9, dtype=torch.float32).reshape(2, 1, 3, 3) / 9 - 1
    return {"image": image, "ids": torch.tensor([[0, 1, 2], [4, 4, 3]])}


def main(file: Path, facts: Path) -> None:
    """Write the project and what must come out of it."""
    from espalier.model.torch.build import build

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        store = WeightStore(Path(folder))
        base = trace(Net().eval(), example(), store).graph
        graph = replay(base, RECIPE, Context(store)).graph
        later = RECIPE.append(Step("pass_of_a_plug_in", Raw({"depth": [1, {"deep": None}]}), 3, False))
        info = SourceInfo("/nowhere/net.py:make", "make (net.py)", ("image", "ids"), 7, None, "demo:digits")
        reports: dict[str, Any] = {"scores": {"options": {"data": "demo:digits"}, "baseline": [0.5, 0.7]}}
        view = {"camera": [1.5, 0, 0], "open": ["conv"]}
        extras = {"studies/first.jsonl": b'{"trial": 1}\n\x00\xff', "notes/": b""}
        project = Project(info, base, later, graph, reports, view, extras)
        save_project(project, store, file, everything=True)
        results = build(graph, store)(**example())
    told = {
        "nodes": list(graph.nodes),
        "formats": {n.id: {p: str(c.format) for p, c in n.precision.items()} for n in graph if n.precision},
        "zeros": graph["conv"].sparsity["weight"].zeros,
        "results": {k: v.tolist() for k, v in results.items()},
    }
    facts.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
