"""Packed models: the file is as large as the score says, and opens as the model that was packed."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.app.cli import main
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, ExportError, FormatError, ProjectError
from espalier.model.formats.base import Format, make_format, parse_format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision, Weight
from espalier.model.graph.ops import quantisable
from espalier.model.opening import open_any
from espalier.model.packed.file import is_packed, write_packed
from espalier.model.packed.layout import packed_size, plan
from espalier.model.registry import FORMATS
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Tensor, WeightStore, read_header, write
from espalier.model.torch.build import build, parameters_of
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.export import Exported, export
from espalier.passes.score import static_score
from espalier.passes.transform.learn_scales import LearnScalesOptions, learn_scales
from espalier.passes.transform.prune import prune
from tests.model.zoo import Case, case, run

MODELS = ("mlp", "bert", "tied", "twice", "attention", "functions", "image", "odd", "bert-eager")
MIXED = [make_format(name, {}) for name in FORMATS]


def project(graph: Graph, name: str = "model") -> Project:
    return Project(SourceInfo("file.py:make", name), graph, Recipe(), graph)


def packed(graph: Graph, store: WeightStore, folder: Path, name: str = "m.packed.safetensors") -> Exported:
    return export(project(graph), store, "packed", folder / name)


def mixed(held: Case, formats: list[Format], ports: tuple[str, ...] = ("weight", "bias")) -> Graph:
    """The formats one after another on the ports that can have one."""
    endless = itertools.cycle(formats)

    def chosen(node: Node) -> Node:
        able = [p for p in ports if p in quantisable(node)]
        return replace(node, precision={p: Precision(next(endless)) for p in able})

    return held.graph.replace(*map(chosen, held.graph))


def pruned(graph: Graph, held: Case, ratio: float = 0.4) -> Graph:
    return prune(graph, PruneOptions(ratio), Context(held.store))[0]


def computed(graph: Graph, store: WeightStore, held: Case) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return run(build(graph, store), held.fresh(3, 5))


def reopened(path: str, folder: Path) -> tuple[Graph, WeightStore]:
    opened = open_any(path, folder / "again", origin=Origin.TYPED)
    assert not opened.problems
    return opened.project.graph, opened.store


def equal(got: list[torch.Tensor], want: list[torch.Tensor]) -> bool:
    return len(got) == len(want) and all(map(torch.equal, got, want))


# -- the same results, the same size


@pytest.mark.parametrize("form", ["plain", "mixed", "masked"])
@pytest.mark.parametrize("name", MODELS)
def test_a_packed_model_computes_the_same(name: str, form: str, tmp_path: Path) -> None:
    held = case(name)
    graph = held.graph if form == "plain" else mixed(held, MIXED)
    graph = pruned(graph, held) if form == "masked" and name != "functions" else graph
    done = packed(graph, held.store, tmp_path)
    assert done.bytes == static_score(graph).size_bytes == packed_size(graph) == Path(done.files[0]).stat().st_size
    again, store = reopened(done.files[0], tmp_path)
    assert equal(computed(again, store, held), computed(graph, held.store, held))
    assert {n.id: {p: c.format for p, c in n.precision.items()} for n in again} == {
        n.id: {p: c.format for p, c in n.precision.items()} for n in graph
    }


@pytest.mark.parametrize("fmt", MIXED, ids=str)
def test_every_format_gives_the_size_of_the_file(fmt: Format, tmp_path: Path) -> None:
    """Header, and what each tensor takes; on a convolutional net and a transformer."""
    for name in ("image", "bert"):
        held = case(name)
        for graph in (mixed(held, [fmt]), pruned(mixed(held, [fmt]), held, 0.7)):
            done = packed(graph, held.store, tmp_path)
            file = Path(done.files[0])
            start = 8 + int.from_bytes(file.read_bytes()[:8], "little")
            blobs = sum(p.shape[0] for n, p in read_header(file).items() if n in ("@graph", "@source"))
            assert done.bytes == start + sum(p.size for p in plan(graph)) + blobs == static_score(graph).size_bytes


@pytest.mark.slow
@pytest.mark.parametrize("fmt", MIXED, ids=str)
def test_a_parameter_that_is_a_number_comes_back(fmt: Format, tmp_path: Path) -> None:
    held = case("odd")
    graph = mixed(held, [fmt], ("data_in", "weight"))
    assert any(graph.weights["gain"].shape == () for n in graph if n.precision) and graph.weights["gain"].shape == ()
    again, store = reopened(packed(graph, held.store, tmp_path).files[0], tmp_path)
    assert equal(computed(again, store, held), computed(graph, held.store, held))


def test_weight_bits_are_those_of_the_report(tmp_path: Path) -> None:
    held = case("bert")
    graph = pruned(mixed(held, MIXED), held, 0.8)
    done = packed(graph, held.store, tmp_path)
    parameters = {p.name for p in plan(graph) if p.role == "parameter"}
    bits = sum(t["bits"] for t in done.tensors if t["tensor"] in parameters)
    elements = sum(w.elements for w in graph.weights.values() if w.role == "parameter")
    assert static_score(graph).weight_bits == bits / elements
    for row in done.tensors:
        assert row["ideal_bytes"] == row["bits"] / 8 <= row["bytes"] < row["ideal_bytes"] + 2
    layouts = {row["layout"] for row in done.tensors}
    assert layouts == {"dense", "masked"}


def test_the_file_shrinks_with_the_bits(tmp_path: Path) -> None:
    held = case("bert")
    sizes = [packed(mixed(held, [parse_format(f"integer(width={w}, frac_width={w - 2})")]), held.store, tmp_path).bytes
             for w in (16, 8, 4, 2)]  # fmt: skip
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 4


# -- weights in several ways, scales


def test_a_weight_in_two_formats_opens_as_two(tmp_path: Path) -> None:
    held = case("twice")
    ids = [n.id for n in held.graph if n.target == "layer"]
    texts = ("integer(width=4, frac_width=3)", "binary_residual(levels=2)")
    nodes = [replace(held.graph[i], precision={"weight": Precision(parse_format(t))})
             for i, t in zip(ids, texts, strict=True)]  # fmt: skip
    graph = held.graph.replace(*nodes)
    done = packed(graph, held.store, tmp_path)
    again, store = reopened(done.files[0], tmp_path)
    names = [again[i].weights["weight"] for i in ids]
    assert names == ["layer.weight", "layer.weight_1"] and held.graph[ids[0]].weights["weight"] == "layer.weight"
    assert equal(computed(again, store, held), computed(graph, held.store, held))


def test_a_scale_of_the_formats_own_stays_its_own(tmp_path: Path) -> None:
    held = case("mlp")
    graph = mixed(held, [parse_format("scaled_integer(width=4, symmetric=false, scale_dtype=float16)")], ("weight",))
    again, store = reopened(packed(graph, held.store, tmp_path).files[0], tmp_path)
    assert again["first"].precision["weight"].scale is None and again.weights.keys() == graph.weights.keys()
    twice = packed(again, store, tmp_path, "twice.packed.safetensors")
    third, other = reopened(twice.files[0], tmp_path / "third")
    assert equal(computed(third, other, held), computed(graph, held.store, held))
    assert twice.bytes == static_score(again).size_bytes == static_score(graph).size_bytes
    assert static_score(again) == static_score(graph)


def test_a_scale_that_values_do_not_give_again_is_given(tmp_path: Path) -> None:
    held = case("mlp")
    graph = mixed(held, [parse_format("binary_residual(levels=2)")], ("weight",))
    again, store = reopened(packed(graph, held.store, tmp_path).files[0], tmp_path)
    scale = again["first"].precision["weight"].scale
    assert scale and again.weights[scale].shape == (2, 6, 1) and again.weights[scale].role == "buffer"
    assert equal(computed(again, store, held), computed(graph, held.store, held))


def test_learned_scales_count_once(tmp_path: Path) -> None:
    held = case("mlp")
    own = mixed(held, [parse_format("scaled_integer(width=4)")], ("weight",))
    learned = learn_scales(own, LearnScalesOptions(), Context(held.store))[0]
    assert static_score(learned).weight_bits == static_score(own).weight_bits  # 32 bits a row, here or there
    assert static_score(learned).bitops == static_score(own).bitops == (24 * (4 + 32 / 4) + 18 * (4 + 32 / 6)) * 32
    done = packed(learned, held.store, tmp_path)
    assert done.bytes == static_score(learned).size_bytes
    again, store = reopened(done.files[0], tmp_path)
    assert equal(computed(again, store, held), computed(learned, held.store, held))


def test_scales_of_activations_are_kept(tmp_path: Path) -> None:
    held = case("mlp")
    key = held.store.hold(Tensor(np.array(0.05, np.float32), "float32"))
    graph = held.graph.with_weights({"seen": Weight(key, (), "float32", "buffer", False)})
    fmt = parse_format("scaled_integer(width=6, granularity=tensor)")
    graph = graph.replace(replace(graph["first"], precision={"data_in": Precision(fmt, "seen")}))
    again, store = reopened(packed(graph, held.store, tmp_path).files[0], tmp_path)
    assert again["first"].precision["data_in"] == Precision(fmt, "seen")
    assert equal(computed(again, store, held), computed(graph, held.store, held))
    assert static_score(graph).weight_bits == 32


def test_what_rounds_at_random_is_kept_by_its_rule(tmp_path: Path) -> None:
    held = case("mlp")
    for bipolar in ("true", "false"):
        graph = mixed(held, [parse_format(f"binary(bipolar={bipolar}, stochastic=true)")], ("weight",))
        done = packed(graph, held.store, tmp_path)
        assert any("rounds at random" in note for note in done.notes)
        again, store = reopened(done.files[0], tmp_path)
        ruled = mixed(held, [parse_format(f"binary(bipolar={bipolar})")], ("weight",))
        assert equal(computed(again, store, held), computed(ruled, held.store, held))


def test_masks_stay_in_training(tmp_path: Path) -> None:
    """What is opened can be trained: pruned weights stay zero, and the pruning is as it was."""
    held = case("mlp")
    graph = pruned(mixed(held, [parse_format("mxint(width=4)")], ("weight",)), held, 0.5)
    again, store = reopened(packed(graph, held.store, tmp_path).files[0], tmp_path)
    assert static_score(again).sparsity == static_score(graph).sparsity == 0.5
    module = build(again, store)
    zero = {n: (v == 0) for n, v in parameters_of(module).items()}
    module(**held.fresh(4, 4)).square().sum().backward()
    for name in ("first.weight", "second.weight"):
        grad = parameters_of(module)[name].grad
        assert grad is not None and grad.any() and not grad[zero[name]].any()


def test_zeros_of_a_mask_that_is_not_stored_are_told(tmp_path: Path) -> None:
    """Where a mask is not worth its bits, codes that rounded to 0 look as pruned ones do; their count is known."""
    held = case("mlp")
    graph = pruned(mixed(held, [parse_format("integer(width=3, frac_width=1)")], ("weight",)), held, 0.1)
    done = packed(graph, held.store, tmp_path)
    again, _ = reopened(done.files[0], tmp_path)
    assert static_score(again) == static_score(graph) and static_score(graph).sparsity == pytest.approx(0.1, abs=0.02)
    assert any("first.weight has" in note and "more zeros than were pruned" in note for note in done.notes)


# -- what cannot be packed


def test_values_that_a_format_cannot_store_are_refused(tmp_path: Path) -> None:
    held = case("mlp")
    weight = held.graph.weights["first.weight"]
    array = np.array(held.store.get(weight.key or "").array)
    array[0, 0] = np.nan
    graph = mixed(held, [parse_format("integer(width=4)")]).with_weights(
        {"first.weight": replace(weight, key=held.store.hold(Tensor(array, "float32")))}
    )
    with pytest.raises(FormatError, match=r"first\.weight contains NaN, which int 4/4 cannot represent"):
        packed(graph, held.store, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_without_weights_is_refused(tmp_path: Path) -> None:
    held = case("mlp")
    bare = replace(held.graph, weights={n: replace(w, key=None) for n, w in held.graph.weights.items()})
    with pytest.raises(ExportError, match="without weights"):
        packed(bare, held.store, tmp_path)


def test_a_file_without_its_ending_gets_one(tmp_path: Path) -> None:
    done = packed(case("mlp").graph, case("mlp").store, tmp_path, "model")
    assert [Path(f).name for f in done.files] == ["model.packed.safetensors"]


def test_the_origin_finds_room_or_is_told(tmp_path: Path) -> None:
    held, path = case("mlp"), tmp_path / "m.safetensors"
    source = SourceInfo("x", "name " * 40, tokenizer="t" * 200, data="demo:digits")
    assert write_packed(held.graph, held.store, source, path)[1] == [
        f"The tokenizer is too long to be stored in the file: {'t' * 200}."
    ]
    info = open_any(str(path), tmp_path / "w", origin=Origin.TYPED).project.source
    assert (info.data, info.tokenizer, info.inputs) == ("demo:digits", None, ("x",))
    assert path.stat().st_size == packed_size(held.graph)


# -- damage


def damages() -> dict[str, Callable[[bytes], bytes]]:
    def flip(at: int) -> Callable[[bytes], bytes]:
        return lambda data: data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :]

    return {
        "empty": lambda data: b"",
        "cut in the header": lambda data: data[:200],
        "cut in the data": lambda data: data[:-100],
        "longer": lambda data: data + b"more",
        "a bit of a weight": flip(-700),
        "a bit of the graph": flip(-300),
        "a bit of the origin": flip(-20),
        "another file": lambda data: b"not a model at all" * 40,
        "a length beyond all": lambda data: b"\xff" * 8 + data[8:],
        "another version": lambda data: data.replace(rb"{\"packed\":1", rb"{\"packed\":7"),
        "another check": lambda data: data.replace(rb"\"check\":\"", rb"\"check\":\"z", 1),
    }


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_file_is_refused_in_words(damage: str, tmp_path: Path) -> None:
    held = case("mlp")
    path = Path(packed(mixed(held, MIXED), held.store, tmp_path).files[0])
    path.write_bytes(damages()[damage](path.read_bytes()))
    with pytest.raises(ProjectError, match=r"m\.packed\.safetensors") as found:
        open_any(str(path), tmp_path / "w", origin=Origin.TYPED)
    assert found.value.hint and "Error" not in found.value.message


def test_every_altered_byte_is_an_error_or_harmless(tmp_path: Path) -> None:
    """No byte makes a crash: what is not noticed lies in the header's spaces or names nothing that is read."""
    held = case("mlp")
    path = Path(packed(held.graph, held.store, tmp_path).files[0])
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            opened = open_any(str(path), tmp_path / "w", origin=Origin.TYPED)
        except EspalierError:
            continue
        assert equal(computed(opened.project.graph, opened.store, held), computed(held.graph, held.store, held))


