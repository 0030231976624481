"""Writes a compressed-tensors folder segment by segment: a shard for each, then its index and configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import ExportError
from espalier.model.files import explained, placing, write_text
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weights_of
from espalier.model.store.shards import INDEX
from espalier.model.store.weights import WeightStore, read_header
from espalier.passes.base import Row
from espalier.passes.export.checkpoint import copy_tokenizer
from espalier.passes.export.compressed.folder import TARGET, Module, coded, write_config
from espalier.passes.export.effective_weights import shared_differently, value_of
from espalier.passes.export.targets import checked
from espalier.passes.export.targets.compressed_tensors import Scheme, scheme_of
from espalier.passes.export.tied_weights import TIE
from espalier.passes.export.transformers_folder import coded_row, float_row, owners
from espalier.passes.streaming.segments import Segment

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.streaming.model import StreamedModel


class ShardWriter:
    """Writes into `folder`. `whole`: the graph with all formats, without values. `notes`: what stays float.

    Raises ExportError where a format has no equal in compressed-tensors, or a module is none that it reads.
    """

    def __init__(self, model: StreamedModel, whole: Graph, folder: Path, count: int, *, leave_float: bool) -> None:
        self.model, self.folder, self.count = model, folder, count
        self.notes = checked(TARGET, whole, leave_float=leave_float)
        self.apart = frozenset(shared_differently(whole))
        self.paths = owners(model.module)
        self.modules = {m: s for m, s in self._schemes(whole)}
        if not self.modules:
            raise ExportError("No weight has a format that compressed-tensors holds, so there is nothing to write.",
                              "Quantise weights in the recipe, or leave out the output folder.")  # fmt: skip
        self.first = self._first_users(whole)

    def _schemes(self, whole: Graph) -> Iterator[tuple[str, Scheme]]:
        """(path, scheme) of all modules that are compressed, in the graph's order."""
        import torch

        nodes: dict[str, Node] = {}
        for node in whole:
            if scheme_of(node, whole) and nodes.setdefault(node.target, node).precision != node.precision:
                raise ExportError(f"{node.target} is called with different formats, and a folder has one for a module.",
                                  "Choose the same formats for all calls of a module.", node.id)  # fmt: skip
        for path, node in nodes.items():
            module: Any = self.model.module.get_submodule(path)
            if type(module) not in (torch.nn.Linear, torch.nn.Embedding):
                raise ExportError(f"{path} is a {type(module).__name__}, which compressed-tensors does not read.",
                                  "Leave it in float.", node.id)  # fmt: skip
            shared = self._owners(path, whole, node)
            for owner in shared:
                if owner == path or owner not in nodes:
                    scheme = scheme_of(nodes.get(owner, node), whole, shared=len(shared) > 1)
                    assert scheme is not None
                    yield owner, scheme

    def _owners(self, path: str, graph: Graph, node: Node) -> list[str]:
        """The paths of the modules that have the weight of one and are compressed alike."""
        if node.weights["weight"] in self.apart:
            return [path]
        module: Any = self.model.module.get_submodule(path)
        return self.paths[id(module.weight)]

    def _first_users(self, whole: Graph) -> dict[str, str]:
        """Weight → the first node that reads it: its segment writes it."""
        first: dict[str, str] = {}
        for node in whole:
            for _, name in weights_of(node, whole):
                if node.call != "get_attr":
                    first.setdefault(name, node.id)
        return first

    # -- segments

    def write(self, segment: Segment, part: Graph, store: WeightStore, number: int) -> list[Row]:
        """Write the tensors of a segment as shard `number`; returns a row for each weight. Raises ExportError."""
        from safetensors.torch import save_file

        tensors, rows = dict[str, Any](), list[Row]()
        for name, value, row in self._tensors(segment, part, store):
            tensors[name] = value.contiguous()
            if row:
                rows.append(row)
        if number == 0:
            for name in self._unused():
                tensors[name] = self.model.read(
                    name, str(self.model.module.state_dict()[name].dtype).removeprefix("torch.")
                )
                rows.append(float_row(name, tensors[name]))
        with explained(self.folder, ExportError), placing(self.path(number), ExportError) as path:
            save_file(tensors, path, {"format": "pt"})
        return rows

    def path(self, number: int) -> Path:
        """The file of a segment."""
        return self.folder / f"model-{number + 1:05d}-of-{self.count:05d}.safetensors"

    def _tensors(self, segment: Segment, part: Graph, store: WeightStore) -> Iterator[tuple[str, Tensor, Row | None]]:
        own = set(segment.nodes)
        done: set[str] = set()
        for node in (n for n in part if n.id in own):
            for port, name in weights_of(node, part):
                if name not in self.model.names:
                    continue
                if node.call == "call_module" and port == "weight" and node.target in self.modules:
                    if node.target not in done:
                        yield from self._coded(node, name, part, store)
                    done.add(node.target)
                elif name in self.apart and node.call == "call_module":
                    value = value_of(name, (node, port), part, store)
                    yield (path := f"{node.target}.{port}"), value, float_row(path, value)
                elif self.first[name] == node.id:
                    value = value_of(name, (node, port) if port else None, part, store)
                    yield name, value, float_row(name, value)

    def _coded(
        self, node: Node, name: str, part: Graph, store: WeightStore
    ) -> Iterator[tuple[str, Tensor, Row | None]]:
        paths = [p for p in self._owners(node.target, part, node) if p == node.target or not self._has_node(p)]
        value, tied = value_of(name, (node, "weight"), part, store), len(self._owners(node.target, part, node)) > 1
        for path in paths:
            module = Module(path, node, self.modules[path], value, tied)
            second = tied and f"{path}.weight" != name
            parts = {k: v for k, v in coded(module, part, store).items() if not (second and k == "weight")}
            named = {f"{path}.{k}": v for k, v in parts.items()}
            for i, (key, tensor) in enumerate(named.items()):
                yield key, tensor, coded_row(module.path, module.node, module.scheme.format, named) if i == 0 else None

    def _has_node(self, path: str) -> bool:
        return any(n.target == path for n in self.model.graph if n.call == "call_module")

    def _unused(self) -> list[str]:
        """Tensors of the module that the graph does not read, once for each that it ties."""
        seen = {id(v) for k, v in self.model.module.state_dict(keep_vars=True).items() if k in self.first}
        names: list[str] = []
        for name, value in self.model.module.state_dict(keep_vars=True).items():
            if id(value) not in seen and name in self.model.names:
                seen.add(id(value))
                names.append(name)
        return names

    # -- the end

    def finish(self) -> None:
        """Write the index, the configuration and the tokenizer beside the shards; raises ExportError."""
        sizes, weight_map = 0, dict[str, str]()
        for number in range(self.count):
            for name, place in read_header(self.path(number)).items():
                weight_map[name] = place.path.name
                sizes += place.size
        index = {"metadata": {"total_size": sizes}, "weight_map": dict(sorted(weight_map.items()))}
        write_text(self.folder / INDEX, json.dumps(index, indent=2) + "\n", ExportError)
        module = self.model.module
        config = module.config
        config.dtype, config.architectures = str(module.dtype).removeprefix("torch."), [type(module).__name__]
        if self.apart and getattr(config, TIE, False):
            setattr(config, TIE, False)
        with explained(self.folder, ExportError):
            config.save_pretrained(self.folder)
            if module.can_generate():
                module.generation_config.save_pretrained(self.folder)
            write_config(self.folder / "config.json", list(self.modules.items()), module)
            copy_tokenizer(self.model.project, self.folder)
