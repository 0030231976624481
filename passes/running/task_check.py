"""Checks once per model that its scores mean something for the task of the data."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from espalier.model.document.graph_json import fingerprint
from espalier.model.graph.graph import Graph, fixed_batch
from espalier.passes.base import Context
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.tasks.base import Task, task_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split

MOST = 32  # graphs that are remembered as checked
_CHECKED: OrderedDict[tuple[str, str], None] = OrderedDict()


def check_task(graph: Graph, split: Split, context: Context) -> None:
    """Raise DataError if the scores of the model mean nothing for the task of `split`.

    The model runs without formats: some draw random numbers, others share scales between positions.
    """
    from espalier.model.torch.build import build

    task = task_of(split)
    if type(task).check is Task.check or not len(split):
        return
    plain = graph.replace(*(replace(n, precision={}) for n in graph if n.precision))
    key = task.name, fingerprint(plain)
    if key not in _CHECKED:
        module = build(plain, context.store, context.callables)
        size = min(fixed_batch(plain) or 1, len(split))
        for inputs, _ in batches(split.take(size), plain, size):
            with fit_error(inputs, plain):
                task.check(inputs, lambda given: module(**given))
    _CHECKED[key] = None
    _CHECKED.move_to_end(key)
    while len(_CHECKED) > MOST:
        _CHECKED.popitem(last=False)
