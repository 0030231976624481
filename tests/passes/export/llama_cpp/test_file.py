"""GGUF files: read by the package gguf and by transformers, they are the model that was exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.opening import open_any
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.export import export
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.settings import Settings
from tests.passes.export.models import KINDS, chosen, made

gguf = pytest.importorskip("gguf")
Q8 = "scaled_integer(width=8,granularity=group,group=32,scale_dtype=float16)"
Q4 = Q8.replace("width=8", "width=4")
Q5 = "scaled_integer(width=5,scale_dtype=float16)"
CASES = [
    ("llama", "float32", {}, {"F32"}),
    ("llama", "float32", {"linear.weight": Q4, "embedding.weight": Q8}, {"Q4_0", "Q8_0", "F32"}),
    ("llama", "float32", {"linear.weight": Q5}, {"Q5_0", "F32"}),
    ("llama", "float32", {"linear.weight": "mxint4"}, {"Q4_0", "F32"}),
    ("llama", "float32", {"linear.weight": "mxfp(element=e2m1)"}, {"MXFP4", "F32"}),
    ("llama", "float32", {"linear.weight": "integer(width=4,frac_width=3,signed=false)"}, {"Q5_0", "F32"}),
    ("llama", "bfloat16", {"linear.weight": Q8}, {"Q8_0", "BF16", "F32"}),
    ("llama", "float16", {"linear.weight": Q4}, {"Q4_0", "F16", "F32"}),
    ("tied", "float32", {"linear.weight": Q8, "embedding.weight": Q8}, {"Q8_0", "F32"}),
    ("tied", "float32", {"linear.weight": Q8}, {"Q8_0", "F32"}),
    ("qwen2", "float32", {"linear.weight": Q8}, {"Q8_0", "F32"}),
    ("qwen3", "float32", {"linear.weight": Q8}, {"Q8_0", "F32"}),
    ("biased", "float32", {"linear.weight": Q8}, {"Q8_0", "F32"}),
    ("gpt2", "float32", {"linear.weight": Q8, "embedding.weight": Q8}, {"Q8_0", "F32"}),
]


def opened(kind: str, dtype: str, tmp_path: Path, choices: dict[str, str]) -> tuple[Project, WeightStore]:
    found = open_any(str(made(kind, tmp_path / "home", dtype)), tmp_path / "work")
    return replace(found.project, graph=chosen(found.project.graph, choices)), found.store


def read(path: Path) -> dict[str, tuple[str, Any]]:
    """Name → (type, values) by the package gguf alone."""
    return {t.name: (t.tensor_type.name, gguf.quants.dequantize(t.data, t.tensor_type))
            for t in gguf.GGUFReader(path).tensors}  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(("kind", "dtype", "choices", "stored"), CASES)
def test_transformers_computes_the_same(
    kind: str, dtype: str, choices: dict[str, str], stored: set[str], tmp_path: Path
) -> None:
    import transformers

    project, store = opened(kind, dtype, tmp_path, choices)
    done = export(project, store, "gguf", tmp_path / "m")
    assert {t["stored"] for t in done.tensors} == stored and done.max_abs_diff == 0.0
    assert done.files == (str(tmp_path / "m.gguf"),)
    config = None
    if kind in ("gpt2", "biased", "qwen3"):  # transformers' reader takes other sizes, or no biases; a note says so
        assert any("config=…" in note for note in done.notes)
        assert not any("report" in note or "`" in note for note in done.notes)  # of transformers' own text
        assert any("weights of other sizes" in note for note in done.notes) == (kind != "biased")
        config = transformers.AutoConfig.from_pretrained(tmp_path / "home")
    else:
        assert not any("config=…" in note for note in done.notes)
    cls: Any = getattr(transformers, KINDS[kind][0])
    given = {} if config is None else {"config": config}
    model = cls.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=getattr(torch, dtype), **given).eval()
    ids = torch.randint(3, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    taken = {n.target for n in project.graph.placeholders}
    with torch.no_grad():
        mine = build(project.graph, store)(**{k: v for k, v in inputs.items() if k in taken})["logits"]
        torch.testing.assert_close(model(**inputs).logits, mine, rtol=0, atol=0)


@pytest.mark.slow
def test_blocks_hold_the_values_of_the_format(tmp_path: Path) -> None:
    project, store = opened("llama", "float32", tmp_path, {"linear.weight": Q4, "embedding.weight": Q8})
    export(project, store, "gguf", tmp_path / "m.gguf")
    tensors, want = read(tmp_path / "m.gguf"), dict(effective_weights(project.graph, store))
    kind, value = tensors["blk.0.ffn_down.weight"]
    assert kind == "Q4_0" and np.array_equal(value, want["model.layers.0.mlp.down_proj.weight"].numpy())
    assert np.array_equal(tensors["token_embd.weight"][1], want["model.embed_tokens.weight"].numpy())
    # A head's halves are interleaved: ggml rotates rows 2i and 2i+1, transformers i and i + half.
    q, mine = tensors["blk.0.attn_q.weight"][1], want["model.layers.0.self_attn.q_proj.weight"].numpy()
    half = 64 // 4 // 2
    for head in range(4):
        for i in range(half):
            row = head * 2 * half + 2 * i
            assert np.array_equal(q[row], mine[head * 2 * half + i])
            assert np.array_equal(q[row + 1], mine[head * 2 * half + half + i])
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    assert fields["general.architecture"].contents() == "llama"
    assert fields["llama.attention.head_count_kv"].contents() == 2
    assert fields["general.file_type"].contents() == 2  # mostly Q4_0


@pytest.mark.slow
def test_what_cannot_be_held_is_refused_or_stays_float(tmp_path: Path) -> None:
    project, store = opened("odd", "float32", tmp_path, {"linear.weight": Q8})
    with pytest.raises(
        ExportError, match=r"q_proj weight \(int8 group 32: rows of 36 are no multiple of 32\)"
    ) as found:
        export(project, store, "gguf", tmp_path / "m.gguf")
    assert "--leave-float" in found.value.hint and not (tmp_path / "m.gguf").exists()
    done = export(project, store, "gguf", tmp_path / "m.gguf", Settings(leave_float=True))
    assert done.max_abs_diff == 0.0 and {t["stored"] for t in done.tensors} == {"F32"}
    tiny = replace(project, graph=chosen(project.graph, {"linear.weight": "integer(width=8,frac_width=30)"}))
    with pytest.raises(ExportError):
        export(tiny, store, "gguf", tmp_path / "n.gguf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "m.gguf"], "nothing is left behind"


@pytest.mark.slow
def test_a_scale_beyond_float16_and_another_architecture_are_named(tmp_path: Path) -> None:
    fmt = {"linear.weight": "integer(width=8,frac_width=30)"}
    project, store = opened("llama", "float32", tmp_path / "a", fmt)
    with pytest.raises(ExportError, match="which is no float16"):
        export(project, store, "gguf", tmp_path / "m.gguf")
    project, store = opened("opt", "float32", tmp_path / "b", {"linear.weight": "mxint8"})
    with pytest.raises(ExportError, match="A GGUF file of opt is not written"):
        export(project, store, "gguf", tmp_path / "m.gguf")


@pytest.mark.slow
def test_the_vocabulary_is_that_of_the_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    home = made("llama", tmp_path / "home", vocab_size=300)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=280, special_tokens=["<s>", "</s>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(["the weights of the model", "are the codes of the format"], trainer)
    tokenizer.save(str(home / "tokenizer.json"))
    (home / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    found = open_any(str(home), tmp_path / "work")
    project = replace(found.project, source=replace(found.project.source, tokenizer=str(home)))
    done = export(project, found.store, "gguf", tmp_path / "m.gguf")
    assert not any("vocabulary" in note for note in done.notes)
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    known = tokenizer.get_vocab()
    assert len(tokens) == 300 and all(tokens[number] == text for text, number in known.items())
    kinds = fields["tokenizer.ggml.token_type"].contents()
    assert kinds[known["<s>"]] == 3 and kinds[known["e"]] == 1 and set(kinds[len(known) :]) == {5}
    assert fields["tokenizer.ggml.pre"].contents() == "gpt-2"
    assert not fields["tokenizer.ggml.add_bos_token"].contents()
    assert len(fields["tokenizer.ggml.merges"].contents()) == len(known) - 258


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False}])
def test_attention_that_a_file_cannot_say_is_refused(change: dict[str, bool], tmp_path: Path) -> None:
    found = open_any(str(made("gpt2", tmp_path / "home", **change)), tmp_path / "work")
    with pytest.raises(ExportError, match="scores of attention"):
        export(found.project, found.store, "gguf", tmp_path / "x.gguf")
    assert not (tmp_path / "x.gguf").exists()


@pytest.mark.slow
def test_biases_that_llama_cpp_does_not_read_are_refused(tmp_path: Path) -> None:
    """llama.cpp opens no file of qwen3 with biases of attention: it counts more tensors than it knows."""
    found = open_any(str(made("qwen3", tmp_path / "home", attention_bias=True)), tmp_path / "work")
    with pytest.raises(ExportError, match=r"qwen3 in llama\.cpp has no biases of attention"):
        export(found.project, found.store, "gguf", tmp_path / "x.gguf")
    assert not (tmp_path / "x.gguf").exists()


@pytest.mark.slow
def test_an_older_file_of_that_name_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers takes a file of the working folder first: the check read the old file instead of the new one."""
    project, store = opened("llama", "float32", tmp_path, {"linear.weight": Q8})
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = Path("model.gguf")
    path.write_bytes(b"no such file")
    export(project, store, "gguf", path)
    kinds = {kind for kind, _ in read(path).values()}
    assert kinds == {"Q8_0", "F32"}
    other = replace(project, graph=chosen(project.graph, {"linear.weight": Q4}))
    export(other, store, "gguf", path)
    assert {kind for kind, _ in read(path).values()} == {"Q4_0", "F32"}
