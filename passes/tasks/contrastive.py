"""Images with captions: each is to be nearest to its own among the others of a batch, by the cosine of embeddings.

`contrastive` has the loss of CLIP (Radford et al., 2021, https://arxiv.org/abs/2103.00020): the mean cross-entropy of
rows and columns. `sigmoid-contrastive` has that of SigLIP (Zhai et al., 2023, https://arxiv.org/abs/2303.15343).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import Array, LabelForm
from espalier.model.data.captions import CAPTIONS, CONTRASTIVE, IMAGES, SIGMOID, Pair, load_captions
from espalier.model.errors import DataError, GraphError
from espalier.passes.tasks.base import TASKS, Metric, Task
from espalier.passes.tasks.resampling import bootstrapped

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

HEAD = "contrastive"
RESULTS = ("logits_per_image", "image_embeds", "text_embeds")
FIRST = 4  # columns of statistics before the embeddings
MANY = 5  # candidates of the second recall
CHUNK = 1 << 24  # similarities computed at once
_SHARE = "Share of the {} whose {} is among the {} nearest of all data"
FIGURES = (
    Metric("recall_1", "recall@1", "high", "Mean of both directions' recall@1", True),
    Metric("text_recall_1", "image → text recall@1", "high", _SHARE.format("images", "caption", "1"), True),
    Metric("text_recall_5", "image → text recall@5", "high", _SHARE.format("images", "caption", MANY), True),
    Metric("image_recall_1", "text → image recall@1", "high", _SHARE.format("captions", "image", "1"), True),
    Metric("image_recall_5", "text → image recall@5", "high", _SHARE.format("captions", "image", MANY), True),
    Metric("loss", "loss", "low", "Mean contrastive loss in nats; it depends on the size of batches", by_sample=True),
)


class Contrastive(Task):
    """An image and its caption. Labels: int64 [pairs], index into the table of pairs.

    Scores [pairs, pairs + 2 · width]: the logits of images and texts of a batch, then both embeddings.
    """

    name, units, keep, kind, metrics = CONTRASTIVE, "pairs", "loss", "pairs", FIGURES
    loss_text = "mean cross-entropy of images and texts of a batch in nats"
    rows, pooled, own, resampled, large, uncut, batched = False, True, None, True, True, True, True
    unvalidated = frozenset[str]()
    form = LabelForm(load=load_captions, texts=IMAGES, labels=CAPTIONS)

    def __init__(self, table: tuple[str, ...] = ()) -> None:
        self.table = table

    def on(self, split: Split) -> Task:
        """The task with the pairs of a split."""
        return type(self)(split.table)

    def recognises(self, limits: Limits) -> bool:
        """The models of transformers with two encoders, whose loss is a softmax."""
        return limits.head == HEAD and not (limits.architecture or "").startswith("siglip")

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """[pairs, pairs + 2 · width]: `logits_per_image`, then `image_embeds` and `text_embeds` of length 1."""
        import torch
        import torch.nn.functional as F

        if isinstance(result, torch.Tensor) and result.dim() == 2 and result.shape[1] > len(result):
            logits = result.float()  # compared outputs, see `Outputs`
            embeddings = logits[:, len(logits) :].chunk(2, -1)
            return torch.cat([logits[:, : len(logits)], *(F.normalize(e, dim=-1) for e in embeddings)], -1)
        if not isinstance(result, dict) or not set(RESULTS) <= result.keys():
            raise GraphError("The model does not compare images with texts.",
                             f"Use CLIP, SigLIP, or one that returns a dict with {', '.join(RESULTS)}.")  # fmt: skip
        logits, *embeddings = (result[name].float() for name in RESULTS)
        return torch.cat([logits, *(F.normalize(e, dim=-1) for e in embeddings)], -1)

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError unless there is a pair for each row."""
        if scores.dim() != 2 or len(scores) != len(labels) or scores.shape[1] <= len(scores):
            raise DataError(f"The model compares {len(scores):,} images, the data have {len(labels):,} captions.",
                            "Use images with a caption each.")  # fmt: skip

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Pairs fit any embeddings."""

    def shown(self, label: int) -> str:
        """The caption."""
        return Pair.of(self.table[label]).text

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """As `return_loss=True` of transformers' models."""
        return self._losses(_logits(scores)).mean()

    def _losses(self, logits: Tensor) -> Tensor:
        """[pairs] losses of logits [images, texts]."""
        import torch
        import torch.nn.functional as F

        own = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, own, reduction="none") + F.cross_entropy(logits.t(), own, reduction="none")) / 2

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """T²·KL of texts given an image and of images given a text, mean of both."""
        mine, theirs = _logits(scores), _logits(teacher)
        both = [Task.taught(self, *pair, temperature) for pair in ((mine, theirs), (mine.t(), theirs.t()))]
        return (both[0] + both[1]) / 2

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Per pair: loss, 1, numbers of image and caption, then both embeddings."""
        import numpy as np

        logits = _logits(scores)
        pairs = [Pair.of(self.table[at]) for at in labels.tolist()]
        numbers = np.array([(p.image, p.caption) for p in pairs], np.float64).reshape(-1, 2)
        losses = self._losses(logits).double().numpy()
        embeddings = scores[:, len(logits) :].double().numpy()
        return np.concatenate([losses[:, None], np.ones((len(losses), 1)), numbers, embeddings], 1)

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: ranks are among all data, not among a batch."""
        return None

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """None."""
        return None

    def figures(self, sums: Array) -> dict[str, Array]:
        """The loss."""
        import numpy as np

        return {"loss": sums[..., 0] / np.maximum(sums[..., 1], 1)}

    def more(self, statistics: Array) -> dict[str, float]:
        """Recalls in both directions."""
        return {name: float(value) for name, value in _recalls(found_ranks(statistics).sum(0)).items()}

    def intervals(self, statistics: Array) -> dict[str, tuple[float, float]]:
        """By the bootstrap over pairs, with the candidates as they are."""
        return bootstrapped(found_ranks(statistics), _recalls)

    def errors(self, statistics: Array) -> Array | None:
        """[pairs] parts of recall@1, which is their mean: an image counts at its first caption."""
        import numpy as np

        found = found_ranks(statistics)
        count = np.maximum(found.sum(0)[[0, 3]], 1)
        return len(found) * (found[:, 1] / count[0] + found[:, 4] / count[1]) / 2

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """The number of images, and of different captions."""
        pairs = [Pair.of(self.table[at]) for at in split.labels.tolist()]
        return {"images": len({p.image for p in pairs}), "captions": len({p.caption for p in pairs})}

    def guess(self, split: Split, trained: Split) -> float | None:
        """Expected recall@1 of random ranks."""
        import numpy as np

        pairs = [Pair.of(split.table[at]) for at in split.labels.tolist()]
        if not pairs:
            return None
        related = {(p.image, p.caption) for p in pairs}
        images, captions = {p.image for p in pairs}, {p.caption for p in pairs}
        own = Counter(caption for _, caption in related)  # images of a caption
        of_captions = np.mean([own[p.caption] for p in pairs])
        return float((len(related) / len(images) / len(captions) + of_captions / len(images)) / 2)

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: ranks are among all data."""
        return None


class SigmoidContrastive(Contrastive):
    """As `Contrastive`, with a decision for each pair of a batch."""

    name, loss_text = SIGMOID, "mean over images of the summed binary cross-entropies with the texts of a batch in nats"

    def recognises(self, limits: Limits) -> bool:
        """SigLIP of transformers."""
        return limits.head == HEAD and (limits.architecture or "").startswith("siglip")

    def _losses(self, logits: Tensor) -> Tensor:
        import torch
        import torch.nn.functional as F

        signs = 2 * torch.eye(len(logits), device=logits.device) - 1
        return -F.logsigmoid(signs * logits.t()).sum(-1)

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """T²·KL of each decision from the teacher's, summed over texts, mean over images."""
        import torch.nn.functional as F

        mine, theirs = (_logits(x) / temperature for x in (scores, teacher))
        p = theirs.sigmoid()
        own = F.binary_cross_entropy_with_logits(mine, p, reduction="none")
        least = F.binary_cross_entropy_with_logits(theirs, p, reduction="none")
        return (own - least).sum(-1).mean() * temperature**2


