"""A quantised key/value cache equals decoding token by token with transformers' cache, rounded by plain torch code."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.model.data.base import Split
from espalier.model.document.graph_json import graph_to_json
from espalier.model.document.project import Project
from espalier.model.errors import GraphError, OptionsError, PassError
from espalier.model.formats.base import parse_format
from espalier.model.graph.caches import caches, waits_for_scale
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.sources.reading import Limits, Reading
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.base import Context
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.comparison.diff import compare_graphs
from espalier.passes.costs.base import cost, figures
from espalier.passes.score import static_score
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions, calibrate
from espalier.passes.transform.kv_cache import kv_cache
from espalier.passes.transform.quantize import quantize
from tests.passes.export.models import made
from tests.patience import PATIENCE

TOKENS = 21
WINDOWED: dict[str, Any] = {"sliding_window": 6}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@cache
def opened(home: Path, kind: str) -> tuple[Project, WeightStore, Path]:
    folder = home / kind / "model"
    more = WINDOWED if kind == "mistral" else {}
    path = mistral(folder) if more else made(kind, folder)
    found = open_any(str(path), home / kind / "work")
    return found.project, found.store, path


def mistral(folder: Path) -> Path:
    """A Mistral with two layers and a window of 6 tokens."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(3)
    config = MistralConfig(vocab_size=100, hidden_size=64, intermediate_size=96, num_attention_heads=4,
                           num_key_value_heads=2, num_hidden_layers=2, **WINDOWED)  # fmt: skip
    MistralForCausalLM(config).save_pretrained(folder)
    return folder


def ids_of(count: int = TOKENS) -> Tensor:
    return torch.randint(0, 100, (2, count), generator=torch.Generator().manual_seed(5))


def given(graph: Graph, ids: Tensor) -> dict[str, Tensor]:
    return {n.target: ids if n.target == "input_ids" else torch.ones_like(ids) for n in graph.placeholders}


def scores(graph: Graph, store: WeightStore, ids: Tensor) -> Tensor:
    """[samples, tokens, vocabulary] of one run over the whole text."""
    with torch.no_grad():
        result = build(graph, store)(**given(graph, ids))
    return result["logits"] if isinstance(result, dict) else result if isinstance(result, Tensor) else result[0]


def decoded(
    path: Path, ids: Tensor, rounds: dict[str, Callable[[Tensor], Tensor]], mask: Tensor | None = None
) -> Tensor:
    """The same token by token, by transformers with a cache whose entries are rounded as they are written."""
    from transformers import AutoModelForCausalLM, DynamicCache

    class Rounded(DynamicCache):
        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kw: Any) -> Any:
            return super().update(rounds["key"](key_states), rounds["value"](value_states), layer_idx, *args, **kw)

    model = AutoModelForCausalLM.from_pretrained(path).eval()
    held, found = Rounded(config=model.config), []
    with torch.no_grad():
        for at in range(ids.shape[1]):
            seen = {} if mask is None else {"attention_mask": mask[:, : at + 1]}
            out = model(input_ids=ids[:, at : at + 1], cache=held, use_cache=True, **seen)
            found.append(out.logits[:, -1])
    return torch.stack(found, 1)


# -- what rounds in the reference: keys and values [batch, heads, tokens, size]


def integers(bits: int, group: int = 0) -> Callable[[Tensor], Tensor]:
    """Symmetric integers with a float32 scale of each head, or group within a head."""

    def rounded(x: Tensor) -> Tensor:
        parts = x if not group else x.unflatten(-1, (-1, group))
        most = 2 ** (bits - 1) - 1
        scale = (parts.abs().amax(-1, keepdim=True) / most).clamp(min=2**-126)
        return ((parts / scale).round().clamp(-most, most) * scale).reshape(x.shape)

    return rounded


def by_token(x: Tensor) -> Tensor:
    """int8 with a scale of all heads of a token."""
    scale = x.abs().amax((1, 3), keepdim=True) / 127
    return (x / scale).round().clamp(-127, 127) * scale


def fp8(x: Tensor) -> Tensor:
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn).float() * scale


