"""Decoding with a cache gives the scores of runs over whole texts, and `generate` the same tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.recipe import Step
from espalier.model.errors import GraphError
from espalier.model.formats.base import parse_format
from espalier.model.opening import Opened, open_any
from espalier.passes.analysis.generate import GenerateOptions
from espalier.passes.attention import decomposed
from espalier.passes.base import Context, run_step
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.cached_decoding import CachedDecoder, agree
from espalier.passes.select import Select
from espalier.passes.transform.kv_cache import kv_cache
from espalier.passes.transform.quantize import quantize
from tests.language_models import write_model
from tests.passes.export.models import made
from tests.passes.test_kv_cache import mistral, scores

KINDS = ["llama", "gpt2", "qwen3", "mistral", "biased", "opt", "neox", "odd"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decoding")


def opened(home: Path, kind: str) -> Opened:
    folder = home / kind / "model"
    path = folder if folder.exists() else mistral(folder) if kind == "mistral" else made(kind, folder)
    return open_any(str(path), home / kind / "work")


def tokens(count: int, seed: int = 0) -> list[int]:
    return torch.randint(0, 100, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["float", "int8", "mxfp8", "nvfp4"])
def test_steps_give_the_scores_of_the_whole_text(home: Path, kind: str, key: str) -> None:
    found = opened(home, kind)
    graph, _ = kv_cache(found.project.graph, KVCacheOptions(key, key), Context(found.store))
    decoder, text = CachedDecoder(graph, Context(found.store), 40), tokens(30)
    other = text[:12] + tokens(9, seed=1)  # goes on from a part of the first
    for given in (text[:5], text[:6], text[:7], text[:15], text, other, other[:3], text[:4]):
        whole = scores(graph, found.store, torch.tensor([given]))[0, -1].double()
        torch.testing.assert_close(decoder.scores(given), whole, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_a_step_runs_new_tokens_alone(home: Path) -> None:
    found = opened(home, "llama")
    decoder = CachedDecoder(found.project.graph, Context(found.store), 40)
    rows: list[int] = []
    layer: Any = decoder.module.get_submodule("model.layers.0.mlp.gate_proj")
    layer.register_forward_pre_hook(lambda _, args: rows.append(args[0].shape[1]))
    for count in (10, 11, 12, 20):
        decoder.scores(tokens(count))
    assert rows == [10, 1, 1, 8]
    with pytest.raises(GraphError, match="41 tokens"):
        decoder.scores(tokens(41))


@pytest.mark.slow
def test_decomposed_attentions_decode_too(home: Path) -> None:
    found = opened(home, "llama")
    graph, _ = kv_cache(found.project.graph, KVCacheOptions(), Context(found.store))
    graph, _ = decomposed(graph, [n.id for n in graph if n.op == "scaled_dot_product_attention"])
    decoder, text = CachedDecoder(graph, Context(found.store), 30), tokens(20)
    for given in (text[:5], text[:6], text):
        whole = scores(graph, found.store, torch.tensor([given]))[0, -1].double()
        torch.testing.assert_close(decoder.scores(given), whole, rtol=0, atol=2e-5)


def test_different_scores_do_not_agree() -> None:
    one = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert agree(one, one + 1e-3) and not agree(one, one.flip(0)) and agree(one + 5, one + 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_generate_writes_the_same_text_with_and_without_a_cache(tmp_path: Path, kind: str) -> None:
    write_model(tmp_path / "model", kind)
    found = open_any(str(tmp_path / "model"), tmp_path / "work")
    graph, _ = kv_cache(found.project.graph, KVCacheOptions("int4", "int4"), Context(found.store))
    both = []
    for cache in (True, False):
        context = Context(found.store, reading=found.project.source.reading, base=found.project.graph)
        options = GenerateOptions("the old gardener pruned", new_tokens=12, temperature=0.7, kv_cache=cache)
        both.append(run_step(graph, Step("generate", options, 3), context).report)
    cached, whole = both
    assert cached.summary["cached"] and not whole.summary["cached"]
    assert cached.summary["text"] == whole.summary["text"]
    assert [r["token"] for r in cached.rows] == [r["token"] for r in whole.rows]
    assert cached.summary["kl"] == pytest.approx(whole.summary["kl"], rel=1e-3, abs=1e-6) and cached.summary["kl"] > 0


@pytest.mark.slow
def test_experts_that_sort_tokens_are_refused(tmp_path: Path) -> None:
    """`generate` then runs whole texts."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(vocab_size=100, hidden_size=64, intermediate_size=96, num_attention_heads=4,
                           num_key_value_heads=2, num_hidden_layers=1, num_local_experts=2)  # fmt: skip
    MixtralForCausalLM(config).save_pretrained(tmp_path / "model")
    found = open_any(str(tmp_path / "model"), tmp_path / "work")
    with pytest.raises(GraphError, match=r"depends on the number of tokens|several tokens|depends on tokens"):
        CachedDecoder(found.project.graph, Context(found.store), 20).scores(tokens(5))


@pytest.mark.slow
def test_formats_over_whole_texts_are_run_over_whole_texts(tmp_path: Path) -> None:
    """A scale of all inputs of a layer depends on the text before, which a step does not see."""
    write_model(tmp_path / "model")
    found = open_any(str(tmp_path / "model"), tmp_path / "work")
    rule = Rule(Select("type", ("linear",)), {"data_in": parse_format("scaled_integer(width=2, granularity=tensor)")})
    context = Context(found.store, reading=found.project.source.reading)
    graph, _ = quantize(found.project.graph, QuantizeOptions((rule,)), context)
    report = run_step(graph, Step("generate", GenerateOptions("the old gardener", new_tokens=4)), context).report
    assert report.summary["cached"] is False and report.summary["tokens"] == 4
