"""A tensor that a model of transformers ties, as several where its users have chosen different formats or masks.

What is written is read back by transformers and believed only where every tensor and the results are the graph's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.passes.export.effective_weights import shared_differently, users_of, value_of
from espalier.passes.export.smaller_config import Smaller, agrees

if TYPE_CHECKING:
    from torch import Tensor, nn

TIE = "tie_word_embeddings"
Slot = tuple[Any, str]  # a module and the name of its own parameter


def untied(model: Any, graph: Graph, store: WeightStore, folder: Path) -> Smaller:
    """The model with a tensor for each choice of a shared weight; none where transformers would read another model."""
    notes = list[str]()
    for name in shared_differently(graph):
        slots = _slots(model, name)
        values = _values(slots, users_of(graph)[name], graph, store)
        if not values:
            return Smaller(why=f"{name} is shared by nodes with different formats or masks, and cannot be untied")
        _split(slots, values)
        notes.append(f"{' and '.join(_apart(slots))} are one tensor in the source; their formats or masks differ, so "
                     "each is written by itself")  # fmt: skip
    if not notes:
        return Smaller(model)
    setting = _loosen(model)
    if not _reads_back(model, weights_alone(graph), store, folder):
        return Smaller(
            why="it ties tensors whose formats or masks differ, and transformers does not read the same model back"
        )
    return Smaller(model, notes=tuple(f"{note}{setting}." for note in notes))


def _slots(model: nn.Module, name: str) -> dict[str, Slot]:
    """Path → place of each parameter that is the tensor `name`."""
    every = dict(model.named_parameters(remove_duplicate=False))
    shared = every.get(name)
    return {path: _slot(model, path) for path, value in every.items() if value is shared and shared is not None}


def _slot(model: nn.Module, path: str) -> Slot:
    owner, _, attribute = path.rpartition(".")
    return model.get_submodule(owner), attribute


def _values(
    slots: Mapping[str, Slot], users: list[tuple[Node, str]], graph: Graph, store: WeightStore
) -> dict[tuple[int, str], tuple[str, Tensor]]:
    """What each place holds: the choice and its tensor; empty where a user has no place, or two share one."""
    found: dict[tuple[int, str], tuple[str, Tensor]] = {}
    for node, port in users:
        slot = slots.get(f"{node.target}.{port}") if node.call == "call_module" else None
        if slot is None:
            return {}
        mask = node.sparsity[port].mask if port in node.sparsity else None
        choice, key = f"{node.precision.get(port)} {mask}", (id(slot[0]), slot[1])
        if found.get(key, (choice,))[0] != choice:
            return {}
        name = weight_at(node, port, graph)
        assert name is not None
        found.setdefault(key, (choice, value_of(name, (node, port), graph, store)))
    return found


def _split(slots: Mapping[str, Slot], values: Mapping[tuple[int, str], tuple[str, Tensor]]) -> None:
    """One parameter for each choice; places that nothing computes with hold the first."""
    from torch import nn

    made: dict[str, nn.Parameter] = {}
    first = next(iter(values.values()))
    for module, attribute in slots.values():
        choice, value = values.get((id(module), attribute), first)
        old = getattr(module, attribute)
        if choice not in made:
            made[choice] = nn.Parameter(value.to(old.dtype), old.requires_grad)
        setattr(module, attribute, made[choice])


def _apart(slots: Mapping[str, Slot]) -> list[str]:
    """A path of each parameter that the places hold now."""
    firsts = {id(getattr(*slot)): path for path, slot in reversed(list(slots.items()))}
    return sorted(firsts.values(), key=list(slots).index)


def _loosen(model: Any) -> str:
    """Switch tying off where the configuration does it, and part all that was tied: nothing ties it when it is read.

    Returns the setting in words.
    """
    from torch import nn

    if not getattr(model.config, TIE, False):
        return ""
    setattr(model.config, TIE, False)
    seen = dict[int, Any]()
    for path, value in list(model.named_parameters(remove_duplicate=False)):
        module, attribute = _slot(model, path)
        if seen.setdefault(id(value), module) is not module:
            setattr(module, attribute, nn.Parameter(value.detach().clone(), value.requires_grad))
    return f" ({TIE} = false)"


def _reads_back(model: Any, graph: Graph, store: WeightStore, folder: Path) -> bool:
    """Whether the model, saved and read by transformers, holds the same tensors and computes what the graph does."""
    import torch

    from espalier.model.sources.huggingface import quiet

    with tempfile.TemporaryDirectory(dir=folder, prefix=".untied-") as place, quiet():
        try:
            model.save_pretrained(place)
            again = type(model).from_pretrained(place, use_safetensors=True).eval()
            written = dict(again.named_parameters(remove_duplicate=False))
            same = all(torch.equal(v, written[k]) for k, v in model.named_parameters(remove_duplicate=False))
        # transformers and safetensors refuse in many ways; then the folder is written in our own form.
        except (RuntimeError, ValueError, KeyError, TypeError):
            return False
        return same and agrees(again, graph, store)


def weights_alone(graph: Graph) -> Graph:
    """The graph with the choices of its stored weights alone: what a checkpoint holds."""
    return graph.replace(*(
        replace(n, precision={p: c for p, c in n.precision.items() if weight_at(n, p, graph) is not None},
                sparsity={p: s for p, s in n.sparsity.items() if not s.flows}, adapters={}, arithmetic="float")
        for n in graph
    ))  # fmt: skip
