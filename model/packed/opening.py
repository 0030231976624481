"""Opens a packed model as a project: its weights as they were decoded, its formats on the ports.

A weight that was stored in several ways becomes as many weights. A format takes its scale from the tensor once more,
or is given it where the decoded values would not give the same one again.
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
from espalier.model.packed.layout import Packed, Use, facts, lies, stored, use_at, users_of, ways
from espalier.model.packed.values import Values, same_values, unpack, unpack_mask
from espalier.model.sources.info import SourceInfo, demo_folder
from espalier.model.store.weights import Tensor, WeightStore

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Given:
    """How a use of a weight is written in the opened graph: under which name, format, scale and mask."""

    weight: str
    format: Format | None
    scale: str | None = None
    mask: TensorKey | None = None
    zeros: int = 0


def load_packed(path: Path, store: WeightStore) -> tuple[Project, tuple[Problem, ...]]:
    """The project of a packed file, its tensors held by `store`, and what could not be kept; raises ProjectError."""
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
    """The opened graph as it comes to be."""

    def __init__(self, file: PackedFile, store: WeightStore) -> None:
        self.file, self.store, self.problems = file, store, list[Problem]()
        held, users = file.graph.weights, users_of(file.graph)
        self._ways = {name: ways(users[name]) for name in held}
        self._parts = {name: stored(name, w, users[name]) for name, w in held.items()}
        for name, parts in self._parts.items():
            if [lies(facts(p)) for p in parts] != [lies(f) for f in file.tensors[name]]:
                raise Damage(f"{name} does not lie in it as its format sees it today")
        self._weights: dict[str, Weight] = {}
        self._given: dict[tuple[str, Use], _Given] = {}

    def graph(self) -> Graph:
        """The graph with decoded weights."""
        for name in self.file.graph.weights:
            self._load(name)
        nodes = {n.id: self._rewritten(n) for n in self.file.graph}
        return replace(self.file.graph, nodes=nodes, weights=self._weights)

    # -- weights

    def _load(self, name: str) -> None:
        parts, found = self._parts[name], self._ways[name]
        if [p.use for p in parts] == found:
            for part in parts:
                self._decode(name, part)
        else:
            self._shared(name, parts, found)

    def _decode(self, name: str, part: Packed) -> None:
        """A weight that is stored as it is used."""
        use, weight = part.use, self.file.graph.weights[name]
        given = None if use.scale is None else self._scale(use.scale)
        values = unpack(part, self.file.data(part.name), weight.dtype, given)
        own = self._free(name)
        fmt = by_rule(use.format)
        kept = self._mask(values, use.zeros) if use.mask is not None else None
        again = replace(part, use=use._replace(format=fmt))
        own_again = use.scale is None and same_values(again, values.source, kept, None, values.effective)
        scale = values.scale if isinstance(fmt, ScaledFormat) and not own_again else None
        if fmt and not own_again and not same_values(again, values.source, kept, scale, values.effective):
            self._lost(name, fmt)
            values, fmt, scale = replace(values, source=values.effective), None, None
        self._weights[own] = replace(weight, key=self.store.hold(values.source))
        held = None if scale is None else use.scale or self._hold_scale(own, scale)
        self._given[name, use] = _Given(own, fmt, held, *self._hold_mask(kept))

    def _shared(self, name: str, parts: tuple[Packed, ...], found: list[Use]) -> None:
        """A weight in float for all its uses, formats to be applied as before."""
        weight = self.file.graph.weights[name]
        values = unpack(parts[0], self.file.data(parts[0].name), weight.dtype)
        self._weights[name] = replace(weight, key=self.store.hold(values.source))
        masks = {p.use.mask: unpack_mask(p, self.file.data(p.name)) for p in parts[1:]}
        if parts[0].use.mask is not None:
            masks[parts[0].use.mask] = self._mask(values, parts[0].use.zeros)
        for use in found:
            self._given[name, use] = _Given(name, use.format, use.scale, *self._hold_mask(masks.get(use.mask)))

    def _scale(self, name: str) -> Array:
        """A given scale."""
        part = self._parts[name][0]
        return unpack(part, self.file.data(part.name), self.file.graph.weights[name].dtype).effective.float32()

    def _free(self, name: str) -> str:
        """A name for one more weight."""
        names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        others = {k for k in self.file.graph.weights if k != name} | self._weights.keys()
        return next(n for n in names if n not in others)

    def _hold_scale(self, weight: str, scale: Array) -> str:
        name = self._free(f"{weight}_scale")
        held = Tensor(np.array(scale, np.float32), "float32")
        self._weights[name] = Weight(self.store.hold(held), held.shape, held.dtype, "buffer", False)
        return name

    @staticmethod
    def _mask(values: Values, zeros: int) -> NDArray[np.bool_]:
        """The mask in the file; where it was not worth its bits as many of the zeros as were pruned, the first ones."""
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

    def _lost(self, name: str, fmt: Format) -> None:
        text = f"{name} holds values of {fmt.label} that the format would change once more; it is read as it is."
        self.problems.append(Problem(None, text, "warning"))

    # -- nodes

    def _rewritten(self, node: Node) -> Node:
        found = {port: (name, use_at(node, port, name)) for port, name in weights_of(node, self.file.graph) if port}
        places = {port: (use, self._given[name, use._replace(own=True)]) for port, (name, use) in found.items()}
        if not places:
            return node
        sparsity = {p: replace(s, mask=places[p][1].mask, zeros=places[p][1].zeros) if p in places else s
                    for p, s in node.sparsity.items()}  # fmt: skip
        weights = {**node.weights, **{p: g.weight for p, (use, g) in places.items() if use.own}}
        return replace(node, weights=weights, sparsity=sparsity, precision=_precision(node.precision, places))


def _precision(held: Mapping[str, Precision], places: Mapping[str, tuple[Use, _Given]]) -> dict[str, Precision]:
    """The formats of a node's ports, those of weights as they were opened."""
    found: dict[str, Precision] = {}
    for port, chosen in held.items():
        use, given = places.get(port, (None, None))
        if given is None or use is None or use.format is None:
            found[port] = chosen
        elif given.format is not None:
            found[port] = replace(chosen, format=given.format, scale=given.scale)
    # A further operand has the format of the first, but not the scale that its own values need.
    for port, (_, given) in places.items():
        if port not in held and given.format is not None and given.scale is not None:
            found[port] = replace(held[base_port(port)], format=given.format, scale=given.scale)
    return found
