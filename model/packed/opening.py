"""Opens a packed model as a project with decoded weights and formats on its ports.

A weight that was stored once per use becomes several weights. The scale of a format is computed from the decoded
values, or set as a static scale if they would result in another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.data.class_names import model_names
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import Damage
from espalier.model.formats.base import Format, by_rule
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision, TensorKey, Weight
from espalier.model.graph.ops import base_port
from espalier.model.graph.ports import weights_of
from espalier.model.packed.file import PackedFile, decoding, read_packed
from espalier.model.packed.layout import Packed, Use, element_order, facts, stored, use_at, users_of, ways
from espalier.model.packed.values import Values, same_values, unpack, unpack_mask
from espalier.model.sources.info import SourceInfo, demo_folder
from espalier.model.store.weights import Tensor, WeightStore

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _OpenedUse:
    """A use of a weight in the opened graph: name, format, static scale and mask."""

    weight: str
    format: Format | None
    scale: str | None = None
    mask: TensorKey | None = None
    zeros: int = 0


def load_packed(path: Path, store: WeightStore) -> tuple[Project, tuple[Problem, ...]]:
    """(project of a packed file with tensors in `store`, problems). Raises ProjectError."""
    path = path.expanduser().resolve()
    file = read_packed(path)
    with decoding(path):
        loader = _Loader(file, store)
        graph = loader.graph()
    return Project(_source(file), graph, Recipe(), graph), tuple(loader.problems)


def _source(file: PackedFile) -> SourceInfo:
    inputs = tuple(n.target for n in file.graph.placeholders)
    tokenizer = file.source.get("tokenizer")
    if tokenizer and tokenizer.startswith("demo:"):
        tokenizer = str(demo_folder(tokenizer.partition(":")[2]))
    name = file.source.get("name", file.path.name)
    classes = model_names(tokenizer)
    return SourceInfo(str(file.path), name, inputs, tokenizer=tokenizer, data=file.source.get("data"), classes=classes)


class _Loader:
    """Builds the opened graph."""

    def __init__(self, file: PackedFile, store: WeightStore) -> None:
        self.file, self.store, self.problems = file, store, list[Problem]()
        weights, users = file.graph.weights, users_of(file.graph)
        self._ways = {name: ways(users[name]) for name in weights}
        self._parts = {name: stored(name, w, users[name]) for name, w in weights.items()}
        for name, parts in self._parts.items():
            if [element_order(facts(p)) for p in parts] != [element_order(f) for f in file.tensors[name]]:
                raise Damage(f"the layout of {name} differs from that of its format in this version")
        self._weights: dict[str, Weight] = {}
        self._uses: dict[tuple[str, Use], _OpenedUse] = {}

    def graph(self) -> Graph:
        """The graph with decoded weights."""
        for name in self.file.graph.weights:
            self._load(name)
        nodes = {n.id: self._rewritten(n) for n in self.file.graph}
        return replace(self.file.graph, nodes=nodes, weights=self._weights)

    # -- weights

    def _load(self, name: str) -> None:
        parts, uses = self._parts[name], self._ways[name]
        if [p.use for p in parts] == uses:
            for part in parts:
                self._decode(name, part)
        else:
            self._shared(name, parts, uses)

    def _decode(self, name: str, part: Packed) -> None:
        """Decode a weight that is stored once per use."""
        use, weight = part.use, self.file.graph.weights[name]
        stored_scale = None if use.scale is None else self._scale(use.scale)
        values = unpack(part, self.file.data(part.name), weight.dtype, stored_scale)
        own = self._unused_name(name)
        fmt = by_rule(use.format)
        mask = self._mask(values, use.zeros) if use.mask is not None else None
        recoded = replace(part, use=use._replace(format=fmt))
        reproducible = use.scale is None and same_values(recoded, values.source, mask, None, values.effective)
        scale = values.scale if isinstance(fmt, ScaledFormat) and not reproducible else None
        if fmt and not reproducible and not same_values(recoded, values.source, mask, scale, values.effective):
            self._warn_lost_format(name, fmt)
            values, fmt, scale = replace(values, source=values.effective), None, None
        self._weights[own] = replace(weight, key=self.store.hold(values.source))
        scale_name = None if scale is None else use.scale or self._hold_scale(own, scale)
        self._uses[name, use] = _OpenedUse(own, fmt, scale_name, *self._hold_mask(mask))

    def _shared(self, name: str, parts: tuple[Packed, ...], uses: list[Use]) -> None:
        """Load a weight that is stored in float for all its uses; its formats stay unchanged."""
        weight = self.file.graph.weights[name]
        values = unpack(parts[0], self.file.data(parts[0].name), weight.dtype)
        self._weights[name] = replace(weight, key=self.store.hold(values.source))
        masks = {p.use.mask: unpack_mask(p, self.file.data(p.name)) for p in parts[1:]}
        if parts[0].use.mask is not None:
            masks[parts[0].use.mask] = self._mask(values, parts[0].use.zeros)
        for use in uses:
            self._uses[name, use] = _OpenedUse(name, use.format, use.scale, *self._hold_mask(masks.get(use.mask)))

    def _scale(self, name: str) -> Array:
        """A static scale."""
        part = self._parts[name][0]
        return unpack(part, self.file.data(part.name), self.file.graph.weights[name].dtype).effective.float32()

    def _unused_name(self, name: str) -> str:
        """An unused name for a weight."""
        names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        others = {k for k in self.file.graph.weights if k != name} | self._weights.keys()
        return next(n for n in names if n not in others)

    def _hold_scale(self, weight: str, scale: Array) -> str:
        name = self._unused_name(f"{weight}_scale")
        tensor = Tensor(np.array(scale, np.float32), "float32")
        self._weights[name] = Weight(self.store.hold(tensor), tensor.shape, tensor.dtype, "buffer", False)
        return name

    @staticmethod
    def _mask(values: Values, zeros: int) -> NDArray[np.bool_]:
        """The stored mask; without one the first zeros, as many as were pruned."""
        if values.mask is not None:
            return values.mask
        mask = values.effective.array != 0
        more = int(mask.size - mask.sum()) - zeros
        if more > 0:
            mask = mask.reshape(-1)
            mask[np.flatnonzero(~mask)[-more:]] = True
        return mask.reshape(values.effective.array.shape)

    def _hold_mask(self, mask: NDArray[np.bool_] | None) -> tuple[TensorKey | None, int]:
        if mask is None:
            return None, 0
        return self.store.hold(Tensor(np.packbits(mask), "uint8")), int(mask.size - mask.sum())

    def _warn_lost_format(self, name: str, fmt: Format) -> None:
        text = f"{name} has values of {fmt.label} that the format would change again; it is opened without the format."
        self.problems.append(Problem(None, text, "warning"))

    # -- nodes

    def _rewritten(self, node: Node) -> Node:
        weights_by_port = {
            port: (name, use_at(node, port, name)) for port, name in weights_of(node, self.file.graph) if port
        }
        uses = {port: (use, self._uses[name, use._replace(own=True)]) for port, (name, use) in weights_by_port.items()}
        if not uses:
            return node
        sparsity = {p: replace(s, mask=uses[p][1].mask, zeros=uses[p][1].zeros) if p in uses else s
                    for p, s in node.sparsity.items()}  # fmt: skip
        weights = {**node.weights, **{p: g.weight for p, (use, g) in uses.items() if use.own}}
        return replace(node, weights=weights, sparsity=sparsity, precision=_precision(node.precision, uses))


def _precision(precision: Mapping[str, Precision], uses: Mapping[str, tuple[Use, _OpenedUse]]) -> dict[str, Precision]:
    """The formats of a node's ports, with those of opened weights."""
    opened: dict[str, Precision] = {}
    for port, chosen in precision.items():
        use, opened_use = uses.get(port, (None, None))
        if opened_use is None or use is None or use.format is None:
            opened[port] = chosen
        elif opened_use.format is not None:
            opened[port] = replace(chosen, format=opened_use.format, scale=opened_use.scale)
    # A further operand has the format of the first, but not the scale that its own values need.
    for port, (_, opened_use) in uses.items():
        if port not in precision and opened_use.format is not None and opened_use.scale is not None:
            opened[port] = replace(precision[base_port(port)], format=opened_use.format, scale=opened_use.scale)
    return opened
