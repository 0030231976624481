"""Recovers a program's modules and compares every shape with the exported one; modules that differ stay functions."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.export import ExportedProgram

from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph, Ref, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.store.weights import WeightStore
from espalier.model.torch.shape_check import differences
from espalier.model.trace.module_recovery import ModuleRecovery


def recover_modules(
    program: ExportedProgram, model: nn.Module, store: WeightStore
) -> tuple[ModuleRecovery, Graph, list[Problem]]:
    """(recovery, its graph, an error at each node where shapes first differ from those of the exported program).

    A call of a leaf module that differs stays as the exported functions.
    """
    plain: dict[str, str] = {}
    while True:
        recovery = ModuleRecovery(program, model, store, frozenset(plain))
        graph = recovery.graph()
        found = differences(graph)
        wrong = {recovery.calls[d.node]: d.clause for d in found if d.node in recovery.calls}
        if not wrong:
            break
        plain |= wrong
    problems = [Problem(d.node, f"{d.node} {d.clause}, as the exported program does.") for d in found]
    for call, clause in plain.items():
        text = f"The module called here {clause}, as the exported program does. It stays functions, as exported."
        problems.append(Problem(recovery.end_of(call), text))
    return recovery, graph, [*problems, *_results(recovery, graph)]


def _results(recovery: ModuleRecovery, graph: Graph) -> Iterator[Problem]:
    """An error for each result whose shape differs from the exported program's."""
    for number, (arg, wanted) in enumerate(zip(graph.output.args, recovery.results, strict=True)):
        given = graph.nodes[arg.node].ports.get(out_port(arg.output)) if isinstance(arg, Ref) else None
        if given is not None and wanted is not None and _sizes(given, graph) != _sizes(wanted, graph):
            name = graph.output_names[number] if number < len(graph.output_names) else str(number)
            text = f"The result {name} is {list(given.shape)}, and the exported program's is {list(wanted.shape)}."
            yield Problem(graph.output.id, text)


def _sizes(meta: TensorMeta, graph: Graph) -> tuple[int, ...]:
    return meta.sizes(graph.symbols)
