"""Models without weights are captured by a few of their blocks: the result is the graph that a full capture gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph, map_refs, sort
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.trace import trace as trace_module
from espalier.model.trace.block_equivalence import blocks_equivalent
from espalier.model.trace.repeated_blocks import CAPTURED_BLOCKS, find_block_stack, truncated
from espalier.model.trace.trace import Traced, trace

TINY = "hidden_size=16&num_hidden_layers=9&num_attention_heads=2&intermediate_size=24&vocab_size=50"
SOURCES = {
    "bert": f"bert?{TINY}&task=sequence-classification",
    "gpt2": "gpt2?n_embd=16&n_layer=9&n_head=2&vocab_size=50&n_positions=20&task=causal-lm",
    "llama": f"llama?{TINY}&task=causal-lm",
    "vit": f"vit?{TINY.rpartition('&')[0]}&image_size=16&patch_size=8",
    "gemma2": f"gemma2?{TINY}&head_dim=8&num_key_value_heads=1&task=causal-lm",
}


class Block(nn.Module):
    layer_idx = -1

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.drop = nn.Dropout(p)

    def forward(self, x: Tensor, first: Tensor | None = None) -> Tensor:
        y = x + self.drop(torch.tanh(self.layer(x)) if self.layer_idx == 6 else torch.relu(self.layer(x)))
        return y if first is None else y + first


class Tower(nn.Module):
    """A list of blocks; subclasses say how they are chained."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks or (Block() for _ in range(10)))
        self.head = nn.Linear(4, 2)

    def chain(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.chain(x * 2))


class FromTheFirst(Tower):
    """Each block also takes what went into the first: the same value from outside."""

    def chain(self, x: Tensor) -> Tensor:
        first = torch.sin(x)
        for block in self.blocks:
            x = block(x, first)
        return x


class Collecting(Tower):
    """The results of all blocks are summed."""

    def chain(self, x: Tensor) -> Tensor:
        found = []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return torch.stack(found).sum(0)


class Alternating(Tower):
    """Two kinds of call, in turn."""

    def chain(self, x: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = block(x) if i % 2 else block(x, x)
        return x


class Peculiar(Tower):
    """The seventh block is followed by something else, which only the parent's code knows."""

    def chain(self, x: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = block(x) if i != 6 else block(x) * 3
        return x


class Numbered(Tower):
    """A block does something else because of its number."""

    def __init__(self) -> None:
        super().__init__()
        for i, block in enumerate(self.blocks):
            block.layer_idx = i


class Averaging(Tower):
    """What follows the blocks knows how many there are."""

    def chain(self, x: Tensor) -> Tensor:
        return super().chain(x) / len(self.blocks)


class Skipping(Tower):
    """The result of one late block is used at the end as well."""

    def chain(self, x: Tensor) -> Tensor:
        kept = x
        for i, block in enumerate(self.blocks):
            x = block(x)
            kept = x if i == 5 else kept
        return x + kept if len(self.blocks) > 6 else x


class Backwards(Tower):
    """The later blocks run in another order."""

    def chain(self, x: Tensor) -> Tensor:
        for block in (*self.blocks[:6], *reversed(self.blocks[6:])):
            x = block(x)
        return x


class Asking(Tower):
    """It looks at values, which a model without weights has not; an export does not get there."""

    def chain(self, x: Tensor) -> Tensor:
        x = super().chain(x)
        return x if torch.compiler.is_exporting() or x.sum() > 0 else -x


def on_meta(model: nn.Module) -> nn.Module:
    return model.to("meta").eval()


def full(model: nn.Module, example: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Graph:
    with monkeypatch.context() as patch:
        patch.setattr("espalier.model.trace.trace.find_block_stack", lambda _: None)
        return trace(model, example, WeightStore(Path("unwritten"))).graph


def numbered(graph: Graph) -> list[Any]:
    """Nodes with places for names: equal for graphs that differ in ids alone."""
    places = {name: str(i) for i, name in enumerate(graph.nodes)}
    rename = lambda r: replace(r, node=places[r.node])  # noqa: E731
    return [replace(map_refs(n, rename), id=places[n.id], source="") for n in graph]


def same(replicated: Traced, whole: Graph) -> None:
    graph = replicated.graph
    assert not [p for p in check(graph) if p.severity == "error"] and list(sort(graph.nodes)) == list(graph.nodes)
    assert len(graph) == len(whole)
    assert numbered(graph) == numbered(whole)
    assert graph.weights == whole.weights and graph.symbols == whole.symbols
    assert (graph.output_names, graph.structure) == (whole.output_names, whole.structure)


QUICK = ("gpt2",)


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SOURCES])
def test_real_models_are_stamped_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_source(f"config:{SOURCES[name]}&weights=none")
    replicated = trace(loaded.model, loaded.example, WeightStore(Path("unwritten")))
    same(replicated, full(loaded.model, loaded.example, monkeypatch))


ALIKE = (Tower, FromTheFirst, Asking)
NOT_ALIKE = (Collecting, Alternating, Peculiar, Numbered, Averaging, Skipping, Backwards)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [*ALIKE, *NOT_ALIKE])
def test_chains_of_any_kind(cls: type[Tower], monkeypatch: pytest.MonkeyPatch) -> None:
    model, example = on_meta(cls()), {"x": torch.zeros(3, 4, device="meta")}
    assert find_block_stack(model) is not None
    same(trace(model, example, WeightStore(Path("unwritten"))), full(model, example, monkeypatch))


