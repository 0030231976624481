"""AutoRound: values and descent are those of the authors' code; blocks are whole units; a stop leaves no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.model.document.graph_json import fingerprint
from espalier.model.errors import DataError, JobError, OptionsError, PassError
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.layers import Effective
from espalier.model.torch.leaf_builder import effective
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.passes.base import Context, Report
from espalier.passes.choices.autoround import AutoroundOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.heads import output_layers
from espalier.passes.recovery.layers import layers_of, plain
from espalier.passes.recovery.learned_rounding import LearnedRounding
from espalier.passes.recovery.units import units_of
from espalier.passes.recovery.walk import samples_of
from espalier.passes.running.splits import load_split
from espalier.passes.select import Select
from espalier.passes.transform.autoround import autoround
from espalier.passes.transform.quantize import quantize
from tests.passes.recovery.recovery_cases import demo, distance, with_format
from tests.passes.streaming.models import folder_of

FORMATS = (
    ScaledInteger(3, "group", 16), ScaledInteger(4, "channel", symmetric=False), ScaledInteger(2, "tensor"),
    ScaledInteger(4, "group", 20, symmetric=False, scale_dtype="float16"), ScaledElement("int4", "group", 16),
    ScaledElement("int3", "channel", scale_dtype="bfloat16"),
)  # fmt: skip
INT3 = ScaledElement("int3", "group", 16)


# -- the authors' formulas (auto-round 0.16.1, data_type/int.py and algorithms/quantization/sign_round)


def rounded(x: Tensor) -> Tensor:
    """round_ste."""
    return (x.round() - x).detach() + x


def authors_value(w: Tensor, fmt: Any, v: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """quant_tensor_asym and quant_tensor_sym_gptq of [rows, columns]: (value, scale, zero point)."""
    size = w.shape[1] if fmt.granularity == "channel" else fmt.group
    groups = -(-w.shape[1] // size)
    padded, offset = (torch.nn.functional.pad(x, (0, groups * size - w.shape[1])).reshape(-1, size) for x in (w, v))
    lowest, largest = padded.min(-1)[0].clamp(max=0) * low, padded.max(-1)[0].clamp(min=0) * high
    asymmetric = isinstance(fmt, ScaledInteger)
    top = 2 ** (fmt.width if asymmetric else int(fmt.element[3:])) - 1
    if not asymmetric:
        largest = torch.max(lowest.abs(), largest)
        lowest = -largest
    scale = (largest - lowest) / top
    zero = rounded(-lowest / scale)[:, None] if asymmetric else torch.full_like(scale, (top + 1) / 2)[:, None]
    q = torch.clamp(rounded(padded / scale[:, None] + offset) + zero, 0, top)
    value = (scale[:, None] * (q - zero)).reshape(w.shape[0], -1)[:, : w.shape[1]]
    return value, scale, zero


def by_hand(w: Tensor, fmt: Any, v: Tensor, low: float, high: float) -> np.ndarray[Any, Any]:
    """The paper's equation 3 element by element, in float64."""
    per = {"tensor": w.numel(), "channel": w.shape[1]}.get(fmt.granularity, fmt.group)
    rows = w.reshape(1, -1) if fmt.granularity == "tensor" else w
    offsets, out = v.reshape(rows.shape), np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for first in range(0, rows.shape[1], per):
            part = rows[i, first : first + per].double().numpy()
            lowest, largest = min(part.min(), 0) * low, max(part.max(), 0) * high
            n = 2**fmt.width - 1
            if getattr(fmt, "symmetric", True):
                full = isinstance(fmt, ScaledElement)
                s = max(largest, -lowest) / (n / 2 if full else (n - 1) / 2)
                ends = (-(n + 1) // 2 if full else -(n - 1) // 2, (n - 1) // 2)
            else:
                s = (largest - lowest) / n
                ends = (-round(-lowest / s), n - round(-lowest / s))
            for j, x in enumerate(part):
                out[i, first + j] = s * min(max(round(x / s + float(offsets[i, first + j])), ends[0]), ends[1])
    return out.reshape(w.shape)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_values_are_the_papers_and_the_format_holds_them(fmt: Any) -> None:
    made = torch.Generator().manual_seed(0)
    w = torch.randn(6, 40, generator=made)
    learned = LearnedRounding(Effective(fmt), w, True)
    with torch.no_grad():
        learned.offset.uniform_(-0.5, 0.5, generator=made)
        learned.shares[0], learned.shares[1] = 0.8, 0.65
        value, scale = learned.value(w)
    near = by_hand(w, fmt, learned.offset.detach(), 0.65, 0.8)
    if fmt.scale_dtype == "float32":
        torch.testing.assert_close(value.double(), torch.from_numpy(near), rtol=1e-5, atol=1e-5)
    else:  # the scale is rounded, so that some codes are neighbours
        apart = (value.double() - torch.from_numpy(near)).abs()
        assert float(apart.max()) < 1.1 * float(scale.abs().max()) and float(apart.median()) < 0.02
    assert torch.equal(fmt.forward_with(value, scale), value)
    encoded = fmt.encode_with(value.numpy(), scale.numpy())
    np.testing.assert_array_equal(fmt.decode(encoded), value.numpy())
    assert not torch.equal(value, fmt.forward(w))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_it_begins_with_rounding_to_nearest(fmt: Any) -> None:
    w = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(LearnedRounding(Effective(fmt), w, True)(w).detach(), fmt.forward(w))


def test_a_given_scale_narrows_the_range() -> None:
    w = torch.randn(4, 32, generator=torch.Generator().manual_seed(2))
    for fmt in (ScaledInteger(3), ScaledInteger(3, symmetric=False), ScaledElement("int3")):
        scale = fmt.scale_of(w) * 0.7
        found = LearnedRounding(Effective(fmt, scale=scale), w, True)(w).detach()
        assert float(found.abs().max()) <= 0.76 * float(fmt.forward(w).abs().max())


# -- the descent, against the authors' loop on transformers' own blocks


class Authors(torch.nn.Module):
    """A Linear of transformers as WrapperLinear tunes it."""

    def __init__(self, inner: torch.nn.Linear, fmt: Any) -> None:
        super().__init__()
        self.inner, self.fmt = inner, fmt
        size = inner.weight.shape[1] if fmt.granularity == "channel" else fmt.group
        count = inner.weight.shape[0] * -(-inner.weight.shape[1] // size)
        self.v = torch.nn.Parameter(torch.zeros_like(inner.weight))
        self.low, self.high = (torch.nn.Parameter(torch.ones(count)) for _ in range(2))

    def value(self) -> tuple[Tensor, Tensor, Tensor]:
        self.low.data.clamp_(0, 1)
        self.high.data.clamp_(0, 1)
        return authors_value(self.inner.weight, self.fmt, self.v, self.low, self.high)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.value()[0], self.inner.bias)


def authors_block(call: Callable[[int], Tensor], wraps: list[Authors], targets: list[Tensor], order: Iterator[int],
                  steps: int) -> None:  # fmt: skip
    """quantize_block: SignSGD with LinearLR; the parameters of the least loss stay."""
    parameters = [p for w in wraps for p in (w.v, w.low, w.high)]
    optimizer = torch.optim.SGD(parameters, lr=1 / steps)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    best, kept = float("inf"), [p.detach().clone() for p in parameters]
    for _ in range(steps):
        index = next(order)
        loss = torch.nn.functional.mse_loss(call(index), targets[index])
        if loss.item() < best:
            best, kept = loss.item(), [p.detach().clone() for p in parameters]
        optimizer.zero_grad()
        (loss * 1000).backward()
        for p in parameters:
            assert p.grad is not None
            p.grad = p.grad.sign()
        optimizer.step()
        schedule.step()
    for p, value in zip(parameters, kept, strict=True):
        p.data.copy_(value)


def language_model(
    kind: str, fmt: Any, tmp_path: Path, dtype: str = "float32"
) -> tuple[Graph, Context, dict[str, Any]]:
    home = folder_of(kind, tmp_path / "model", dtype)
    opened = open_any(str(home), tmp_path / "work")
    context = Context(opened.store, reading=opened.project.source.reading)
    base = opened.project.graph
    names = tuple(n.id for n in base if n.op == "linear" and n.id not in output_layers(base))
    graph = quantize(base, QuantizeOptions((Rule(Select("name", names), {"weight": fmt}),)), context)[0]
    return graph, context, {"data": str(tmp_path / "train.txt"), "max_length": 24, "limit": 12, "batch_size": 4}


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [True, False], ids=["quantised-inputs", "float-inputs"])
@pytest.mark.parametrize("fmt", [ScaledInteger(3, "group", 20, symmetric=False), ScaledElement("int4")], ids=str)
def test_blocks_of_a_llama_are_rounded_as_by_the_authors(fmt: Any, inputs: bool, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    graph, context, data = language_model("llama", fmt, tmp_path)
    steps = 12
    options = AutoroundOptions(**data, steps=steps, quantised_inputs=inputs)
    after, report = autoround(graph, options, context)
    assert report.summary["layers"] == 14 and report.summary["units"] == 2
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval().requires_grad_(False)
    ids = [s["input_ids"] for s in samples_of(load_split(options, context), graph, 4)]
    with torch.no_grad():
        states = [model.model.embed_tokens(x) for x in ids]
        place = model.model.rotary_emb(states[0], torch.arange(ids[0].shape[1])[None])
    tuned = list(states)

    def run(block: Any, x: Tensor) -> Tensor:
        found = block(x, attention_mask=None, position_embeddings=place)  # causal
        return found if isinstance(found, Tensor) else found[0]

    for number, block in enumerate(model.model.layers):
        with torch.no_grad():
            targets = [run(block, x) for x in states]
        wraps = {n: Authors(m, fmt) for n, m in block.named_modules() if isinstance(m, torch.nn.Linear)}
        for name, wrap in wraps.items():
            block.set_submodule(name, wrap)
        given = list(tuned if inputs else states)
        made = torch.Generator().manual_seed(0)
        order = (int(i) for _ in iter(int, 1) for i in torch.randperm(len(ids), generator=made))
        authors_block(lambda i, b=block, g=given: run(b, g[i]), list(wraps.values()), targets, order, steps)
        for name, wrap in wraps.items():
            want = wrap.value()[0].detach()
            stored = to_torch(context.store.get(after.weights[f"model.layers.{number}.{name}.weight"].key or ""))
            same = torch.isclose(stored, want, rtol=1e-4, atol=1e-6).float().mean()
            # A gradient near 0 may have either sign, by the order of sums.
            assert float(same) > 0.98, (number, name)
            with torch.no_grad():
                wrap.inner.weight.copy_(stored)
            block.set_submodule(name, wrap.inner)
        with torch.no_grad():
            tuned, states = [run(block, x) for x in tuned], targets


# -- the pass


def learned(graph: Graph, context: Context, **options: Any) -> tuple[Graph, Report]:
    return autoround(graph, AutoroundOptions(**{"steps": 30, "limit": 32, **options}), context)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo:digits", "demo:digits-mlp"])
def test_layers_outside_of_blocks_are_learned_one_by_one(name: str) -> None:
    opened, context = demo(name)
    before = with_format(opened.project.graph, context, ("linear", "conv2d"), weight=ScaledInteger(3))
    after, report = learned(before, context, data=name, limit=128, batch_size=16, lr=0.02)
    assert report.summary["units"] == len([r for r in report.rows if "unit" in r]) > 1
    assert distance(after, name) < 0.8 * distance(before, name)
    assert not [p for p in check(after) if p.severity == "error"]
    assert all(r["error"] <= r["error_rounded"] for r in report.rows)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype", "fmt"), [
    ("gpt2", "float32", ScaledInteger(3, "group", 24, symmetric=False)),  # Conv1D, groups that do not divide
    ("tied", "float32", INT3), ("llama", "bfloat16", ScaledInteger(3, "group", 16)), ("opt", "bfloat16", INT3),
])  # fmt: skip
def test_language_models(kind: str, dtype: str, fmt: Any, tmp_path: Path) -> None:
    graph, context, data = language_model(kind, fmt, tmp_path, dtype)
    after, report = learned(graph, context, **data)
    assert report.summary["layers"] and report.summary["mean_error_ratio"] < 0.8
    assert report.summary["units"] == 2, "blocks as a whole"
    module = build(after, context.store)
    tensors = parameters_of(module)
    for node in (n for n in after if "weight" in n.precision and n.precision["weight"].scale):
        name = node.weights.get("weight") or next(iter(node.tensors))
        value = tensors[name].detach()
        assert torch.equal(effective(node, "weight", after, context.store)(value), value), "codes with that scale"
    (sample,) = samples_of(load_split(AutoroundOptions(**data), context).take(4), after, 4)
    with torch.no_grad():
        exact, rough, fine = (build(g, context.store)(**sample)["logits"].float() for g in (plain(graph), graph, after))
    assert (fine - exact).square().mean() < (rough - exact).square().mean()


