"""ONNX files run in onnxruntime as the model does; their weights take the bits of their formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from espalier.app.cli import main
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import ExportError
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Weight
from espalier.model.graph.ops import quantisable
from espalier.model.graph.views import View
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Tensor, WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.export import Exported, compare, export
from espalier.passes.export.grids import grid_of
from espalier.passes.export.settings import OnnxOptions, Settings
from espalier.passes.running.example import example_inputs
from espalier.passes.transform.prune import prune
from tests.chance import number, whole
from tests.model.zoo import Case, case
from tests.passes.export.precise_session import precise_session

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

EXACT = OnnxOptions(exact=True)
INT8 = ("integer(width=8, frac_width=6)", "integer(width=8, frac_width=4)")


def chosen(held: Case, weight: str, data: str, graph: Graph | None = None) -> Graph:
    graph = graph or held.graph
    formats = {p: Precision(parse_format(t)) for p, t in (("weight", weight), ("data_in", data)) if t}
    able = [n for n in graph if "weight" in n.weights and n.op in ("linear", "conv1d", "conv2d")]
    return graph.replace(
        *(replace(n, precision={p: c for p, c in formats.items() if p in quantisable(n)}) for n in able)
    )


def written(graph: Graph, store: WeightStore, folder: Path, settings: Settings | None = None) -> Exported:
    project = Project(SourceInfo("file.py:make", "model"), graph, Recipe(), graph)
    return export(project, store, "onnx", folder / "m.onnx", settings or Settings(onnx=EXACT))


def session(done: Exported) -> Any:
    return precise_session(done.files[0])


def told(done: Exported) -> list[str]:
    """The notes, but for the one that names a setting of the runtime."""
    return [n for n in done.notes if "A plain onnxruntime session" not in n]


def kinds(done: Exported) -> list[str]:
    return [n.op_type for n in onnx.load(done.files[0]).graph.node]


# -- whole models


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "image", "tied", "functions"])
def test_a_quantised_and_pruned_model_is_equal_in_onnxruntime(name: str, tmp_path: Path) -> None:
    held = case(name)
    graph = chosen(held, *INT8)
    graph = graph if name == "functions" else prune(graph, PruneOptions(0.5), Context(held.store))[0]
    done = written(graph, held.store, tmp_path)
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-5 and not told(done)
    run, module = session(done), build(graph, held.store)
    values = held.fresh(7, 9)
    with torch.no_grad():
        want = torch.utils._pytree.tree_leaves(module(**values))
    got = run.run(None, {i.name: values[i.name].numpy() for i in run.get_inputs()})
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_names_and_free_sizes_are_those_of_the_graph(tmp_path: Path) -> None:
    held = case("tied")
    made = onnx.load(written(held.graph, held.store, tmp_path).files[0]).graph
    shape = {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in made.input}
    assert shape == {n.target: list(n.out.shape) for n in held.graph.placeholders if n.out}
    assert any(isinstance(d, str) for d in shape["ids"])
    assert [o.name for o in made.output] == list(held.graph.output_names)


@pytest.mark.slow
def test_weights_take_the_bits_of_their_format(tmp_path: Path) -> None:
    held, types = case("mlp"), onnx.TensorProto
    for text, kind, width in (("", types.FLOAT, 32), ("scaled_integer()", types.INT8, 8),
                              ("scaled_integer(width=4)", types.INT4, 4)):  # fmt: skip
        made = onnx.load(written(chosen(held, text, ""), held.store, tmp_path).files[0]).graph
        found = [i for i in made.initializer if len(i.dims) == 2 and 1 not in i.dims]
        assert [i.data_type for i in found] == [kind, kind]
        assert sum(len(i.raw_data) for i in found) == (24 + 18) * width // 8


def test_a_recorded_model_is_refused(tmp_path: Path) -> None:
    held = case("mlp")
    with pytest.raises(ExportError, match="works only with its own code"):
        written(replace(held.graph, runs="module"), held.store, tmp_path)


def test_a_format_that_onnx_cannot_say_is_refused_or_left_out(tmp_path: Path) -> None:
    held = case("mlp")
    graph = chosen(held, "", "minifloat_ieee(width=32, exponent_width=4)")
    with pytest.raises(ExportError, match=r"first data_in .*more than 16 bits") as found:
        written(graph, held.store, tmp_path)
    assert found.value.node == "first" and "--leave-float" in found.value.hint
    done = written(graph, held.store, tmp_path, Settings(leave_float=True, onnx=EXACT))
    assert any("first data_in" in n and "left in float" in n for n in done.notes) and "Round" not in kinds(done)


def test_without_the_packages_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "onnx" else real(name, *a))
    with pytest.raises(ExportError, match="ONNX needs the package onnx") as found:
        written(case("mlp").graph, case("mlp").store, tmp_path)
    assert "espalier[onnx]" in found.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_16_bits_are_judged_by_their_own_roundings_or_not_at_all(dtype: torch.dtype, tmp_path: Path) -> None:
    """onnxruntime has no bfloat16 on a processor: that is said, with what to do, and no difference is told."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).to(dtype).eval()
    store = WeightStore(tmp_path / "w")
    done = written(trace(model, {"input": torch.randn(2, 16, dtype=dtype)}, store).graph, store, tmp_path)
    if dtype == torch.bfloat16:
        assert done.max_abs_diff is None and len(done.notes) == 1
        assert "CPU provider did not open it (" in done.notes[0] and "float32" in done.notes[0]
    else:
        assert done.max_abs_diff is not None and 0 < done.max_abs_diff < 4e-3 and not done.notes


