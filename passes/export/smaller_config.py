"""A model with units or layers removed as transformers knows it, where its configuration can say the new sizes.

Sizes are read off the weights, tried, and believed only when every tensor fits and the results are the graph's.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from espalier.model.errors import first_line
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy
from espalier.passes.running.example import example_inputs
from espalier.passes.structure.sets import Member, structure_of

if TYPE_CHECKING:
    from torch import Tensor, nn

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
SIZES = ("intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "d_ff", "hidden_size", "n_embd", "dim", "d_model")
HEADS = ("num_attention_heads", "num_key_value_heads", "num_heads")
HEAD_SIZES = ("head_dim", "d_kv")
TOLERANCE = 1e-3  # of the largest value; kernels may sum in another order


class Smaller(NamedTuple):
    """transformers' own model, or why there is none. `notes`: what is other in it than in the source."""

    model: Any = None
    why: str = ""
    notes: tuple[str, ...] = ()


def smaller(model: Any, base: Graph, graph: Graph, weights: Mapping[str, Tensor], store: WeightStore) -> Smaller:
    """transformers' own model in the sizes of `graph`, with its weights, where a configuration says them."""
    config, kept = copy.deepcopy(getattr(model, "config", None)), kept_layers(base, graph)
    if config is None or any(n.call == "opaque" for n in graph):
        return Smaller(why="it has no configuration, or runs code of its own")
    if kept and any(n.adapters for n in graph):
        return Smaller(why="its adapters go by the numbers that layers had; fuse them first")
    if not configure(config, base, graph, kept):
        return Smaller(why="no size of its configuration says what was removed")
    try:
        made = made_of(type(model), config, model.dtype)
    except (ValueError, TypeError, RuntimeError, AttributeError, KeyError, IndexError) as error:
        return Smaller(why=f"its configuration cannot have these sizes ({first_line(error)})")
    named = named_values(model, base, weights, kept)
    if misfit := _misfit(made, named):
        return Smaller(why=misfit)
    fill(made, named)
    if not computes_as(made, graph, weights, store):
        return Smaller(why="transformers computes something else in these sizes")
    return Smaller(made)


def named_values(
    model: Any, base: Graph, weights: Mapping[str, Tensor], kept: Mapping[str, list[int]]
) -> dict[str, Tensor]:
    """The values by the names that layers have now; of parameters that the graph does not use, the source's."""
    every = list(model.named_parameters(remove_duplicate=False))
    uses = Counter(id(value) for _, value in every)
    gone = {(path, n) for name in base.weights for path, n in _numbers(name) if n not in kept.get(path, (n,))}
    unused = {
        name: value.detach()
        for name, value in every
        if name not in base.weights and uses[id(value)] == 1 and gone.isdisjoint(_numbers(name))
    }
    return {renumbered(name, kept): value for name, value in {**unused, **weights}.items()}


def shrunk(base: Graph, graph: Graph) -> bool:
    """Whether tensors are smaller than in the source, or gone."""
    if base.runs == "module":
        return False
    left = graph.weights
    return any(k not in left or w.shape != left[k].shape for k, w in base.weights.items())


# -- the configuration


def _numbers(name: str) -> Iterator[tuple[str, int]]:
    """("bert.encoder.layer", 3) of "bert.encoder.layer.3.output.dense.weight"."""
    parts = name.split(".")
    for i, part in enumerate(parts):
        if i and part.isdigit():
            yield ".".join(parts[:i]), int(part)


def kept_layers(base: Graph, graph: Graph) -> dict[str, list[int]]:
    """The numbers that are left under each path of which some are gone."""
    before, after = (_all_numbers(g) for g in (base, graph))
    return {path: sorted(after.get(path, ())) for path, found in before.items() if found != after.get(path, found)}


def _all_numbers(graph: Graph) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for name in graph.weights:
        for path, number in _numbers(name):
            found.setdefault(path, set()).add(number)
    return found


def renumbered(name: str, kept: Mapping[str, list[int]]) -> str:
    """A path with the numbers that its layers have once others are gone. `kept`: as `kept_layers` gives it."""
    parts = name.split(".")
    for path, number in _numbers(name):
        if path in kept:
            parts[path.count(".") + 1] = str(kept[path].index(number))
    return ".".join(parts)


def configure(config: Any, base: Graph, graph: Graph, kept: Mapping[str, list[int]]) -> bool:
    """Write the new sizes into a configuration; whether anything is other than before."""
    changed = _set_layers(config, base, kept)
    for name in SIZES:
        old = getattr(config, name, None)
        old = 4 * config.n_embd if name == "n_inner" and old is None and hasattr(config, "n_embd") else old
        fresh = _sizes_of(old, base, graph)
        if len(fresh) == 1:
            setattr(config, name, fresh.pop())
            changed = True
    return _set_heads(config, base, graph) or changed


