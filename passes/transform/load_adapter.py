"""Load adapters that PEFT saved (LoRA) onto the model that they were made for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from espalier.model.errors import PassError, nearest
from espalier.model.graph.adapters import adaptable, adapted, module_path, resting, shapes, without
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.base import Context, Report, transform
from espalier.passes.lowrank.peft_read import Layer, PeftAdapter, read_peft
from espalier.passes.lowrank.placing import Pair, placed, weight_of
from espalier.passes.transform.lora import adapter_row, adapter_summary


@dataclass(frozen=True, slots=True)
class LoadAdapterOptions:
    """Where it lies, and what else trains."""

    folder: str = field(
        default="", metadata={"help": "with adapter_config.json and adapter_model.safetensors", "edit": "folder"}
    )
    freeze: bool = field(default=True, metadata={"help": "freeze all except adapters and modules saved with them"})


@transform("load_adapter", "Load adapter", LoadAdapterOptions, lasting=True)
def load_adapter(graph: Graph, options: LoadAdapterOptions, context: Context) -> tuple[Graph, Report]:
    """Put the adapters of a PEFT folder (LoRA) beside their layers, in place of those that are there.

    Modules that were saved whole with them (modules_to_save) get the saved values. Modules and shapes must be those of
    the model.
    """
    if not options.folder:
        raise PassError("No adapter is named.", "Give the folder that PEFT's save_pretrained wrote.")
    found = read_peft(Path(options.folder).expanduser())
    bare = without(graph, {n.id for n, _ in adapted(graph)})
    known: dict[str, list[Node]] = {}
    for node in (n for n in bare if adaptable(n, bare)):
        known.setdefault(module_path(node, bare), []).append(node)
    wishes: dict[str, Adapter] = {}
    values: dict[str, Pair] = {}
    for path, layer in found.layers.items():
        for node in _nodes(path, layer, bare, known, found):
            wishes[node.id] = Adapter(layer.rank, layer.alpha, found.dropout, "", "", found.rooted)
            values[node.id] = (layer.a.float32(), layer.b.float32())
    saved = _saved(found, bare, context.store)
    after = placed(bare.with_weights(saved), wishes, values, context.seed, context.store)
    if options.freeze:
        after = resting(after, set(saved))
    rows = tuple(adapter_row(after.nodes[k], after, graph) for k in wishes)
    summary = {**adapter_summary(after), "replaced": sum(1 for _ in adapted(graph)), "saved_tensors": len(saved),
               "base_model": found.base}  # fmt: skip
    return after, Report("load_adapter", rows, summary)


def _nodes(path: str, layer: Layer, graph: Graph, known: dict[str, list[Node]], found: PeftAdapter) -> list[Node]:
    """The calls of the module that an adapter is of; raises PassError where there is none, or one of other size."""
    nodes = [n for n in known.get(path, []) if (n.op == "embedding") == layer.embedding]
    if not nodes:
        raise PassError(f"The adapter is for a module {path}, which this model has not.",
                        _other_model(found) or nearest(path, known))  # fmt: skip
    for node in nodes:
        wanted = shapes(node, weight_of(node, graph), layer.rank)
        if (layer.a.shape, layer.b.shape) != wanted:
            raise PassError(f"The adapter of {path} has matrices of {layer.a.shape} and {layer.b.shape}; "
                            f"here they must be {wanted[0]} and {wanted[1]}.",
                            _other_model(found) or "Open the model that it was made for.", node.id)  # fmt: skip
    return nodes


def _other_model(found: PeftAdapter) -> str:
    return f"It was made for {found.base}: open that." if found.base else ""


def _saved(found: PeftAdapter, graph: Graph, store: WeightStore) -> dict[str, Weight]:
    """The weights that get saved values; raises PassError for one that the model has not, or has tied."""
    places: dict[str, str] = {}
    users: dict[str, set[str]] = {}
    for node in graph:
        for port, name in node.weights.items():
            places[f"{node.target}.{port}" if node.call == "call_module" else name] = name
            users.setdefault(name, set()).add(node.target)
    weights: dict[str, Weight] = {}
    for name, tensor in found.saved.items():
        place = places.get(name)
        old = graph.weights[place] if place else None
        if place is None or old is None or old.shape != tensor.shape:
            raise PassError(f"The adapter brings {name} of {tensor.shape}, which this model has not.",
                            _other_model(found) or "Open the model that it was made for.")  # fmt: skip
        if len(users[place]) > 1 and store_key(tensor, old) != old.key:
            raise PassError(f"The adapter brings {name}, which other layers of this model share.",
                            "Merge it into its model with PEFT, and open that.")  # fmt: skip
        weights[place] = replace(old, key=store.hold(_as(tensor, old)))
    return weights


def store_key(tensor: Tensor, old: Weight) -> str:
    """The key that the tensor would have in place of `old`."""
    return _as(tensor, old).key()


def _as(tensor: Tensor, old: Weight) -> Tensor:
    """The values in the dtype that the model has there."""
    if tensor.dtype == old.dtype:
        return tensor
    import torch

    from espalier.model.torch.tensors import to_numpy, to_torch

    return to_numpy(to_torch(tensor).to(getattr(torch, old.dtype)))