@pytest.mark.slow
def test_runs_are_repeatable_and_seeds_differ(tmp_path: Path) -> None:
    graph, context, data = language_model("llama", INT3, tmp_path)
    first, second, third = (
        learned(graph, replace(context, seed=seed), **data, steps=5)[0] for seed in (0, 0, 1)
    )  # fmt: skip
    assert fingerprint(first) == fingerprint(second) != fingerprint(third)


@pytest.mark.slow
def test_pruned_weights_stay_zero_and_keep_their_values() -> None:
    from espalier.passes.choices.prune import PruneOptions
    from espalier.passes.transform.prune import prune

    opened, context = demo("demo:digits-mlp")
    graph = prune(opened.project.graph, PruneOptions(), context)[0]
    before = with_format(graph, context, ("linear",), weight=ScaledInteger(3, symmetric=False))
    after, report = learned(before, context, data="demo:digits-mlp", lr=0.05)
    assert report.summary["layers"]
    for layer in layers_of([n for n in after if n.op == "linear"], after)[0]:
        through = effective(layer.nodes[0], "weight", after, context.store)
        assert through.mask is not None
        old, new = (to_torch(context.store.get(g.weights[layer.name].key or "")) for g in (before, after))
        off = ~through.mask.bool()
        assert off.any() and not through(new)[off].any() and torch.equal(new[off], old[off])


