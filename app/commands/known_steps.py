"""What a project on the command line knows of its own steps, so that they are not run again."""

from __future__ import annotations

from espalier.app.commands.opening import Target
from espalier.passes.base import Report, StepResult
from espalier.passes.recipes.replay import Memo, prefix_keys


def known_steps(target: Target) -> Memo:
    """What the project knows of its own steps."""
    memo, steps = Memo(), target.project.recipe.active
    for count, graph in {**target.project.milestones, len(steps): target.project.graph}.items():
        if count:
            memo.put(prefix_keys(steps)[count - 1], StepResult(graph, Report(steps[count - 1].pass_name), 0.0))
    return memo