def _set_layers(config: Any, base: Graph, kept: Mapping[str, list[int]]) -> bool:
    if len(kept) != 1:
        return False
    (path, left), before = next(iter(kept.items())), _all_numbers(base)
    count = len(before[path])
    names = [n for n in LAYERS if getattr(config, n, None) == count]
    for name in names:
        setattr(config, name, len(left))
    for name, value in vars(config).items():  # what is listed layer by layer
        if isinstance(value, list) and len(value) == count:
            setattr(config, name, [value[i] for i in left])
    return bool(names)


def _sizes_of(old: Any, base: Graph, graph: Graph) -> set[int]:
    """What the sets of neurons, or the width, of the size `old` have now."""
    if not isinstance(old, int):
        return set()
    sets = [s for s in structure_of(base).sets if s.kind in ("neurons", "width") and s.size == old]
    now = {graph.weights[s.first.weight].shape[s.first.dim] for s in sets if s.first.weight in graph.weights}
    return now if now != {old} else set()


def _set_heads(config: Any, base: Graph, graph: Graph) -> bool:
    """Fewer heads of the same size, where the configuration has that size of its own."""
    sets = [s for s in structure_of(base).sets if s.kind in ("heads", "queries")]
    grouped = {m.weight for s in sets if s.kind == "queries" for m in s.members}
    queries = _shares([s.first for s in sets], base, graph)
    keys = _shares([m for s in sets for m in s.members if m.weight not in grouped and m.role == "rows"], base, graph)
    keys = keys if grouped else queries
    named = any(isinstance(getattr(config, n, None), int) for n in HEAD_SIZES)
    if not named or len(queries) != 1 or len(keys) != 1 or queries | keys == {1.0}:
        return False
    shares = dict.fromkeys(HEADS, min(queries)) | {"num_key_value_heads": min(keys)}
    wanted = {n: round(count * shares[n]) for n in HEADS if isinstance(count := getattr(config, n, None), int)}
    for name, count in wanted.items():  # two names may be one value
        setattr(config, name, max(count, 1))
    return True


def _shares(members: list[Member], base: Graph, graph: Graph) -> set[float]:
    """What is left of the dimension of each."""
    return {
        graph.weights[m.weight].shape[m.dim] / base.weights[m.weight].shape[m.dim]
        for m in members
        if m.weight in graph.weights
    }


# -- the proof


def _misfit(model: nn.Module, named: Mapping[str, Tensor]) -> str:
    """The first tensor that has no place, or parameter that has no tensor; nothing where all fit."""
    shapes = {k: tuple(v.shape) for k, v in (*model.named_parameters(), *model.named_buffers())}
    missing = next((k for k, _ in model.named_parameters() if k not in named), None)
    if missing:
        return f"its configuration makes a {missing}, and there is none"
    name = next((k for k, v in named.items() if tuple(v.shape) != shapes.get(k, tuple(v.shape))), None)
    return f"{name} is {_size(named[name].shape)}, and its configuration makes it {_size(shapes[name])}" if name else ""


def _size(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape))


def made_of(cls: Any, config: Any, dtype: Any) -> Any:
    """A model of a class of transformers, with weights of `dtype`, in which transformers opens the folder.

    Raises ValueError for a configuration that transformers does not write.
    """
    from huggingface_hub.errors import StrictDataclassError

    try:
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return cls._from_config(config, dtype=dtype).eval()


def fill(model: nn.Module, named: Mapping[str, Tensor]) -> None:
    """Copy values into the parameters and buffers of these names; other names are left out."""
    import torch

    live = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, value in named.items():
            if name in live:
                live[name].copy_(value)


def computes_as(model: Any, graph: Graph, weights: Mapping[str, Tensor], store: WeightStore) -> bool:
    """Whether the model gives what the graph gives, on made inputs."""
    held = {k: replace(w, key=store.hold(to_numpy(weights[k]))) for k, w in graph.weights.items()}
    nodes = (replace(n, precision={}, sparsity={}, adapters={}, arithmetic="float") for n in graph)
    return agrees(model, graph.replace(*nodes).with_weights(held), store)


def agrees(model: Any, graph: Graph, store: WeightStore) -> bool:
    """Whether a model of transformers gives what the graph gives, on made inputs."""
    import torch

    from espalier.model.torch.build import build

    inputs = example_inputs(graph)
    with torch.no_grad():
        mine, other = build(graph, store)(**inputs), model(**inputs)
    shared = [k for k in graph.output_names if isinstance(mine, dict) and getattr(other, k, None) is not None]
    pairs = [(mine[k], other[k]) for k in shared if isinstance(mine[k], torch.Tensor)]
    return bool(pairs) and all(
        a.shape == b.shape and float((a - b).abs().max()) <= TOLERANCE * max(float(a.abs().max()), 1e-6)
        for a, b in pairs
    )
