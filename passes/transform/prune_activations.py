"""Pruning of activations: what flows into layers loses its smallest values, by a rule for each tensor that comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from model.errors import OptionsError, PassError, nearest
from model.graph import Graph, Node
from model.meta import Sparsity
from model.ops import OPS, base_port, floating, quantisable
from model.ports import weight_at
from passes.base import Context, Report, Row, transform
from passes.observed.stream import told
from passes.pruning.calls import all_calls
from passes.pruning.magnitudes import Magnitudes
from passes.recovery.options import RecoveryOptions
from passes.select import Select, chosen

if TYPE_CHECKING:
    from torch import Tensor

LAYERS = tuple(row.name for row in OPS.values() if row.category == "linear")
PORTS = ("data_in", "weight")
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PruneActivationsOptions(RecoveryOptions):
    """`sparsity` of the values go; a threshold is measured on data, the rest needs none."""

    sparsity: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction of values to zero"})
    method: Literal["l1", "random"] = field(
        default="l1", metadata={"help": "the smallest magnitudes, or random places, the same in every sample"}
    )
    pattern: Literal["top_k", "threshold"] = field(
        default="top_k", metadata={"help": "just so many of each sample, or all up to a magnitude that data tells"}
    )
    scope: Literal["local", "global"] = field(
        default="local", metadata={"help": "threshold: one for each tensor, or one for all of them"}
    )
    ports: tuple[str, ...] = field(
        default=("data_in",), metadata={"help": "data_in; a matmul's weight is computed too"}
    )
    select: Select = field(default=Select("type", LAYERS), metadata={"help": "which nodes"})

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= 1:
            raise OptionsError(f"sparsity is {self.sparsity}.", "sparsity must be a number from 0 to 1.")
        if self.method == "random" and self.pattern == "threshold":
            raise OptionsError("Random places have no threshold.", "Choose the pattern top_k, or the method l1.")
        if self.scope == "global" and self.pattern == "top_k":
            raise OptionsError("top_k takes its share of each sample of each tensor, so its scope is local.",
                               "Choose the pattern threshold for one limit over all.")  # fmt: skip
        for port in self.ports:
            if port not in PORTS:
                raise OptionsError(f"ports: {port!r} is not a port of activations.", nearest(port, PORTS))


@transform("prune_activations", "Prune activations", PruneActivationsOptions)
def prune_activations(graph: Graph, options: PruneActivationsOptions, context: Context) -> tuple[Graph, Report]:
    """Zero the smallest values that flow into the selected nodes, before their format; 0 takes the pruning away.

    top_k: exactly round(sparsity·values) of each sample (an entry of the first axis), ties by place. threshold: all
    magnitudes up to the quantile of |x| on data, of each tensor or of all together, so that the share varies with the
    input. In training the gradient passes for what stays. No multiplication is saved unless the hardware skips zeros,
    so BitOPs count as before.
    """
    nodes = chosen(graph, options.select, lambda n: bool(_ports(n, graph, options)), "pruned in their activations")
    nodes = all_calls(nodes, graph)
    places = {(n.id, p): (p,) for n in nodes for p in _ports(n, graph, options)}
    measured = _measured(graph, places, options, context) if options.sparsity else {}
    rows: list[Row] = []
    changed: list[Node] = []
    for node in nodes:
        ports = _ports(node, graph, options)
        held = {p: s for p, s in node.sparsity.items() if p not in ports}
        found = {p: _sparsity(measured.get((node.id, p)), options, context) for p in ports if options.sparsity}
        changed.append(replace(node, sparsity={**held, **found}))
        rows += [_row(node, p, found.get(p)) for p in ports]
    summary = {"nodes": len(nodes), "tensors": len(places), "sparsity": options.sparsity}
    return graph.replace(*changed), Report("prune_activations", tuple(rows), summary)


def _row(node: Node, port: str, held: Sparsity | None) -> Row:
    return {"node": node.id, "port": port, "pattern": held.pattern if held else None,
            "sparsity": held.ratio if held else 0.0, "threshold": held.threshold if held else None}  # fmt: skip


def _ports(node: Node, graph: Graph, options: PruneActivationsOptions) -> list[str]:
    """The operands of a node that are computed, and can be pruned."""
    able = quantisable(node)
    return [
        p for p, meta in node.ports.items()
        if base_port(p) in options.ports and base_port(p) in able and floating(meta)
        and weight_at(node, p, graph) is None
    ]  # fmt: skip


def _sparsity(known: tuple[float, float] | None, options: PruneActivationsOptions, context: Context) -> Sparsity:
    """What a port keeps: of a threshold the share that it took of the data."""
    threshold, share = known or (None, options.sparsity)
    seed = context.seed if options.method == "random" else 0
    return Sparsity(options.method, share, options.scope, None, 0, options.pattern, threshold=threshold, seed=seed)


def _measured(
    graph: Graph, places: Mapping[Place, tuple[str, ...]], options: PruneActivationsOptions, context: Context
) -> dict[Place, tuple[float, float]]:
    """(threshold, share) of each place, of the float model before any of them is pruned."""
    if options.pattern != "threshold":
        return {}
    if not options.data:
        raise PassError("A threshold is measured on data, and none is named.",
                        "Name some, such as demo:reviews, or choose the pattern top_k.")  # fmt: skip
    found = _magnitudes(graph, places, options, context)
    whole = Magnitudes()
    if options.scope == "global":
        for each in {id(m): m for m in found.values()}.values():
            whole.counts += each.counts
    limits = {k: (whole if options.scope == "global" else m).threshold(options.sparsity) for k, m in found.items()}
    return {k: (limits[k], m.share(limits[k])) for k, m in found.items()}


def _magnitudes(
    graph: Graph, places: Mapping[Place, tuple[str, ...]], options: PruneActivationsOptions, context: Context
) -> dict[Place, Magnitudes]:
    from passes.analysis.evaluate import load_split
    from passes.observe import observe

    bare = graph.replace(*(replace(n, precision={}, sparsity={p: s for p, s in n.sparsity.items() if not s.flows})
                           for n in graph))  # fmt: skip
    same = {(n, p): _told_by(graph[n], p, graph) for n, p in places}
    found = {key: Magnitudes() for key in same.values()}
    ports, _ = told({(n, p): (p,) for (n, p), key in same.items() if key == (n, p)})

    def sink(node: str, port: str, x: Tensor) -> None:
        found[node, port].add(x.detach().float().cpu().numpy())

    observe(bare, load_split(options, context), options.batch_size, ports, sink, context)
    hollow = next((key for key, m in found.items() if not m.total), None)
    if hollow:
        raise PassError(f"Nothing flowed into {hollow[0]}.", "Leave it out of the selection.", hollow[0])
    return {place: found[key] for place, key in same.items()}


def _told_by(node: Node, port: str, graph: Graph) -> Place:
    """Where a place is looked at: in a recorded model each call of a module tells of all its calls."""
    if graph.runs != "module":
        return node.id, port
    first = next(n for n in graph if n.call == "call_module" and n.target == node.target)
    return first.id, port
