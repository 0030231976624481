"""Passes as methods of the Python interface: steps, selections, mistakes."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import espalier as es
from espalier.app.api.methods import signature
from espalier.app.cli import main
from espalier.model.document.project import APP
from espalier.model.errors import DataError, ExportError, OptionsError, PassError, ProjectError
from espalier.model.registry import PASSES
from espalier.passes.recipes.config import load_recipe
from espalier.passes.select import Select
from tests.app.api.nets import FEATURES
from tests.patience import PATIENCE


def test_importing_it_loads_next_to_nothing(root: Path) -> None:
    text = "import sys, espalier as es; print(es.__version__, *sys.modules); assert 'trace' in dir(es); es.tarce"
    command = [sys.executable, "-c", text]
    env = {"PYTHONPATH": str(root / "roots"), "PATH": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    shown, *loaded = done.stdout.split()
    assert shown == APP and not {"torch", "numpy", "PySide6", "networkx", "scipy"} & set(loaded)
    assert "has no attribute 'tarce'" in done.stderr


def test_the_version_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert es.__version__ == APP
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"espalier {APP}\n"


def test_every_pass_is_a_method_with_its_options() -> None:
    assert len(PASSES) > 40
    for name, spec in PASSES.items():
        options = {f.name for f in dataclasses.fields(spec.options) if f.init}
        if name in ("evaluate", "sensitivity"):
            continue  # written by hand, with the pass's further options by name
        if name == "graph":
            continue  # `m.graph` is the graph itself; `m.run("graph")` reports on it
        method = getattr(es.Model, name)
        assert options <= set(inspect.signature(method).parameters), name
        assert all(f"    {o}: " in (inspect.getdoc(method) or "") for o in options), name
        assert "Example:" in (inspect.getdoc(method) or "") and method.__name__ == name
        result = inspect.signature(method).return_annotation
        assert result == ("Report" if spec.kind == "analysis" else "Model")
        assert PASSES.get(name).kind == "analysis" or method.__module__ == "espalier"  # no method hides a transform


def test_data_come_first_in_passes_of_the_whole_model() -> None:
    model = es.open("demo:digits-mlp")
    first = model.statistics("demo:digits", limit=4).rows
    assert first == model.statistics(data="demo:digits", limit=4).rows != model.statistics("demo:digits", limit=9).rows
    with pytest.raises(OptionsError, match="statistics is given data twice"):
        model.statistics("demo:digits", data="demo:digits")
    with pytest.raises(OptionsError, match="format_sqnr selects no nodes"):
        model.run("format_sqnr", "linear")


def test_a_signature_says_kinds_and_defaults() -> None:
    told = signature(PASSES.get("prune")).parameters
    assert told["sparsity"].default == 0.5 and told["data"].annotation == "Data"
    assert told["select"].kind is inspect.Parameter.POSITIONAL_ONLY
    assert "str | Format" in signature(PASSES.get("format_sqnr")).parameters["formats"].annotation


def test_steps_chain_undo_and_repeat(m: es.Model, tmp_path: Path) -> None:
    start = m.project.graph
    assert m.quantize("linear", weight="mxint4", data_in="int8").prune("name:two", sparsity=0.25, seed=4) is m
    assert [r["pass"] for r in m.recipe.rows] == ["quantize", "prune"] and m.recipe.rows[1]["seed"] == 4
    done = m.project.graph
    file = tmp_path / "recipe.toml"
    file.write_text(m.recipe.to_toml())
    opened = m.copy().undo(5)
    assert opened.project.graph is start and len(opened.recipe) == 0 and len(m.recipe) == 2
    for recipe in (m.recipe, m.recipe.to_dict(), file):
        assert opened.copy().apply(recipe).project.graph == done
    assert load_recipe(m.recipe.to_dict()) == m.project.recipe
    assert m.undo().recipe.rows[-1]["pass"] == "quantize"
    assert m.redo().project.graph is done and m.redo().project.graph is done
    m.undo().prune("name:two", sparsity=0.5)
    assert m.redo().recipe.rows[-1]["options"]["sparsity"] == 0.5


@pytest.mark.parametrize(
    ("select", "nodes"),
    [("linear", 2), ("Linear", 2), ("name:one", 1), ("one", 1), (["one", "two"], 2), ("regex:^t", 1), ("all", 2),
     ("module:two", 1), ({"by": "name", "values": ["two"]}, 1)],
)  # fmt: skip
def test_nodes_are_selected_by_words(m: es.Model, select: Any, nodes: int) -> None:
    m.quantize(select, weight="int8")
    assert sum(bool(n.precision) for n in m.project.graph) == nodes


def test_float_takes_a_format_away_and_rules_go_together(m: es.Model) -> None:
    m.quantize("linear", weight="int8", data_in="int8").quantize("one", weight="float")
    assert [set(n.precision) for n in m.project.graph if n.op == "linear"] == [{"data_in"}, {"data_in", "weight"}]
    m.quantize(rules=[{"select": {"by": "all"}, "formats": {"bias": "integer(width=8, frac_width=4)"}}])
    assert all("bias" in n.precision for n in m.project.graph if n.op == "linear")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda m: m.quantise("linear", weight="int8"), OptionsError, "Did you mean 'quantize'"),
        (lambda m: m.run("prun"), OptionsError, "Did you mean 'prune'"),
        (lambda m: m.prune("linear", sparsty=0.5), OptionsError, "sparsty is not an option. Did you mean 'sparsity'"),
        (lambda m: m.prune("linear", sparsity=1.5), OptionsError, "sparsity is 1.5.*from 0 to 1"),
        (lambda m: m.quantize("liner", weight="int8"), OptionsError, "'liner' selects nothing.*'linear'"),
        (lambda m: m.quantize("linear", wieght="int8"), OptionsError, "Did you mean 'weight'"),
        (lambda m: m.quantize("linear"), OptionsError, r'names no format for a port. Write m.quantize\("linear", w'),
        (lambda m: m.quantize("all"), OptionsError, r'Write m.quantize\("all", weight="int8"\); ports: data_in'),
        (lambda m: m.quantize("int8"), OptionsError, r'int8 is a format. Name the port: m.quantize\("all", weight='),
        (lambda m: m.quantize("All", weight="int8"), OptionsError, "Did you mean 'all'"),
        (lambda m: m.quantize(["all", "linear"], weight="int8"), OptionsError, "select mixes all and type"),
        (lambda m: m.quantize(7, weight="int8"), OptionsError, "select is 7"),
        (lambda m: m.quantize("linear", weight="mxnit"), es.EspalierError, "Did you mean 'mxint'"),
        (lambda m: m.quantize("conv2d", weight="int8"), OptionsError, "selects nothing"),
        (lambda m: m.remove_dropout("linear"), OptionsError, "selects no nodes"),
        (lambda m: m.apply({"prune": {"sparsty": 1}}), OptionsError, "prune.sparsty"),
        (lambda m: m.divergence(baseline="opend"), OptionsError, r"baseline is 'opend'\. Possible: opened \("),
        (lambda m: m.generate(prompt="a", baseline=3), OptionsError, "baseline is 3"),
        (lambda m: m.apply({"divergence": {"baseline": "start"}}), OptionsError, "divergence.baseline is 'start'"),
        (lambda m: m.shapes(data=(1, 2)), OptionsError, "takes no data"),
        (lambda m: m.save("net.zip"), ProjectError, r"End it in \.espalier"),
        (lambda m: m.export("onx", "a"), ExportError, "Did you mean 'onnx'"),
        (lambda m: m.sensitivity(), DataError, "none are given"),
        (lambda m: m.allocate(budget="weight_bits<=4"), DataError, "none is given"),
        (lambda m: m.sweep(), OptionsError, "nothing to vary"),
        (lambda m: m.search("mixd-precision"), es.EspalierError, "mixed-precision"),
        (lambda m: m.score()["acuracy"], OptionsError, "Did you mean 'accuracy'"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_nearest(
    m: es.Model, call: Callable[[es.Model], Any], kind: type[Exception], text: str
) -> None:
    before = m.project
    with pytest.raises(kind, match=text):
        call(m)
    assert m.project is before


def test_asking_for_attributes_is_as_python_has_it(m: es.Model) -> None:
    assert not hasattr(m, "quantise") and getattr(m, "nothing", 7) == 7 and "prune" in dir(m)
    with pytest.raises(AttributeError):
        m.__nothing__  # noqa: B018


def test_a_plugins_pass_is_a_method_too(m: es.Model, tmp_path: Path) -> None:
    from espalier.passes.plugins.plugins import unload_plugins

    file = tmp_path / "halved.py"
    file.write_text(
        "import torch\n\n\ndef halved_pass(mg, pass_args={}):\n    with torch.no_grad():\n"
        "        for p in mg.model.parameters():\n            p.mul_(pass_args.get('by', 0.5))\n    return mg, {}\n"
    )
    try:
        assert es.load_plugins(file) == ["halved_pass"]
        with torch.no_grad():
            before = m.to_torch()(torch.zeros(1, FEATURES))
            after = m.halved_pass(by=0.0).to_torch()(torch.zeros(1, FEATURES))
        assert before.abs().max() > 0 and after.abs().max() == 0 and "halved_pass" in dir(m)
    finally:
        unload_plugins()


def test_a_pass_that_cannot_work_leaves_the_model(m: es.Model) -> None:
    before = m.project
    with pytest.raises(PassError):
        m.fold_batch_norm("linear")
    assert m.project is before and not m.copy().undo(3).recipe.rows


def test_a_mesh_is_a_tuple_or_a_text() -> None:
    model = es.open("demo:digits-mlp")
    for mesh in ((1, 2), [1, 2], "1x2"):
        assert model.shard_plan(mesh=mesh, device="cpu").summary["mesh"] == "1x2"
    model.shard(mesh=(1, 2), strategy="megatron")
    assert {n.sharding.mesh for n in model._graph if n.sharding} == {(1, 2)}
    with pytest.raises(OptionsError, match="no mesh"):
        model.shard_plan(mesh=(1, 2, 3))


class Products(nn.Module):
    """Two products of a function, of which the first node is called as the op."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.randn(6, 6)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.relu(torch.matmul(x, self.a)), self.b)


@pytest.mark.slow
def test_node_ids_select_by_name_where_one_is_also_an_op() -> None:
    model = es.trace(Products(), torch.randn(4, 6))
    ids = [n.id for n in model.nodes("matmul")]
    assert ids == ["matmul", "matmul_1"]
    first = model.copy().quantize(ids, data_in="int8")
    assert [n.id for n in first.nodes() if n.precision] == ids
    assert first.project.recipe.steps[0].options.rules[0].select == Select("name", tuple(ids))
    assert [n.id for n in model.copy().quantize("matmul", data_in="int8").nodes() if n.precision] == ids, "by type"
    with pytest.raises(OptionsError, match="select mixes name and type"):
        model.quantize(["matmul_1", "activation"], data_in="int8")
