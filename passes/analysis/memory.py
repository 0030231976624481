"""The memory ledger: bytes of the packed file by purpose, ideal and real, and the measured memory of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weights_of
from espalier.model.packed.layout import CODED, Packed, packed_size, plan
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.timed_inputs import TimedOptions, check_device, inputs_on, size_errors
from espalier.passes.timed.profiler_spans import peak, profiled, tensors_of
from espalier.passes.timed.size_suggestions import size_suggestions

FLOAT = 4  # bytes of a float32
ABOUT = (
    "In the file each tensor takes the bits of its format. In memory a simulated model has its weights in float and "
    "rounded copies of them; only weights that are packed in memory too (pack_mx) take less."
)


@dataclass(frozen=True, slots=True)
class MemoryOptions(TimedOptions):
    """The inputs of the measured run; without data, random inputs of the model's sizes."""


@analysis("memory", "Memory ledger", MemoryOptions)
def memory(graph: Graph, options: MemoryOptions, context: Context) -> tuple[Graph, Report]:
    """Bytes of the packed file by purpose, which add up to its size; then measured bytes of a run.

    `ideal`: bytes of the elements' codes alone. `saving`: relative to float32. `found` gets suggestions to save more.
    Raises OptionsError for a missing device.
    """
    check_device(options.device)
    parts = plan(graph)
    stored = [*_values(parts), *_floats(parts, graph), *_rest(parts, graph)]
    measured = list(_run(graph, options, context))
    total = sum(r["bytes"] for r in stored)
    floats = sum(map(_plain, graph.weights.values()))
    suggestions = size_suggestions(graph, {r["line"]: r["bytes"] for r in measured})
    context.found({"gains": [[g.words, g.bytes, g.act, list(g.nodes)] for g in suggestions]})
    return graph, Report("memory", tuple(stored + measured), {
        "float_bytes": floats, "file_bytes": total, "saving": 1 - total / floats if floats else 0.0,
        **_ideal(parts), **{r["line"].replace(" ", "_"): r["bytes"] for r in measured},
        "gains": " ".join(g.words for g in suggestions), "about": ABOUT,
    })  # fmt: skip


def _line(line: str, kind: str, elements: int, ideal: float, size: int, plain: int | None = None) -> Row:
    """A line of the ledger of `size` bytes; `plain`: bytes without formats (a line without elements saves nothing)."""
    plain = FLOAT * elements if plain is None else plain
    return {"line": line, "kind": kind, "elements": elements, "float_bytes": plain, "ideal": ideal,
            "bytes": size, "saving": 1 - size / plain if plain else None}  # fmt: skip


def _plain(weight: Weight) -> int:
    """Bytes of a tensor without formats: floats as float32, integers unchanged."""
    return weight.elements * (FLOAT if weight.dtype in CODED else weight.float_bits // 8)


def _in_format(parts: list[Packed]) -> dict[str, list[Packed]]:
    """Label of a format → tensors that are stored in its codes."""
    by_format: dict[str, list[Packed]] = {}
    for part in parts:
        if part.use.format is not None and part.format == str(part.use.format):
            by_format.setdefault(part.use.format.label, []).append(part)
    return by_format


def _values(parts: list[Packed]) -> Iterator[Row]:
    """For each format a line of its codes, and one of its shared exponents and scales."""
    for label, tensors in _in_format(parts).items():
        elements, codes = sum(p.elements for p in tensors), sum(p.code_bits for p in tensors)
        yield _line(f"codes of {label}", "codes", elements, elements * tensors[0].element_bits / 8, codes // 8)
        if shared := sum(p.shared for p in tensors):
            yield _line(f"exponents and scales of {label}", "shared", 0, 0.0, shared // 8)


def _floats(parts: list[Packed], graph: Graph) -> Iterator[Row]:
    """What stays in float, by the kind of layer that reads it."""
    readers: dict[str, str] = {}
    for node in graph:
        for port, name in weights_of(node, graph):
            readers.setdefault(name, "biases" if port == "bias" and category(node) != "norm" else _plural(node.op))
    coded = {id(p) for held in _in_format(parts).values() for p in held}
    found: dict[str, list[Packed]] = {}
    for part in parts:
        if id(part) not in coded:
            what = "masks" if part.format == "mask" else readers.get(part.weight, "tensors that nobody reads")
            what = what if part.role == "parameter" or what == "masks" else "buffers"
            found.setdefault(what, []).append(part)
    for what, held in found.items():
        elements, bits = sum(p.elements for p in held), sum(p.code_bits for p in held)
        masks = what == "masks"
        text = "masks that uses do not share" if masks else f"float: {what}"
        plain = sum(_plain(graph.weights[p.weight]) for p in held) if not masks else 0
        yield _line(text, "masks" if masks else "float", 0 if masks else elements, bits / 8, bits // 8, plain)


def _plural(op: str) -> str:
    return {"embedding": "embeddings", "layer_norm": "layer norms", "linear": "linear layers"}.get(op, f"{op} weights")


def _rest(parts: list[Packed], graph: Graph) -> Iterator[Row]:
    """Masks beside kept values, whole bytes, and what tells a reader what the bytes mean."""
    if masks := sum(p.mask_bits for p in parts):
        yield _line("masks of pruned weights", "masks", 0, masks / 8, masks // 8)
    whole, told = packed_size(graph), sum(p.size for p in parts)
    lines = sum(r["bytes"] for r in (*_values(parts), *_floats(parts, graph))) + masks // 8
    if told > lines:
        yield _line("padding to whole bytes", "padding", 0, 0.0, told - lines)
    yield _line("header, graph and source", "file", 0, 0.0, whole - told)


def _ideal(parts: list[Packed]) -> dict[str, float]:
    """What the formats save of their own layers, with what their blocks share: 74.2 % for MXINT8 in blocks of 32."""
    held = [p for each in _in_format(parts).values() for p in each]
    elements = sum(p.elements for p in held)
    if not elements:
        return {}
    bits = sum(p.elements * p.element_bits + p.shared for p in held)
    every = sum(p.elements for p in parts if p.format != "mask")
    return {"saving_of_formats": 1 - bits / (32 * elements), "share_in_formats": elements / every}


def _run(graph: Graph, options: MemoryOptions, context: Context) -> Iterator[Row]:
    """Measured: the tensors of the built model, rounded copies that it keeps, and the most that a run takes beside."""
    from espalier.model.torch.build import build
    from espalier.model.torch.layers import Effective

    if any(w.key is None for w in graph.weights.values()):
        return
    inputs = inputs_on(options, graph, context)
    module = build(graph, context.store, context.callables, packed=True).to(options.device)
    with size_errors(options):
        seen = profiled(module, graph, inputs, 1, context)
    copies = [m.cached_bytes for m in module.modules() if isinstance(m, Effective)]
    elements, plain = sum(w.elements for w in graph.weights.values()), sum(map(_plain, graph.weights.values()))
    yield _line("model in memory", "measured", elements, 0.0, _bytes(tensors_of(module)), plain)
    if any(copies):
        yield _line("rounded copies in memory", "measured", 0, 0.0, sum(copies))
    yield _line("most in a run beside", "measured", 0, 0.0, peak(seen.memory))


def _bytes(tensors: Any) -> int:
    """Bytes of distinct storages: views and tied tensors share one."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
