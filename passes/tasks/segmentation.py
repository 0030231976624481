"""Semantic segmentation: a class of each pixel. mIoU is the mean over classes of tp / (tp + fp + fn), counted over the
pixels of all images, of classes that are predicted or true anywhere: Pascal VOC's measure (Everingham et al., 2015,
https://doi.org/10.1007/s11263-014-0733-5) and `mean_iou` of Hugging Face's evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import IGNORED, Array, LabelForm
from espalier.model.data.mask_sources import load_masks
from espalier.model.data.masks import SEGMENTATION, UNCOUNTED, counted
from espalier.model.errors import DataError, GraphError
from espalier.passes.tasks.base import TASKS, Metric, Task
from espalier.passes.tasks.scores import is_defined

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

HEAD = "semantic-segmentation"
LARGEST = 32  # stride of scores that are upsampled to the pixels
TINY = 1e-12  # least probability whose logarithm is taken
MIOU = Metric(
    "miou", "mIoU", "high", "Mean over classes of intersection over union, over the pixels of all images", True
)
FIGURES = (
    MIOU,
    Metric("accuracy", "pixel accuracy", "high", "Share of the pixels whose class is predicted correctly", True),
    Metric("loss", "loss", "low", "Mean cross-entropy of a pixel in nats", by_sample=True),
)


class Segmentation(Task):
    """A class of each pixel. Labels: whole numbers [images, height, width], IGNORED where none counts.

    Scores [images, classes, h, w] of a lower resolution are upsampled bilinearly to the labels, as transformers does.
    """

    name, units, keep, kind, metrics = SEGMENTATION, "images", "loss", "pixels", FIGURES
    loss_text = "mean cross-entropy of a pixel in nats"
    rows, own, resampled, large, reads = False, None, True, True, "masks"
    form = LabelForm(load=load_masks)

    def recognises(self, limits: Limits) -> bool:
        """The head of transformers; other models give such maps for other purposes, too."""
        return limits.head == HEAD

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """Whole numbers, one a pixel of an image, for a model with a map of pixels."""
        import numpy as np

        shape = (len(labels), *labels.shape[2:]) if labels.ndim == 4 and labels.shape[1] == 1 else labels.shape
        fits = any(a.ndim == 4 and (len(a), *a.shape[2:]) == shape for a in inputs.values())
        whole = labels.dtype.kind in "iu" or (labels.dtype.kind == "f" and bool((labels == np.floor(labels)).all()))
        return limits.channels is not None and fits and whole

    def targets(self, labels: Array) -> Array:
        """Class numbers of pixels, IGNORED for 255; raises DataError where 255 is the only other than 0."""
        import numpy as np

        labels = (labels[:, 0] if labels.ndim == 4 else labels).astype(np.int64)
        labels = np.where(labels == IGNORED, UNCOUNTED, labels)
        if set(np.unique(labels).tolist()) == {0, UNCOUNTED}:
            raise DataError(f"The masks hold 0 and {UNCOUNTED} alone, and {UNCOUNTED} marks pixels that do not count.",
                            "Give the object the class number 1.")  # fmt: skip
        return counted(labels, "A mask")

    def hides(self, labels: Array) -> bool:
        """Whether no pixel counts."""
        return bool(len(labels)) and not bool((labels != IGNORED).any())

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """[images, classes, h, w]: `logits`, or the first map; one channel is the logit of the second class of two."""
        import torch

        if isinstance(result, dict) and "logits" in result:
            result = result["logits"]
        several: Any = result.values() if isinstance(result, dict) else result
        values: list[Any] = list(several) if isinstance(result, dict | tuple | list) else [result]
        maps = [v for v in values if getattr(v, "dim", lambda: 0)() == 4 and v.is_floating_point()]
        if not maps:
            raise GraphError("The model gives no scores of the classes of pixels, [images, classes, height, width].",
                             "Open it with the head semantic-segmentation, or choose another task.")  # fmt: skip
        scores = _logits(maps[0], _last(graph, maps[0].shape[1]))
        return torch.cat([torch.zeros_like(scores), scores], 1) if scores.shape[1] == 1 else scores

    def scores_of_sample(self, split: Split, graph: Graph) -> int | None:
        """Those of its pixels."""
        shapes = [n.out.shape for ref in graph.output.inputs if (n := graph.nodes[ref.node]).out is not None]
        classes = next((s[1] for s in shapes if len(s) == 4 and isinstance(s[1], int)), 2)
        return classes * int(split.labels[:1].size)

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for labels of other images, of another size or of more classes than the scores have."""
        if labels.dim() != 3 or scores.dim() != 4 or len(scores) != len(labels):
            raise DataError(f"The model gives scores of {len(scores):,} images of pixels, the data has labels of shape "
                            f"{' × '.join(map(str, labels.shape))}.",
                            "Use images with a mask each.")  # fmt: skip
        sizes = tuple(scores.shape[2:]), tuple(labels.shape[1:])
        if not any(
            all(a in (b // by, -(-b // by)) for a, b in zip(*sizes, strict=True)) for by in range(1, LARGEST + 1)
        ):
            own, wanted = (f"{width} × {height}" for height, width in sizes)
            raise DataError(f"The model gives scores of {own} pixels (width × height), the masks have {wanted}.",
                            "Use a model whose outputs are as large as its images, or a fraction of them.")  # fmt: skip
        self.fit_all(scores, labels)

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for more classes than the scores have."""
        if int(labels.max()) >= scores.shape[1]:
            raise DataError(f"The masks have the class {int(labels.max())}, the model has {scores.shape[1]} classes.",
                            f"Use a model with as many classes, or mark those pixels with {UNCOUNTED}.")  # fmt: skip

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, mean over the pixels that count."""
        import torch.nn.functional as F

        if not bool((labels != IGNORED).any()):
            return scores.float().sum() * 0  # a mean of nothing
        return F.cross_entropy(_upsampled(scores, labels), labels)

    def taught(self, scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        """T²·KL, mean over the scores' pixels."""
        mine, theirs = (x.movedim(1, -1).flatten(0, -2) for x in (scores, teacher))
        return super().taught(mine, theirs, temperature)

    def statistics(self, scores: Tensor, labels: Tensor) -> Array:
        """Per image: right, loss, pixels; then of each class pixels that are right, predicted and true."""
        import torch
        import torch.nn.functional as F

        labels, full = labels.long(), _upsampled(scores, labels)
        losses = F.cross_entropy(full, labels, reduction="none").double()
        seen, predicted, (n, classes) = labels != IGNORED, _predicted(full), scores.shape[:2]
        offsets = torch.arange(n)[:, None, None] * classes
        kinds = ((labels, seen & (predicted == labels)), (predicted, seen & (predicted >= 0)), (labels, seen))
        counts = [torch.bincount((of + offsets)[where], minlength=n * classes).reshape(n, classes).double()
                  for of, where in kinds]  # fmt: skip
        sums = [counts[0].sum(1), losses.flatten(1).sum(1), seen.flatten(1).sum(1).double()]
        return torch.cat([torch.stack(sums, 1), *counts], 1).numpy()

    def hits(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: the pixels of an image are not independent."""
        return None

    def decided(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """The predicted classes, IGNORED where the labels are."""
        return _predicted(_upsampled(scores, labels)).where(labels != IGNORED, IGNORED)

    def agreeing(self, scores: Tensor, others: Tensor, labels: Tensor) -> int:
        """How many images' pixels are all predicted alike."""
        mine, theirs = (_predicted(_upsampled(x, labels)) for x in (scores, others))
        return int((((mine == theirs) & (mine >= 0)) | (labels == IGNORED)).flatten(1).all(1).sum())

    def figures(self, sums: Array) -> dict[str, Array]:
        """mIoU, pixel accuracy and loss."""
        import numpy as np

        ratios, unions = _ratios(sums)
        present = np.maximum((unions > 0).sum(-1), 1)
        return {"miou": ratios.sum(-1) / present, **super().figures(sums)}

    def errors(self, statistics: Array) -> Array | None:
        """[images] linearised parts of the mIoU, which is their mean: IoU is a ratio of sums (Woodruff, 1971,
        https://doi.org/10.1080/01621459.1971.10482279). Two models' parts give the paired test of the difference.
        """
        import numpy as np

        ratios, unions = _ratios(statistics.sum(0))
        right, predicted, true = np.split(statistics[:, 3:], 3, axis=1)
        apart = right - ratios * (predicted + true - right)
        count = max(int((unions > 0).sum()), 1)
        return ratios.sum() / count + len(statistics) / count * (apart / np.maximum(unions, 1)).sum(1)

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """The pixels that count, and the size of the masks, width × height."""
        height, width = split.labels.shape[1:]
        return {"pixels": split.targets, "size": f"{width}×{height}"}

    def guess(self, split: Split, trained: Split) -> float | None:
        """mIoU of the most frequent class everywhere: its share over the number of classes."""
        import numpy as np

        counts = np.bincount(split.labels[split.labels >= 0])
        return float(counts.max() / counts.sum() / (counts > 0).sum()) if len(counts) else None

    def margins(self, scores: Tensor, labels: Tensor) -> Array | None:
        """None: an image is not right or wrong."""
        return None


def _ratios(sums: Array) -> tuple[Array, Array]:
    """(IoU, union) [..., classes] of sums of `statistics`; an empty union has IoU 0."""
    import numpy as np

    right, predicted, true = np.split(sums[..., 3:], 3, axis=-1)
    unions = predicted + true - right
    return right / np.maximum(unions, 1), unions


def _upsampled(scores: Tensor, labels: Tensor) -> Tensor:
    """float32 scores in the size of the labels."""
    import torch.nn.functional as F

    scores, size = scores.float(), labels.shape[1:]
    return scores if scores.shape[2:] == size else F.interpolate(scores, size, mode="bilinear", align_corners=False)


def _predicted(scores: Tensor) -> Tensor:
    """int64 [images, height, width]: the class of each pixel, IGNORED where its scores have no softmax."""
    return scores.argmax(1).where(is_defined(scores.movedim(1, -1)), IGNORED)


def _last(graph: Graph, channels: int) -> str:
    """The operation that gives the first map of this many channels: "softmax" and "sigmoid" give probabilities."""
    nodes = [graph.nodes[ref.node] for ref in graph.output.inputs]
    maps = [n for n in nodes if n.out is not None and len(n.out.shape) == 4 and n.out.shape[1] == channels]
    return maps[0].op if maps else ""


def _logits(scores: Tensor, operation: str) -> Tensor:
    """Scores before the softmax or the sigmoid with which a model ends."""
    if operation == "softmax":
        return scores.float().clamp(min=TINY).log()
    if operation == "sigmoid":
        return scores.float().clamp(TINY, 1 - 1e-6).logit()
    return scores


TASKS.add(SEGMENTATION, Segmentation())
