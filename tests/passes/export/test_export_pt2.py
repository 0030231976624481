"""Torch programs open without Espalier, compute the same at any size, and open again as sources."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.utils._pytree as pytree

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import ExportError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.graph.ops import quantisable
from espalier.model.opening import open_any
from espalier.model.sources.info import SourceInfo
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.export import Exported, export
from espalier.passes.transform.prune import prune
from tests.model.zoo import Case, case
from tests.patience import PATIENCE


def chosen(held: Case, weight: str, data: str) -> Graph:
    formats = {"weight": Precision(parse_format(weight)), "data_in": Precision(parse_format(data))}
    able = [n for n in held.graph if n.op in ("linear", "conv2d", "matmul", "layer_norm")]
    graph = held.graph.replace(*(
        replace(n, precision={p: c for p, c in formats.items() if p in quantisable(n)}) for n in able
    ))  # fmt: skip
    return prune(graph, PruneOptions(0.4), Context(held.store))[0]


def written(graph: Graph, held: Case, folder: Path) -> Exported:
    project = Project(SourceInfo("file.py:make", "model"), graph, Recipe(), graph)
    return export(project, held.store, "pt2", folder / "m.pt2")


FORMATS = (("integer(width=8, frac_width=6)", "integer(width=8, frac_width=4)"), ("nvfp4()", "mxint()"),
           ("ternary()", "scaled_integer(granularity=group, group=8)"), ("log()", "block_log()"))  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize(("weight", "data"), FORMATS)
@pytest.mark.parametrize("name", ["mlp", "tied", "attention"])
def test_a_program_computes_the_same_at_other_sizes(name: str, weight: str, data: str, tmp_path: Path) -> None:
    held = case(name)
    graph = chosen(held, weight, data)
    done = written(graph, held, tmp_path)
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-5 and not done.notes
    values = held.fresh(5, 7)
    with torch.no_grad():
        want = pytree.tree_leaves(build(graph, held.store)(**values))
        got = pytree.tree_leaves(torch.export.load(done.files[0]).module()(**values))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-6)


def test_a_program_is_plain_torch(tmp_path: Path) -> None:
    """No operators but ATen's, parameters under the names of the source, whose layers are found again."""
    held = case("mlp")
    done = written(chosen(held, *FORMATS[0]), held, tmp_path)
    program = torch.export.load(done.files[0])
    assert {"first.weight", "second.bias"} <= program.state_dict.keys()
    calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert all(c.startswith(("aten.", "<built-in", "<function")) or "getitem" in c for c in calls), calls
    again = open_any(done.files[0], tmp_path / "work", origin=Origin.TYPED).project.graph
    layers = {n.target for n in again if n.call == "call_module" and n.op == "linear"}
    assert layers == {"first", "second"}


@pytest.mark.slow
def test_a_program_opens_where_espalier_is_not(tmp_path: Path) -> None:
    held = case("mlp")
    done = written(chosen(held, *FORMATS[2]), held, tmp_path)
    code = (
        "import sys, torch\n"
        "module = torch.export.load(sys.argv[1]).module()\n"
        "print(tuple(module(x=torch.ones(9, 4)).shape), any(m.split('.')[0] == 'passes' for m in sys.modules))\n"
    )
    command = [sys.executable, "-c", code, done.files[0]]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.stdout.strip() == "(9, 3) False", found.stderr


def test_a_recorded_model_is_refused(tmp_path: Path) -> None:
    held = case("mlp")
    with pytest.raises(ExportError, match="works only with its own code"):
        written(replace(held.graph, runs="module"), held, tmp_path)
