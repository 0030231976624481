"""What targets hold of a model, told before an export, agrees with what an export does."""

from __future__ import annotations

from pathlib import Path

import pytest

import espalier as es
from espalier.model.errors import ExportError
from tests.passes.export.models import made

Q8 = "scaled_integer(width=8, granularity=group, group=32, scale_dtype=float16)"


@pytest.mark.slow
def test_each_choice_is_named_with_what_would_do() -> None:
    m = es.open("demo:stories").quantize("linear", weight="int8").quantize("embedding", weight=Q8)
    report = m.export_targets()
    rows = {row["node"]: row for row in report.rows}
    linear = [n.id for n in m.graph if n.op == "linear"]
    assert set(rows) == {*linear, "model_embed_tokens"} == {n.id for n in m.graph if n.precision}
    assert {row["compressed-tensors"] for row in rows.values()} == {"held"}
    assert rows["model_embed_tokens"]["gguf"] == "held"
    assert all("scales are float16" in rows[n]["gguf"] and Q8 in rows[n]["gguf"] for n in linear)
    assert report.summary["gguf"] == f"1 of {len(rows)} nodes held"
    assert not es.open("demo:digits-mlp").export_targets().rows, "without choices there is nothing to hold"


@pytest.mark.slow
def test_what_is_held_is_written_and_the_rest_is_refused(tmp_path: Path) -> None:
    m = es.open("demo:stories").quantize("linear", weight=Q8)
    assert m.export_targets().summary["gguf"].startswith("22 of 22")
    m.export("gguf", tmp_path / "held.gguf")
    m.quantize("linear", weight="int8")
    with pytest.raises(ExportError, match="scales are float16"):
        m.export("gguf", tmp_path / "other.gguf")
    assert [p.name for p in tmp_path.iterdir()] == ["held.gguf"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "opt", "gpt2"])
def test_a_model_that_a_target_does_not_take_is_said_before_and_by_the_export(kind: str, tmp_path: Path) -> None:
    m = es.open(made(kind, tmp_path / kind)).quantize("embedding", weight=Q8)
    told = m.export_targets().summary["gguf"]
    try:
        m.export("gguf", tmp_path / "a.gguf")
    except ExportError as error:
        assert f"no file of {kind} is written" in told, error.message
    else:
        assert kind == "gpt2" and told.endswith("nodes held")
