"""Model + example inputs → a checked Graph with facts, symbols and what was lost on the way."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.export import ExportedProgram

from espalier.model.errors import TraceError
from espalier.model.graph.check import Problem, check
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.trace.agreeing import raised
from espalier.model.trace.alike import same_code
from espalier.model.trace.capture import Captured, capture
from espalier.model.trace.pinned import floors
from espalier.model.trace.raising import Raiser
from espalier.model.trace.recording import MODEL, record
from espalier.model.trace.reviving import revive
from espalier.model.trace.stamping import Stack, find_stack, shortened, stamp
from espalier.model.trace.training import unseen, with_training
from espalier.model.trace.unsound import unsound


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace: the graph, its problems, seconds per stage, and which input dimensions stay free.

    `dynamic` maps a symbol to the places where it stands ("input_ids[0]"); `fixed` lists the others.
    `callables` holds the functions of opaque nodes by target.
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
    """Capture `model` (in eval mode) on `example` keyword inputs, or raise a `program` of it; raises TraceError.

    The graph's weights are put into `store`. Without dynamic export a model becomes static, and what
    torch cannot export at all is recorded from one real run; both are told as problems. Identical blocks of
    a model without weights are captured a few times and stamped, if the whole model treats all of them alike.
    """
    stack = find_stack(model) if program is None else None
    found = (_stamped(model, example, store, stack) if stack else None) or _whole(model, example, store, program)
    return replace(found, problems=(*found.problems, *unsound(found.graph, store)))


def _stamped(model: nn.Module, example: dict[str, Any], store: WeightStore, stack: Stack) -> Traced | None:
    with shortened(model, stack):
        short = _whole(model, example, store, None)
    start = time.perf_counter()
    graph = stamp(short.graph, stack)
    if graph is None or any(p.severity == "error" for p in check(graph)) or not same_code(model, stack, example):
        return None
    seconds = {**short.seconds, "check": short.seconds["check"] + time.perf_counter() - start}
    return replace(short, graph=graph, seconds=seconds)


def _whole(model: nn.Module, example: dict[str, Any], store: WeightStore, program: ExportedProgram | None) -> Traced:
    start = time.perf_counter()
    try:
        captured = Captured(program, "all", ()) if program else capture(model, example)
    except TraceError as error:
        return _recorded(model, example, store, error, start)
    exported = time.perf_counter()
    model = revive(captured.program) if program else model
    raiser, graph, differing = raised(captured.program, model, store)
    graph, dropped = (graph, unseen(graph)) if program else with_training(graph, model, example)
    done = time.perf_counter()
    problems = check(graph)
    faults = [p for p in problems if p.severity == "error"]
    if faults:
        raise TraceError(
            f"The captured graph is not legal: {faults[0].message}",
            "Please report the model.",
            faults[0].node,
        )
    seconds = {"capture": exported - start, "raise": done - exported, "check": time.perf_counter() - done}
    dynamic = {k: tuple(v) for k, v in raiser.names.dynamic.items()}
    told = (*differing, *problems, *_lost(captured.level, captured.failures, raiser), *dropped)
    return Traced(graph, told, seconds, dynamic, tuple(raiser.names.fixed), raiser.callables)


def _recorded(model: nn.Module, example: dict[str, Any], store: WeightStore, why: TraceError, start: float) -> Traced:
    captured = time.perf_counter()
    graph = record(model, example, store)
    done = time.perf_counter()
    text = f"{why.message} It was recorded from one run instead: layers can be compressed, but not re-wired."
    seconds = {"capture": captured - start, "raise": done - captured, "check": 0.0}
    fixed = tuple(f"{n.target}[{i}]" for n in graph.placeholders for i in range(len(n.ports["data_out"].shape)))
    return Traced(graph, (Problem(None, text, "warning"), *check(graph)), seconds, {}, fixed, {MODEL: model})


def _lost(level: str, failures: tuple[str, ...], raiser: Raiser) -> list[Problem]:
    found = [Problem(node, text, "warning") for node, text in raiser.problems]
    for place, least in floors(raiser.program).items():
        text = f"The graph holds for {place} of at least {least}: below, the model may take another way."
        found.append(Problem(None, text, "warning"))
    if level == "batch":
        found.append(Problem(None, f"Only the batch size stays free ({failures[-1]}).", "warning"))
    if level == "static":
        found.append(Problem(None, f"All input sizes are fixed ({failures[-1]}).", "warning"))
    return found
