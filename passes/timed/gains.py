"""What would make a model smaller still: each way in words, with the bytes that it would save and the pass for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.packed.layout import CODED, plan

FLOAT, MX8, MX4, BLOCK = 32, 8.25, 4.25, 16  # bits of a weight; weights that share an exponent, below which it is much
LEAST = 0.005  # of what the weights take in float: less is not worth a word
Act = Literal["quantize", "pack_mx", ""]


@dataclass(frozen=True, slots=True)
class Gain:
    """`bytes`: what it would save, in the file or in memory as the words say; `act`: the pass for it, to `nodes`."""

    words: str
    bytes: int
    act: Act
    nodes: tuple[str, ...] = ()


def gains_of(graph: Graph, measured: Mapping[str, int]) -> tuple[Gain, ...]:
    """The weightiest first. `measured`: bytes by line of the ledger, of a run."""
    whole = sum(w.elements for w in graph.weights.values()) * FLOAT // 8
    found = [*_unformatted(graph), *_unpacked(graph, measured), *_blocks(graph), *_run(graph, measured)]
    return tuple(sorted((g for g in found if g.bytes >= LEAST * whole), key=lambda g: -g.bytes))


def size_words(size: float) -> str:
    """1.5 MiB."""
    for unit in ("B", "KiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} MiB" if size < 1024 else f"{size / 1024:.2f} GiB"


def _ids(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(n.id for n in nodes)


def _weights(graph: Graph, nodes: Iterable[Node]) -> dict[str, Weight]:
    """The floating weights of nodes by name, each once."""
    names = (n.weights["weight"] for n in nodes if "weight" in n.weights)
    return {name: w for name in names if (w := graph.weights[name]).dtype in CODED}


def _unformatted(graph: Graph) -> Iterator[Gain]:
    """Layers and tables that are still in float."""
    for op, what in (("linear", "linear layers"), ("embedding", "embeddings"), ("conv2d", "convolutions")):
        nodes = [n for n in graph if n.op == op and "weight" not in n.precision]
        held = _weights(graph, nodes)
        elements = sum(w.elements for w in held.values())
        if elements:
            eight, four = (int(elements * (FLOAT - bits) / 8) for bits in (MX8, MX4))
            yield Gain(f"The {what} hold {size_words(elements * FLOAT / 8)} in float: MXINT8 would save "
                       f"{size_words(eight)} of the file, MXINT4 {size_words(four)}.", eight,
                       "quantize", _ids(nodes))  # fmt: skip


def _unpacked(graph: Graph, measured: Mapping[str, int]) -> Iterator[Gain]:
    """Linears that could be held in codes where the model runs, and the copies that formats leave there."""
    able = [n for n in graph if n.op == "linear" and n.call == "call_module" and not n.packed and not n.adapters]
    held = _weights(graph, able) if graph.runs != "module" else {}
    elements = sum(w.elements for w in held.values())
    if elements:
        saved = int(elements * (FLOAT - MX8) / 8)
        text = (
            f"In memory {_layers(len(held))} in float, whatever the format. MX weights holds "
            f"MXINT8 codes there and saves {size_words(saved)} where the model runs."
        )
        yield Gain(text, saved, "pack_mx", _ids(able))
    if copies := measured.get("rounded copies in memory", 0):
        text = f"Rounded copies lie in memory beside the weights: {size_words(copies)}. MX weights need none."
        yield Gain(text, copies, "pack_mx" if elements else "", _ids(able))


def _layers(number: int) -> str:
    return "one linear layer holds its weight" if number == 1 else f"{number} linear layers hold their weights"


def _blocks(graph: Graph) -> Iterator[Gain]:
    """Small blocks, whose shared exponents and scales are much."""
    shared = sum(p.shared for p in plan(graph) if getattr(p.use.format, "block", BLOCK) < BLOCK) // 8
    if shared:
        text = (
            f"Blocks of fewer than {BLOCK} weights share an exponent: {size_words(shared)} in all. Blocks of twice the "
            "size halve that."
        )
        yield Gain(text, shared // 2, "quantize")


def _run(graph: Graph, measured: Mapping[str, int]) -> Iterator[Gain]:
    """Activations, where they are more than the model."""
    most, held = measured.get("most in a run beside", 0), measured.get("model in memory", 0)
    if most > held > 0:
        text = (
            f"A run takes {size_words(most)} beside the model, mostly for activations: a smaller batch or shorter "
            "inputs take less."
        )
        yield Gain(text, most // 2, "")
