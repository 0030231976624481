"""A .pt2 file has no modules: its leaves come back from types, functions and weights, or stay functions."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from espalier.model.graph.graph import Graph
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.capture import capture
from espalier.model.trace.trace import Traced, trace
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.transform.prune import prune
from tests.model.zoo import MODELS, SLOW, case, run, same, slow
from tests.patience import PATIENCE

NAMES = [n for n in MODELS if n != "choosy"]


def loaded(program: ExportedProgram) -> ExportedProgram:
    """From a file."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def revived(name: str, store: WeightStore) -> Traced:
    held = case(name)
    assert held.program is not None
    program = loaded(held.program)
    return trace(program.module(), held.example, store, program)


def calls(graph: Graph) -> list[tuple[str, str, object]]:
    return [(n.target, n.op, n.attrs["class"]) for n in graph if n.call == "call_module"]


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in NAMES])
def test_a_file_has_the_modules_of_its_model_and_computes_the_same(name: str, tmp_path: Path) -> None:
    held, store = case(name), WeightStore(tmp_path)
    traced = revived(name, store)
    assert calls(traced.graph) == calls(held.graph)
    assert len(traced.graph) == len(held.graph)
    for seed, (batch, length) in enumerate(held.sizes):
        inputs = held.fresh(batch, length, seed)
        assert same(run(build(traced.graph, store, traced.callables), inputs), held.expected(inputs)), (batch, length)


def test_a_file_is_pruned_and_drops_in_training(tmp_path: Path) -> None:
    held, store = case("bert"), WeightStore(tmp_path / "work")
    torch.export.save(held.program, tmp_path / "bert.pt2")
    source = load_source(str(tmp_path / "bert.pt2"), origin=Origin.TYPED)
    graph = trace(source.model, source.example, store, source.program).graph
    want = prune(held.graph, PruneOptions(0.5), Context(held.store))[1]
    after, report = prune(graph, PruneOptions(0.5), Context(store))
    assert report.summary == want.summary and len(report.rows) == 14
    built = build(after, store)
    assert not same(run(built, held.example), held.expected(held.example))
    assert not same(run(built.train(), held.example), run(built.train(), held.example))


class Shaped(nn.Module):
    """Leaves whose arguments only the functions tell."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=2, bias=False,
                              padding_mode="reflect")  # fmt: skip
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1, groups=2)
        self.group = nn.GroupNorm(2, 4, eps=1e-3)
        self.batch = nn.BatchNorm2d(4, eps=1e-2, momentum=0.3, affine=False)
        self.leaky = nn.LeakyReLU(0.3)
        self.soft = nn.Softmax(dim=1)
        self.average = nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
        self.gelu = nn.GELU("tanh")
        self.drop = nn.Dropout2d(0.25)
        self.flat = nn.Flatten(2)
        self.layer = nn.LayerNorm(10, eps=1e-4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.group(self.up(self.conv(x)))
        x = self.drop(self.average(self.gelu(self.soft(self.leaky(self.batch(x))))))
        return self.layer(self.flat(x)[..., :10])


def test_arguments_come_back(tmp_path: Path) -> None:
    model, example = Shaped().eval(), {"x": torch.randn(2, 4, 8, 9)}
    program = loaded(capture(model, example).program)
    graph = trace(program.module(), example, WeightStore(tmp_path), program).graph
    attrs = {n.target: n.attrs for n in graph if n.call == "call_module"}
    assert set(attrs) == {name for name, _ in model.named_children()}
    conv = attrs["conv"]
    assert (conv["in_channels"], conv["out_channels"], conv["kernel_size"], conv["stride"]) == (4, 6, (3, 2), (2, 1))
    assert (conv["padding"], conv["dilation"], conv["groups"], conv["bias"]) == ((2, 1), (1, 2), 2, False)
    assert conv["padding_mode"] == "reflect"
    assert (attrs["up"]["in_channels"], attrs["up"]["out_channels"], attrs["up"]["output_padding"]) == (6, 4, (1, 1))
    assert (attrs["group"]["num_groups"], attrs["group"]["eps"]) == (2, 1e-3)
    assert (attrs["batch"]["momentum"], attrs["batch"]["eps"], attrs["batch"]["affine"]) == (0.3, 1e-2, False)
    assert attrs["leaky"]["negative_slope"] == 0.3 and attrs["soft"]["dim"] == 1
    assert (attrs["average"]["ceil_mode"], attrs["average"]["count_include_pad"]) == (True, False)
    assert attrs["gelu"]["approximate"] == "tanh" and attrs["drop"]["p"] == 0.25
    assert attrs["flat"]["start_dim"] == 2
    assert (attrs["layer"]["normalized_shape"], attrs["layer"]["bias"]) == ((10,), False)


class Normed(nn.Module):
    """A Linear whose weight is computed: no leaf could be it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_what_a_leaf_would_not_compute_stays_functions(tmp_path: Path) -> None:
    model, example = Normed().eval(), {"x": torch.randn(3, 4)}
    store, program = WeightStore(tmp_path), loaded(capture(model, example).program)
    graph = trace(program.module(), example, store, program).graph
    assert not calls(graph)
    assert same(run(build(graph, store), example), run(model, example))


@pytest.mark.slow
def test_a_file_of_a_hugging_face_model_opens_in_a_fresh_process(tmp_path: Path) -> None:
    """torch reads no program whose result class is unknown, and nothing else has imported transformers there."""
    held = case("bert")
    path = tmp_path / "bert.pt2"
    torch.export.save(held.program, path)
    code = f"from espalier.model.sources.source import load_source; print(list(load_source({str(path)!r}).example))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.strip() == "['input_ids', 'attention_mask']", done.stderr[-500:]
