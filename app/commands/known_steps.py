"""Results of a project's own steps, so that they do not run again."""

from __future__ import annotations

from espalier.app.commands.opening import Target
from espalier.passes.base import Report, StepResult
from espalier.passes.recipes.replay import Memo, prefix_keys


def known_steps(target: Target) -> Memo:
    """A Memo with the stored graphs after the project's steps."""
    memo, steps = Memo(), target.project.recipe.active
    for count, graph in {**target.project.milestones, len(steps): target.project.graph}.items():
        if count:
            memo.put(prefix_keys(steps)[count - 1], StepResult(graph, Report(steps[count - 1].pass_name), 0.0))
    return memo
