"""The Python interface held against plain torch, formulas by hand and onnxruntime; its data, errors and values."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import itertools
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import espalier as es
from espalier.app.api import showing
from espalier.app.api.methods import signature
from espalier.app.cli import main
from espalier.model.data import memory, recent
from espalier.model.document.project import APP
from espalier.model.errors import DataError, ExportError, OptionsError, PassError, ProjectError, SourceError
from espalier.model.registry import PASSES
from espalier.model.trust import TrustError
from espalier.passes.recipes.config import load_recipe
from tests.patience import PATIENCE

N, FEATURES, CLASSES = 53, 9, 3  # no size divides another, nor a batch or a block


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(FEATURES, 37), nn.Linear(37, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.relu(self.one(x)))


class Tied(nn.Module):
    """The embedding's table is the output's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.middle = nn.Embedding(23, 10), nn.Linear(10, 10)
        self.out = nn.Linear(10, 23, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.middle(self.table(ids).mean(1))))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(3)
    return Net().eval()


@pytest.fixture(scope="module")
def traced(net: Net) -> es.Model:
    return es.trace(net, torch.randn(2, FEATURES))


@pytest.fixture
def m(traced: es.Model) -> es.Model:
    return traced.copy()


@pytest.fixture(scope="module")
def xy() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(N, FEATURES, generator=generator), torch.randint(0, CLASSES, (N,), generator=generator)


