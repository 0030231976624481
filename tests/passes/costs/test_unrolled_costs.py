"""Costs of the unrolled engine: near those of designs, falling with widths and sparsity, and useful as budgets."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_any
from espalier.passes.allocation.solve import Competing, allocate
from espalier.passes.base import Context, run_step
from espalier.passes.costs.base import cost
from espalier.passes.costs.limits import parse_budget
from espalier.passes.costs.unrolled import area, cycles
from espalier.passes.recipes.config import load_recipe
from espalier.passes.score import static_score
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.template import total
from espalier.verilog.lowering.lower import lower
from espalier.verilog.timing.schedule import schedule
from tests.passes.allocation.cases import made_table


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("mlp"))


def quantised(opened: Opened, width: int, sparsity: float = 0.0) -> Graph:
    """All layers in integers whose points fit the weights, perhaps pruned."""
    formats = {"data_in": f"integer(width={min(width + 2, 8)}, frac_width=4)", "weight": f"integer(width={width})",
               "bias": "integer(width=12)"}  # fmt: skip
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": formats}]
    steps: list[dict[str, Any]] = [{"pass": "prune", "options": {"sparsity": sparsity}}] if sparsity else []
    steps += [{"pass": "quantize", "options": {"rules": rules}},
              {"pass": "calibrate", "options": {"data": "demo:digits", "limit": 50}}]  # fmt: skip
    graph = opened.project.base
    for step in load_recipe({"steps": steps}).steps:
        graph = run_step(graph, step, Context(opened.store)).graph
    return graph


def figure(name: str, graph: Graph) -> float:
    of = cost(name).of
    assert of is not None
    return of(graph, static_score(graph))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "sparsity"), [(3, 0.0), (4, 0.6)])
def test_near_the_design(opened: Opened, width: int, sparsity: float) -> None:
    graph = quantised(opened, width, sparsity)
    design = lower(graph, opened.store, EmitOptions(engine="unrolled"))
    real = total(design.instances)
    assert figure("unrolled_lut", graph) == pytest.approx(real.lut, rel=0.25)
    assert figure("unrolled_ff", graph) == pytest.approx(real.ff, rel=0.3)
    assert cycles(graph) == figure("unrolled_cycles", graph) == schedule(design).interval == 1


def test_narrow_and_pruned_weights_save(opened: Opened) -> None:
    wide, narrow, pruned = (figure("unrolled_lut", quantised(opened, *of)) for of in ((8, 0.0), (4, 0.0), (8, 0.6)))
    assert narrow < 0.6 * wide and pruned < 0.6 * wide


def test_pictures_take_a_cycle_a_pixel(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = open_any("demo:digits", tmp_path_factory.mktemp("cnn")).project.base
    assert cycles(graph) == 64


def test_it_is_a_budget(opened: Opened) -> None:
    graph = opened.project.base
    table = made_table(graph, ("data_in", "weight"))
    who = Competing(whole=False, ports=("data_in", "weight"))
    found = allocate(graph, table, [parse_budget("unrolled_lut<=20000")], who)
    assert found.figures["unrolled_lut"] <= 20000
    assert found.figures["unrolled_lut"] > 10000, "what it may take is taken"
    first = next(n for n in quantised(opened, 8) if n.op == "linear")
    assert area(first, graph).dsp == 0


def test_the_window_loads_no_compiler_for_it() -> None:
    """A search's limits are checked while they are typed."""
    code = (
        "import sys; from espalier.passes.costs.unrolled import _area;"
        "from espalier.passes.costs.parallel import Product;"
        "_area(Product(rows=1, inputs=64, outputs=32, matrices=1), 2.0, (8, 8), ());"
        "assert not {'numba', 'scipy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