def _logits(scores: Tensor) -> Tensor:
    """float32 [images, texts] of a batch."""
    return scores[:, : len(scores)].float()


def found_ranks(statistics: Array) -> Array:
    """float64 [pairs, 6]: 1 at the first row of an image, and whether its caption is first, and among the first MANY;
    then 1, and the same of the image of each caption.

    Equal cosines are ordered as in the data. Candidates are all different captions, and all images.
    """
    import numpy as np

    count = len(statistics)
    images, captions = (statistics[:, at].astype(np.int64) for at in (2, 3))
    half = (statistics.shape[1] - FIRST) // 2
    pixels, texts = (statistics[:, FIRST + at * half : FIRST + (at + 1) * half] for at in (0, 1))
    first_image, first_caption = (np.unique(numbers, return_index=True)[1] for numbers in (images, captions))
    first_image, first_caption = np.sort(first_image), np.sort(first_caption)
    related = set(zip(images.tolist(), captions.tolist(), strict=True))
    found = np.zeros((count, 6))
    ranks = _ranks(pixels[first_image], texts[first_caption], images[first_image], captions[first_caption], related)
    found[first_image, 0] = 1
    found[first_image, 1], found[first_image, 2] = ranks < 1, ranks < MANY
    turned = {(caption, image) for image, caption in related}
    ranks = _ranks(texts, pixels[first_image], captions, images[first_image], turned)
    found[:, 3], found[:, 4], found[:, 5] = 1, ranks < 1, ranks < MANY
    return found


