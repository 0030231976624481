"""A model with units removed that no configuration can say, as a class of transformers that cuts its layers.

Sizes are read off the weights, tried, and believed only when every tensor fits and the results are the graph's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import first_line
from espalier.model.graph.graph import Graph
from espalier.model.sources.pruned_class import ATTRIBUTES, FILE, SHAPES, SIGNATURE, code_of, pruned_class, whole_class
from espalier.model.store.weights import WeightStore
from espalier.passes.export.smaller_config import (
    HEADS,
    Smaller,
    computes_as,
    configure,
    fill,
    kept_layers,
    made_of,
    named_values,
    renumbered,
)
from espalier.passes.structure.sets import structure_of

if TYPE_CHECKING:
    from torch import Tensor, nn

Attributes = dict[str, dict[str, Any]]
ERRORS = (ValueError, TypeError, RuntimeError, AttributeError, KeyError, IndexError)  # of constructors
COUNTS = (*HEADS, "n_heads", "n_head")
LENGTHS = ("all_head_size", "split_size", "inner_dim", "embed_dim")  # of all heads
GROUPS = ("num_key_value_groups",)
LEAVES = {
    "Linear": {"out_features": 0, "in_features": 1}, "Conv1D": {"nx": 0, "nf": 1},
    "Conv2d": {"out_channels": 0, "in_channels": 1}, "BatchNorm2d": {"num_features": 0},
    "Embedding": {"num_embeddings": 0, "embedding_dim": 1},
}  # fmt: skip


def pruned(model: Any, base: Graph, graph: Graph, weights: Mapping[str, Tensor], store: WeightStore) -> Smaller:
    """The source's class with each layer in its own sizes, or why that is not possible."""
    config, kept, cls = copy.deepcopy(getattr(model, "config", None)), kept_layers(base, graph), whole_class(model)
    before = {renumbered(path, kept): values for path, values in vars(config).pop(ATTRIBUTES, {}).items()}
    vars(config).pop(SHAPES, None)
    configure(config, base, graph, kept)
    named = named_values(model, base, weights, kept)
    try:
        whole = cls(config)
    except ERRORS as error:
        return Smaller(why=f"its configuration cannot have these sizes ({first_line(error)})")
    shapes = _shapes(whole, named)
    if isinstance(shapes, str):
        return Smaller(why=shapes)
    setattr(config, SHAPES, shapes)
    for attributes in _attributes(whole, shapes, _shares(base, graph, kept), before):
        setattr(config, ATTRIBUTES, attributes)
        try:
            made = made_of(pruned_class(cls, config), config, model.dtype)
            fill(made, named)
            same = computes_as(made, graph, weights, store)
        except ERRORS:
            continue
        if same:
            made.config.auto_map = {name: f"{FILE}.{type(made).__name__}" for name in _auto_classes(cls, config)}
            return Smaller(made, notes=(
                f"No configuration says these sizes. transformers opens the folder with trust_remote_code=True, which "
                f"runs {FILE}.py there; Espalier opens it without.",))  # fmt: skip
    return Smaller(why="transformers computes something else in these sizes")


def is_cut(model: Any, graph: Graph) -> bool:
    """Whether a class of transformers is cut by the graph alone, without code or adapters of its own."""
    own = any(n.call == "opaque" or n.adapters for n in graph)
    return model is not None and whole_class(model).__module__.startswith("transformers.") and not own


def write_code(model: Any, folder: Path) -> None:
    """Write the class beside the model."""
    (folder / f"{FILE}.py").write_text(code_of(model), encoding="utf-8")


def stale_code(folder: Path) -> list[str]:
    """The name of the class that an earlier export left, which another model does not use."""
    file = folder / f"{FILE}.py"
    own = file.is_file() and SIGNATURE in file.read_text(encoding="utf-8", errors="replace")
    return [file.name] if own else []


def _shapes(model: nn.Module, named: Mapping[str, Tensor]) -> dict[str, list[int]] | str:
    """The shapes that are other than the configuration makes them; the reason if one cannot be cut."""
    live = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    if missing := next((k for k, _ in model.named_parameters() if k not in named), None):
        return f"its configuration makes a {missing}, and there is none"
    found: dict[str, list[int]] = {}
    for name, value in named.items():
        old = tuple(live[name].shape) if name in live else tuple(value.shape)
        if len(old) != value.ndim or any(a > b for a, b in zip(value.shape, old, strict=True)):
            return f"{name} is larger than its configuration makes it"
        if tuple(value.shape) != old:
            found[name] = list(value.shape)
    return found


def _auto_classes(cls: Any, config: Any) -> list[str]:
    """The names of transformers' automatic classes that open a model of this class."""
    import transformers

    kinds = {n: getattr(transformers, n) for n in dir(transformers) if n.startswith("AutoModel")}
    mappings = {n: getattr(k, "_model_mapping", {}) for n, k in kinds.items()}
    return [n for n, m in mappings.items() if type(config) in m and m[type(config)] is cls]


# -- attributes


def _attributes(
    model: nn.Module, shapes: Mapping[str, list[int]], shares: Mapping[str, float], before: Attributes
) -> Iterator[Attributes]:
    """The attributes to try, beginning with the fewest: those of layers, then of the attention around them.

    `before`: what the source lists. It is set in `model`.
    """
    leaves = copy.deepcopy(before)
    for path, values in before.items():
        vars(model.get_submodule(path)).update(values)
    for name, shape in shapes.items():
        path, _, port = name.rpartition(".")
        module = model.get_submodule(path)
        dims = LEAVES.get(type(module).__name__, {}) if port == "weight" else {}
        now = {a: shape[d] for a, d in dims.items() if getattr(module, a) != shape[d]}
        leaves |= {path: leaves.get(path, {}) | now} if now else {}
    yield leaves
    names: tuple[str, ...] = ()
    for more in (COUNTS, LENGTHS, GROUPS) if shares else ():
        names += more
        around = {
            path: {n: max(round(v * share), 1) for n in names if type(v := vars(module).get(n)) is int}
            for path, share in shares.items()
            for module in [model.get_submodule(path)]
        }
        yield leaves | {path: leaves.get(path, {}) | found for path, found in around.items() if found}


def _shares(base: Graph, graph: Graph, kept: Mapping[str, list[int]]) -> dict[str, float]:
    """The share of its heads that each module with fewer heads has left."""
    found: dict[str, float] = {}
    for member in (m for s in structure_of(base).sets if s.kind in ("heads", "queries") for m in s.members):
        if member.weight in graph.weights and member.role == "rows":
            path = renumbered(member.weight, kept).rpartition(".")[0].rpartition(".")[0]
            share = graph.weights[member.weight].shape[member.dim] / base.weights[member.weight].shape[member.dim]
            found[path] = min(share, found.get(path, 1.0))
    return {path: share for path, share in found.items() if share < 1}
