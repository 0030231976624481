"""Texts that an encoder–decoder model generates from the sources of data, compared with the targets by ROUGE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.errors import DataError, GraphError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.figure import OPENED
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split
from espalier.passes.tasks.rouge import rouge_l, rouge_n, words

if TYPE_CHECKING:
    from espalier.model.data.base import Array, Split
    from espalier.model.data.tokens import Codec

SHOWN = 20
MOST = 4096  # new tokens
METRICS = ("rouge1", "rouge2", "rougeL", "exact_match")


@dataclass(frozen=True, slots=True)
class GenerationScoresOptions(EvaluateOptions):
    """The data, and how many tokens a text has at most."""

    batch_size: int = field(default=16, metadata={"min": 1, "max": 4096})
    new_tokens: int = field(
        default=0,
        metadata={"min": 0, "max": MOST, "help": "maximum number of new tokens; 0 = those of the longest target"},
    )
    baseline: str = field(default=OPENED, metadata={"help": "name of the baseline graph"})
    AGAINST_BASE: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class GeneratedTextsOptions(GenerationScoresOptions):
    """The data; `limit`: number of texts."""

    limit: int = field(default=SHOWN, metadata={"min": 1, "help": "number of texts"})


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts of each sample, of the model, of its baseline if there is another, and of the targets."""

    mine: list[str]
    theirs: list[str] | None
    targets: list[str]
    sources: list[str]
    tokens: float  # mean number of generated tokens
    cut: int  # texts that the model did not end, or was forced to end
    most: int  # tokens of a text
    note: dict[str, str]  # on settings of the model that are not applied


@analysis("generation_scores", "Scores of generated texts", GenerationScoresOptions)
def generation_scores(graph: Graph, options: GenerationScoresOptions, context: Context) -> tuple[Graph, Report]:
    """ROUGE-1, ROUGE-2 and ROUGE-L F-measures (Lin, 2004) and exact match of texts that the model generates.

    The most probable token is taken at each step; `cut` texts reached `new_tokens`. `difference` is from the baseline,
    on the same samples. Intervals: 95 %, by the bootstrap over samples.
    """
    import numpy as np

    from espalier.passes.tasks.resampling import bootstrapped

    texts = _texts(graph, options, context)
    mine = np.array([scores_of(a, b) for a, b in zip(texts.mine, texts.targets, strict=True)])
    columns = [np.ones((len(mine), 1)), mine]
    if texts.theirs is not None:
        theirs = np.array([scores_of(a, b) for a, b in zip(texts.theirs, texts.targets, strict=True)])
        columns += [theirs, mine - theirs]
    table = np.concatenate(columns, 1)

    def figures(sums: Array) -> dict[str, Array]:
        means = sums[..., 1:] / sums[..., :1]
        return {str(at): means[..., at] for at in range(means.shape[-1])}

    values, ends = figures(table.sum(0)), bootstrapped(table, figures)
    rows: list[Row] = []
    for at, name in enumerate(METRICS):
        row: Row = {"metric": name, "value": float(values[str(at)]), **_ends("", ends.get(str(at)))}
        if texts.theirs is not None:
            apart = str(at + 2 * len(METRICS))
            row |= {"baseline": float(values[str(at + len(METRICS))]), "difference": float(values[apart]),
                    **_ends("difference_", ends.get(apart))}  # fmt: skip
        rows.append(row)
    summary = {"n": len(mine), "baseline": options.baseline, **_counts(texts)}
    return graph, Report("generation_scores", tuple(rows), summary)


@analysis("generated_texts", "Generated texts", GeneratedTextsOptions)
def generated_texts(graph: Graph, options: GeneratedTextsOptions, context: Context) -> tuple[Graph, Report]:
    """The text that the model generates from each source, with that of its baseline, the target, and ROUGE-L."""
    texts = _texts(graph, options, context)
    rows: list[Row] = []
    for at, (text, target) in enumerate(zip(texts.mine, texts.targets, strict=True)):
        row: Row = {"source": texts.sources[at], "text": text, "target": target, "rougeL": scores_of(text, target)[2]}
        if texts.theirs is not None:
            row |= {"baseline": texts.theirs[at], "baseline_rougeL": scores_of(texts.theirs[at], target)[2]}
        rows.append(row)
    summary = {"n": len(rows), "baseline": options.baseline, **_counts(texts)}
    return graph, Report("generated_texts", tuple(rows), summary)


def scores_of(text: str, target: str) -> tuple[float, ...]:
    """The METRICS of a text; exact match does not count spaces at the ends."""
    mine, theirs = words(text), words(target)
    same = float(text.strip() == target.strip())
    return rouge_n(mine, theirs, 1), rouge_n(mine, theirs, 2), rouge_l(mine, theirs), same


