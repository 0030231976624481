"""Example sweep for any model with weights: the main metric against weight width."""

from __future__ import annotations

from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import category
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select
from espalier.passes.sweep.sweep import Axis, Sweep

WIDTHS = (2, 3, 4, 5, 6, 8, 12, 16)


def example(recipe: Recipe, graph: Graph, score: EvaluateOptions, metric: str = "Accuracy") -> Sweep:
    """The recipe with a further step: integer weights of all layers, with one integer bit. `metric`: of the title."""
    kinds = sorted({n.op for n in graph if category(n) == "linear" and "weight" in n.weights})
    rule = Rule(Select("type", tuple(kinds) or ("linear",)), {"weight": Integer(8, 7)})
    longer = recipe.append(Step("quantize", QuantizeOptions((rule,))))
    axis = Axis(len(recipe), "weight.width", WIDTHS)
    along = Axis(len(recipe), "weight.frac_width", tuple(w - 1 for w in WIDTHS))
    return Sweep(longer, axis, (along,), score=score, title=f"{metric} against weight width", baseline=recipe)