@pytest.mark.parametrize("cls", [*ALIKE, *NOT_ALIKE])
def test_code_that_treats_a_block_differently_is_heard(cls: type[Tower]) -> None:
    model, example = on_meta(cls()), {"x": torch.zeros(3, 4, device="meta")}
    stack = find_block_stack(model)
    assert stack is not None and blocks_equivalent(model, stack, example) == (cls in ALIKE)
    assert list(model.blocks) == list(stack.blocks) and not any(b._forward_pre_hooks for b in stack.blocks)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_real_model_is_captured_by_four_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, seen = load_source(f"config:{SOURCES['llama']}&weights=none"), []
    whole = trace_module._full
    monkeypatch.setattr(trace_module, "_full", lambda m, *rest: seen.append(len(m.model.layers)) or whole(m, *rest))
    traced = trace(loaded.model, loaded.example, WeightStore(Path("unwritten")))
    assert seen == [CAPTURED_BLOCKS] and not traced.problems


def test_only_alike_blocks_are_a_stack() -> None:
    assert find_block_stack(on_meta(Tower())) is not None
    assert find_block_stack(Tower()) is None  # it has weights: they are all wanted
    assert find_block_stack(on_meta(Tower(*(Block() for _ in range(2 * CAPTURED_BLOCKS - 1))))) is None
    assert find_block_stack(on_meta(Tower(*(Block(0.1 if i != 8 else 0.2) for i in range(10))))) is None
    odd = Tower()
    odd.blocks[7].layer = nn.Linear(4, 4, bias=False)
    assert find_block_stack(on_meta(odd)) is None
    odd = Tower()
    odd.blocks[9].mode = "other"  # type: ignore[assignment]
    assert find_block_stack(on_meta(odd)) is None


def test_the_model_is_whole_again() -> None:
    model = on_meta(Tower())
    blocks = list(model.blocks)  # type: ignore[arg-type]
    stack = find_block_stack(model)
    assert stack is not None
    with pytest.raises(RuntimeError), truncated(model, stack):
        assert len(model.blocks) == CAPTURED_BLOCKS  # type: ignore[arg-type]
        raise RuntimeError
    assert list(model.blocks) == blocks  # type: ignore[arg-type]
    trace(model, {"x": torch.zeros(3, 4, device="meta")}, WeightStore(Path("unwritten")))
    assert list(model.blocks) == blocks  # type: ignore[arg-type]


def test_any_number_of_blocks() -> None:
    model = on_meta(Tower(*(Block() for _ in range(60))))
    traced = trace(model, {"x": torch.zeros(3, 4, device="meta")}, WeightStore(Path("unwritten")))
    assert sum(n.op == "linear" for n in traced.graph) == 61 and len(traced.graph.weights) == 122
