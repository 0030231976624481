"""Builds the models of a search over architectures: each is checked, traced and initialised once, then cached."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espalier.model.errors import EspalierError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.recipes.replay import Memo
from espalier.passes.search.architecture.configuration import Origin, origin_of, why_not
from espalier.passes.structure.weight_inheritance import inherit

MAX_BYTES = 1 << 30  # of weights in the cache; evicted architectures are built again


class Impossible(PassError):
    """A combination of values gives no model: it is pruned before it is measured."""


@dataclass(frozen=True, slots=True)
class Built:
    """An architecture: its source, its graph, its tensors, and the results that its trials share.

    `share`: share of its parameters that were inherited; `memo`: results of steps on it.
    """

    info: SourceInfo
    graph: Graph
    store: WeightStore
    callables: dict[str, Any]
    share: float = 0.0
    memo: Memo = field(default_factory=Memo)

    def context(self, context: Context) -> Context:
        """The context in which its steps run."""
        return replace(context, store=self.store, callables=self.callables, reading=self.info.reading,
                       base=self.graph)  # fmt: skip


class Architect:
    """Builds models of configurations. `trained`: the source's graph, whose weights are inherited if `inherits`."""

    def __init__(self, info: SourceInfo, trained: Graph, store: WeightStore, seed: int = 0, inherits: bool = True):
        self.origin: Origin = origin_of(info)
        self.trained, self.store, self.seed = trained, store, seed
        self.inherits = inherits and all(w.key for w in trained.weights.values())
        self._built: OrderedDict[str, Built] = OrderedDict()
        self._reasons: dict[str, str] = {}

    def spec(self, values: Mapping[str, Any]) -> str:
        """The `config:` source of these values, which identifies the architecture."""
        return self.origin.spec(values)

    def why_not(self, values: Mapping[str, Any]) -> str:
        """Why these values give no model; empty if they do. Cached by combination."""
        name = self.spec(values)
        if name not in self._reasons:
            self._reasons[name] = why_not(self.origin, values)
        return self._reasons[name]

    def build(self, values: Mapping[str, Any]) -> Built:
        """The model of these values; raises Impossible with the reason if there is none."""
        name = self.spec(values)
        if reason := self.why_not(values):
            raise Impossible(reason, "Leave this combination out of the space.")
        if name not in self._built:
            try:
                self._built[name] = self._trace(name)
            except EspalierError as error:
                self._reasons[name] = error.message
                raise Impossible(error.message, error.hint) from error
            while len(self._built) > 1 and sum(map(_bytes, self._built.values())) > MAX_BYTES:
                self._built.popitem(last=False)
        self._built.move_to_end(name)
        return self._built[name]

    def _trace(self, spec: str) -> Built:
        import torch

        from espalier.model.opening import open_source

        with torch.random.fork_rng(devices=()):
            opened = open_source(spec, Path(tempfile.gettempdir()), self.origin.info.inputs, self.seed, cached=False)
        source = opened.project.source
        origin = self.origin.info
        info = replace(source, tokenizer=origin.tokenizer, text=origin.text, label=origin.label,
                       classes=origin.classes, data=origin.data, name=title(spec))  # fmt: skip
        if not self.inherits:
            return Built(info, opened.project.base, opened.store, opened.callables)
        inherited = inherit(opened.project.base, opened.store, self.trained, self.store)
        return Built(info, inherited.graph, opened.store, opened.callables, inherited.share)

    def keeps(self, spec: str) -> bool:
        """Whether the model of a `config:` source is still in memory."""
        return spec in self._built


def _bytes(built: Built) -> int:
    return sum(w.elements * w.float_bits // 8 for w in built.graph.weights.values())


def square(graph: Graph) -> set[str]:
    """The ids of Linear layers that an identity can replace: as many inputs as outputs."""
    linear = [(n.id, weight_at(n, "weight", graph)) for n in graph if n.op == "linear"]
    return {i for i, name in linear if name is not None and len(set(graph.weights[name].shape)) == 1}


def title(spec: str) -> str:
    """The name of the project of a `config:` source."""
    return spec.partition("?")[0].replace("config:", "") + " (searched)"