# -- stops and faults


@pytest.mark.slow
def test_a_cancelled_run_leaves_the_graph_and_its_weights_alone(tmp_path: Path) -> None:
    graph, context, data = language_model("llama", INT3, tmp_path)
    mark, texts = fingerprint(graph), list[str]()

    def progress(done: float, total: float, text: str) -> None:
        texts.append(f"{done} of {total}: {text}")
        if done >= 7:  # in the second block
            raise JobError("cancelled")

    with pytest.raises(JobError, match="cancelled"):
        learned(graph, replace(context, progress=progress), **data, steps=5)
    assert fingerprint(graph) == mark and len(texts) == 8
    assert all(context.store.get(w.key).key() == w.key for w in graph.weights.values() if w.key)
    assert "AutoRound: model.layers.1, step 3" in texts[-1] and texts[-1].startswith("7 of 10")
    after, _ = learned(graph, context, **data, steps=5)
    assert fingerprint(after) != mark


@pytest.mark.slow
def test_what_it_cannot_do_is_told(tmp_path: Path) -> None:
    graph, context, data = language_model("llama", INT3, tmp_path)
    with pytest.raises(PassError, match=r"None of the .* nodes can be rounded by AutoRound") as caught:
        learned(plain(graph), context, **data)
    assert "format first" in caught.value.hint
    with pytest.raises(PassError, match="recorded from a run"):
        learned(replace(graph, runs="module"), context, **data)
    blocks = with_format(plain(graph), context, ("linear",), weight=MXInt(4, 16))
    with pytest.raises(PassError, match="has no integer codes with a scale") as caught:
        learned(blocks, context, **data)
    assert "scaled_integer" in caught.value.hint
    with pytest.raises(DataError):
        learned(graph, context, **{**data, "data": ""})
    assert learned(graph, context, **{**data, "limit": 1}, steps=3)[1].summary["units"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value", "text"), [
    ("model.layers.0.mlp.up_proj.weight", float("nan"), "holds 1 "),
    ("model.layers.0.input_layernorm.weight", float("inf"), "results of model.layers.0 are not finite"),
])  # fmt: skip
def test_values_that_are_not_finite_are_named(name: str, value: float, text: str, tmp_path: Path) -> None:
    graph, context, data = language_model("llama", INT3, tmp_path)
    broken = to_torch(context.store.get(graph.weights[name].key or "")).clone()
    broken.view(-1)[3] = value
    weight = replace(graph.weights[name], key=context.store.hold(to_numpy(broken)))
    with pytest.raises(PassError, match=text):
        learned(graph.with_weights({name: weight}), context, **data)


