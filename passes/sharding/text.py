"""A plan as rows, a summary and lines of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from espalier.passes.sharding.baselines import BASELINES
from espalier.passes.sharding.planned import Move, Plan, amount

Row = dict[str, Any]


def plan_rows(plan: Plan) -> tuple[Row, ...]:
    """One row per node that computes: its strategy, placements, milliseconds, and the moves that it causes.

    `moves`: the collectives before the node and those of its gradients, and of its result where several nodes read it.
    `bytes`: with which a rank calls them in a step, `saved`: what formats save of that on the wire.
    """
    moves: dict[str, list[Move]] = defaultdict(list)
    for move in plan.moves:
        moves[move.reader if move.reader in plan.strategies else move.source].append(move)
    readers = {m.source: m.reader for m in reversed(plan.moves) if m.stored and m.reader}
    for weight, first in readers.items():  # moves of a weight before all its readers
        moves[first].extend(moves.pop(weight, []))
    return tuple(_row(plan, name, strategy, moves.get(name, [])) for name, strategy in plan.strategies.items())


def _row(plan: Plan, name: str, strategy: str, moves: list[Move]) -> Row:
    ports = plan.shardings[name].ports
    size, wire = sum(m.bytes for m in moves), sum(m.wire for m in moves)
    return {
        "node": name, "strategy": strategy,
        **{p: " ".join(ports.get(p, ())) for p in ("data_in", "weight", "data_out")},
        "milliseconds": plan.node_seconds.get(name, 0.0) * 1e3, "moves": _kinds(moves), "bytes": size,
        "saved": size - wire,
    }  # fmt: skip


def _kinds(moves: list[Move]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for move in moves:
        for each in move.collectives:
            counts[each.kind.replace("_", "-")] += 1
    return ", ".join(f"{n} {kind}" for kind, n in counts.items())


def plan_summary(plan: Plan) -> Row:
    """Step time, its parts, memory per rank and bytes moved; how many times longer each baseline takes."""
    found: Row = {
        "mesh": str(plan.mesh), "device": plan.device.name, "step_ms": plan.seconds * 1e3,
        "compute_ms": plan.compute * 1e3, "communication_ms": plan.communication * 1e3,
        "memory_bytes": plan.memory,
    }  # fmt: skip
    if plan.stages:
        found |= {
            "stages": len(plan.stages),
            "bubble_ms": plan.bubble * 1e3,
            "bubble_share": plan.bubble / plan.seconds,
        }
    else:
        found |= {"state_bytes": plan.state, "activation_bytes": plan.activations, "moved_bytes": plan.bytes,
                  "saved_bytes": plan.bytes - plan.wire}  # fmt: skip
        found["gap"] = max(0.0, (plan.seconds - plan.bound) / plan.seconds) if plan.seconds else 0.0
    for name, other in plan.baselines.items():
        found[f"{name}_ratio"] = other.seconds / plan.seconds if isinstance(other, Plan) and plan.seconds else None
        found[f"{name}_fits"] = isinstance(other, Plan) and other.fits
    found["notes"] = " ".join([*plan.notes, *(o for o in plan.baselines.values() if isinstance(o, str))])
    found["source"] = plan.device.source
    return found


def plan_text(plan: Plan) -> Iterator[str]:
    """Lines: the step, the memory, a table of the baselines, and where the figures of the device are from."""
    kind = "training step" if plan.options.training else "forward run"
    yield f"mesh {plan.mesh} of {plan.device.name} · {kind} {_ms(plan.seconds)} · planned in {plan.planning:.2g} s"
    yield f"  compute        {_ms(plan.compute)}"
    if not plan.stages:
        yield f"  communication  {_ms(plan.communication)} · {amount(plan.bytes)} per rank" + _saved(plan)
    else:
        yield f"  communication  {_ms(plan.communication)}"
        yield f"  bubble         {_ms(plan.bubble)} ({100 * plan.bubble / plan.seconds:.1f} %)"
    parts = f"weights and state {amount(plan.state)}, activations {amount(plan.activations)}"
    parts = "of the fullest stage" if plan.stages else parts
    yield f"  memory         {amount(plan.memory)} of {amount(plan.device.memory)} per rank ({parts})"
    for number, stage in enumerate(plan.stages):
        yield (f"  stage {number + 1}: {stage.nodes[0]} … {stage.nodes[-1]} · {_ms(stage.seconds)} per micro-batch · "
               f"{amount(stage.memory)}")  # fmt: skip
    yield from _baselines(plan)
    yield f"  {plan.device.name:13}  {plan.device.source}"
    yield from (f"  note: {note}" for note in plan.notes)


def _baselines(plan: Plan) -> Iterator[str]:
    if plan.baselines:
        yield "  baseline       step          compared   communication  memory per rank"
    for name in BASELINES:
        other = plan.baselines.get(name)
        if isinstance(other, str):
            yield f"  {name:13}  {other}"
        elif other is not None:
            ratio = f"{other.seconds / plan.seconds:.2f} ×" if plan.seconds else ""
            fits = "" if other.fits else " (does not fit)"
            yield (f"  {name:13}  {_ms(other.seconds):12}  {ratio:9}  {_ms(other.communication):13}  "
                   f"{amount(other.memory)}{fits}")  # fmt: skip


def _saved(plan: Plan) -> str:
    saved = plan.bytes - plan.wire
    return f", of which formats save {amount(saved)}" if saved else ""


def _ms(value: float) -> str:
    return f"{value * 1e3:.4g} ms"
