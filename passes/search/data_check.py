"""Checks once, before the first trial, that a search's data fit its model and have the splits its trainings need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph, fixed_batch
from espalier.passes.base import Context, fill_limits
from espalier.passes.running.example import allowed_batch
from espalier.passes.search.goals import Wanted
from espalier.passes.search.search import Search
from espalier.passes.search.with_training import FINETUNE
from espalier.passes.tasks.base import Task, all_metrics, task_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split


def check_data(search: Search, recipe: Recipe, want: Wanted, context: Context, *, other: bool = False) -> None:
    """Raise DataError for data that the model does not accept or that lack a split. `recipe`: of any trial.

    `other`: trials build models of their own, so the data are not run through the search's model.
    """
    from espalier.passes.running.splits import load_split
    from espalier.passes.training.samples import Samples
    from espalier.passes.training.splits import splits

    fill_limits(context, search.base)
    trainings = [s.options for s in recipe.active if s.pass_name == FINETUNE]
    if search.spec.score.data and (want.measured or trainings):
        context.progress(0, 0, "reading and tokenising")
        measured = load_split(search.spec.score, context)
        Samples(measured, search.base, "measure on")
        _check_figures(task_of(measured), want)
        if not other:
            _run_samples(search.base, measured, context)
    for options in dict.fromkeys(trainings):
        parts = splits(options, context)
        for split, purpose in ((parts.train, "train on"), (parts.check, "validate on")):
            if split is not None:
                Samples(split, search.base, purpose)
        if not other:
            _run_samples(search.base, parts.train, context)


def _check_figures(task: Task, want: Wanted) -> None:
    """Raise OptionsError for a goal or a limit that another task has."""
    for name in want.figures:
        if name in all_metrics() and task.metric(name) is None:
            hint = f"Its metrics are {', '.join(m.name for m in task.metrics)}."
            raise OptionsError(f"The task {task.name} has no {name.replace('_', ' ')}.", hint)


def _run_samples(graph: Graph, split: Split, context: Context) -> None:
    """Run the samples most likely to fail: the first two, the longest, and those with the highest token numbers."""
    import torch

    from espalier.model.torch.build import build
    from espalier.passes.running.batches import batches, fit_error

    rows = _critical_rows(split)
    own = fixed_batch(graph) or allowed_batch(graph, len(rows))  # such a graph runs some rows twice
    some = split.rows(np.resize(rows, -(-len(rows) // own) * own))
    with torch.no_grad():
        module = build(graph, context.store, context.callables)
        for inputs, labels in batches(some, graph, own):
            with fit_error(inputs, graph):
                result = module(**inputs)
            task = task_of(split)
            scores = task.scores(result, graph)
            task.fit(scores, labels)
            task.fit_all(scores, torch.from_numpy(split.labels))


def _critical_rows(split: Split) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rows = {0, 1 % max(len(split), 1)}
    for array in split.inputs.values():
        flat = array.reshape(len(split), -1)
        rows |= {int(flat.max(1).argmax()), int(flat.sum(1).argmax())}
    return np.array(sorted(rows), np.int64)
