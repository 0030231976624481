"""A plan and its baselines as plain rows, for charts and for the graph."""

from __future__ import annotations

from typing import Any

from espalier.passes.sharding.planned import Plan

Row = dict[str, Any]


def compared_rows(plan: Plan) -> tuple[Row, ...]:
    """A row for the plan and for each baseline: milliseconds of a step and its parts, bytes per rank.

    `limit_bytes`: memory of a device. `problem`: why a baseline splits nothing; then it has no figures.
    """
    return (_row("plan", plan), *(_row(name, other) for name, other in plan.baselines.items()))


def _row(name: str, plan: Plan | str) -> Row:
    if isinstance(plan, str):
        return {"plan": name, "problem": plan}
    return {
        "plan": name, "step_ms": plan.seconds * 1e3, "compute_ms": plan.compute * 1e3,
        "communication_ms": plan.communication * 1e3, "bubble_ms": plan.bubble * 1e3, "memory_bytes": plan.memory,
        "state_bytes": plan.state, "activation_bytes": plan.activations, "limit_bytes": plan.device.memory,
        "moved_bytes": plan.bytes, "wire_bytes": plan.wire, "fits": plan.fits, "problem": "",
    }  # fmt: skip