def _ranks(queries: Array, candidates: Array, asked: Array, offered: Array, related: set[tuple[int, int]]) -> Array:
    """int64 [queries]: how many candidates are before the nearest related one. asked, offered: their numbers."""
    import numpy as np

    places: dict[int, list[int]] = {}
    at_of = {int(number): at for at, number in enumerate(offered)}
    for one, other in related:
        places.setdefault(one, []).append(at_of[other])
    found, step = np.zeros(len(queries), np.int64), max(1, CHUNK // max(len(candidates), 1))
    for start in range(0, len(queries), step):
        near = queries[start : start + step] @ candidates.T
        near = np.where(np.isfinite(near), near, -np.inf)  # an embedding of NaN is near to nothing
        for row, number in enumerate(asked[start : start + step].tolist()):
            own = np.array(sorted(places[number]))
            best = own[near[row, own].argmax()]
            if near[row, best] == -np.inf:
                found[start + row] = len(candidates)
                continue
            equal = np.flatnonzero(near[row] == near[row, best])
            found[start + row] = (near[row] > near[row, best]).sum() + (equal < best).sum()
    return found


def _recalls(sums: Array) -> dict[str, Array]:
    """Recalls of sums [..., 6] of `found_ranks`."""
    import numpy as np

    images, captions = np.maximum(sums[..., 0], 1), np.maximum(sums[..., 3], 1)
    values = {"text_recall_1": sums[..., 1] / images, "text_recall_5": sums[..., 2] / images,
              "image_recall_1": sums[..., 4] / captions, "image_recall_5": sums[..., 5] / captions}  # fmt: skip
    return {"recall_1": (values["text_recall_1"] + values["image_recall_1"]) / 2, **values}


TASKS.add(CONTRASTIVE, Contrastive())
TASKS.add(SIGMOID, SigmoidContrastive())
