"""Presets are the schemes of their names: compared with compressed-tensors' table, its arithmetic and transformers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.project import Project
from espalier.model.errors import ExportError, OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.base import Context
from espalier.passes.choices.presets import PRESETS, QuantizePresetOptions, group_of, preset_named
from espalier.passes.export import export
from espalier.passes.export.settings import Settings
from espalier.passes.export.targets.compressed_tensors import Args, input_args, weight_args
from espalier.passes.export.transformers_folder import load
from espalier.passes.heads import output_layers
from espalier.passes.select import Select
from espalier.passes.transform.quantize_preset import quantize_preset
from tests.passes.export.models import made

NAMES = tuple(PRESETS)
NVFP4_INPUT = "its tensor scale is calibrated there, and taken from the data here"


def schemes() -> Any:
    return pytest.importorskip("compressed_tensors.quantization.quant_scheme").PRESET_SCHEMES


@cache
def opened(home: Path, kind: str, dtype: str = "float32") -> tuple[Project, WeightStore]:
    found = open_any(str(made(kind, home / "model", dtype)), home / "work")
    return found.project, found.store


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("presets")


def chosen(graph: Graph, store: WeightStore, preset: Any, **more: Any) -> Graph:
    return quantize_preset(graph, QuantizePresetOptions(preset, **more), Context(store))[0]


# -- the table


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_the_scheme_of_its_name(name: str) -> None:
    preset = PRESETS[name]
    theirs = schemes()[preset.scheme]
    dtype = "bfloat16" if "fp4" in name or name.startswith("mx") else "float32"
    weight = weight_args(preset.weight, (256, 256), dtype)
    assert isinstance(weight, Args)
    same(weight, theirs["weights"])
    wanted = theirs.get("input_activations")
    assert (wanted is None) == (preset.data_in is None)
    if preset.data_in is None or name == "nvfp4":  # NVFP4_INPUT
        return
    given = input_args(preset.data_in, None)
    assert isinstance(given, Args) and given.dynamic
    same(given, wanted)


def same(mine: Args, theirs: Any) -> None:
    got = (mine.num_bits, mine.type, mine.symmetric, mine.strategy, mine.group_size, mine.dynamic)
    want = (theirs.num_bits, theirs.type, theirs.symmetric, theirs.strategy, theirs.group_size, theirs.dynamic)
    assert got == want
    scale = theirs.scale_dtype
    assert mine.scale_dtype == (str(scale).removeprefix("torch.") if scale is not None else None)


@pytest.mark.parametrize("name", ["w4a16_g128", "w8a8_dynamic", "w8a16", "fp8_dynamic", "w2a16_g128", "w4a16_asym"])
def test_weights_are_rounded_as_compressed_tensors_rounds_them(name: str) -> None:
    """Its observer's range, its scales and its fake quantisation; zero points move ties, and nothing else."""
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.quantization import forward
    from compressed_tensors.quantization.utils import calculate_qparams

    args = schemes()[PRESETS[name].scheme]["weights"]
    x = torch.randn(48, 256, generator=torch.Generator().manual_seed(2)) * 0.03
    x[3] = 0
    parts = x.unflatten(-1, (-1, args.group_size)) if args.group_size else x[:, None]
    scale, zero = calculate_qparams(parts.amin(-1), parts.amax(-1), args)
    want = forward.fake_quantize(x, scale, zero, args)
    got = PRESETS[name].weight.forward(x)
    if args.symmetric:
        assert torch.equal(got, want)
    else:
        torch.testing.assert_close(got[x != 0], want[x != 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["w8a8_dynamic", "w4a4", "fp8_dynamic"])
def test_tokens_are_rounded_as_compressed_tensors_rounds_them(name: str) -> None:
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.quantization import forward
    from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

    args = schemes()[PRESETS[name].scheme]["input_activations"]
    x = (
        torch.randn(3, 7, 96, generator=torch.Generator().manual_seed(4))
        * torch.tensor([1.0, 30.0, 0.01])[:, None, None]
    )
    scale, zero = compute_dynamic_scales_and_zp(x, args, torch.nn.Identity())
    fmt = PRESETS[name].data_in
    assert fmt is not None and scale.shape == (3, 7, 1)
    assert torch.equal(fmt.forward(x), forward.fake_quantize(x, scale, zero, args))


# -- the export


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "more"),
    [("w4a16_g128", "float32", {"group": 32}), ("w4a16_asym", "float32", {"group": 32}),
     ("w3a16_g128", "float32", {"uneven": "channel"}), ("w8a8_dynamic", "float32", {}), ("fp8_dynamic", "float32", {}),
     ("w4afp8", "float32", {"group": 16}), ("w4a16_g128", "bfloat16", {"group": 32}), ("mxfp4a16", "bfloat16", {}),
     ("nvfp4a16", "bfloat16", {}), ("mxfp8a16", "bfloat16", {})],
)  # fmt: skip
def test_transformers_opens_the_folder_with_equal_logits(
    name: str, dtype: str, more: dict[str, Any], home: Path, tmp_path: Path
) -> None:
    pytest.importorskip("compressed_tensors")
    project, store = opened(home / dtype, "llama", dtype)
    project = replace(project, graph=chosen(project.graph, store, name, **more))
    done = export(project, store, "compressed-tensors", tmp_path / "out")
    assert not [n for n in done.notes if "another rule" in n]
    model, ids = load(tmp_path / "out"), torch.randint(3, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mine = build(project.graph, store)(input_ids=ids, attention_mask=torch.ones_like(ids))["logits"]
        theirs = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    torch.testing.assert_close(theirs, mine, rtol=0, atol=0 if PRESETS[name].data_in is None else 2e-5)
    assert float((mine - build_float(home, dtype)(ids)).abs().max()) > 1e-4, "something is rounded"


def build_float(home: Path, dtype: str) -> Any:
    project, store = opened(home / dtype, "llama", dtype)
    module = build(project.graph, store)

    def run(ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return module(input_ids=ids, attention_mask=torch.ones_like(ids))["logits"]

    return run


@pytest.mark.slow
def test_activations_with_other_scales_are_told_or_refused(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("compressed_tensors")
    project, store = opened(home / "bfloat16", "llama", "bfloat16")
    mx = replace(project, graph=chosen(project.graph, store, "mxfp4"))
    done = export(mx, store, "compressed-tensors", tmp_path / "mx")
    assert any("1.75·2^k" in n for n in done.notes)
    nv = replace(project, graph=chosen(project.graph, store, "nvfp4"))
    with pytest.raises(ExportError, match="a calibrated one is read"):
        export(nv, store, "compressed-tensors", tmp_path / "nv")
    done = export(nv, store, "compressed-tensors", tmp_path / "nv", Settings(leave_float=True))
    assert any("Left in float: data_in" in n for n in done.notes)


# -- what is chosen


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "head"), [("llama", "lm_head"), ("tied", "lm_head"), ("neox", "lm_head"),
                                            ("gpt2", "lm_head")])  # fmt: skip
def test_the_output_layer_stays_float(kind: str, head: str, home: Path) -> None:
    project, store = opened(home / kind, kind)
    options = QuantizePresetOptions("w8a8_dynamic")
    graph, report = quantize_preset(project.graph, options, Context(store))
    (row,) = [r for r in report.rows if "skipped" in r]
    assert graph[row["node"]].target == head and not graph[row["node"]].precision
    linears = [n for n in graph if n.op == "linear" and n.target != head]
    assert linears and all({"weight", "data_in"} == set(n.precision) for n in linears)
    whole, report = quantize_preset(project.graph, replace(options, head=True), Context(store))
    assert whole[row["node"]].precision and not report.summary["skipped"]


@pytest.mark.slow
def test_a_classifier_is_no_output_layer_of_a_language_model(home: Path) -> None:
    project, store = opened(home / "bert", "bert")
    graph = chosen(project.graph, store, "w8a16", group=32)
    assert all(n.precision for n in graph if n.op == "linear")


@pytest.mark.slow
def test_rows_that_groups_do_not_divide(home: Path) -> None:
    project, store = opened(home / "odd", "odd")  # rows of 36, 40 and 50
    with pytest.raises(
        PassError, match=r"Groups of 128 do not divide the 36 inputs of .* \(and 6 more layers\)"
    ) as caught:
        chosen(project.graph, store, "w4a16_g128")
    assert 'uneven = "channel"' in caught.value.hint
    graph = chosen(project.graph, store, "w4a16_g128", group=4, uneven="channel")
    sizes = {n.target.rpartition(".")[2]: group_of(n.precision["weight"].format) for n in graph if n.precision}
    assert sizes["q_proj"] == sizes["o_proj"] == 4 and sizes["down_proj"] is None


def test_scales_have_the_type_of_the_weight(home: Path) -> None:
    project, store = opened(home / "bfloat16", "llama", "bfloat16")
    graph = chosen(project.graph, store, "w8a8_dynamic")
    formats: list[Any] = [c.format for n in graph for c in n.precision.values()]
    assert formats and all(f.scale_dtype == "bfloat16" for f in formats)


def test_names_in_other_spellings_and_bad_options(home: Path) -> None:
    assert preset_named("W4A16") == "w4a16_g128" and preset_named("FP8-Dynamic") == "fp8_dynamic"
    assert preset_named("W8A8") == preset_named("int8") == "w8a8_dynamic"
    with pytest.raises(OptionsError, match="no preset 'w4a17'"):
        preset_named("w4a17")
    with pytest.raises(OptionsError, match="no group size"):
        QuantizePresetOptions("fp8_dynamic", group=32)
    project, store = opened(home / "llama", "llama")
    with pytest.raises(PassError, match="Only the output layer"):
        chosen(project.graph, store, "w8a16", select=Select("name", ("lm_head",)))


def test_an_output_layer_is_found_by_its_size_under_any_name(home: Path) -> None:
    project, _ = opened(home / "llama", "llama")
    graph = project.graph
    (head,) = (n for n in graph if n.target == "lm_head")
    renamed = graph.replace(replace(head, target="scores"))
    assert output_layers(renamed) == {head.id} == output_layers(graph)