def mxfp8(x: Tensor) -> Tensor:
    """OCP MX: a power of two for 32 elements, E4M3 elements."""
    size = x.shape[-1]
    parts = torch.nn.functional.pad(x, (0, -size % 32)).unflatten(-1, (-1, 32))
    scale = torch.exp2(parts.abs().amax(-1, keepdim=True).log2().floor() - 8)
    codes = (parts / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float()
    return (codes * scale).flatten(-2)[..., :size]


def nvfp4(x: Tensor) -> Tensor:
    """NVFP4 of each head of a token: E2M1 elements, E4M3 scales of 16, a float32 scale of the entry."""
    size = x.shape[-1]
    parts = torch.nn.functional.pad(x, (0, -size % 16)).unflatten(-1, (-1, 16))
    whole = parts.abs().amax((-1, -2), keepdim=True) / 2688
    scale = (parts.abs().amax(-1, keepdim=True) / (6 * whole)).to(torch.float8_e4m3fn).float() * whole
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middles = (grid[1:] + grid[:-1]) / 2
    steps = parts / scale
    below = grid[torch.bucketize(steps.abs(), middles)] * steps.sign() * scale
    return below.flatten(-2)[..., :size]


CASES: dict[str, tuple[dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "int8": ({"key": "int8"}, integers(8)),
    "int4": ({"key": "int4"}, integers(4)),
    "int4 group": ({"key": "int4", "key_scales": "group", "group": 8}, integers(4, 8)),
    "int8 token": ({"key": "int8", "key_scales": "token"}, by_token),
    "fp8": ({"key": "fp8"}, fp8),
    "mxfp8": ({"key": "mxfp8"}, mxfp8),
    "nvfp4": ({"key": "nvfp4"}, nvfp4),
}


def same_for_values(options: dict[str, Any]) -> KVCacheOptions:
    more = {k.replace("key", "value"): v for k, v in options.items() if k.startswith("key")}
    return KVCacheOptions(**options, **more, scale_dtype="float32")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen3", "mistral"])
@pytest.mark.parametrize("case", CASES)
def test_one_run_equals_decoding_with_a_quantised_cache(home: Path, kind: str, case: str) -> None:
    project, store, path = opened(home, kind)
    options, rounds = CASES[case]
    graph, report = kv_cache(project.graph, same_for_values(options), Context(store))
    ids = ids_of()
    one, plain = scores(graph, store, ids), scores(project.graph, store, ids)
    many = decoded(path, ids, {"key": rounds, "value": rounds})
    torch.testing.assert_close(one, many, rtol=0, atol=2e-4 * float(plain.abs().max()))
    assert (one - plain).abs().max() > 10 * (one - many).abs().max(), "the cache changes the scores"
    assert report.summary["caches"] == 2 * (2 if kind == "mistral" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["odd", "opt", "qwen2", "tied", "neox", "gpt2"])
@pytest.mark.parametrize("padding", ["left", "right"])
def test_padded_texts_and_groups_that_do_not_divide_a_head(home: Path, kind: str, padding: str) -> None:
    """Heads of 10 or 16 elements in groups of 7: the last group of a head has the rest."""
    project, store, path = opened(home, kind)
    options = KVCacheOptions("int4", "int4", "group", "group", group=7, scale_dtype="float32")
    graph, report = kv_cache(project.graph, options, Context(store))
    ids, mask = ids_of(), torch.ones(2, TOKENS, dtype=torch.int64)
    mask[1, slice(8) if padding == "left" else slice(13, None)] = 0
    with torch.no_grad():
        one = build(graph, store)(input_ids=ids, attention_mask=mask)["logits"]
    many = decoded(path, ids, {"key": in_sevens, "value": in_sevens}, mask)
    torch.testing.assert_close(one[mask.bool()], many[mask.bool()], rtol=0, atol=2e-4 * float(one.abs().max()))
    size = report.rows[0]["size"]
    assert report.summary["bits"] == pytest.approx(4 + 32 * math.ceil(size / 7) / size)


def in_sevens(x: Tensor) -> Tensor:
    return torch.cat([integers(4)(part) for part in x.split(7, -1)], -1)


@pytest.mark.slow
def test_models_that_cache_latents_are_refused(tmp_path: Path) -> None:
    """Multi-head latent attention: what is cached are no keys and values of heads."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    config = DeepseekV3Config(vocab_size=100, hidden_size=64, intermediate_size=96, num_attention_heads=4,
                              num_key_value_heads=4, num_hidden_layers=1, q_lora_rank=16, kv_lora_rank=16,
                              qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=12,
                              first_k_dense_replace=1)  # fmt: skip
    DeepseekV3ForCausalLM(config).save_pretrained(tmp_path / "model")
    found = open_any(str(tmp_path / "model"), tmp_path / "work")
    assert any(n.op == "scaled_dot_product_attention" for n in found.project.graph)
    with pytest.raises(PassError, match="keys and values a cache could hold"):
        kv_cache(found.project.graph, KVCacheOptions(), Context(found.store))


@pytest.mark.slow
def test_keys_and_values_have_formats_of_their_own(home: Path) -> None:
    project, store, path = opened(home, "llama")
    graph, _ = kv_cache(project.graph, KVCacheOptions("mxfp8", "float"), Context(store))
    ids = ids_of()
    many = decoded(path, ids, {"key": mxfp8, "value": lambda x: x})
    torch.testing.assert_close(scores(graph, store, ids), many, rtol=0, atol=1e-4)
    back, _ = kv_cache(graph, KVCacheOptions("float", "float"), Context(store))
    assert torch.equal(scores(back, store, ids), scores(project.graph, store, ids))


# -- causality


@pytest.mark.parametrize("text", ["nvfp4(block=16)", "mxint(width=8, block=32, rows=2)", "ternary(granularity=tensor)"])
def test_formats_that_see_later_tokens_are_refused(home: Path, text: str) -> None:
    project, store, _ = opened(home, "llama")
    if "ternary" in text:
        graph, report = kv_cache(project.graph, KVCacheOptions(key=text), Context(store))
        assert report.summary["to_calibrate"] == 1
    else:
        with pytest.raises(PassError, match="later tokens"):
            kv_cache(project.graph, KVCacheOptions(key=text), Context(store))
        graph, _ = kv_cache(project.graph, KVCacheOptions(), Context(store))
        rule = Rule(Select("type", ("kv_cache",)), {"data_out": parse_format(text)})
        graph, _ = quantize(graph, QuantizeOptions((rule,)), Context(store))
    with pytest.raises(GraphError, match="several tokens"):
        build(graph, store)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_scores_do_not_depend_on_later_tokens(home: Path, case: str) -> None:
    project, store, _ = opened(home, "llama")
    graph, _ = kv_cache(project.graph, same_for_values(CASES[case][0]), Context(store))
    ids, other = ids_of(), ids_of()
    other[:, -1] = (other[:, -1] + 1) % 100
    first, second = scores(graph, store, ids), scores(graph, store, other)
    assert torch.equal(first[:, :-1], second[:, :-1]) and not torch.equal(first[:, -1], second[:, -1])


@pytest.mark.slow
def test_models_without_causal_attention_are_refused(home: Path) -> None:
    project, store, _ = opened(home, "bert")
    assert not caches(project.graph)
    with pytest.raises(PassError, match="no causal scaled_dot"):
        kv_cache(project.graph, KVCacheOptions(), Context(store))
    assert math.isnan(cost("kv_cache_bytes").of(project.graph, static_score(project.graph)))  # type: ignore[misc]


def test_unknown_formats_are_named() -> None:
    with pytest.raises(OptionsError, match="int9"):
        KVCacheOptions(key="int9")
    with pytest.raises(OptionsError, match="context"):
        KVCacheOptions(context=0)


# -- bytes


def bytes_of(graph: Graph) -> float:
    return figures(graph, static_score(graph))["kv_cache_bytes"]


@pytest.mark.parametrize(
    ("options", "bits"),
    [
        ({"key": "int8"}, 8 + 16 / 16),  # 16 elements of a head share a 16-bit scale
        ({"key": "int8", "key_scales": "token"}, 8 + 16 / 32),
        ({"key": "int4", "key_scales": "group", "group": 8}, 4 + 16 / 8),
        ({"key": "mxfp8"}, 8 + 8 / 16),  # blocks of 32 hold the 16 elements of a head
        ({"key": "nvfp4"}, 4 + 8 / 16 + 32 / 16),
        ({"key": "float"}, 32),
    ],
)
def test_bytes_count_key_heads_and_scales(home: Path, options: dict[str, Any], bits: float) -> None:
    """The Llama has 2 heads of 16 for keys and values, and 4 for queries."""
    project, store, _ = opened(home, "llama")
    more = {k.replace("key", "value"): v for k, v in options.items() if k.startswith("key")}
    graph, report = kv_cache(
        project.graph, KVCacheOptions(**options, **more, context=1000, sequences=3), Context(store)
    )
    elements = 3 * 1000 * 2 * 16 * 2
    assert bytes_of(graph) == report.summary["kv_cache_bytes"] == pytest.approx(elements * bits / 8)
    assert report.summary["bits"] == pytest.approx(bits)
    shares = cost("kv_cache_bytes").shares
    assert shares is not None and shares.node is not None
    assert shares.figure(sum(shares.node(n, graph) for n in graph), graph) == pytest.approx(bytes_of(graph))


def test_a_window_bounds_the_cache(home: Path) -> None:
    project, store, _ = opened(home, "mistral")
    graph, report = kv_cache(project.graph, KVCacheOptions("float", "float", context=1000), Context(store))
    assert {r["window"] for r in report.rows} == {6}
    assert bytes_of(graph) == 2 * 2 * 6 * 2 * 16 * 4
    short, _ = kv_cache(graph, KVCacheOptions("float", "float", context=4), Context(store))
    assert bytes_of(short) == 2 * 2 * 4 * 2 * 16 * 4


@pytest.mark.parametrize(
    ("limits", "told"),
    [(Limits(tokens=64), "has 64 positions (context=64, --context 64)"), (Limits(tokens=1000), None),
     (Limits(context=900), "has a context length of 900 tokens"), (Limits(length=16), "of 16 tokens alone"),
     (Limits(tokens=64, context=32), "context length of 32"), (None, None)],
)  # fmt: skip
def test_texts_that_the_model_does_not_take_are_noted(home: Path, limits: Limits | None, told: str | None) -> None:
    project, store, _ = opened(home, "llama")
    context = Context(store, reading=Reading(limits=limits))
    _, report = kv_cache(project.graph, KVCacheOptions(context=1000), context)
    assert told in report.summary["warning"] if told else "warning" not in report.summary


def test_a_difference_names_the_format_of_an_added_cache(home: Path) -> None:
    project, store, _ = opened(home, "llama")
    graph, _ = kv_cache(project.graph, KVCacheOptions(key="int4", value="float"), Context(store))
    rows = {c.node: c.b for c in compare_graphs(project.graph, graph).changes if c.kind == "added"}
    assert {str(b).partition("(")[0] for b in rows.values()} == {"kv_cache ", "kv_cache"}
    assert sorted(b for b in rows.values() if "data_out" in str(b)) == [
        f"kv_cache (data_out {graph.nodes[n].precision['data_out'].format})" for n in rows
        if graph.nodes[n].precision]  # fmt: skip
    back = [c.a for c in compare_graphs(graph, project.graph).changes if c.kind == "removed"]
    assert sorted(map(str, back)) == sorted(map(str, rows.values()))


def test_a_model_as_opened_has_bytes_too(home: Path) -> None:
    project, store, _ = opened(home, "llama")
    assert bytes_of(project.graph) == 4096 * 2 * 16 * 2 * 4
    only_keys, _ = kv_cache(project.graph, KVCacheOptions("int8", "float", context=100), Context(store))
    assert bytes_of(only_keys) == 100 * 2 * 16 * (9 / 8 + 4)


def test_a_second_step_replaces_the_first(home: Path) -> None:
    project, store, _ = opened(home, "llama")
    once, _ = kv_cache(project.graph, KVCacheOptions(), Context(store))
    twice, report = kv_cache(once, KVCacheOptions("int4", "int4"), Context(store))
    assert len(twice.nodes) == len(once.nodes) and {r["format"] for r in report.rows} == {"int4"}
    names = {n.id for n in twice if n.op == "kv_cache"}
    assert names == {c.node for c in caches(twice)} and not any(waits_for_scale(n) for n in twice)
    assert replace(twice, nodes={k: n for k, n in twice.nodes.items() if k not in names}).nodes.keys() == (
        project.graph.nodes.keys()
    )


def test_the_step_and_its_bytes_need_no_torch(home: Path, tmp_path: Path) -> None:
    """The window runs both in its own process."""
    project, _, _ = opened(home, "llama")
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graph_to_json(project.graph)))
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from espalier.model.document.graph_json import graph_from_json\n"
        "from espalier.model.store.weights import WeightStore\n"
        "from espalier.passes.base import Context\n"
        "from espalier.passes.choices.kv_cache import NAMES, KVCacheOptions\n"
        "from espalier.passes.costs.kv_cache_bytes import total\n"
        "from espalier.passes.transform.kv_cache import kv_cache\n"
        f"graph = graph_from_json(json.loads(Path({str(file)!r}).read_text()))\n"
        "for name in NAMES:\n"
        "    made, _ = kv_cache(graph, KVCacheOptions(name, name), Context(WeightStore(Path('.'))))\n"
        "    print(name, total(made))\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert f"mxfp8 {4096 * 2 * 16 * 2 * (8 + 8 / 16) / 8}" in done.stdout.splitlines()


# -- static scales


def static(options: KVCacheOptions, home: Path, kind: str = "llama") -> tuple[Graph, WeightStore]:
    """The graph with scales from the keys and values of a text."""
    project, store, _ = opened(home, kind)
    graph, _ = kv_cache(project.graph, options, Context(store))
    assert any(waits_for_scale(n) for n in graph)
    return graph, store


@pytest.mark.slow
@pytest.mark.parametrize("scales", ["channel", "static_head", "tensor"])
def test_static_scales_are_those_of_the_data_and_equal_decoding(home: Path, scales: Any) -> None:
    project, store, path = opened(home, "llama")
    options = KVCacheOptions("int8", "int8", scales, scales, scale_dtype="float32")
    graph, _ = static(options, home)
    ids = ids_of()
    split = Split({"input_ids": ids.numpy(), "attention_mask": np.ones_like(ids.numpy())}, np.zeros_like(ids.numpy()))
    seen = keys_and_values(path, ids)
    with patch("espalier.passes.running.splits.load_split", lambda *_: split):
        chosen = CalibrateOptions(data="here", select=Select("type", ("kv_cache",)), method="minmax", batch_size=1)
        graph, report = calibrate(graph, chosen, Context(store))
    assert report.summary["changed"] == 2
    axes = {"channel": (0, 2), "static_head": (0, 2, 3), "tensor": (0, 1, 2, 3)}[scales]
    units = {part: x.abs().amax(axes, keepdim=True) / 127 for part, x in seen.items()}
    rounds = {part: partial(by_unit, unit=unit) for part, unit in units.items()}
    one, many = scores(graph, store, ids), decoded(path, ids, rounds)
    torch.testing.assert_close(one, many, rtol=0, atol=1e-4)
    assert (one - scores(project.graph, store, ids)).abs().max() > 1e-4
    elements, count = 4096 * 2 * 16, {"channel": 32, "static_head": 2, "tensor": 1}[scales]
    assert bytes_of(graph) == 2 * (elements + 4 * count), "a scale is stored once, not for each token"


def by_unit(x: Tensor, unit: Tensor) -> Tensor:
    return (x / unit).round().clamp(-127, 127) * unit


def keys_and_values(path: Path, ids: Tensor) -> dict[str, Tensor]:
    """The cache of a text, by transformers [batch, heads, tokens, size]."""
    from transformers import AutoModelForCausalLM, DynamicCache

    model = AutoModelForCausalLM.from_pretrained(path).eval()
    held = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids, cache=held, use_cache=True)
    layer: Any = held.layers[0]
    return {"key": layer.keys, "value": layer.values}