def test_a_runtime_that_fails_at_every_size_finds_no_difference() -> None:
    def fails(_: object) -> list[torch.Tensor]:
        raise RuntimeError("no kernel")

    found = compare.compare(case("mlp").graph, case("mlp").store, fails, "it")
    assert found is not None and found.difference is None and "no kernel" in found.notes[0]


def test_errors_without_words_are_called_by_their_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> list[torch.Tensor]:
        raise MemoryError

    held = case("mlp")
    found = compare.compare(held.graph, held.store, fails, "it")
    assert found is not None and all(note.endswith(": MemoryError") for note in found.notes)
    monkeypatch.setattr(compare, "_session", fails)
    unopened = compare.compare_onnx(held.graph, held.store, tmp_path / "none.onnx")
    assert unopened is not None and "(MemoryError)" in unopened.notes[0]


@pytest.mark.slow
def test_a_file_that_the_runtime_does_not_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(compare, "_session", fails)
    held = case("mlp")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "m.onnx").write_bytes(b"older")
    with pytest.raises(ExportError, match=r"cannot open it \(no such operator\)"):
        written(held.graph, held.store, tmp_path / "out")
    assert [p.read_bytes() for p in (tmp_path / "out").iterdir()] == [b"older"]


@pytest.mark.slow
def test_activations_round_through_whole_numbers(tmp_path: Path) -> None:
    """Given scales too; 6 bits through 8, with a clip."""
    held = case("mlp")
    key = held.store.hold(Tensor(np.array(0.0371, np.float32), "float32"))
    graph = held.graph.with_weights({"seen": Weight(key, (), "float32", "buffer", False)})
    first = {"data_in": Precision(parse_format("scaled_integer(width=6, granularity=tensor)"), "seen"),
             "weight": Precision(parse_format("scaled_integer(width=8)"))}  # fmt: skip
    second = {"data_in": Precision(parse_format("integer(width=8, frac_width=5)"))}
    graph = graph.replace(replace(graph["first"], precision=first), replace(graph["second"], precision=second))
    done = written(graph, held.store, tmp_path)
    assert done.max_abs_diff == pytest.approx(0.0, abs=1e-6)
    found = kinds(done)
    assert (found.count("QuantizeLinear"), found.count("DequantizeLinear"), found.count("Clip")) == (2, 1, 1)


FLOWING: list[dict[str, Any]] = [
    {}, {"method": "random"}, {"pattern": "threshold", "scope": "global", "data": "demo:digits"},
]  # fmt: skip


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("options", FLOWING, ids=str)
def test_pruning_of_activations_goes_along(options: dict[str, Any], tmp_path: Path) -> None:
    """The top k of each sample with ties, one random order, a measured threshold."""
    from espalier.model.opening import open_any
    from espalier.passes.recipes.config import load_recipe
    from espalier.passes.recipes.replay import replay

    opened = open_any("demo:digits-mlp", tmp_path / "work")
    step = {"pass": "prune_activations", "options": {"sparsity": 0.4, **options}}
    graph = replay(opened.project.graph, load_recipe({"steps": [step]}), Context(opened.store)).graph
    assert any(s.flows for n in graph for s in n.sparsity.values())
    done = written(graph, opened.store, tmp_path)
    assert not told(done) and done.max_abs_diff is not None and done.max_abs_diff < 1e-4


# -- each format

