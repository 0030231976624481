"""Whole transformers as libraries write them: Llama, GPT-2, BERT; the hardware's function is the model's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.model.errors import EmitError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build as build_module
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.transform.decompose_attention import DecomposeOptions, decompose_attention
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower, unbuffered
from espalier.verilog.proof.simulate import build, run
from tests.verilog.checks import needs_icarus

LLAMA = ("config:llama?num_hidden_layers=1&hidden_size=16&num_attention_heads=4&num_key_value_heads=2"
         "&intermediate_size=24&vocab_size=40&task=causal-lm")  # fmt: skip
GPT2 = "config:gpt2?n_layer=1&n_embd=16&n_head=2&vocab_size=40&task=causal-lm"
BERT = ("config:bert?num_hidden_layers=1&hidden_size=16&num_attention_heads=2&intermediate_size=24&vocab_size=40"
        "&task=sequence-classification")  # fmt: skip
EAGER = "&attn_implementation=eager"  # masks that are added
SIZES = EmitOptions(sizes={"seq": 6})


def form(width: int, frac: int, signed: bool = True) -> Precision:
    """A fixed-point format."""
    return Precision(Integer(width, frac, signed))


def formats(node: Node, more: int) -> dict[str, Precision]:
    """8 bits for what is multiplied, 10 where branches meet and rows are normalised; `more` bits for each."""

    def own(width: int, frac: int, signed: bool = True) -> Precision:
        return form(width + more, frac + more, signed)

    wide = {"data_in": own(10, 6), "weight": own(8, 5), "bias": own(8, 5), "data_out": own(9, 5)}
    chosen = {
        "linear": {"data_in": own(8, 5), "weight": own(8, 9), "bias": own(12, 8)},
        "matmul": {"data_in": own(8, 5), "weight": own(8, 5)}, "softmax": {"data_in": own(9, 5)},
        "silu": {"data_in": own(8, 5), "data_out": own(8, 5)}, "gelu": {"data_in": own(8, 5)}, "layer_norm": wide,
        "tanh": {"data_in": own(8, 5)} if node.call == "call_module" else {},
    }.get(node.op, {})  # fmt: skip
    if node.op == "add" and any(word in r.node for r in node.inputs for word in ("proj", "dense", "dropout")):
        return {"data_in": own(10, 6)}
    if node.op == "matmul" and (node.id.endswith("context") or node.id in ("matmul_1", "matmul_3")):
        return {"data_in": own(8, 8, False), "weight": own(8, 5)}
    return {**chosen, "data_out": own(8, 5)} if node.id.endswith("mlp_c_fc") else chosen


def quantised(found: Opened, more: int) -> Graph:
    """The model with formats, its attention in parts."""
    graph = found.project.base
    if any(n.op == "scaled_dot_product_attention" for n in graph):
        graph, _ = decompose_attention(graph, DecomposeOptions(), Context(found.store))
    nodes = {n.id: {p: f for p, f in formats(n, more).items() if p in n.ports} for n in graph}
    return graph.replace(*(replace(n, precision=nodes[n.id]) for n in graph if nodes[n.id]))


def inputs(graph: Graph) -> dict[str, torch.Tensor]:
    """Three sentences, some of their ends masked."""
    rng = torch.Generator().manual_seed(3)
    found = {"input_ids": torch.randint(0, 40, (3, 6), generator=rng)}
    mask = (torch.rand(3, 6, generator=rng) < 0.7).long()
    mask[:, 0] = 1
    rest = {"attention_mask": mask, "token_type_ids": torch.zeros(3, 6, dtype=torch.long)}
    return found | {n.target: rest[n.target] for n in graph.placeholders if n.target in rest}


def modules(design: Design) -> set[str]:
    """The nodes of norms and tables, which say what was done as one."""
    return {i.node for i in design.instances if i.module in ("norm", "lut", "pieces")}


@pytest.mark.parametrize(
    "source",
    [LLAMA, *(pytest.param(s, marks=pytest.mark.slow) for s in (LLAMA + EAGER, GPT2, BERT, BERT + EAGER))],
)
def test_exact_mode_is_the_model(tmp_path: Path, source: str) -> None:
    """Rotary embeddings, shared heads, causal and padding masks, RMS norms and GELU in steps, gates."""
    found = open_any(source, tmp_path, origin=Origin.TYPED)
    graph = quantised(found, more=6)
    design = unbuffered(graph, found.store, SIZES)[0]
    given = inputs(graph)
    got = IntegerModel(graph, found.store, design, found.callables)(**given)["logits"]
    with torch.no_grad():
        want = build_module(found.project.base, found.store, found.callables)(**given)["logits"]
    torch.testing.assert_close(got.float(), want, atol=0.004, rtol=0)
    if source == GPT2:
        assert "mul_11" in modules(design)  # 0.5·x·(1 + tanh(…)) as one table
    if source == LLAMA:
        assert {"mul_18", "mul_21"} <= modules(design)


@pytest.mark.slow
def test_the_design_tells_what_the_host_does(tmp_path: Path) -> None:
    found = open_any(BERT, tmp_path, origin=Origin.TYPED)
    design = unbuffered(quantised(found, more=0), found.store, SIZES)[0]
    by_node = {h.node: h for h in design.host_nodes}
    assert "table lookup" in by_node["bert_embeddings_word_embeddings"].reason
    graph = quantised(found, more=0)
    graph = graph.replace(replace(graph.nodes["bert_embeddings_LayerNorm"], precision={}))
    able = [h for h in unbuffered(graph, found.store, SIZES)[0].host_nodes if h.able]
    assert [h.node for h in able] == ["bert_embeddings_LayerNorm"] and "quantise it" in able[0].reason


@pytest.mark.slow
def test_what_is_added_to_scores_and_is_no_mask_is_told(tmp_path: Path) -> None:
    found = open_any(BERT + EAGER, tmp_path, origin=Origin.TYPED)
    graph = quantised(found, more=0)
    design = unbuffered(graph, found.store, SIZES)[0]
    mask = next(b for b in design.inputs if b.mask)
    values = replace(mask, node="bert_embeddings_dropout", shape=(6, 16), index=np.arange(96),
                     stream=replace(mask.stream, rows=6, size=16))  # fmt: skip
    host = Host(graph, found.store, replace(design, inputs=(values,)))
    with pytest.raises(EmitError, match="not a mask value"):
        host(**inputs(graph))


@pytest.mark.sampled(0.34)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("source", [LLAMA, GPT2, BERT + EAGER])
def test_every_beat(tmp_path: Path, source: str) -> None:
    found = open_any(source, tmp_path, origin=Origin.TYPED)
    graph = quantised(found, more=0)
    design = lower(graph, found.store, SIZES)
    codes = Host(graph, found.store, design, found.callables)(**inputs(graph))
    built = build(design, len(codes[0]), tmp_path / "builds", "icarus")
    for stall in (0, 3):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck and not done.mismatches, (stall, done.mismatches)
