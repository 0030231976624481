"""Tensors declared by the graph: checked after every step, and correct for every pass on bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, PassError
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Sparsity
from espalier.model.registry import PASSES
from espalier.model.store.weights import Tensor, WeightStore
from espalier.model.trace.trace import Traced, trace
from espalier.passes.base import Context, Report, StepResult, run_step, transform
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.plugins.plugins import load_plugin, unload_plugins
from espalier.passes.select import Select
from espalier.passes.transform.learn_scales import LearnScalesOptions
from tests.contract.test_passes import options


class Half(nn.Module):
    """Whatever passes look for, in 16 bits: a batch norm behind a convolution, a norm before a Linear, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4)
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.mix, self.head, self.tied = nn.Linear(16, 16), nn.Linear(16, 10), nn.Linear(16, 10, bias=False)
        self.tied.weight = self.head.weight
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn(self.conv(x.to(self.conv.weight.dtype))).relu().flatten(2).mean(1)
        y = y + self.drop(self.down(self.up(self.norm(y)).relu()))
        y = self.mix(y)
        return (self.head(y) + self.tied(y)).float()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Traced, WeightStore]:
    """A store only gains: all tests may share it."""
    torch.manual_seed(0)
    model = Half().eval()
    model.bn.running_mean.uniform_(-1, 1)
    model.bn.running_var.uniform_(0.5, 2)
    store = WeightStore(tmp_path_factory.mktemp("half"))
    return trace(model.bfloat16(), {"x": torch.randn(2, 1, 8, 8)}, store), store


@pytest.fixture
def half(traced: tuple[Traced, WeightStore]) -> Iterator[tuple[Graph, Context]]:
    model, store = traced
    yield model.graph, Context(store, callables=model.callables)
    unload_plugins()


def test_the_model_is_in_16_bits(half: tuple[Graph, Context]) -> None:
    graph, context = half
    kinds = {w.dtype for w in graph.weights.values() if w.role == "parameter"}
    assert kinds == {"bfloat16"} and all(context.store.kind(w.key or "") == (w.dtype, w.shape)
                                         for w in graph.weights.values())  # fmt: skip


PREPARED = {
    "plain": (),
    "quantized": (Step("quantize", QuantizeOptions()), Step("prune", PruneOptions(0.4))),
    "adapted": (Step("lora", LoraOptions(2)),),
}


@pytest.mark.slow
@pytest.mark.parametrize("prepared", PREPARED)
@pytest.mark.parametrize("name", [n for n, s in PASSES.items() if s.kind == "transform"])
def test_each_pass_of_ours_keeps_what_is_declared(half: tuple[Graph, Context], name: str, prepared: str) -> None:
    """All weights, also those that a pass declares anew; what a pass refuses with its own reason is no fault."""
    graph, context = half
    for step in PREPARED[prepared]:
        graph = run_step(graph, step, context).graph
    for made in options(name):
        try:
            after = run_step(graph, Step(name, made), context).graph
        except EspalierError as error:
            assert "the graph declares" not in error.message, error.message
            continue
        assert all(context.store.kind(w.key) == (w.dtype, w.shape) for w in after.weights.values() if w.key)


DATA = {"data": "demo:digits", "limit": 32, "batch_size": 16}
MEASURED: dict[str, dict[str, object]] = {
    **{n: DATA for n in ("calibrate", "mse_clip", "gptq", "smoothquant", "bias_correction", "prune_structured")},
    "autoround": {**DATA, "steps": 4, "lr": 0.05},
    "finetune": {"data": "demo:digits", "max_steps": 2, "batch_size": 8, "validation_limit": 16, "keep": "last"},
}
MORE: dict[str, dict[str, object]] = {
    "smoothquant": {"insert": True}, "bias_correction": {"add": True, "pruning": True},
    "prune_structured": {"ratio": 0.5}, "finetune": {"prune_to": 0.5},
}  # fmt: skip


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("name", MEASURED)
def test_passes_that_need_data_keep_it_too(half: tuple[Graph, Context], name: str, more: bool) -> None:
    graph, context = half
    rule = Rule(Select("type", ("linear", "conv2d")), {"weight": ScaledInteger(4), "data_in": ScaledInteger(8)})
    scales = () if name == "smoothquant" else (Step("learn_scales", LearnScalesOptions()),)
    for step in (Step("quantize", QuantizeOptions((rule,))), *scales):
        graph = run_step(graph, step, context).graph
    given = {**MEASURED[name], **(MORE.get(name, {}) if more else {})}
    if name == "finetune" and more:
        graph = half[0]
    after = run_step(graph, Step(name, PASSES.get(name).options(**given)), context).graph
    assert after is not graph
    assert all(context.store.kind(w.key) == (w.dtype, w.shape) for w in after.weights.values() if w.key)


