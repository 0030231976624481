"""Traces a model on example inputs to a checked Graph with symbolic sizes and problems."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.export import ExportedProgram

from espalier.model.errors import TraceError
from espalier.model.graph.check import Problem, check
from espalier.model.graph.graph import Graph, fixed_batch
from espalier.model.graph.limits import bounds, limit_warnings
from espalier.model.store.weights import WeightStore
from espalier.model.trace.block_equivalence import blocks_equivalent
from espalier.model.trace.capture import Captured, capture
from espalier.model.trace.module_recovery import ModuleRecovery
from espalier.model.trace.pt2_modules import rebuild_modules
from espalier.model.trace.recorded_run import MODEL, record
from espalier.model.trace.repeated_blocks import BlockStack, find_block_stack, replicate, truncated
from espalier.model.trace.shape_agreement import recover_modules
from espalier.model.trace.specialised_sizes import minimum_sizes, range_limits, size_limits
from espalier.model.trace.training import unknown_dropout, with_training_dropout
from espalier.model.trace.weight_checks import weight_problems


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace: the graph, its problems, seconds per stage, and the dynamic input dimensions.

    `dynamic`: symbol → input dimensions with that size ("input_ids[0]"); `fixed`: the other dimensions.
    `callables`: functions of opaque nodes by target.
    """

    graph: Graph
    problems: tuple[Problem, ...]
    seconds: dict[str, float]
    dynamic: dict[str, tuple[str, ...]]
    fixed: tuple[str, ...]
    callables: dict[str, Any]


def trace(
    model: nn.Module, example: dict[str, Any], store: WeightStore, program: ExportedProgram | None = None
) -> Traced:
    """Capture `model` (in eval mode) on `example` keyword inputs, or convert a `program` of it; raises TraceError.

    The graph's weights are added to `store`. If dynamic export fails, sizes are static; if torch cannot export the
    model at all, it is recorded from one run; both are reported as problems. Of identical blocks of a model without
    weights, a few are captured and replicated, if the model treats all of them alike.
    """
    stack = find_block_stack(model) if program is None else None
    traced = (_replicated(model, example, store, stack) if stack else None) or _full(model, example, store, program)
    return replace(traced, problems=(*traced.problems, *weight_problems(traced.graph, store)))


def _replicated(model: nn.Module, example: dict[str, Any], store: WeightStore, stack: BlockStack) -> Traced | None:
    with truncated(model, stack):
        short = _full(model, example, store, None)
    start = time.perf_counter()
    graph = replicate(short.graph, stack)
    if (
        graph is None
        or any(p.severity == "error" for p in check(graph))
        or not blocks_equivalent(model, stack, example)
    ):
        return None
    seconds = {**short.seconds, "check": short.seconds["check"] + time.perf_counter() - start}
    return replace(short, graph=graph, seconds=seconds)


def _full(model: nn.Module, example: dict[str, Any], store: WeightStore, program: ExportedProgram | None) -> Traced:
    start = time.perf_counter()
    try:
        captured = Captured(program, "all", ()) if program else capture(model, example)
    except TraceError as error:
        return _recorded(model, example, store, error, start)
    exported = time.perf_counter()
    model = rebuild_modules(captured.program) if program else model
    recovery, graph, differing = recover_modules(captured.program, model, store)
    graph, dropped = (graph, unknown_dropout(graph)) if program else with_training_dropout(graph, model, example)
    limits = (range_limits if program else size_limits)(captured.program, recovery.names)
    graph = replace(graph, limits=limits)
    done = time.perf_counter()
    problems = check(graph)
    faults = [p for p in problems if p.severity == "error"]
    if faults:
        raise TraceError(
            f"The captured graph is invalid: {faults[0].message}",
            "Please report the model.",
            faults[0].node,
        )
    seconds = {"capture": exported - start, "raise": done - exported, "check": time.perf_counter() - done}
    dynamic = {k: tuple(v) for k, v in recovery.names.dynamic.items()}
    every = (
        *differing,
        *problems,
        *_limits(captured.level, captured.failures, recovery, graph, own=program is None),
        *dropped,
    )
    return Traced(graph, every, seconds, dynamic, tuple(recovery.names.fixed), recovery.callables)


def _recorded(model: nn.Module, example: dict[str, Any], store: WeightStore, why: TraceError, start: float) -> Traced:
    captured = time.perf_counter()
    graph = record(model, example, store)
    done = time.perf_counter()
    text = f"{why.message} It was recorded from one run: layers can be compressed, but connections cannot be edited."
    seconds = {"capture": captured - start, "raise": done - captured, "check": 0.0}
    fixed = tuple(f"{n.target}[{i}]" for n in graph.placeholders for i in range(len(n.ports["data_out"].shape)))
    return Traced(graph, (Problem(None, text, "warning"), *check(graph)), seconds, {}, fixed, {MODEL: model})


def _limits(
    level: str, failures: tuple[str, ...], recovery: ModuleRecovery, graph: Graph, *, own: bool
) -> list[Problem]:
    problems = [Problem(node, text, "warning") for node, text in recovery.problems]
    problems += [Problem(None, text, "warning") for text in limit_warnings(graph)]
    known = {s for s, (low, _) in bounds(graph).items() if low is not None}
    dimensions = {d for s in known for d in recovery.names.dynamic.get(s, ())}
    for dimension, least in minimum_sizes(recovery.program).items():
        if dimension in dimensions:
            continue
        text = f"The graph is valid for {dimension} ≥ {least}: below, the model may take another branch."
        problems.append(Problem(None, text, "warning"))
    # The sizes of an exported program are its own choice.
    size = fixed_batch(graph) if own and level != "static" else None
    if size is not None:
        text = (f"The model's code fixes the batch size: the graph takes batches of {size} alone. Measure with "
                f"--batch-size {size}; costs of one sample are those of {size}.")  # fmt: skip
        problems.append(Problem(None, text, "warning"))
    if level == "batch":
        problems.append(Problem(None, f"Only the batch size is dynamic ({failures[-1]}).", "warning"))
    if level == "static":
        problems.append(Problem(None, f"All input sizes are fixed ({failures[-1]}).", "warning"))
    return problems
