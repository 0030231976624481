"""Loads LoRA adapters that PEFT saved onto the model that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from espalier.model.errors import PassError, nearest
from espalier.model.graph.adapters import adaptable, adapted, freeze_except_adapters, module_path, shapes, without
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.base import Context, Report, transform
from espalier.passes.lowrank.insert import Pair, insert_adapters, weight_of
from espalier.passes.lowrank.peft_read import Layer, PeftAdapter, read_peft
from espalier.passes.transform.lora import adapter_row, adapter_summary


@dataclass(frozen=True, slots=True)
class LoadAdapterOptions:
    """The folder of the adapter, and what else trains."""

    folder: str = field(
        default="", metadata={"help": "with adapter_config.json and adapter_model.safetensors", "edit": "folder"}
    )
    freeze: bool = field(default=True, metadata={"help": "freeze all except adapters and modules saved with them"})


@transform("load_adapter", "Load adapter", LoadAdapterOptions, lasting=True)
def load_adapter(graph: Graph, options: LoadAdapterOptions, context: Context) -> tuple[Graph, Report]:
    """Load the LoRA adapters of a PEFT folder, replacing present ones.

    Modules that were saved with them (modules_to_save) get the saved values. Raises PassError for modules or shapes
    that the model lacks.
    """
    if not options.folder:
        raise PassError("No adapter is named.", "Give the folder that PEFT's save_pretrained wrote.")
    saved_adapter = read_peft(Path(options.folder).expanduser())
    bare = without(graph, {n.id for n, _ in adapted(graph)})
    modules: dict[str, list[Node]] = {}
    for node in (n for n in bare if adaptable(n, bare)):
        modules.setdefault(module_path(node, bare), []).append(node)
    adapters: dict[str, Adapter] = {}
    values: dict[str, Pair] = {}
    for path, layer in saved_adapter.layers.items():
        for node in _nodes(path, layer, bare, modules, saved_adapter):
            adapters[node.id] = Adapter(layer.rank, layer.alpha, saved_adapter.dropout, "", "", saved_adapter.rooted)
            values[node.id] = (layer.a.float32(), layer.b.float32())
    saved = _saved(saved_adapter, bare, context.store)
    after = insert_adapters(bare.with_weights(saved), adapters, values, context.seed, context.store)
    if options.freeze:
        after = freeze_except_adapters(after, set(saved))
    rows = tuple(adapter_row(after.nodes[k], after, graph) for k in adapters)
    summary = {**adapter_summary(after), "replaced": sum(1 for _ in adapted(graph)), "saved_tensors": len(saved),
               "base_model": saved_adapter.base}  # fmt: skip
    return after, Report("load_adapter", rows, summary)


def _nodes(path: str, layer: Layer, graph: Graph, modules: dict[str, list[Node]], adapter: PeftAdapter) -> list[Node]:
    """The calls of an adapter's module; raises PassError if there is none, or its size differs."""
    nodes = [n for n in modules.get(path, []) if (n.op == "embedding") == layer.embedding]
    if not nodes:
        raise PassError(f"The adapter is for a module {path}, which this model does not have.",
                        _base_hint(adapter) or nearest(path, modules))  # fmt: skip
    for node in nodes:
        expected = shapes(node, weight_of(node, graph), layer.rank)
        if (layer.a.shape, layer.b.shape) != expected:
            raise PassError(f"The adapter of {path} has matrices of {layer.a.shape} and {layer.b.shape}; "
                            f"here they must be {expected[0]} and {expected[1]}.",
                            _base_hint(adapter) or "Open the model that it belongs to.", node.id)  # fmt: skip
    return nodes


def _base_hint(adapter: PeftAdapter) -> str:
    return f"It belongs to {adapter.base}: open that." if adapter.base else ""


def _saved(adapter: PeftAdapter, graph: Graph, store: WeightStore) -> dict[str, Weight]:
    """Weight → its saved value; raises PassError for a weight that the model lacks or shares."""
    names: dict[str, str] = {}
    users: dict[str, set[str]] = {}
    for node in graph:
        for port, name in node.weights.items():
            names[f"{node.target}.{port}" if node.call == "call_module" else name] = name
            users.setdefault(name, set()).add(node.target)
    weights: dict[str, Weight] = {}
    for saved_name, tensor in adapter.saved.items():
        name = names.get(saved_name)
        old = graph.weights[name] if name else None
        if name is None or old is None or old.shape != tensor.shape:
            raise PassError(f"The adapter contains {saved_name} of {tensor.shape}, which this model does not have.",
                            _base_hint(adapter) or "Open the model that it belongs to.")  # fmt: skip
        value = _in_dtype_of(old, tensor)
        if len(users[name]) > 1 and value.key() != old.key:
            raise PassError(f"The adapter contains {saved_name}, which other layers of this model share.",
                            "Merge it into its model with PEFT, and open that.")  # fmt: skip
        weights[name] = replace(old, key=store.hold(value))
    return weights


def _in_dtype_of(old: Weight, tensor: Tensor) -> Tensor:
    """The values in the dtype of the model's weight."""
    if tensor.dtype == old.dtype:
        return tensor
    import torch

    from espalier.model.torch.tensors import to_numpy, to_torch

    return to_numpy(to_torch(tensor).to(getattr(torch, old.dtype)))
