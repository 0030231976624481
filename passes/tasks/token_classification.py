"""A tag of each word, predicted at its first token. F1 is that of whole entities in the strict IOB2 scheme: B-X begins
an entity, I-X continues one of the same type, any other I-X is none (seqeval's `mode="strict", scheme=IOB2`,
https://github.com/chakki-works/seqeval). Tags without B- have no entities, and no F1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import IGNORED, Array, LabelForm, LoadOptions, Split, TaskData
from espalier.model.data.label_forms import TAGS, WORDS, tag_rows
from espalier.model.data.rows import Rows, sorted_names
from espalier.model.errors import GraphError
from espalier.passes.tasks.base import LOSS, TASKS, Metric, Task
from espalier.passes.tasks.scores import is_defined

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

TOKEN_CLASSIFICATION = "token-classification"
ACCURACY = Metric("accuracy", "accuracy", "high", "Share of the words whose tag is predicted correctly", True, True)
F1 = Metric("f1", "F1", "high", "F1 of whole entities in the strict IOB2 scheme", True)


def tagged(splits: Mapping[str, Rows], name: str, options: LoadOptions) -> TaskData:
    """Tokenised words with the tag of each at its first token, IGNORED elsewhere; raises DataError.

    Words with the tag −100 do not count, as in transformers.
    """
    import numpy as np

    from espalier.model.data.tokens import open_words

    assert options.tokenizer is not None
    encode = open_words(options.tokenizer)
    given = dict.fromkeys(tag for rows in splits.values() for row in rows.labels for tag in row)
    tags = sorted_names(tag for tag in given if tag != str(IGNORED))
    if all(tag.isdigit() for tag in tags):
        tags = tuple(map(str, range(int(tags[-1]) + 1)))
    index_of = {tag: at for at, tag in enumerate(tags)} | {str(IGNORED): IGNORED}
    made: dict[str, Split] = {}
    for split, rows in splits.items():
        inputs, words, lengths = encode(rows.samples, options.max_length)
        labels = np.full(words.shape, IGNORED, np.int64)
        for at, row in enumerate(rows.labels):
            first = words[at] >= 0
            labels[at, first] = [index_of[row[word]] for word in words[at, first]]
        made[split] = Split(inputs, labels, lengths, task=TOKEN_CLASSIFICATION, classes=tags)
    texts = {split: tuple(" ".join(words) for words in rows.samples) for split, rows in splits.items()}
    return TaskData(name, "text", tags, made, texts, task=TOKEN_CLASSIFICATION)


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """(first word, word after the last, type) of each entity in the strict IOB2 scheme."""
    found: set[tuple[int, int, str]] = set()
    start, kind = -1, ""
    for at, tag in enumerate((*tags, "O")):
        if start >= 0 and tag != f"I-{kind}":
            found.add((start, at, kind))
            start = -1
        if tag.startswith("B-"):
            start, kind = at, tag[2:]
    return found


class TokenClassification(Task):
    """A tag of each word. Labels: int64 [texts, tokens], IGNORED but at first tokens. `names`: of the tags."""

    name, units, keep, kind = TOKEN_CLASSIFICATION, "words", "loss", "distributions"
    positions, rows, pooled, own, resampled, reads = True, False, True, 2, True, "tags"
    metrics = (ACCURACY, F1, LOSS)
    form = LabelForm(rows=tag_rows, samples=tagged, labels=TAGS, texts=WORDS)

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        self._has_entities = any(name.startswith("B-") for name in names)

    def of(self, classes: tuple[str, ...]) -> Task:
        """The task with the names of the tags."""
        return TokenClassification(classes) if classes else self

    def recognises(self, limits: Limits) -> bool:
        """The head of transformers."""
        return limits.head == TOKEN_CLASSIFICATION

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """A label at each position of an input, for a model with that head."""
        fits = labels.ndim == 2 and labels.dtype.kind in "iu" and any(a.shape == labels.shape for a in inputs.values())
        return fits and limits.head == TOKEN_CLASSIFICATION

    def hides(self, labels: Array) -> bool:
        """Whether no word has a tag."""
        return bool(len(labels)) and not bool((labels != IGNORED).any())

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """[texts × tokens, tags]: `logits`, or the first result of rank 3."""
        from espalier.passes.tasks.scores import token_scores

        scores = token_scores(result)
        if scores is None or scores.dim() != 3:
            raise GraphError(
                "The model gives no scores at each token, so it does not tag words.",
                "Open it with the head token-classification, or choose another task.",
            )
        return scores.flatten(0, 1)

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Per text: right, loss, words, then entities that are right, predicted and true."""
        import numpy as np

        common = super().statistics(scores, labels)
        counts = np.zeros((len(labels), 3))
        if self._has_entities:
            predicted = scores.argmax(-1).where(is_defined(scores), IGNORED).reshape(labels.shape).tolist()
            for at, (guesses, truth) in enumerate(zip(predicted, labels.tolist(), strict=True)):
                words = [place for place, label in enumerate(truth) if label != IGNORED]
                mine = entities([self._tag(guesses[place]) for place in words])
                theirs = entities([self._tag(truth[place]) for place in words])
                counts[at] = len(mine & theirs), len(mine), len(theirs)
        return np.concatenate([common, counts], 1)

    def _tag(self, index: int) -> str:
        return self.names[index] if 0 <= index < len(self.names) else "O"

    def figures(self, sums: Array) -> dict[str, Array]:
        """Accuracy and loss of words, F1 of entities where tags name any."""
        import numpy as np

        figures = super().figures(sums)
        if not self._has_entities:
            return figures
        right, predicted, true = sums[..., 3], sums[..., 4], sums[..., 5]
        return figures | {"f1": 2 * right / np.maximum(predicted + true, 1)}


TASKS.add(TOKEN_CLASSIFICATION, TokenClassification())