def by_torch(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Accuracy and mean cross-entropy, one sample after another."""
    right, loss = 0, 0.0
    with torch.no_grad():
        for sample, label in zip(x, y, strict=True):
            logits = net(sample[None])[0]
            right += int(logits.argmax()) == int(label)
            loss += float(torch.logsumexp(logits, 0) - logits[label])
    return right / len(y), loss / len(y)


# -- the package


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


# -- data


def xy_forms(x: torch.Tensor, y: torch.Tensor) -> dict[str, Callable[[], Any]]:
    class Mapped(Dataset[Any]):
        """Raises nothing past its end, so that only its length tells it."""

        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> Any:
            return {"x": x[i % N].numpy(), "label": int(y[i % N])}

    pairs = TensorDataset(x, y)
    return {
        "tensors": lambda: (x, y),
        "arrays": lambda: (x.double().numpy(), y.numpy().astype(np.uint8)),
        "lists": lambda: (x.tolist(), y.tolist()),
        "a column of labels": lambda: (x, y[:, None]),
        "a dict of arrays": lambda: {"x": x, "labels": y},
        "another name of the one input": lambda: {"features": x, "y": y},
        "a dataset": lambda: pairs,
        "a dataset of dicts": Mapped,
        "a loader": lambda: DataLoader(pairs, batch_size=8),
        "a generator of samples": lambda: ((a, int(b)) for a, b in pairs),
        "a generator of batches": lambda: ((x[i : i + 7], y[i : i + 7]) for i in range(0, N, 7)),
        "a generator of dicts": lambda: ({"x": a, "target": b} for a, b in pairs),
        "a list of pairs": lambda: list(zip(x.numpy(), y.tolist(), strict=True)),
        "a named split": lambda: {"test": (x, y)},
    }


@pytest.mark.parametrize("form", xy_forms(torch.zeros(N, 1), torch.zeros(N)))
def test_all_forms_of_data_give_what_a_plain_loop_gives(
    m: es.Model, net: Net, xy: tuple[torch.Tensor, torch.Tensor], form: str
) -> None:
    found = m.evaluate(xy_forms(*xy)[form]())
    accuracy, loss = by_torch(net, *xy)
    assert found.n == N and found.accuracy == accuracy
    assert found.loss == pytest.approx(loss, rel=1e-5)


def test_an_endless_generator_ends_at_the_limit(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = xy
    assert m.evaluate(((x[i % N], y[i % N]) for i in itertools.count()), limit=40).n == 40
    assert m.evaluate(((x[:16], y[:16]) for _ in itertools.count()), limit=40, metric=len_of).len_of == 40


def len_of(out: torch.Tensor, labels: torch.Tensor) -> int:
    assert len(out) == len(labels)
    return len(out)


def test_a_metric_takes_any_labels(m: es.Model, net: Net, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, _ = xy
    wish = torch.randn(N, CLASSES)

    def error(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (out - labels).abs().mean()

    with torch.no_grad():
        expected = float(error(net(x), wish))
    assert m.evaluate((x, wish), metric=error).error == pytest.approx(expected)
    loader = DataLoader(TensorDataset(x, wish), batch_size=10)
    assert m.evaluate(loader, metric=error, batch_size=7)["error"] == pytest.approx(expected)
    assert m.evaluate(x, metric=lambda out, y: {"rows": len(out), "labels": y}).labels is None


def test_texts_are_tokenised_as_files_are(tmp_path: Path) -> None:
    m = es.open("demo:reviews")
    rows = [
        ("a fine film", "positive"),
        ("not good at all", "negative"),
        ("bad", "negative"),
        ("great", "positive"),
    ] * 4
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\n" + "".join(f"{t},{c}\n" for t, c in rows))
    expected = m.evaluate(file)
    assert expected.n == len(rows)
    for data in ([{"text": t, "label": c} for t, c in rows], rows, tuple(map(list, zip(*rows, strict=True)))):
        found = m.evaluate(data)
        assert (found.accuracy, found.n) == (expected.accuracy, expected.n)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5)


def test_arrays_train_and_are_let_go(traced: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    x = torch.cat([xy[0]] * 3)
    y, own = (x[:, 0] > 0).long(), traced.copy()
    before = own.score((x, y)).accuracy
    own.finetune(data={"train": (x[:120], y[:120]), "validation": (x[120:], y[120:])}, epochs=20, learning_rate=0.02)
    name = own.recipe.rows[0]["options"]["data"]
    after = own.score((x, y))
    assert after.accuracy > max(before, 0.9) and after.accuracy_change == pytest.approx(after.accuracy - before)
    assert name.startswith(memory.PREFIX) and own.evaluate(name).accuracy > 0.9
    del own
    gc.collect()
    recent.forget()  # the data sets that were used last stay in memory
    with pytest.raises(DataError, match="arrays of another Python program"):
        traced.evaluate(name)


# -- what passes do


def held_weights(m: es.Model, name: str, shape: tuple[int, int]) -> torch.Tensor:
    """The weight of a linear model as it computes, by its answers to unit vectors."""
    module = m.to_torch()
    with torch.no_grad():
        return (module(torch.eye(shape[1])) - module(torch.zeros(1, shape[1]))).T


def test_quantised_weights_are_those_of_the_formulas() -> None:
    torch.manual_seed(1)
    layer = nn.Linear(37, 5)
    weight = layer.weight.detach().clone()
    opened = es.trace(layer, torch.randn(2, 37))
    scale = weight.abs().amax(1, keepdim=True) / 127
    by_channel = torch.clamp(torch.round(weight / scale), -127, 127) * scale
    assert torch.allclose(
        held_weights(opened.copy().quantize("linear", weight="int8"), "", (5, 37)), by_channel, atol=1e-6
    )
    blocks = torch.zeros(5, 64)
    blocks[:, :37] = weight
    step = torch.exp2(torch.floor(torch.log2(blocks.view(5, 2, 32).abs().amax(2, keepdim=True))) - 2)
    by_block = (torch.clamp(torch.round(blocks.view(5, 2, 32) / step), -7, 7) * step).view(5, 64)[:, :37]
    assert torch.allclose(held_weights(opened.copy().quantize(weight="mxint4"), "", (5, 37)), by_block, atol=1e-6)


def test_a_half_pruned_weight_has_lost_its_smallest() -> None:
    torch.manual_seed(1)
    layer = nn.Linear(11, 6)
    weight = layer.weight.detach().clone()
    found = held_weights(es.trace(layer, torch.randn(2, 11)).prune("linear", sparsity=0.5), "", (6, 11))
    gone = found.abs() < 1e-6
    assert int(gone.sum()) == 33 and weight[gone].abs().max() < weight[~gone].abs().min()


def test_torch_and_onnx_agree(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    m.quantize("linear", weight="int8").prune("name:one", sparsity=0.3)
    told = m.export("onnx", tmp_path / "net.onnx")
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # else it rounds activations too
    session = runtime.InferenceSession(tmp_path / "net.onnx", options)
    (found,) = session.run(None, {session.get_inputs()[0].name: xy[0].numpy()})
    with torch.no_grad():
        expected = m.to_torch()(xy[0])
    assert torch.allclose(torch.from_numpy(found), expected, atol=1e-5) and told.max_abs_diff < 1e-5
    assert Path(told.rows[0]["file"]).name == "net.onnx"


class Named(nn.Module):
    """Two inputs, a dict of results without class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(19, 7), nn.Linear(7, 1)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = (self.table(ids) * scale[..., None]).mean(1)
        return {"value": self.out(mean).squeeze(1), "mean": mean}


def test_results_by_name_with_two_inputs(tmp_path: Path) -> None:
    torch.manual_seed(4)
    net, ids, scale, y = Named().eval(), torch.randint(0, 19, (N, 5)), torch.rand(N, 5), torch.randn(N)
    m = es.trace(net, (ids[:2], scale[:2]))

    def hits(out: dict[str, torch.Tensor], labels: torch.Tensor) -> float:
        return float((out["value"] - labels).abs().mean())

    with torch.no_grad():
        expected = float((net(ids, scale)["value"] - y).abs().mean())
        assert torch.allclose(m.to_torch()(ids, scale)["mean"], net(ids, scale)["mean"], atol=1e-6)
    loader = DataLoader(TensorDataset(ids, scale, y), batch_size=8)
    assert m.evaluate(loader, metric=hits).hits == pytest.approx(expected, rel=1e-5)
    assert "hits" in repr(m.evaluate({"ids": ids, "scale": scale, "y": y}, metric=hits))
    m.quantize("linear", weight="int8", data_in="int8").calibrate("linear", data=loader)
    m.export("pt2", tmp_path / "named.pt2")
    again = es.open(tmp_path / "named.pt2")
    assert again.evaluate(loader, metric=hits).hits == pytest.approx(m.evaluate(loader, metric=hits).hits, rel=1e-5)


def test_a_module_of_its_own_stays_as_it_is() -> None:
    torch.manual_seed(2)
    net = Tied().train()
    net.middle.eval()
    ids, y = torch.randint(0, 23, (N, 6)), torch.randint(0, 23, (N,))
    m = es.trace(net, torch.randint(0, 23, (2, 5)))
    assert net.training and not net.middle.training and net.out.weight is net.table.weight
    expected = by_torch(net, ids, y)
    with torch.no_grad():
        net.table.weight.add_(1.0)  # the model has weights of its own by now
    assert m.evaluate((ids, y)).accuracy == expected[0]
    assert m.evaluate((ids, y)).loss == pytest.approx(expected[1], rel=1e-5)
    module = m.to_torch()
    with torch.no_grad():
        next(module.parameters()).zero_()
    assert m.evaluate((ids, y)).accuracy == expected[0]


STUDENT = """
import json
import torch
from torch.utils.data import DataLoader, TensorDataset
import espalier as es
from model import Net

torch.manual_seed(0)
net = Net()
x, y = torch.randn(41, 7), torch.randint(0, 3, (41,))
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
accuracy = sum(int((net(a).argmax(1) == b).sum()) for a, b in loader) / 41
m = es.trace(net, x[:2])
by_file = es.open("net.py:make")
print(json.dumps([accuracy, m.score(loader).accuracy, by_file.evaluate((x, y)).n]))
"""


def test_a_students_script_beside_its_model(tmp_path: Path, root: Path) -> None:
    """`model` is the student's, in the script and in the file that is opened."""
    (tmp_path / "model.py").write_text(
        "from torch import nn\n\n\ndef Net():\n    return nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3))\n"
    )
    (tmp_path / "net.py").write_text(
        "import torch\nfrom model import Net\n\n\ndef make():\n    return Net(), torch.randn(2, 7)\n"
    )
    (tmp_path / "study.py").write_text(STUDENT)
    command, env = [sys.executable, "study.py"], {"PYTHONPATH": str(root / "roots"), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    accuracy, scored, n = json.loads(done.stdout)
    assert scored == accuracy and n == 41


# -- steps


def test_every_pass_is_a_method_with_its_options() -> None:
    assert len(PASSES) > 40
    for name, spec in PASSES.items():
        method = getattr(es.Model, name)
        options = {f.name for f in dataclasses.fields(spec.options) if f.init}
        if name in ("evaluate", "sensitivity"):
            continue  # written by hand, with the pass's further options by name
        assert options <= set(inspect.signature(method).parameters), name
        assert all(f"    {o}: " in (inspect.getdoc(method) or "") for o in options), name
        assert "Example:" in (inspect.getdoc(method) or "") and method.__name__ == name
        result = inspect.signature(method).return_annotation
        assert result == ("Report" if spec.kind == "analysis" else "Model")
        assert PASSES.get(name).kind == "analysis" or method.__module__ == "espalier"  # no method hides a transform


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
        (lambda m: m.quantize("linear"), OptionsError, "names no format"),
        (lambda m: m.quantize(7, weight="int8"), OptionsError, "select is 7"),
        (lambda m: m.quantize("linear", weight="mxnit"), es.EspalierError, "Did you mean 'mxint'"),
        (lambda m: m.quantize("conv2d", weight="int8"), OptionsError, "selects nothing"),
        (lambda m: m.remove_dropout("linear"), OptionsError, "selects no nodes"),
        (lambda m: m.apply({"prune": {"sparsty": 1}}), OptionsError, "prune.sparsty"),
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


X = torch.zeros(10, FEATURES)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ((X[:, :4], [0] * 10), f"x is 10 × 4; the model takes batch × {FEATURES}"),
        ((X[:, :, None], [0] * 10), f"x is 10 × {FEATURES} × 1; the model takes"),
        ((X, [0] * 9), "x has 10 samples, labels has 9"),
        ((X, [0.5] * 10), "labels are float.*not a class number"),
        ((X, [7] * 10), "8 classes, the model 3"),
        (X, "have no labels"),
        ((["a", "b"], [0, 1]), "texts, and the model has no tokenizer"),
        ({"z": X, "w": X}, "The model takes x; the data hold z, w"),
        ([], "no samples"),
        (7, "int is not a supported type of data"),
        ([(X[0], 1), (X[0, :4], 1)], "x is 1 × 4; the model takes"),
        ((np.array([["a"] * FEATURES] * 10), [0] * 10), "not numbers"),
        ("nowhere.csv", "There are no data at nowhere.csv"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_are_one_clear_error(m: es.Model, data: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        m.evaluate(data)


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


# -- analyses, searches


def test_an_allocation_keeps_its_budget(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    table = m.sensitivity(xy[0], formats=["int8", "int4"], ports=["weight"], measure=0, configurations=0)
    assert {r["node"] for r in table.rows} == {"one", "two"} and len(table.rows) == 4
    predicted = {(r["node"], r["format"][:22]): r["predicted"] for r in table.rows}
    assert predicted["one", "scaled_integer(width=4"] > predicted["one", "scaled_integer(width=8"]
    plan = m.allocate(xy[0], budget="weight_bits<=12", formats=["int8", "int4"], ports=["weight"],
                      measure=0, configurations=0)  # fmt: skip
    assert plan.weight_bits <= 12 and {r["port"] for r in plan.rows} == {"weight"}
    assert m.apply(plan.recipe).score().weight_bits == pytest.approx(plan.weight_bits)
    with pytest.raises(OptionsError, match="least"):
        m.copy().undo(9).allocate(xy[0], budget="weight_bits<=1", formats=["int8"], ports=["weight"],
                                  measure=0, configurations=0)  # fmt: skip


def test_a_search_and_a_sweep_score_what_they_say(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    m.quantize("linear", data_in="int8")
    study = m.search({"space": [{"values": "integer(width=4|8)", "ports": ["weight"]}], "goals": ["accuracy"],
                      "within": ["weight_bits<=32"], "sampler": "grid", "trials": 4}, xy)  # fmt: skip
    assert len(study.rows) == 4 and study.complete == 4 and study.best in {r["trial"] for r in study.rows}
    best = next(r for r in study.rows if r["trial"] == study.best)
    assert m.copy().apply(study.recipe).evaluate(xy).accuracy == best["accuracy"]
    assert len(study.recipe_of(0)) == 1 and study.front
    curve = m.sweep({"prune.sparsity": [0.0, 0.9]}, xy, recipe={"prune": {}})
    assert [r["sparsity"] for r in curve.rows] == pytest.approx([0.0, 0.0, 0.9], abs=0.01)
    again = m.copy().prune(sparsity=0.9).score(xy)
    assert curve.rows[-1]["accuracy"] == again.accuracy and len(curve.means) == 2
    assert len(m.recipe) == 1  # neither changed the model


def test_a_trial_that_changes_the_models_own_steps_replaces_them(m: es.Model, xy: Any) -> None:
    m.prune("linear", sparsity=0.2)
    study = m.search({"space": [{"kind": "option", "key": "prune.sparsity", "values": "0.5"}], "goals": ["accuracy"],
                      "trials": 1}, xy)  # fmt: skip
    assert m.apply(study.recipe).recipe.rows[0]["options"]["sparsity"] == 0.5
    assert len(m.recipe) == 1 and m.score().sparsity == pytest.approx(0.5, abs=0.01)


# -- values


def test_reports_are_frozen_and_print(m: es.Model) -> None:
    report = m.parameters()
    rows = report.rows
    rows[0].clear()
    assert report.rows[0] and report == copy.deepcopy(report) and pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.summary = {}
    with pytest.raises(TypeError):
        report.figures["a"] = 1
    assert repr(report).startswith("parameters") and "one" in repr(report)
    html = report._repr_html_()
    assert html.count("<tr>") == 1 + len(report.rows)
    risky = es.Report("a<b", {}, tuple({"x": "<script>"} for _ in range(50)))
    assert "<script>" not in risky._repr_html_() and "30 more rows" in risky._repr_html_() and "30 more" in repr(risky)
    assert "quantize" in repr(m.quantize("linear", weight="int8")) and "quantize" in m.recipe._repr_html_()


def test_rows_become_a_data_frame_where_pandas_is(m: es.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    assert list(m.parameters().to_pandas().columns) == list(m.parameters().rows[0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(es.EspalierError, match="pandas is not installed"):
        m.parameters().to_pandas()


def test_a_model_draws_itself(m: es.Model) -> None:
    texts = "".join(ElementTree.fromstring(m._repr_svg_()).itertext())
    assert "one" in texts and "two" in texts
    assert set(m.to_networkx()) == set(m.project.graph.nodes)


def test_differences_are_told_node_by_node(m: es.Model, tmp_path: Path) -> None:
    m.save(tmp_path / "before.espalier")
    assert not es.diff(m, m.copy()) and not es.diff(tmp_path / "before.espalier", m)
    m.quantize("one", weight="int8").prune("two", sparsity=0.5)
    found = es.diff(tmp_path / "before.espalier", m)
    told = {(r["node"], r["what"]): (r["before"], r["after"]) for r in found.rows}
    assert told["one", "weight format"][0] == "float" and told["one", "weight format"][1].startswith("scaled_integer(")
    assert told["two", "weight sparsity"] == (0.0, pytest.approx(0.5, abs=0.01))
    assert found and found.changed == 2 and found.size_bytes < found.size_bytes_before


# -- files, trust, the window


def test_what_is_saved_opens_without_its_code(m: es.Model, xy: Any, tmp_path: Path) -> None:
    m.quantize("linear", weight="mxint4")
    assert m.save(tmp_path / "net.espalier") == tmp_path / "net.espalier"
    again = es.open(tmp_path / "net.espalier")
    assert again.project.graph == m.project.graph and again.evaluate(xy).loss == m.evaluate(xy).loss
    assert len(again.recipe) == 1 and es.diff(m, again).rows == []
    with pytest.raises(SourceError, match="traced from an object"):
        es.open(again.project.source.spec)
    with pytest.raises(ExportError, match="which a script cannot make"):
        m.export("script", tmp_path / "a.py")


def test_code_that_a_file_names_does_not_run(tmp_path: Path) -> None:
    code = tmp_path / "net.py"
    code.write_text(
        f"import torch\nfrom pathlib import Path\n\nPath({str(tmp_path / 'ran')!r}).touch()\n\n\ndef make():\n"
        "    return torch.nn.Linear(3, 2), torch.randn(2, 3)\n"
    )
    with pytest.raises(TrustError):
        es.open(f"{code}:make", origin="file")
    assert not (tmp_path / "ran").exists()
    es.open(f"{code}:make")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("module", [7, "net.py", nn.Linear])
def test_what_is_no_module_is_not_traced(module: Any) -> None:
    with pytest.raises(SourceError):
        es.trace(module, torch.zeros(2, 3))


def test_an_example_has_to_be_tensors() -> None:
    with pytest.raises(SourceError, match="The example is int"):
        es.trace(nn.Linear(3, 2), 4)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The commands of processes that would begin."""
    commands: list[list[str]] = []
    monkeypatch.setattr(showing.subprocess, "Popen", lambda words, **_: commands.append(words))
    monkeypatch.setattr(showing, "has_display", lambda: True)
    yield commands
    for words in commands:
        folder = Path(words[-1]).parent
        if folder.name.startswith(showing.PREFIX):
            Path(words[-1]).unlink()
            folder.rmdir()


def test_the_window_opens_on_the_model_as_it_is(m: es.Model, tmp_path: Path, started: list[list[str]]) -> None:
    m.save(tmp_path / "net.espalier")
    m.show()
    assert started[0][1:] == ["-m", "espalier", str(tmp_path / "net.espalier")]
    m.quantize("linear", weight="int8").show()
    assert started[1][2] == "espalier.app.shell.temporary_project"
    assert es.open(started[1][-1]).project.graph == m.project.graph


def test_no_window_without_a_display(m: es.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    with pytest.raises(es.EspalierError, match="no display"):
        m.show()


def test_a_pass_that_cannot_work_leaves_the_model(m: es.Model) -> None:
    before = m.project
    with pytest.raises(PassError):
        m.fold_batch_norm("linear")
    assert m.project is before and not m.copy().undo(3).recipe.rows


@pytest.mark.parametrize("saved", [False, True])
def test_a_copy_goes_with_its_window_unless_it_was_saved(tmp_path: Path, monkeypatch: Any, saved: bool) -> None:
    from espalier.app.shell import temporary_project

    path = tmp_path / "espalier-shown-x" / "net.espalier"
    path.parent.mkdir()
    path.write_bytes(b"a")
    monkeypatch.setattr(temporary_project, "open_window", lambda file: int(saved and Path(file).write_bytes(b"ab")))
    assert temporary_project.show(path) == (2 if saved else 0)
    assert path.exists() is saved
