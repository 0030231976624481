"""Does a file compute what the model computes? Both run on the same inputs, at the sizes of the trace and at others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.formats.base import by_rule
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import WeightStore
from espalier.passes.running.example import example_inputs, other_sizes
from espalier.passes.verify import tensors

if TYPE_CHECKING:
    from torch import Tensor

Inputs = dict[str, "Tensor"]
Run = Callable[[Inputs], "Sequence[Tensor]"]
PLAIN = "A plain onnxruntime session"
TOLERANCE = 1e-4  # of the largest value: results as near as this count as equal
ULPS = 4  # of the results' own type, where that is coarser
# Without VNNI, x86 adds pairs of 8-bit products in 16 bits, which overflow: onnxruntime's
# kOrtSessionOptionsAvx2PrecisionMode.
PRECISE = ("session.x64quantprecision", "1")
NARROWER = "Where the difference is that of sums of 8-bit products that overflow, weights of 7 bits do not have it."
# Settings of onnxruntime that compute nearer to what the file says, from the one that gives up least speed.
SETTINGS = (("session.qdq_matmulnbits_accuracy_level", "1"), ("session.disable_quant_qdq", "1"))


@dataclass(frozen=True, slots=True)
class Compared:
    """The largest difference of any result (None: nothing ran), the largest result, and what is to be told.

    `allowed`: the difference up to which results count as equal.
    """

    difference: float | None
    largest: float
    allowed: float = TOLERANCE
    notes: tuple[str, ...] = ()


def compare(graph: Graph, store: WeightStore, run: Run, who: str) -> Compared | None:
    """Run the graph's module and `run` side by side; None where the model itself runs at no size."""
    import torch

    from espalier.model.torch.build import build
    from espalier.model.torch.emulators import in_float

    module = build(in_float(_ruled(graph)), store)
    found: list[tuple[float, float]] = []
    allowed = TOLERANCE
    notes: list[str] = []
    for sizes in other_sizes(graph):
        values = example_inputs(graph, sizes)
        try:
            with torch.no_grad():
                want = tensors(module(**values))
        except (RuntimeError, IndexError, ValueError):  # a size that the model does not take
            continue
        try:
            got = run(values)
            found += [_apart(a, b) for a, b in zip(want, got, strict=True)]
            allowed = max(allowed, *(ULPS * torch.finfo(a.dtype).eps for a in want if a.is_floating_point()), 0.0)
        # Whatever a foreign runtime raises is what is being looked for.
        except Exception as error:  # noqa: BLE001
            notes.append(f"{who} cannot run it at {_words(sizes)}: {_last_line(error)[:200]}")
    if not found:
        return Compared(None, 0.0, notes=tuple(notes)) if notes else None
    apart, largest = (max(f[i] for f in found) for i in (0, 1))
    allowed *= max(largest, 1e-6)
    if apart > allowed:
        notes.append(f"Results of {who} differ by up to {apart:.3g}, where the largest is {largest:.3g}.")
    return Compared(apart, largest, allowed, tuple(notes))


def compare_onnx(graph: Graph, store: WeightStore, path: Path, *, equal: bool = True) -> Compared | None:
    """Run an ONNX file by onnxruntime; raises ImportError where that is not installed.

    A plain session may compute otherwise than the file says: it fuses products of 8 and 4 bits. Where its results
    differ, the settings that could make them equal are tried one after the other; only what was observed is
    reported. `equal`: whether the file is to give the model's own results.
    """
    try:
        plain = _session(path)
    # onnxruntime raises types of its own, for operators that it lacks.
    except Exception as error:  # noqa: BLE001
        return Compared(None, 0.0, notes=(_unopened(graph, _last_line(error)[:300]),))
    found = compare(graph, store, plain, "onnxruntime")
    if found is None or found.difference is None or _equal(found):
        return found
    found, entries = _precise(graph, store, path, found)
    if not equal or _equal(found):
        return found
    tried: list[str] = []
    for key, value in SETTINGS:
        again = _compare_with(graph, store, path, {**entries, key: value})
        if again is not None and _equal(again):
            needs = [n for n in found.notes if entries and n.startswith(PLAIN)]
            return replace(again, notes=(*again.notes, *needs, _needs(found, again, key, value)))
        if again is not None and again.difference is not None:
            tried.append(f"{again.difference:.3g} with {key}={value}")
    return replace(found, notes=(*found.notes, *([f"Other settings change that to {', '.join(tried)}."] * bool(tried))))


