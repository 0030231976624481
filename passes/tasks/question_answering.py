"""The answer to a question as a span of its context: exact match and F1 of words, normalised as in SQuAD's official
evaluate-v2.0.py (Rajpurkar et al., 2018, https://arxiv.org/abs/1806.03822; https://rajpurkar.github.io/SQuAD-explorer/).
A span has at most MAX_TOKENS tokens, as in transformers' examples.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from espalier.model.data.answers import ANSWERS, CONTEXTS, Answer, answer_rows
from espalier.model.data.base import Array, LabelForm, LoadOptions, Split, TaskData
from espalier.model.data.rows import Rows
from espalier.model.errors import DataError, GraphError
from espalier.passes.tasks.base import TASKS, Metric, Task
from espalier.passes.tasks.resampling import bootstrapped

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

QUESTION_ANSWERING = "question-answering"
MAX_TOKENS = 30  # of an answer
LEAST = -1e30  # score of the best span where there is none
F1 = Metric("f1", "F1", "high", "Mean F1 of the words of answers, normalised as in SQuAD", True)
EXACT = Metric(
    "exact_match", "exact match", "high", "Share of the answers that are right, normalised as in SQuAD", True
)
LOSS = Metric("loss", "loss", "low", "Mean cross-entropy of the first and the last token of answers", by_sample=True)
ENDS = ("start_logits", "end_logits")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)
# Columns of the statistics of a window.
COLUMNS = ("loss", "one", "question", "span", "exact_match", "f1", "null", "null_right", "unanswerable")


def normalised(text: str) -> list[str]:
    """The words of a text in lower case without punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_MARKS)).split()


def compared(text: str, answers: Sequence[str]) -> tuple[float, float]:
    """(exact match, F1) with the most similar of the answers; no answer is an empty text."""
    wanted = [words for words in map(normalised, answers) if words] or [[]]
    words = normalised(text)
    return max(float(words == w) for w in wanted), max(_f1(words, w) for w in wanted)


def _f1(words: list[str], wanted: list[str]) -> float:
    if not words or not wanted:
        return float(words == wanted)
    same = sum((Counter(words) & Counter(wanted)).values())
    return 2 * same / (len(words) + len(wanted))


@dataclass(frozen=True, slots=True)
class Window:
    """A question with a window of its context.

    question: its number. text: of the window; spans: the characters of each token in it, −1 of others. start, end: the
    tokens of the answer, `first` without one in this window. unanswerable: whether the data have such questions.
    """

    question: int
    text: str
    spans: Array
    answers: tuple[str, ...]
    start: int
    end: int
    first: int
    unanswerable: bool


@lru_cache(maxsize=1 << 12)
def window_of(text: str) -> Window:
    """A window as it is stored."""
    import numpy as np

    values = json.loads(text)
    spans = np.array(values["spans"], np.int64).reshape(-1, 2)
    return Window(values["question"], values["text"], spans, tuple(values["answers"]), values["start"], values["end"],
                  values["first"], values["unanswerable"])  # fmt: skip


def answered(splits: Mapping[str, Rows], name: str, options: LoadOptions) -> TaskData:
    """Tokenised questions with windows of their contexts; a label is the number of a window. Raises DataError."""
    import numpy as np

    from espalier.model.data.tokens import open_pairs

    assert options.tokenizer is not None
    encode = open_pairs(options.tokenizer)
    unanswerable = any(not answers for rows in splits.values() for answers in rows.labels)
    table: list[str] = []
    made: dict[str, Split] = {}
    texts: dict[str, tuple[str, ...]] = {}
    begun = 0
    for split, rows in splits.items():
        questions, contexts = ([sample[i] for sample in rows.samples] for i in (0, 1))
        pairs = encode(questions, contexts, options.max_length)
        first = len(table)
        for at, row in enumerate(pairs.rows.tolist()):
            described = _described(pairs.offsets[at], int(pairs.firsts[at]), contexts[row], rows.labels[row])
            table.append(json.dumps({"question": begun + row, **described, "unanswerable": unanswerable}))
        labels = np.arange(first, len(table))
        texts[split] = tuple(
            f"{questions[row]}\n{window_of(table[first + at]).text}" for at, row in enumerate(pairs.rows.tolist())
        )
        made[split] = Split(pairs.inputs, labels, task=QUESTION_ANSWERING, groups=pairs.rows + begun)
        begun += len(rows.samples)
    made = {split: _with_table(part, tuple(table)) for split, part in made.items()}
    return TaskData(name, "text", (), made, texts, task=QUESTION_ANSWERING)


def _with_table(split: Split, table: tuple[str, ...]) -> Split:
    from dataclasses import replace

    return replace(split, table=table)


