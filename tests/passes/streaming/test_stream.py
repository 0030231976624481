"""A model that is streamed gives the scores and the folder of the same model in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from espalier.model.document.recipe import Recipe, Step
from espalier.passes.base import run_step
from espalier.passes.export import export
from espalier.passes.streaming.job import StreamOptions, stream
from tests.passes.streaming.models import folder_of, in_memory, recipe_of, score_of, tensors_of

pytest.importorskip("compressed_tensors")
pytestmark = pytest.mark.slow
CASES = [
    ("llama", ("preset",)), ("llama", ("preset", "gptq")), ("llama", ("preset", "awq")),
    ("llama", ("smoothquant", "preset", "awq", "gptq")), ("tied", ("preset", "gptq")),
    ("qwen2", ("smoothquant", "preset", "gptq")),
    ("opt", ("preset", "gptq")), ("llama", ("smoothquant", "preset", "autoround")), ("tied", ("preset", "autoround")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "names"), CASES)
def test_the_folder_and_the_scores_are_those_of_the_passes_in_memory(
    kind: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    home = folder_of(kind, tmp_path / "model")
    recipe, score = recipe_of(*names, home=home), score_of(home)
    opened, context = in_memory(home, recipe, tmp_path / "work")
    expected = export(opened.project, opened.store, "compressed-tensors", tmp_path / "whole")
    done = stream(str(home), recipe, StreamOptions(output=tmp_path / "parts", score=score))

    want, got = tensors_of(tmp_path / "whole"), tensors_of(tmp_path / "parts")
    assert want.keys() == got.keys()
    assert not [k for k in want if want[k].dtype != got[k].dtype or not torch.equal(want[k], got[k])]
    configs = [json.loads((tmp_path / f / "config.json").read_text()) for f in ("whole", "parts")]
    assert configs[0] == configs[1]
    assert {(r["tensor"], r["stored"]) for r in done.tensors} == {(r["tensor"], r["stored"]) for r in expected.tensors}
    index = json.loads((tmp_path / "parts" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == got.keys() and len(set(index["weight_map"].values())) > 2

    for graph, figures in ((opened.project.base, done.before), (opened.project.graph, done.after)):
        summary = run_step(graph, Step("evaluate", score), context).report.summary
        assert figures is not None
        # A capture without values has other steps of memory layout, which the packed graph names.
        assert figures.pop("size_bytes") == pytest.approx(summary.pop("size_bytes"), rel=2e-3)
        assert figures == summary
    assert not (tmp_path / "parts.unfinished").exists()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_score_is_that_of_transformers(kind: str, tmp_path: Path) -> None:
    """The mean of transformers' own losses over the same windows."""
    from transformers import AutoModelForCausalLM

    from espalier.passes.analysis.evaluate import data_to_measure
    from espalier.passes.base import Context
    from espalier.passes.streaming.model import open_streamed

    home = folder_of(kind, tmp_path / "model", "float32")
    score = score_of(home)
    done = stream(str(home), Recipe(), StreamOptions(score=score))
    opened = open_streamed(str(home), tmp_path / "work")
    _, split = data_to_measure(score, Context(opened.store, reading=opened.project.source.reading))
    model = AutoModelForCausalLM.from_pretrained(home).eval()
    inputs, labels = (torch.from_numpy(a) for a in (split.inputs["input_ids"], split.labels))
    with torch.no_grad():
        losses = [float(model(input_ids=i[None], shift_labels=t[None], labels=t[None]).loss)
                  for i, t in zip(inputs, labels, strict=True)]  # fmt: skip
    assert done.after is not None and done.segments > 1
    assert done.after["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_python_has_the_same_command(tmp_path: Path) -> None:
    import espalier as es

    home = folder_of("llama", tmp_path / "model")
    given = {"data": str(tmp_path / "test.txt"), "max_length": 20, "limit": 6}
    report = es.stream(home, {"quantize_preset": {"preset": "w8a16", "group": 32, "uneven": "channel"}},
                       output=tmp_path / "out", **given)  # fmt: skip
    assert report["loss"] > 0 and report["before"]["n"] == report["n"] and len(report.rows) > 10
    assert report["peak_bytes"] > report["largest"] > 0 and (tmp_path / "out" / "config.json").exists()
    with pytest.raises(es.EspalierError, match="nothing to do"):
        es.stream(home)
