"""`stream`: models larger than memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from espalier.app.api.reports import Report, Steps
from espalier.app.api.steps import Progress
from espalier.app.commands.stream import to_dict
from espalier.model.document.codec import decode
from espalier.model.document.recipe import Recipe
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import check_ready
from espalier.passes.recipes.set_up import from_anywhere
from espalier.passes.running.splits import EvaluateOptions


def _silent(done: int, total: int, text: str) -> None:
    """Ignore progress."""


def stream(
    source: str | PathLike[str], recipe: Steps | str | PathLike[str] | Mapping[str, Any] | None = None, *,
    output: str | PathLike[str] | None = None, data: str = "", work: str | PathLike[str] | None = None,
    baseline: bool = True, leave_float: bool = False, seed: int = 0, progress: Progress = _silent, **options: Any,
) -> Report:  # fmt: skip
    """Measure a model larger than memory, or run a recipe on it and write the result, segment by segment.

    Args:
        source: a Hugging Face folder with safetensors.
        recipe: as of `Model.apply`: steps that set formats, `smoothquant`, `awq`, `gptq`, `autoround`; none: measure.
        output: the compressed-tensors folder to write; it must not exist.
        data: what to measure on: a name or a path, as of `Model.score`.
        work: the working folder, from which an ended job goes on when it is repeated; default: beside the output.
        baseline: also measure the model as opened.
        leave_float: keep weights in float that compressed-tensors cannot hold.
        seed: of steps that name none.
        progress: as of `open`.
        options: of `evaluate`: `limit`, `batch_size`, `max_length`, …

    Returns:
        A Report, a row a written tensor: the figures of the score as of `Model.score`, `before` (those of the model as
        opened), `steps`, `files`, `segments`, `largest` (bytes of the largest segment), `peak_bytes` of the process.

    Raises:
        SourceError, PassError, DataError, ExportError: before anything is computed. ProjectError: the working folder
        is that of another job, or the disk is full; what is done stays.

    Example:
        es.stream("Llama-2-7b", {"quantize_preset": {"preset": "w4a16_g128"}}, output="w4", data="test.txt")
    """
    from espalier.passes.streaming.job import StreamOptions
    from espalier.passes.streaming.job import stream as run

    read = recipe.recipe if isinstance(recipe, Steps) else _recipe(recipe or {}, seed)
    check_ready(read)
    score: EvaluateOptions | None = decode(EvaluateOptions, {**options, "data": data}) if data else None
    place = StreamOptions(Path(output) if output else None, Path(work) if work else None, score, baseline, leave_float)
    done = run(os.fspath(source), read, place, progress, **{k: options.get(k) for k in ("tokenizer", "text", "label")})
    figures = to_dict(done)
    after = dict(figures.pop("after", {}))
    rows = tuple(asdict(done)["tensors"])
    figures = {k: v for k, v in figures.items() if k not in ("tensors", "seconds")}
    return Report("stream", {**after, **figures}, rows, done.seconds)


def _recipe(recipe: str | PathLike[str] | Mapping[str, Any], seed: int) -> Recipe:
    return from_anywhere(load_recipe(recipe if isinstance(recipe, Mapping) else Path(recipe), seed))