def _described(offsets: Array, first: int, context: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """The entries of a window; the first answer is what a model is trained on."""
    import numpy as np

    inside = np.flatnonzero(offsets[:, 0] >= 0)
    low, high = (int(offsets[inside[0], 0]), int(offsets[inside[-1], 1])) if len(inside) else (0, 0)
    start = end = first
    if answers and len(inside):
        text, begin = answers[0]
        stop = begin + len(text)
        if low <= begin and stop <= high:
            start = int(inside[np.flatnonzero(offsets[inside, 0] <= begin)[-1]])
            end = int(inside[np.flatnonzero(offsets[inside, 1] >= stop)[0]])
    spans = np.where(offsets >= 0, offsets - low, -1)
    return {"text": context[low:high], "spans": spans.tolist(), "answers": [text for text, _ in answers],
            "start": start, "end": max(start, end), "first": first}  # fmt: skip


class QuestionAnswering(Task):
    """A span of the context. Labels: int64 [windows], indices into `table`, whose entries are windows."""

    name, units, keep, kind, metrics = QUESTION_ANSWERING, "questions", "loss", "distributions", (F1, EXACT, LOSS)
    loss_text = "mean cross-entropy of the first and the last token of the answers"
    rows, pooled, own, resampled = False, True, None, True
    form = LabelForm(rows=answer_rows, samples=answered, labels=ANSWERS, texts=CONTEXTS)

    def __init__(self, table: tuple[str, ...] = ()) -> None:
        self.table = table

    def on(self, split: Split) -> Task:
        """The task with the windows of a split."""
        return QuestionAnswering(split.table)

    def recognises(self, limits: Limits) -> bool:
        """The head of transformers."""
        return limits.head == QUESTION_ANSWERING

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """[windows, 2, positions]: the scores of the first and of the last token."""
        import torch

        if isinstance(result, dict) and set(ENDS) <= result.keys():
            return torch.stack([result[name] for name in ENDS], 1)
        if isinstance(result, torch.Tensor) and result.dim() == 3 and result.shape[1] == 2:
            return result
        values = list(result) if isinstance(result, tuple | list) else []
        pair = [v for v in values if getattr(v, "dim", lambda: 0)() == 2 and v.is_floating_point()][:2]
        if len(pair) < 2 or pair[0].shape != pair[1].shape:
            raise GraphError("The model gives no scores of where an answer starts and ends.",
                             "Open it with the head question-answering, or choose another task.")  # fmt: skip
        return torch.stack(pair, 1)

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError unless there is a window for each row of scores."""
        if scores.dim() != 3 or len(scores) != len(labels):
            raise DataError(f"The model gives scores of {len(scores):,} windows, the data has {len(labels):,}.",
                            "Use questions with contexts, and a model with that head.")  # fmt: skip

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Windows fit any scores of positions."""

    def shown(self, label: int) -> str:
        """The first answer."""
        return next(iter(window_of(self.table[label]).answers), "no answer")

    def _windows(self, labels: Tensor) -> list[Window]:
        return [window_of(self.table[at]) for at in labels.tolist()]

    def _losses(self, scores: Tensor, labels: Tensor, reduction: str) -> Tensor:
        import torch
        import torch.nn.functional as F

        windows, width = self._windows(labels), scores.shape[-1]
        ends = torch.tensor([[w.start, w.end] for w in windows], device=scores.device).clamp(0, width)
        parts = [F.cross_entropy(scores[:, i].float(), ends[:, i], ignore_index=width, reduction=reduction)
                 for i in (0, 1)]  # fmt: skip
        return (parts[0] + parts[1]) / 2

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """As transformers' heads compute it: the mean of the cross-entropies of both ends over all positions."""
        return self._losses(scores, labels, "mean")

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """T²·KL of each end, summed over both."""
        import torch.nn.functional as F

        target, student = (F.log_softmax(x.float() / temperature, -1) for x in (teacher, scores))
        return F.kl_div(student, target, reduction="batchmean", log_target=True) * temperature**2

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Of each window: see COLUMNS; `span` and `null` are scores of the best span and of none."""
        import numpy as np

        windows, losses = self._windows(labels), self._losses(scores, labels, "none")
        values = scores.detach().float().cpu().numpy()
        rows = [_measured(w, values[at]) for at, w in enumerate(windows)]
        return np.array([(float(loss), 1.0, *row) for loss, row in zip(losses, rows, strict=True)], np.float64)

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: a question may have several windows."""
        return None

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """None."""
        return None

    def figures(self, sums: Array) -> dict[str, Array]:
        """The loss."""
        import numpy as np

        return {"loss": sums[..., 0] / np.maximum(sums[..., 1], 1)}

    def more(self, statistics: Array) -> dict[str, float]:
        """Exact match and F1 of the questions."""
        exact, f1 = _questions(statistics)[1].mean(0) if len(statistics) else (0.0, 0.0)
        return {"f1": float(f1), "exact_match": float(exact)}

    def intervals(self, statistics: Array) -> dict[str, tuple[float, float]]:
        """By the bootstrap over questions."""
        import numpy as np

        values = _questions(statistics)[1]
        rows = np.concatenate([values, np.ones((len(values), 1))], 1)
        return bootstrapped(rows, lambda s: {"exact_match": s[..., 0] / s[..., 2], "f1": s[..., 1] / s[..., 2]})

    def count(self, statistics: Array) -> int:
        """Number of questions."""
        return len(_questions(statistics)[1])

    def errors(self, statistics: Array) -> Array | None:
        """[windows] the F1 of a question at its first window, 0 at others, with the mean of the questions."""
        import numpy as np

        first, values = _questions(statistics)
        found = np.zeros(len(statistics))
        found[first] = values[:, 1] * len(statistics) / max(len(values), 1)
        return found

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """The windows of all contexts, and their length in tokens."""
        return {"windows": len(split), "window": next(iter(split.inputs.values())).shape[1]} if len(split) else {}

    def guess(self, split: Split, trained: Split) -> float | None:
        """F1 of the most frequent answer of the training questions."""
        answers = Counter(" ".join(normalised(w.answers[0])) if w.answers else "" for w in _firsts(trained))
        if not answers or not len(split):
            return None
        text = answers.most_common(1)[0][0]
        found = [compared(text, w.answers or ("",))[1] for w in _firsts(split)]
        return sum(found) / len(found)

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None."""
        return None


def _firsts(split: Split) -> list[Window]:
    """A window of each question."""
    return [window_of(split.table[at]) for at in split.labels[split.starts].tolist()]


def best_span(scores: Array, spans: Array) -> tuple[float, int, int]:
    """(score, first token, last token) of the best span of tokens of the context, of at most MAX_TOKENS.

    scores: float32 [2, positions]; spans: int64 [tokens, 2]. The score is −∞ where there is no such token.
    """
    import numpy as np

    count = min(scores.shape[1], len(spans))
    inside = spans[:count, 0] >= 0
    starts, ends = (np.where(inside, scores[i, :count].astype(np.float64), -np.inf) for i in (0, 1))
    best = (-np.inf, 0, 0)
    for more in range(min(MAX_TOKENS, count)):
        sums = starts[: count - more] + ends[more:]
        at = int(sums.argmax()) if len(sums) else 0
        if len(sums) and sums[at] > best[0]:
            best = float(sums[at]), at, at + more
    return best


def _measured(window: Window, scores: Array) -> tuple[float, ...]:
    """The columns of a window after the loss and its 1."""
    import numpy as np

    if not np.isfinite(scores.max(-1)).all():  # no softmax, so no answer, which is right of no question
        return (window.question, LEAST, 0.0, 0.0, np.inf, 0.0, float(window.unanswerable))
    score, start, end = best_span(scores, window.spans)
    text = window.text[int(window.spans[start, 0]) : int(window.spans[end, 1])] if score > -float("inf") else ""
    exact, f1 = compared(text, window.answers)
    null = float(scores[0, window.first]) + float(scores[1, window.first])
    finite = score if score > -float("inf") else LEAST
    return (window.question, finite, exact, f1, null, float(not any(map(normalised, window.answers))),
            float(window.unanswerable))  # fmt: skip


def _questions(statistics: Array) -> tuple[Array, Array]:
    """(first row, [exact match, F1]) of each question: that of its best window, or none if data have such."""
    import numpy as np

    of = dict(zip(COLUMNS, np.moveaxis(statistics, -1, 0), strict=True))
    order = np.lexsort((-of["span"], of["question"]))
    numbers, first = np.unique(of["question"][order], return_index=True)
    best = order[first]
    _, begin, inverse = np.unique(of["question"], return_index=True, return_inverse=True)
    null = np.full(len(numbers), np.inf)
    np.minimum.at(null, inverse.reshape(-1), of["null"])
    silent = (of["unanswerable"][best] > 0) & (null > of["span"][best])
    values = [np.where(silent, of["null_right"][best], of[name][best]) for name in ("exact_match", "f1")]
    return begin, np.stack(values, 1) if len(numbers) else np.zeros((0, 2))


TASKS.add(QUESTION_ANSWERING, QuestionAnswering())