# -- of others


@pytest.fixture
def stores() -> Iterator[list[tuple[Tensor, str]]]:
    """A pass that stores these tensors under these names, without a look at what is declared."""
    given: list[tuple[Tensor, str]] = []

    @transform("stores_test", "Stores")
    def stores(graph: Graph, _options: object, context: Context) -> tuple[Graph, Report]:
        new = {name: replace(graph.weights[name], key=context.store.hold(t)) for t, name in given}
        return graph.with_weights(new), Report("stores_test")

    yield given
    PASSES.remove("stores_test")


def run(half: tuple[Graph, Context], name: str = "stores_test") -> StepResult:
    return run_step(half[0], Step(name, PASSES.get(name).options()), half[1])


def test_float32_under_a_weight_declared_bfloat16(
    half: tuple[Graph, Context], stores: list[tuple[Tensor, str]]
) -> None:
    stores.append((Tensor(np.ones((32, 16), np.float32), "float32"), "up.weight"))
    with pytest.raises(PassError) as caught:
        run(half)
    assert caught.value.message == (
        "stores_test stores up.weight of up as float32 [32, 16]; the graph declares bfloat16 [32, 16]."
    )
    assert caught.value.node == "up" and "Convert" in caught.value.hint


def test_another_shape(half: tuple[Graph, Context], stores: list[tuple[Tensor, str]]) -> None:
    stores.append((Tensor(np.ones((16, 32), np.uint16), "bfloat16"), "up.weight"))
    with pytest.raises(PassError, match=r"as bfloat16 \[16, 32\]; the graph declares bfloat16 \[32, 16\]"):
        run(half)


def test_what_is_declared_passes(half: tuple[Graph, Context], stores: list[tuple[Tensor, str]]) -> None:
    stores.append((Tensor(np.ones((32, 16), np.uint16), "bfloat16"), "up.weight"))
    assert run(half).graph.weights["up.weight"] != half[0].weights["up.weight"]


def test_a_mask_of_another_size(half: tuple[Graph, Context]) -> None:
    @transform("masks_test", "Masks")
    def masks(graph: Graph, _options: object, context: Context) -> tuple[Graph, Report]:
        key = context.store.hold(Tensor(np.zeros(3, np.uint8), "uint8"))
        node = replace(graph["up"], sparsity={"weight": Sparsity("l1", 0.5, "local", key, 256)})
        return graph.replace(node), Report("masks_test")

    try:
        with pytest.raises(PassError, match=r"the mask of up.weight as uint8 \[3\]; the graph declares uint8 \[64\]"):
            run(half, "masks_test")
    finally:
        PASSES.remove("masks_test")


LAB = """
def widen_transform_pass(mg, pass_args={}):
    mg.model.get_submodule("up").weight.data = mg.model.get_submodule("up").weight.data.float()
    return mg, {}

def half_transform_pass(mg, pass_args={}):
    mg.model.to(dtype=__import__("torch").float16)
    return mg, {}
"""


@pytest.mark.parametrize("name", ["widen_transform_pass", "half_transform_pass"])
def test_a_pass_of_the_labs_gets_one_error(half: tuple[Graph, Context], name: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.py"
    path.write_text(LAB)
    load_plugin(path)
    with pytest.raises(PassError, match=rf"{name} stores .* as float(32|16) .*; the graph declares bfloat16 \["):
        run(half, name)