def _ends(prefix: str, interval: tuple[float, float] | None) -> Row:
    low, high = interval or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def _texts(graph: Graph, options: GenerationScoresOptions, context: Context) -> _Texts:
    from espalier.model.data.base import IGNORED
    from espalier.model.data.text_pairs import SEQ2SEQ
    from espalier.passes.running.generation_settings import codec_of, settings_note
    from espalier.passes.running.target_decoding import decodes_targets, room_of

    if not decodes_targets(graph):
        raise GraphError("The model reads no targets, so it generates none.", "Open an encoder–decoder model.")
    task = load_task(options, context.reading, whole=options.split in ("", "all"))
    tokenizer = options.tokenizer or context.reading.tokenizer
    if task.task != SEQ2SEQ or not tokenizer:
        raise DataError("Texts are generated from sources with targets, by a model with a tokenizer.",
                        "Choose data of the task seq2seq, and name the tokenizer in the options.")  # fmt: skip
    split, codec = measured_split(task, options.split, options.limit), codec_of(context, tokenizer)
    most = min(options.new_tokens or split.labels.shape[1], room_of(context))
    base = None if context.base is graph else context.base
    total = len(split) * (1 if base is None else 2)
    writer = _Writer(options, codec, context, most, tokenizer, total)
    mine = writer.written(graph, split)
    theirs = None if base is None else writer.written(base, split)
    targets = [codec.plain([int(t) for t in row if t != IGNORED]) for row in split.labels]
    sources = [codec.plain([int(t) for t in row]) for row in split.inputs["input_ids"]]
    return _Texts(_plain(codec, mine), None if theirs is None else _plain(codec, theirs), targets, sources,
                  sum(map(len, mine)) / max(len(mine), 1),
                  sum(writer.is_cut(row) for row in mine), most,
                  settings_note(context))  # fmt: skip


def _counts(texts: _Texts) -> dict[str, Any]:
    return {"tokens": texts.tokens, "new_tokens": texts.most, "cut": texts.cut, **texts.note}


def _plain(codec: Codec, rows: Sequence[list[int]]) -> list[str]:
    return [codec.plain(row) for row in rows]


class _Writer:
    """Writes the targets of a split in batches."""

    def __init__(
        self, options: GenerationScoresOptions, codec: Codec, context: Context, most: int, tokenizer: str, total: int
    ) -> None:
        from espalier.passes.running.generation_settings import forced_first, forced_last
        from espalier.passes.running.target_decoding import start_token

        self._options, self._codec, self._context, self._most, self._total = options, codec, context, most, total
        self._start, self._forced, self._done = start_token(context, tokenizer), forced_first(context), 0
        self._last = forced_last(context)

    def written(self, graph: Graph, split: Split) -> list[list[int]]:
        """New tokens of each sample, up to one that ends texts."""
        import numpy as np

        from espalier.model.torch.build import build
        from espalier.passes.running.batches import fitting_size
        from espalier.passes.running.target_decoding import TargetDecoder

        module: Any = build(graph, self._context.store, self._context.callables, packed=True)
        rows: list[list[int]] = []
        written = replace(split, labels=np.broadcast_to(split.labels[:, :1], (len(split), self._most)))
        for inputs, _ in split.batches(fitting_size(written, graph, self._options.batch_size)):
            rows += self._batch(TargetDecoder(graph, self._context, inputs, module).scores, len(inputs["input_ids"]))
            self._done += len(inputs["input_ids"])
        return rows

    def is_cut(self, row: list[int]) -> bool:
        """Whether a text reached the limit without an end of its own choice."""
        return len(row) == self._most and (self._last is not None or row[-1] not in self._codec.ends)

    def _batch(self, scores: Callable[[Any], Any], count: int) -> list[list[int]]:
        import torch

        targets = torch.full((count, 1), self._start)
        ended = torch.zeros(count, dtype=torch.bool)
        ends = torch.tensor(sorted(self._codec.ends), dtype=torch.int64)
        for at in range(self._most):
            forced = self._forced if at == 0 else None
            forced = self._last if self._last is not None and at == self._most - 1 else forced
            if forced is None:
                chosen = scores(targets).argmax(-1, keepdim=True)
            else:
                chosen = torch.full((count, 1), forced)
            targets = torch.cat([targets, chosen], 1)
            ended |= torch.isin(targets[:, -1], ends)
            self._context.progress(self._done, self._total, f"token {at + 1}")
            if bool(ended.all()):
                break
        return [self._cut(row) for row in targets[:, 1:].tolist()]

    def _cut(self, row: list[int]) -> list[int]:
        at = next((i for i, token in enumerate(row) if token in self._codec.ends), len(row) - 1)
        return row[: at + 1]