def test_other_safetensors_files_are_no_packed_models(tmp_path: Path) -> None:
    plain = str(tmp_path / "model.safetensors")
    with Path(plain).open("wb") as handle:
        write(handle, {"w": Tensor(np.zeros(3, np.float32), "float32")})
    assert not is_packed(plain) and not is_packed(str(tmp_path)) and not is_packed("demo:reviews")
    with pytest.raises(EspalierError, match="weights without a model"):
        open_any(plain, tmp_path / "w", origin=Origin.TYPED)
    shutil.copy(plain, tmp_path / "m.packed.safetensors")
    with pytest.raises(ProjectError, match="is not a packed model"):
        open_any(str(tmp_path / "m.packed.safetensors"), tmp_path / "w", origin=Origin.TYPED)
    with pytest.raises(EspalierError, match=r"There is no file .*none\.packed\.safetensors"):
        open_any(str(tmp_path / "none.packed.safetensors"), tmp_path / "w", origin=Origin.TYPED)


# -- the command line

RECIPE: dict[str, Any] = {
    "steps": [
        {"pass": "quantize", "options": {"rules": [
            {"select": {"by": "type", "values": ["linear", "conv2d"]},
             "formats": {"weight": "scaled_integer(width=4)", "bias": "integer(width=8, frac_width=5)",
                         "data_in": "mxint(width=8)"}}]}},
        {"pass": "prune", "options": {"sparsity": 0.4}},
    ]
}  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("demo", ["demo:digits", "demo:digits-mlp"])
def test_a_packed_demo_scores_as_before(demo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, saved, file = tmp_path / "r.json", str(tmp_path / "p.espalier"), str(tmp_path / "p.packed.safetensors")
    recipe.write_text(json.dumps(RECIPE))
    after = said(capsys, "run", demo, str(recipe), "-o", saved, "--data", demo)["after"]
    done = said(capsys, "export", saved, "--as", "packed", "-o", file)
    assert done["bytes"] == Path(file).stat().st_size == after["size_bytes"]
    assert {t["tensor"] for t in done["tensors"]} >= {"conv1.weight" if demo == "demo:digits" else "fc1.weight"}
    again = said(capsys, "evaluate", file, "--data", demo)
    assert (again["accuracy"], again["loss"]) == (after["accuracy"], after["loss"])
    assert main(["export", file, "--as", "packed", "-o", str(tmp_path / "q.packed.safetensors")]) == 0
    text = capsys.readouterr().out
    assert main(["trace", file]) == 2 and "A packed model is traced already." in capsys.readouterr().err
    assert "int4 channel" in text and "padding to whole bytes" in text
