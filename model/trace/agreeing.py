"""Raises a program so that every shape agrees with it: a module that does not give what was exported is not raised."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.export import ExportedProgram

from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph, Ref, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.store.weights import WeightStore
from espalier.model.torch.shape_check import differences
from espalier.model.trace.raising import Raiser


def raised(program: ExportedProgram, model: nn.Module, store: WeightStore) -> tuple[Raiser, Graph, list[Problem]]:
    """The raising, its graph, and an error at each node where shapes begin to differ from the exported program's.

    A call of a leaf module that differs stays the functions that were exported.
    """
    plain: dict[str, str] = {}
    while True:
        raiser = Raiser(program, model, store, frozenset(plain))
        graph = raiser.graph()
        found = differences(graph)
        wrong = {raiser.calls[d.node]: d.clause for d in found if d.node in raiser.calls}
        if not wrong:
            break
        plain |= wrong
    problems = [Problem(d.node, f"{d.node} {d.clause}, as the exported program does.") for d in found]
    for call, clause in plain.items():
        text = f"The module called here {clause}, as the exported program does. It stays functions, as exported."
        problems.append(Problem(raiser.end_of(call), text))
    return raiser, graph, [*problems, *_results(raiser, graph)]


def _results(raiser: Raiser, graph: Graph) -> Iterator[Problem]:
    """An error for each result that is not the exported program's."""
    for number, (arg, wanted) in enumerate(zip(graph.output.args, raiser.results, strict=True)):
        given = graph.nodes[arg.node].ports.get(out_port(arg.output)) if isinstance(arg, Ref) else None
        if given is not None and wanted is not None and _sizes(given, graph) != _sizes(wanted, graph):
            name = graph.output_names[number] if number < len(graph.output_names) else str(number)
            text = f"The result {name} is {list(given.shape)}, and the exported program's is {list(wanted.shape)}."
            yield Problem(graph.output.id, text)


def _sizes(meta: TensorMeta, graph: Graph) -> tuple[int, ...]:
    return meta.sizes(graph.symbols)
