"""A task of a program's own: a loss and metrics as functions, for every call that takes data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from espalier.model.errors import OptionsError, nearest
from espalier.passes.costs.base import COSTS
from espalier.passes.tasks.base import TASKS, Metric, all_metrics
from espalier.passes.tasks.own import ANY, Functions

Function = Callable[[Any, Any], Any]
Better = Literal["high", "low"]
USED = ("loss", "kl", "agreement", "n", "task", "metric", "interval", "guessing")  # entries of a score


class Task(Functions):
    """A loss and metrics as functions, on the labels of another task or on labels of any kind.

    Give it as `task=` wherever data are given: `finetune`, `score`, `evaluate`, `sensitivity`, `search`, `sweep`. It
    lives in this program alone. Recipes name it, and files do not hold it; for other processes write a plug-in.

    Args:
        loss: `loss(outputs, labels)` of a batch → a tensor with one number, a mean that is differentiable. Default: the
            loss of the labels' task.
        metrics: name → `metric(outputs, labels)` of all samples → a number, the main one first; or one function, under
            its own name. Default: the metrics of the labels' task. These remain behind your own.
        better: "high" or "low", or a dict from names to these; names of built-in metrics keep their direction.
        labels: the task whose labels these are, such as "regression", or "any". Default: by the model's head and data.
        output: the result of the model that the functions get. Default: the scores of the labels' task, else `logits`,
            else the only result.

    Raises:
        OptionsError: neither is given, one is not callable, or a name is that of another figure.

    Example:
        task = es.Task(torch.nn.HuberLoss(), {"worst": lambda out, y: (out - y).abs().max()}, better="low")
        m.finetune(data=(x, y), task=task)
        m.score((x, y), task=task).worst
    """

    def __init__(
        self, loss: Function | None = None, metrics: Mapping[str, Function] | Function | None = None,
        better: Better | Mapping[str, Better] = "high", labels: str = "", output: str = "",
    ) -> None:  # fmt: skip
        named = _named(metrics)
        for name, function in (*named.items(), *([("loss", loss)] if loss is not None else [])):
            if not callable(function):
                raise OptionsError(f"{name} is {function!r}, not a function.", "Give a function of (outputs, labels).")
        if loss is None and not named:
            raise OptionsError("The task has neither a loss nor a metric.", "Give loss= or metrics=.")
        if labels not in ("", ANY) and labels not in TASKS:
            raise OptionsError(f"There is no task {labels!r}.", nearest(labels, [*TASKS, ANY]))
        super().__init__(loss, named, tuple(_metric(name, better) for name in named), labels, output)


def _named(metrics: Mapping[str, Function] | Function | None) -> dict[str, Function]:
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        return dict(cast("Mapping[str, Function]", metrics))
    return {name_of(metrics): metrics}


def name_of(function: Function) -> str:
    """The name of a function as a figure; `own_metric` for a lambda and for objects without one."""
    name = str(getattr(function, "__name__", ""))
    return name if name.isidentifier() else "own_metric"


def _metric(name: str, better: Better | Mapping[str, Better]) -> Metric:
    """The description of a metric; raises OptionsError for a name or direction that is impossible."""
    known = all_metrics().get(name)
    if name in USED or name in COSTS or not name.isidentifier():
        raise OptionsError(f"A metric cannot be called {name!r}.", "Choose another name, of letters, digits and _.")
    way = better if isinstance(better, str) else better.get(name, "high")
    if way not in ("high", "low"):
        raise OptionsError(f"better is {way!r}.", 'Write "high" or "low".')
    way = known.better if known else way
    return Metric(name, known.title if known else name.replace("_", " "), way, "Function of a Python program",
                  bool(known and known.share))  # fmt: skip


def with_task(options: Mapping[str, Any], accepted: Any) -> tuple[dict[str, Any], Functions | None]:
    """(options with the task's name, its functions) of `task=`, or of the shortcuts `loss=` and `metric=`.

    `accepted`: the dataclass of the options. Raises OptionsError where it takes no task.
    """
    names = {f.name for f in dataclasses.fields(accepted)} if dataclasses.is_dataclass(accepted) else set[str]()
    values = dict(options)
    given = {k: values.pop(k) for k in ("loss", "metric") if k in values and k not in names}
    given = {k: v for k, v in given.items() if v is not None}
    task = values.get("task")
    if given:
        if isinstance(task, Functions):
            raise OptionsError("Both a task and loss or metric are given.", "Give them to es.Task.")
        task = Task(given.get("loss"), given.get("metric"), labels=task or "")
    if not isinstance(task, Functions):
        return values, None
    if "task" not in names:
        raise OptionsError("This takes no loss and no metric.", "Leave task, loss and metric out.")
    return {**values, "task": task.name}, task
