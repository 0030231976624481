"""Metrics of files on the same samples as Espalier's own module, and differences of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.model.document.project import Project
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.export.checking.row import MODEL, CheckRow
from espalier.passes.export.checking.target import Baseline, CheckOptions, Inputs, Runner
from espalier.passes.figure import main_figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from espalier.model.data.base import Split

FLOAT = "float"


def rows_of(
    project: Project, store: WeightStore, split: Split | None, files: list[Baseline], runners: dict[str, Runner],
    inputs: Inputs, seconds: dict[str, float], options: CheckOptions, context: Context,
    comparable: Callable[[Tensor], Tensor] | None = None,
) -> list[CheckRow]:  # fmt: skip
    """A row for Espalier's own module, then one for each file; `comparable` as of a Target."""
    import torch

    from espalier.model.torch.build import build
    from espalier.passes.verify import tensors

    own = build(project.graph, store, context.callables, packed=True)
    with torch.no_grad():
        want = [comparable(v) if comparable else v for v in tensors(own(**inputs))]
    score = _score(own, project, split, options, context)
    rows = [CheckRow(MODEL, **_accuracy(score))]
    for file in files:
        if file.path is None:
            rows.append(CheckRow(file.name, reason=file.reason))
            continue
        run = runners[file.name]
        difference = max((_apart(a, b) for a, b in zip(want, run(inputs), strict=False)), default=None)
        found = _score(_module(run, project.graph.output_names), project, split, options, context)
        ratio = seconds[file.name] / seconds[FLOAT] if FLOAT in seconds else None
        rows.append(CheckRow(file.name, difference=difference, ratio=ratio,
                             milliseconds=1e3 * seconds[file.name], change=_change(found, score),
                             **_accuracy(found)))  # fmt: skip
    return rows


def _score(
    module: nn.Module, project: Project, split: Split | None, options: CheckOptions, context: Context
) -> dict[str, Any] | None:
    """Metrics with the data of their interval; None without data."""
    from espalier.passes.analysis.evaluate import measure, noise_of
    from espalier.passes.tasks.base import task_of

    if split is None or task_of(split).hides(split.labels):  # not labelled
        return None
    tally = measure(module, project.graph, split, options.batch_size, context)
    return tally.figures() | noise_of(tally, split, project.graph, None, full=False)


def _accuracy(score: dict[str, Any] | None) -> dict[str, Any]:
    if score is None:
        return {}
    metric = score["metric"]
    interval = tuple(score["interval"]) if score["interval"] else None
    named = {} if metric == "accuracy" else {"metric": metric, "value": score[metric]}
    return {"accuracy": score.get("accuracy"), "interval": interval, "n": score["n"], **named}


def _change(found: dict[str, Any] | None, score: dict[str, Any] | None) -> dict[str, Any] | None:
    """The change of the main metric from Espalier's own, with a test on the same samples."""
    now, before = (main_figure(s) if s else None for s in (found, score))
    return now.against(before, MODEL).to_json() if now and before else None


def _module(run: Runner, names: tuple[str, ...]) -> nn.Module:
    """A runner as a module whose results have the graph's names."""
    from torch import nn

    class Foreign(nn.Module):
        def forward(self, **inputs: Any) -> Any:
            results = list(run(inputs))
            return dict(zip(names, results, strict=True)) if len(names) == len(results) else tuple(results)

    return Foreign()


def _apart(a: Any, b: Any) -> float:
    """The largest difference; infinite where shapes differ."""
    if tuple(a.shape) != tuple(b.shape):
        return float("inf")
    return float((a.double() - b.double()).abs().max()) if a.numel() else 0.0
