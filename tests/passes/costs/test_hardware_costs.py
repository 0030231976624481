"""Costs of hardware by node: near those of the lowered design, and useful as budgets."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from espalier.model.errors import OptionsError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Parallel, Precision
from espalier.model.opening import Opened, open_any
from espalier.passes.costs.base import cost, with_candidates
from espalier.passes.costs.hardware import area_of, cycles_of, layers
from espalier.passes.score import static_score
from espalier.passes.sensitivity.table import Candidate
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.lowering.lower import lower
from espalier.verilog.templates.linear import Linear


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("mlp"))


def fixed(graph: Graph, x: int = 8, w: int = 8) -> Graph:
    """Integer formats and some parallelism everywhere."""
    chosen = {"data_in": Precision(parse_format(f"integer(width={x}, frac_width=4)")),
              "weight": Precision(parse_format(f"integer(width={w}, frac_width=6)")),
              "bias": Precision(parse_format("integer(width=12, frac_width=8)"))}  # fmt: skip
    return graph.replace(*(replace(n, precision=chosen, parallel=Parallel(4, 2)) for n in layers(graph)))


def figure(name: str, graph: Graph) -> float:
    of = cost(name).of
    assert of is not None
    return of(graph, static_score(graph))


def test_near_the_lowered_design(opened: Opened) -> None:
    graph = fixed(opened.project.base)
    made = {i.node: i for i in lower(graph, opened.store, EmitOptions()).instances if isinstance(i, Linear)}
    assert len(made) == len(layers(graph)) == 3
    for node in layers(graph):
        real, guess = made[node.id].area(), area_of(node, graph)
        assert guess.dsp == real.dsp == 8 and guess.lut == pytest.approx(real.lut, rel=0.25)
        assert cycles_of(node, graph) == made[node.id].engines()[0].steps
    assert figure("dsp", graph) == 24
    assert figure("cycles", graph) == max(i.engines()[0].steps for i in made.values())


def test_narrow_products_leave_the_blocks(opened: Opened) -> None:
    assert figure("dsp", fixed(opened.project.base, 4, 4)) == 0
    assert figure("lut", fixed(opened.project.base, 4, 4)) > 0


def test_float_has_none(opened: Opened) -> None:
    graph = opened.project.base
    assert math.isnan(figure("lut", graph)) and math.isnan(figure("dsp", graph))
    shares = cost("lut").shares
    assert shares is not None and shares.node is not None
    with pytest.raises(OptionsError, match="cannot become hardware") as told:
        shares.node(layers(graph)[0], graph)
    assert "for data_in, too" in told.value.hint
    blocks = with_candidates(layers(graph)[0], {"data_in": Candidate(parse_format("mxint(width=8)"))})
    with pytest.raises(OptionsError, match="in mxint8/32 has no estimate of area"):
        shares.node(blocks, graph)
    chosen = Candidate(parse_format("integer(width=8, frac_width=4)"))
    assert shares.node(with_candidates(layers(graph)[0], {"data_in": chosen, "weight": chosen}), graph) > 0