def _precise(graph: Graph, store: WeightStore, path: Path, plain: Compared) -> tuple[Compared, dict[str, str]]:
    """The comparison without overflows of 8-bit products, and its setting, where this processor has them."""
    key, value = PRECISE
    again = _compare_with(graph, store, path, {key: value})
    found, before = again.difference if again else None, plain.difference
    if again is not None and found is None:
        return replace(plain, notes=(*plain.notes, *again.notes, NARROWER)), {}
    if again is None or found is None or before is None or not before - found > plain.allowed:
        return plain, {}
    told = f"{_needs(plain, again, key, value)} Other processors (AVX-VNNI, AVX-512 VNNI, Arm) do not need it."
    return replace(again, notes=(*again.notes, told)), {key: value}


def _compare_with(graph: Graph, store: WeightStore, path: Path, entries: dict[str, str]) -> Compared | None:
    """As `compare`, with settings of onnxruntime; a note alone where no session opens with them."""
    key, value = list(entries.items())[-1]
    who = f"onnxruntime with {key}={value}"
    try:
        session = _session(path, entries)
    # An optimisation that only the setting turns on may fail, such as that of a weight which several products read.
    except Exception as error:  # noqa: BLE001
        reason = _last_line(error).rpartition(" : ")[2][:200]
        return Compared(None, 0.0, notes=(f"{who} cannot open the file ({reason}).",))
    return compare(graph, store, session, who)


def _last_line(error: Exception) -> str:
    """What an error says at its end; its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _unopened(graph: Graph, text: str) -> str:
    """Why a file was not run, and what to do."""
    if any(w.dtype == "bfloat16" for w in graph.weights.values()):
        return (f"The file was not run: onnxruntime's CPU provider did not open it ({text}). The model has bfloat16 "
                "weights: run it by another provider, or export it in float32.")  # fmt: skip
    return f"The file was not run: this onnxruntime cannot open it ({text})."


def _equal(found: Compared) -> bool:
    return found.difference is not None and found.difference <= found.allowed


def _needs(plain: Compared, exact: Compared, key: str, value: str) -> str:
    """What a plain session differs by, and the setting with which results were seen to be equal."""
    return (
        f"{PLAIN} differs by up to {plain.difference:.3g}, where the largest is "
        f"{plain.largest:.3g}; with {key}={value} by {exact.difference:.3g}. Open the file with "
        f'SessionOptions.add_session_config_entry("{key}", "{value}").'
    )


def _session(path: Path, entries: dict[str, str] | None = None) -> Run:
    import numpy as np
    import onnxruntime
    import torch

    options: Any = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    taken = {i.name for i in session.get_inputs()}

    def run(values: Inputs) -> list[Tensor]:
        given = {k: v.numpy() for k, v in values.items() if k in taken}
        return [torch.from_numpy(np.asarray(v)) for v in session.run(None, given)]

    return run


def _ruled(graph: Graph) -> Graph:
    """Formats that round at random by their rule, as they are exported."""

    def ruled(node: Node) -> Node:
        held = {p: replace(c, format=by_rule(c.format) or c.format) for p, c in node.precision.items()}
        return replace(node, precision=held)

    return graph.replace(*map(ruled, graph))


def _apart(a: Tensor, b: Tensor) -> tuple[float, float]:
    """(largest difference, largest magnitude); infinite where shapes differ."""
    if tuple(a.shape) != tuple(b.shape):
        return float("inf"), 0.0
    if not a.numel():
        return 0.0, 0.0
    x, y = a.double().nan_to_num(), b.double().nan_to_num()
    return float((x - y).abs().max()), float(x.abs().max())


def _words(sizes: dict[str, int]) -> str:
    return ", ".join(f"{k} {v}" for k, v in sizes.items()) or "its sizes"
