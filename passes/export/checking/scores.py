"""Accuracies of files on the same samples as Espalier's own module, and differences of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.model.document.project import Project
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.export.checking.row import MODEL, CheckRow
from espalier.passes.export.checking.target import Baseline, CheckOptions, Inputs, Runner

if TYPE_CHECKING:
    from torch import nn

    from espalier.model.data.base import Split

FLOAT = "float"


def rows_of(
    project: Project, store: WeightStore, split: Split | None, files: list[Baseline], runners: dict[str, Runner],
    inputs: Inputs, seconds: dict[str, float], options: CheckOptions, context: Context,
) -> list[CheckRow]:  # fmt: skip
    """A row for Espalier's own module, then one for each file."""
    import torch

    from espalier.model.torch.build import build
    from espalier.passes.verify import tensors

    own = build(project.graph, store, context.callables, packed=True)
    with torch.no_grad():
        want = tensors(own(**inputs))
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
        rows.append(CheckRow(file.name, file.path.stat().st_size, difference=difference, ratio=ratio,
                             milliseconds=1e3 * seconds[file.name], change=_change(found, score),
                             **_accuracy(found)))  # fmt: skip
    return rows


def _score(
    module: nn.Module, project: Project, split: Split | None, options: CheckOptions, context: Context
) -> dict[str, Any] | None:
    """Accuracy with the data of its interval; None without data."""
    from espalier.passes.analysis.evaluate import measure, noise_of

    if split is None or (split.labels < 0).any():  # not labelled
        return None
    correct = list[bool]()
    accuracy, _ = measure(module, project.graph, split, options.batch_size, context, correct=correct)
    return {"accuracy": accuracy} | noise_of(accuracy, correct, split, project.graph)


def _accuracy(score: dict[str, Any] | None) -> dict[str, Any]:
    if score is None:
        return {}
    return {"accuracy": score["accuracy"], "interval": tuple(score["interval"]), "n": score["n"]}


def _change(found: dict[str, Any] | None, score: dict[str, Any] | None) -> dict[str, Any] | None:
    """The change from Espalier's own accuracy, with a test on the same samples."""
    from espalier.passes.figure import Figure

    if found is None or score is None:
        return None
    now, before = (Figure(s["accuracy"], s["n"], str(s["hits"])) for s in (found, score))
    return now.against(before, MODEL).to_json()


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