ACTIVATIONS = (
    "integer(width=8, frac_width=4, rounding=floor)", "integer(width=3, frac_width=1, signed=false)",
    "integer(width=20, frac_width=12)", "minifloat_ieee()", "minifloat_ieee(reserved=nan)",
    "minifloat_ieee(exponent_width=5, reserved=inf)", "minifloat_denorm()", "log()", "block_fp()", "block_minifloat()",
    "block_log()", "mxint()", "mxfp()", "mxfp(element=e2m1)", "nvfp4()", "scaled_integer()",
    "scaled_integer(symmetric=false)", "scaled_integer(granularity=group, group=16)",
    "scaled_integer(granularity=tensor)", "ternary()", "binary()", "binary(stochastic=true)",
    "binary_scaled()", "binary_residual()",
)  # fmt: skip


@pytest.mark.slow
def test_every_format_of_activations_is_equal_bit_for_bit(pytestconfig: pytest.Config) -> None:
    """In one model, at other sizes than those it was exported at: a third of them, which the run draws."""
    from espalier.model.torch.layers import Effective
    from espalier.model.trace.capture import quiet
    from espalier.passes.export.onnx_nodes import OPSET, activation
    from espalier.passes.export.onnx_powers import TRANSLATIONS

    drawn = Random(number(pytestconfig, "activations")).sample(ACTIVATIONS, len(ACTIVATIONS) // 3)
    formats = [parse_format(t) for t in (ACTIVATIONS if whole() else drawn)]

    class All(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = torch.nn.ModuleList([activation(Effective(f)) for f in formats])

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(m(x) for m in self.each)

    with quiet(), torch.no_grad():
        free = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
        program = torch.export.export(All(), (awkward(8, 48),), strict=False, dynamic_shapes=(free,))
        made = torch.onnx.export(program, (), dynamo=True, opset_version=OPSET, verbose=False,
                                 custom_translation_table=TRANSLATIONS)  # fmt: skip
    run = onnxruntime.InferenceSession(made.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for x in (awkward(8, 48), awkward(11, 50)):
        for fmt, got in zip(formats, run.run(None, {run.get_inputs()[0].name: x.numpy()}), strict=True):
            rule = replace(fmt, stochastic=False) if fmt.stochastic else fmt  # type: ignore[call-arg]
            np.testing.assert_array_equal(got, rule.define(x).numpy(), err_msg=str(fmt))


def awkward(rows: int, columns: int) -> torch.Tensor:
    """Ties, zeros, tiny and huge numbers."""
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))
    x[0], x[1], x[2], x[3] = x[0] * 100, x[1] * 1e-3, 0, (x[3] * 16).round() / 32
    x[4], x[5, ::2] = x[4] * 2**20, 0
    return x


STORED = {
    "integer(width=8, frac_width=6)": "int8", "integer(width=4, frac_width=3)": "int4",
    "integer(width=8, frac_width=7, signed=false)": "uint8", "integer(width=12, frac_width=10)": "int16",
    "scaled_integer(width=8)": "int8", "scaled_integer(width=4, granularity=group, group=5)": "int4",
    "scaled_integer(width=4, symmetric=false)": "uint4", "scaled_integer(width=8, granularity=tensor)": "int8",
    "ternary()": "int4", "binary()": "int4", "binary_scaled()": "int4", "mxint(width=8, block=8)": "int8",
    "mxint(width=4, block=8)": "int4", "mxfp(element=e2m1, block=8)": "int8", "nvfp4(block=8)": "int8",
    "block_fp(width=8, block=8)": "int8", "minifloat_ieee(width=4, exponent_width=2)": "int8",
    "minifloat_ieee(width=6, exponent_width=3)": "int16", "minifloat_denorm(width=4, exponent_width=2)": "int8",
    "log(width=4)": "int8", "binary_residual()": None, "block_fp(width=8, block=8, rows=2)": None,
}  # fmt: skip
LAYOUTS = {"rows": None, "turned": View((1, 0)), "convolution": View((0, 1, 2, 3), flat=True),
           "transposed convolution": View((1, 0, 2, 3), flat=True),
           "transposed in groups": View((1, 0, 2, 3), flat=True, groups=4)}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", STORED)
def test_codes_and_scales_give_the_values(text: str, layout: str) -> None:
    """(codes − zero)·scale, spread as ONNX says, is what the format computes; in the type that is meant for it."""
    fmt, view = parse_format(text), LAYOUTS[layout]
    shape = (12, 10, 3, 2) if view and view.flat else (12, 10)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 0.4
    value = effective(fmt, x, view).numpy()
    grid = grid_of(value, (x if view is None else view.of(x)).numpy(), fmt, view, None)
    if STORED[text] is None:
        assert grid is None
        return
    assert grid is not None and bits(grid.dtype) <= bits(STORED[text] or "")  # fewer where the values allow it
    codes = grid.codes.astype(np.float32)
    scale, zero = (spread_out(a, grid, codes.shape) for a in (grid.scale, grid.zero))
    found = (codes - np.float32(0 if zero is None else zero)) * scale
    if grid.folded and view:
        found = view.back(torch.from_numpy(found), shape).numpy()
    np.testing.assert_array_equal(found, value)


def bits(kind: str) -> int:
    return int(kind.lstrip("uint"))


def effective(fmt: Format, x: torch.Tensor, view: View | None) -> torch.Tensor:
    seen = x if view is None else view.of(x)
    value = fmt.define(seen.contiguous())
    return value if view is None else view.back(value, tuple(x.shape)).contiguous()


def spread_out(given: np.ndarray | None, grid: Any, shape: tuple[int, ...]) -> Any:
    """Scales and zero points as ONNX's DequantizeLinear lays them over the codes."""
    if given is None or grid.axis is None:
        return given
    if grid.block:
        many = np.repeat(given, grid.block, axis=grid.axis)
        return np.take(many, range(shape[grid.axis]), axis=grid.axis)
    return given.reshape([-1 if i == grid.axis else 1 for i in range(len(shape))])


def test_a_given_scale_is_the_one_in_the_file() -> None:
    fmt = parse_format("scaled_integer(width=8)")
    assert isinstance(fmt, ScaledFormat)
    x, scale = torch.randn(6, 4), torch.full((6, 1), 0.03)
    grid = grid_of(fmt.with_scale(x, scale).numpy(), x.numpy(), fmt, None, scale.numpy())
    assert grid is not None and np.array_equal(grid.scale, scale.numpy()[:, 0])


# -- the command line, on what people have


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("demo", ["demo:digits-mlp", "demo:digits", "demo:reviews"])
def test_predictions_of_a_demo_are_equal(demo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from espalier.model.data.loading import load_data

    rule = {"select": {"by": "type", "values": ["linear", "conv2d"]},
            "formats": {"weight": INT8[0], "data_in": INT8[1]}}  # fmt: skip
    steps = [{"pass": "quantize", "options": {"rules": [rule]}}, {"pass": "prune", "options": {"sparsity": 0.4}}]
    recipe, saved, file = tmp_path / "r.json", str(tmp_path / "p.espalier"), str(tmp_path / "m.onnx")
    recipe.write_text(json.dumps({"steps": steps}))
    assert main(["run", demo, str(recipe), "-o", saved]) == 0
    capsys.readouterr()
    assert main(["export", saved, "--as", "onnx", "--exact", "-o", file, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == [file] and said["bytes"] == Path(file).stat().st_size
    # Last bits may differ, and a rounding then makes a step of a code of it; nothing worse may happen.
    differ = ("Results of onnxruntime", "A plain onnxruntime session differs", "Other settings change that to")
    assert all(w.startswith(differ) for w in said["warnings"]), said["warnings"]
    assert said["max_abs_diff"] < 0.1
    split = load_data("demo:reviews" if demo == "demo:reviews" else "demo:digits", limit=200).split("test")
    run = precise_session(file)
    guess = run.run(None, {i.name: split.inputs[i.name] for i in run.get_inputs()})[0].argmax(-1)
    right = float((guess == split.labels).mean())
    assert main(["evaluate", saved, "--data", demo.replace("-mlp", ""), "--limit", "200", "--json"]) == 0
    assert right == pytest.approx(json.loads(capsys.readouterr().out)["accuracy"], abs=1e-9)


TINY = {
    "gpt2": "config:gpt2?n_layer=2&n_embd=32&n_head=2&vocab_size=100&n_positions=64&task=causal-lm",
    "llama": "config:llama?num_hidden_layers=1&hidden_size=32&num_attention_heads=4&num_key_value_heads=2"
             "&intermediate_size=64&vocab_size=100&task=causal-lm",
    "vit": "config:vit?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&image_size=32"
           "&patch_size=8&task=image-classification",
    "resnet": "config:resnet?depths=[1,1]&hidden_sizes=[16,32]&embedding_size=16&task=image-classification",
}  # fmt: skip


@pytest.mark.sampled(0.25)
@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_models_of_transformers_are_equal(name: str, tmp_path: Path) -> None:
    from espalier.model.opening import open_any

    opened = open_any(TINY[name], tmp_path / "work", seed=1, origin=Origin.TYPED)
    formats = {"weight": Precision(parse_format("scaled_integer(width=8)")),
               "data_in": Precision(parse_format("integer(width=8, frac_width=5)"))}  # fmt: skip
    graph = opened.project.graph
    able = [n for n in graph if n.op in ("linear", "conv2d") and "weight" in n.weights]
    graph = graph.replace(*(replace(n, precision=formats) for n in able))
    done = written(graph, opened.store, tmp_path)
    assert not told(done) and done.max_abs_diff is not None and done.max_abs_diff < 1e-4


def spoiled(monkeypatch: pytest.MonkeyPatch, helps: str) -> None:
    """A runtime whose results are half of what they are, but with the setting that helps."""
    opened = compare._session

    def half(path: Path, entries: dict[str, str] | None = None) -> Any:
        run = opened(path, entries)
        return run if helps in (entries or {}) else lambda values: [v * 0.5 for v in run(values)]

    monkeypatch.setattr(compare, "_session", half)


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key, _ in compare.SETTINGS])
def test_the_setting_that_was_seen_to_help_is_told(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled(monkeypatch, key)
    held = case("mlp")
    done = written(chosen(held, *INT8), held.store, tmp_path)
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-5
    assert len(done.notes) == 1 and f'add_session_config_entry("{key}", "1")' in done.notes[0]


@pytest.mark.slow
def test_where_no_setting_helps_only_differences_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled(monkeypatch, "none")
    held = case("mlp")
    done = written(chosen(held, *INT8), held.store, tmp_path)
    assert done.max_abs_diff is not None and done.max_abs_diff > 1e-3
    assert len(done.notes) == 2 and "differ by up to" in done.notes[0] and "add_session" not in done.notes[1]
    assert all(f"with {key}=1" in done.notes[1] for key, _ in compare.SETTINGS)


@pytest.mark.slow
def test_what_the_runtime_rounds_by_itself_is_told_with_its_setting(tmp_path: Path) -> None:
    """onnxruntime makes MatMulNBits of 8-bit weights, which rounds activations too unless the level is 1."""
    from espalier.model.opening import open_any

    opened = open_any("demo:reviews", tmp_path / "work")
    graph, level = opened.project.graph, "session.qdq_matmulnbits_accuracy_level"
    able = {"weight": Precision(parse_format("scaled_integer(width=8)"))}
    graph = graph.replace(*(replace(n, precision=able) for n in graph if n.op == "linear"))
    done = written(graph, opened.store, tmp_path)
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-5
    values = {k: v.numpy() for k, v in example_inputs(graph, {}).items()}

    def results(**entries: str) -> Any:
        options = onnxruntime.SessionOptions()
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        run = onnxruntime.InferenceSession(done.files[0], options, providers=["CPUExecutionProvider"])
        return run.run(None, {i.name: values[i.name] for i in run.get_inputs()})[0]

    apart = np.abs(results() - results(**{level: "1"})).max()
    assert (apart > 1e-3) == any(level in note for note in done.notes)


@pytest.mark.slow
def test_overflows_of_8_bit_products_are_told_where_the_processor_has_them(tmp_path: Path) -> None:
    """All codes are 127, so that two products together exceed 16 bits; the sum by hand is 64 · 127 · 127."""
    from torch import nn

    import espalier as es

    layer = nn.Linear(64, 8, bias=False)
    nn.init.constant_(layer.weight, 1.27)
    m = es.trace(nn.Sequential(layer).eval(), torch.ones(2, 64)).quantize(
        "linear", weight="scaled_integer(granularity=tensor)", data_in="integer(width=8, frac_width=0)"
    )
    done = m.export("onnx", tmp_path / "m.onnx", exact=True)
    values = np.full((2, 64), 127, np.float32)

    def results(run: Any) -> Any:
        return run.run(None, {run.get_inputs()[0].name: values})[0]

    path = tmp_path / "m.onnx"
    plain = results(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]))
    precise = results(precise_session(path))
    assert np.allclose(precise, 64 * 127 * 1.27, rtol=1e-6)
    overflows = np.abs(plain - precise).max() > 1
    assert done.summary["max_abs_diff"] < 1
    assert overflows or not any(compare.PRECISE[0] in n for n in done.summary["notes"])
