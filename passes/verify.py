"""Verification of a captured graph: compares its results with the original model's on new inputs of several sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.limits import broken_limit
from espalier.model.opening import Opened

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from espalier.model.sources.info import Loaded

Sizes = dict[str, int]
_REACH = 1024  # sizes tried to meet a limit
TOLERANCE = 1e-3  # relative to the largest value; kernels may sum in another order at another size


@dataclass(slots=True)
class Verified:
    """The largest difference over all accepted sizes; `faults` are texts on what disagrees, `beyond` on what
    disagrees at sizes for which the graph is not valid."""

    max_abs_diff: float | None = None
    sizes: list[Sizes] = field(default_factory=list)  # type: ignore[assignment]
    faults: list[str] = field(default_factory=list)  # type: ignore[assignment]
    beyond: list[str] = field(default_factory=list)  # type: ignore[assignment]


def verify(opened: Opened, seed: int = 0) -> Verified:
    """Compare the original model with the one built from the graph. Raises PassError without a source's model."""
    import torch

    from espalier.model.torch.build import build

    if opened.loaded is None or opened.capture is None:
        raise PassError("A project has no original model to compare with.", "Verify the source of the model instead.")
    graph = opened.project.base
    built = build(graph, opened.store, opened.callables)
    result = Verified()
    generator = torch.Generator().manual_seed(seed)
    for sizes in _sizes(graph, opened.capture.dynamic):
        values = _inputs(opened.loaded.example, graph, sizes, generator)
        with torch.no_grad():
            _compare(opened.loaded, built, values, sizes, graph, result)
    for sizes in _beyond(graph):
        other = Verified()
        values = _inputs(opened.loaded.example, graph, sizes, generator)
        with torch.no_grad():
            _compare(opened.loaded, built, values, sizes, graph, other)
        result.beyond += [f"Beyond the limit: {text}" for text in other.faults]
    if not result.sizes:
        result.faults.append("The model failed at all tried sizes.")
    return result


def _sizes(graph: Graph, dynamic: Mapping[str, tuple[str, ...]]) -> Iterator[Sizes]:
    """The example's sizes, then others; sizes of the same dimension change together."""
    yield dict(graph.symbols)
    if not dynamic:
        return
    groups = {s: _group(s, places) for s, places in dynamic.items() if s in graph.symbols}
    names = sorted(set(groups.values()))
    for first, other in ((1, 0), (3, -3), (5, 7), (2, 19)):
        change = {g: first if g == "batch" else other for g in names}
        changed = {s: _other(v, change[groups[s]], groups[s]) for s, v in graph.symbols.items() if s in groups}
        if broken_limit(graph, {**graph.symbols, **changed}) is None:
            yield {**graph.symbols, **changed}
    for symbol in graph.symbols:
        yield from (sizes for sizes, valid in _border(graph, symbol) if valid)


def _beyond(graph: Graph) -> Iterator[Sizes]:
    """The nearest sizes at which a limit of the graph is broken."""
    for symbol in graph.symbols:
        yield from (sizes for sizes, valid in _border(graph, symbol) if not valid)


def _border(graph: Graph, symbol: str) -> Iterator[tuple[Sizes, bool]]:
    """The last sizes within the limits and the first beyond, upwards and downwards from the example's."""
    value = graph.symbols[symbol]
    if not any(re.search(rf"\b{symbol}\b", limit.condition) for limit in graph.limits):
        return
    for path in (range(value, value + _REACH), range(value, 0, -1)):
        for number in path:
            sizes = {**graph.symbols, symbol: number}
            if broken_limit(graph, sizes) is not None:
                yield {**graph.symbols, symbol: number - path.step}, True
                yield sizes, False
                break


def _group(symbol: str, places: tuple[str, ...]) -> str:
    head = symbol.split("_")[0]
    return head if head in ("batch", "seq") else "batch" if places[0].endswith("[0]") else symbol


def _other(value: int, change: int, group: str) -> int:
    """The changed size: `change` itself for a batch, otherwise the size plus `change`, at least 1."""
    return change if group == "batch" else max(1, value + change)


def _inputs(example: dict[str, Any], graph: Graph, sizes: Sizes, generator: torch.Generator) -> dict[str, Any]:
    """New values in the range of the example; inputs that are not in the graph are unchanged."""
    import torch

    ports = {n.target: n.ports.get("data_out") for n in graph.placeholders}
    inputs: dict[str, Any] = {}
    for name, value in example.items():
        meta = ports.get(name)
        replaced = isinstance(value, torch.Tensor) and meta is not None and value.numel()
        inputs[name] = _random_like(value, meta.sizes(sizes), generator) if replaced and meta else value
    return inputs


def _random_like(value: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Normal floats of the example's mean and deviation; integers drawn from the example, so that all are valid."""
    import torch

    if value.is_floating_point():
        spread = value.float().std(correction=0) if value.numel() > 1 else torch.tensor(1.0)
        return (torch.randn(shape, generator=generator) * spread + value.float().mean()).to(value.dtype)
    return value.reshape(-1)[torch.randint(0, value.numel(), shape, generator=generator)]


def _compare(loaded: Loaded, built: Any, values: dict[str, Any], sizes: Sizes, graph: Graph, result: Verified) -> None:
    import torch

    names = {n.target for n in graph.placeholders}
    torch.manual_seed(0)
    try:
        expected = _original(loaded, values)
    # The user's model may raise any exception at an unsupported size.
    except Exception:  # noqa: BLE001
        return
    torch.manual_seed(0)
    try:
        actual = built(**{k: v for k, v in values.items() if k in names})
    # A failure of the rebuilt model is a result of the verification.
    except Exception as error:  # noqa: BLE001
        result.faults.append(f"The rebuilt model fails at {sizes}: {type(error).__name__}: {str(error)[:200]}")
        return
    result.sizes.append(sizes)
    _compare_results(tensors(expected), tensors(actual), sizes, result)


def _original(loaded: Loaded, values: dict[str, Any]) -> Any:
    """The original model's result. An exported program gets its positional inputs by position."""
    example = loaded.program.example_inputs if loaded.program is not None else None
    count = len(example[0]) if example else 0
    names = list(values)
    return loaded.model(*(values[n] for n in names[:count]), **{n: values[n] for n in names[count:]})


def tensors(value: Any) -> list[Tensor]:
    """All tensors of a nested value, in order."""
    import torch
    import torch.utils._pytree as pytree

    return [v for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def _compare_results(expected: list[Tensor], actual: list[Tensor], sizes: Sizes, result: Verified) -> None:
    import torch

    if [t.shape for t in expected] != [t.shape for t in actual]:
        result.faults.append(f"The rebuilt model's results have other shapes at {sizes}.")
        return
    for e, a in zip(expected, actual, strict=True):
        if not e.numel():
            continue
        if not torch.equal(e.isnan(), a.isnan()):
            result.faults.append(f"The models give NaN at different elements at {sizes}.")
        difference = float((e.double() - a.double()).abs().nan_to_num(0.0, 0.0).max())
        result.max_abs_diff = max(result.max_abs_diff or 0.0, difference)
        if difference > TOLERANCE * max(1.0, float(e.double().abs().nan_to_num().max())):
            result.faults.append(f"The rebuilt model's results differ by {difference:.3g} at {sizes}.")
