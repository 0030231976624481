"""The score of one side of a comparison: measured by the session, by its search, or kept in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.app.features.compare.state.choices import StateChoice
from espalier.app.session.measures import Baseline, Measures, measured_score, samples_of
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.passes.comparison.scores import Measured
from espalier.passes.figure import OPENED, main_figure
from espalier.passes.score import Scorer, static_score

if TYPE_CHECKING:
    from espalier.app.session.session import Session


def measured_side(session: Session, side: StateChoice, graph: Graph, file: Project | None, scorer: Scorer) -> Measured:
    """Costs and measurements of a state; `file`: the project of another file."""
    measures, recipe, data = session.measures, side.recipe, session.measured_on
    if file is not None:
        measures, recipe = Measures(), file.recipe
        measures.restore(file)
        data = measures.options
    recipe = recipe or Recipe()
    metrics, main = measures.metrics(recipe), measures.main(recipe)
    base = session.open_document.project.base
    kl = measures.divergence(recipe, Baseline(OPENED, Recipe(), base)) if file is None else None
    if not metrics and side.trial is not None and _is_on_current_data(session, side):
        figures: dict[str, Any] = {**side.trial.figures, **side.trial.noise}
        if isinstance(figures.get("loss"), float):
            metrics, main = side.trial.figures, main_figure(figures)
        kl = figures["kl"] if kl is None and isinstance(figures.get("kl"), float) else kl
    if side.recipe is not None and not recipe.active:
        kl = 0.0  # the divergence of the opened model from itself
    static = scorer.score(graph) if file is None else static_score(graph)
    return Measured(measured_score(static, metrics), main, kl, data=samples_of(data), metrics=metrics)


def _is_on_current_data(session: Session, side: StateChoice) -> bool:
    """Whether a trial was scored on the data in use."""
    options = session.measured_on
    return side.study is not None and (options.which, options.split) == (side.study.spec.score.which,
                                                                   side.study.spec.score.split)  # fmt: skip
