"""Suggestions that make a model smaller, each with the bytes saved and the pass that does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.packed.layout import CODED, plan

FLOAT, MX8, MX4 = 32, 8.25, 4.25  # bits per weight
BLOCK = 16  # weights per shared exponent, below which a larger block is suggested
MIN_SHARE = 0.005  # of the weights' bytes in float, for a suggestion
Act = Literal["quantize", "pack_mx", ""]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`bytes`: saved, in the file or in memory as `words` says; `act`: the pass to apply to `nodes`."""

    words: str
    bytes: int
    act: Act
    nodes: tuple[str, ...] = ()


def size_suggestions(graph: Graph, measured: Mapping[str, int]) -> tuple[Suggestion, ...]:
    """Suggestions, largest first. `measured`: bytes by row of the memory report of a run."""
    total = sum(w.elements for w in graph.weights.values()) * FLOAT // 8
    all_ = [*_unformatted(graph), *_unpacked(graph, measured), *_blocks(graph), *_run(graph, measured)]
    return tuple(sorted((g for g in all_ if g.bytes >= MIN_SHARE * total), key=lambda g: -g.bytes))


def size_words(size: float) -> str:
    """Format a size in bytes: 1.5 MiB."""
    for unit in ("B", "KiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} MiB" if size < 1024 else f"{size / 1024:.2f} GiB"


def _ids(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(n.id for n in nodes)


def _weights(graph: Graph, nodes: Iterable[Node]) -> dict[str, Weight]:
    """The floating-point weights of nodes by name."""
    names = (n.weights["weight"] for n in nodes if "weight" in n.weights)
    return {name: w for name in names if (w := graph.weights[name]).dtype in CODED}


def _unformatted(graph: Graph) -> Iterator[Suggestion]:
    """Layers and embeddings in float."""
    for op, what in (("linear", "linear layers"), ("embedding", "embeddings"), ("conv2d", "convolutions")):
        nodes = [n for n in graph if n.op == op and "weight" not in n.precision]
        elements = sum(w.elements for w in _weights(graph, nodes).values())
        if elements:
            eight, four = (int(elements * (FLOAT - bits) / 8) for bits in (MX8, MX4))
            yield Suggestion(f"The {what} hold {size_words(elements * FLOAT / 8)} in float: MXINT8 would save "
                       f"{size_words(eight)} of the file, MXINT4 {size_words(four)}.", eight,
                       "quantize", _ids(nodes))  # fmt: skip


def _unpacked(graph: Graph, measured: Mapping[str, int]) -> Iterator[Suggestion]:
    """Linear layers that can be packed in memory, and rounded copies of weights in memory."""
    packable = [n for n in graph if n.op == "linear" and n.call == "call_module" and not n.packed and not n.adapters]
    weights = _weights(graph, packable) if graph.runs != "module" else {}
    elements = sum(w.elements for w in weights.values())
    if elements:
        saved = int(elements * (FLOAT - MX8) / 8)
        text = (
            f"In memory {_layers(len(weights))} in float, whatever the format. MX weights stores "
            f"MXINT8 codes instead and saves {size_words(saved)} in memory."
        )
        yield Suggestion(text, saved, "pack_mx", _ids(packable))
    if copies := measured.get("rounded copies in memory", 0):
        text = f"Rounded copies of weights take {size_words(copies)} in memory. MX weights need none."
        yield Suggestion(text, copies, "pack_mx" if elements else "", _ids(packable))


def _layers(number: int) -> str:
    return "one linear layer holds its weight" if number == 1 else f"{number} linear layers hold their weights"


def _blocks(graph: Graph) -> Iterator[Suggestion]:
    """Small blocks, whose shared exponents and scales take many bytes."""
    shared = sum(p.shared for p in plan(graph) if getattr(p.use.format, "block", BLOCK) < BLOCK) // 8
    if shared:
        text = (
            f"Shared exponents of blocks of fewer than {BLOCK} weights take {size_words(shared)}. Doubling the block "
            "size halves that."
        )
        yield Suggestion(text, shared // 2, "quantize")


def _run(graph: Graph, measured: Mapping[str, int]) -> Iterator[Suggestion]:
    """Activations, if they take more memory than the model."""
    peak, model = measured.get("most in a run beside", 0), measured.get("model in memory", 0)
    if peak > model > 0:
        text = (
            f"A run takes {size_words(peak)} in addition to the model, mostly for activations: a smaller batch or "
            "shorter inputs take less."
        )
        yield Suggestion(text, peak // 2, "")