def test_options_are_checked() -> None:
    assert AutoroundOptions().rates(4) == (0.005, 0.005)
    assert AutoroundOptions(steps=1000).rates(2) == (0.002, 0.002)
    assert AutoroundOptions(lr=0.01, minmax_lr=0.02).rates(2) == (0.01, 0.02)
    for wrong in ({"steps": 0}, {"lr": -0.1}, {"minmax_lr": 2.0}):
        with pytest.raises(OptionsError):
            AutoroundOptions(**wrong)


# -- units


@pytest.mark.slow
def test_a_block_is_one_unit_and_the_output_layer_another() -> None:
    opened, context = demo("demo:stories")
    graph = with_format(opened.project.graph, context, ("linear",), weight=ScaledInteger(4))
    layers, _ = layers_of([n for n in graph if n.op == "linear"], graph)
    units, skipped = units_of(graph, layers)
    assert [u.title for u in units[:2]] == ["model.layers.0", "model.layers.1"] and not skipped
    assert all(len(u.layers) == 7 and len(u.results) == 1 for u in units if u.title.startswith("model"))
    assert sum(len(u.layers) for u in units) == len(layers)
    assert len(units[0].nodes & units[1].nodes) == 0


@pytest.mark.slow
def test_a_block_that_a_path_leaves_and_enters_again_is_cut_into_layers() -> None:
    opened, context = demo("demo:stories")
    graph = with_format(opened.project.graph, context, ("linear",), weight=ScaledInteger(4))
    inner = "model_layers_0_mlp_gate_proj"
    between = next(n for n in graph if inner in {r.node for r in n.inputs})
    torn = graph.replace(replace(between, module_path="elsewhere"))
    layers, _ = layers_of([n for n in torn if n.op == "linear"], torn)
    units, skipped = units_of(torn, layers)
    titles = [u.title for u in units]
    assert "model.layers.0" not in titles and inner in titles and "model.layers.1" in titles and not skipped
