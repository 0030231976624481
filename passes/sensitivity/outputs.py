"""Comparison of the outputs of two versions of a model: as distributions, or as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import floating
from espalier.model.graph.token_scores import token_scores_width
from espalier.passes.tasks.base import Kind
from espalier.passes.tasks.scores import scored_mask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ENDS = ("start_logits", "end_logits")  # of an answer: [samples, positions], two distributions a sample
PAIRS = "logits_per_image"  # of images and texts of a batch, [images, texts]
EMBEDDINGS = ("image_embeds", "text_embeds")
PAIRED = {PAIRS, *EMBEDDINGS}
WORDS: dict[Kind, str] = {
    "classes": "KL divergence of the classes from the baseline's, nats a sample",
    "distributions": "KL divergence of each row's distribution from the baseline's, mean over a sample's rows, nats",
    "labels": "KL divergence of each class's decision from the baseline's, summed over classes, nats a sample",
    "pixels": "KL divergence of each pixel's distribution from the baseline's, mean over an image's pixels, nats",
    "pairs": "KL divergence of each image's distribution over its batch's texts from the baseline's, nats an image",
    "values": "squared error of the outputs over twice their variance, mean over their elements",
}


class Outputs:
    """The compared tensor of a model's results, and the divergence of two of them.

    `classes`: one distribution a sample. `distributions`: logits of any rank, such as a language model's, without rows
    that the attention mask hides. `pixels`: these of maps of pixels, whose classes are the second axis. `pairs`: those
    of the texts of a batch for each of its images; the compared tensor has both embeddings beside the logits.
    `labels`: a decision a class, each with a distribution of its own. `values`: all other models; the divergence is
    that of normal distributions around the values, with the variance of the baseline's outputs (`learn`).
    """

    def __init__(self, graph: Graph, kind: Kind = "classes") -> None:
        """`kind`: of the task; it decides whether logits of classes are decisions, and maps of pixels logits."""
        self.name, self.index = _chosen(graph)
        meta = _meta(graph, self.index)
        logits = (
            self.name == "logits"
            or self.name == PAIRS
            or token_scores_width(graph)
            or (graph.structure != "dict" and meta is not None and len(meta.shape) == 2)
        )
        rank = len(meta.shape) if meta else 2
        single = meta is not None and meta.shape[-1] == 1  # one number a row: a regression, or a single score
        self.pair = tuple(name for name in ENDS if name in graph.output_names)
        self.kind: Kind = "values" if not logits or single else "classes" if rank == 2 else "distributions"
        if PAIRED.issubset(graph.output_names):
            self.kind = "pairs"
        if self.kind == "classes" and kind == "labels":
            self.kind = kind
        if kind == "pixels" and meta is not None and rank == 4 and meta.shape[1] != 1:
            self.kind = kind
        elif rank == 4:  # a map whose axis of classes nothing tells
            self.kind = "values"
        if len(self.pair) == len(ENDS):
            self.kind = "distributions"
        self.spread: float | None = None

    @property
    def classes(self) -> bool:
        """Whether an accuracy is defined."""
        return self.kind == "classes"

    @property
    def words(self) -> str:
        """Description of the divergence."""
        return WORDS[self.kind]

    def of(self, result: Any) -> Tensor:
        """The compared tensor of a module's results, at least float32."""
        if len(self.pair) == len(ENDS) and isinstance(result, dict):
            import torch

            result = torch.stack([result[name] for name in self.pair], 1)
        elif self.kind == "pairs" and isinstance(result, dict):
            import torch

            result = torch.cat([result[name] for name in (PAIRS, *EMBEDDINGS)], -1)
        elif isinstance(result, dict):
            result = result[self.name]
        elif isinstance(result, tuple | list):
            result = result[self.index]
        return result if result.dtype.itemsize == 8 else result.float()

    def learn(self, values: Iterable[Tensor]) -> None:
        """Set the variance from all outputs of the baseline; a small batch is no estimate."""
        if self.kind != "values":
            return
        count, total, squares = 0, 0.0, 0.0
        for x in values:
            count, total = count + x.numel(), total + float(x.double().sum())
            squares += float(x.double().square().sum())
        self.spread = max(squares / max(count, 1) - (total / max(count, 1)) ** 2, 1e-12)

    def _variance(self, x: Tensor) -> float:
        return self.spread or float(x.var(unbiased=False).clamp(min=1e-12))

    def divergence(self, before: Tensor, after: Tensor, inputs: Mapping[str, Tensor]) -> float:
        """Sum over a batch's samples of the divergence of `after` from `before`."""
        import torch.nn.functional as F

        if self.kind == "values":
            return float((after - before).square().mean() / (2 * self._variance(before))) * len(before)
        if self.kind == "labels":
            a, b = before.double(), after.double()
            p = a.sigmoid()
            lost = p * (F.logsigmoid(a) - F.logsigmoid(b)) + (1 - p) * (F.logsigmoid(-a) - F.logsigmoid(-b))
            return float(lost.clamp(min=0).sum())
        before, after = self._logits(before), self._logits(after)
        p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
        lost = (p.exp() * (p - q)).sum(-1).clamp(min=0)
        return float((lost * self.shares(before, inputs)).sum())

    def rows(self, logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """1 for each unmasked row of the logits, 0 otherwise."""
        import torch

        mask = scored_mask(inputs)
        if mask is not None and mask.shape == logits.shape[:-1]:
            return mask.to(logits.dtype)
        return torch.ones(logits.shape[:-1], dtype=logits.dtype)

    def shares(self, logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """Weight of each row; those of one sample sum to 1."""
        weights = self.rows(logits, inputs)
        sums = weights.reshape(len(weights), -1).sum(1).clamp(min=1)
        return weights / sums.reshape(-1, *[1] * (weights.dim() - 1))

    def pull(self, before: Tensor, inputs: Mapping[str, Tensor], random: torch.Generator) -> Tensor:
        """A random output gradient u of each sample, with E[uuᵀ] the Fisher information of its outputs: ½·E[(u·δ)²] is
        the divergence for small changes δ.

        For decisions of their own it is diag(p(1 − p)). For a softmax it is diag(p) − ppᵀ, sampled by random signs
        reflected so that the null direction is omitted; unlike with sampled labels, rare classes add no variance.
        """
        import torch

        signs = (
            torch.randint(0, 2, before.shape, dtype=torch.float32, generator=random).mul_(2).sub_(1).to(before.dtype)
        )
        if self.kind == "values":
            return signs / (self._variance(before) * before[0].numel()) ** 0.5
        if self.kind == "labels":
            return signs * (before.sigmoid() * (-before).sigmoid()).sqrt()
        if self.kind == "pixels":
            signs, before = signs.movedim(1, -1), before.movedim(1, -1)
        rest = signs[:, len(signs) :] * 0 if self.kind == "pairs" else signs  # no pull on embeddings
        if self.kind == "pairs":
            signs, before = self._logits(signs), self._logits(before)
        root = before.softmax(-1).sqrt()
        signs[..., -1] = 0
        normal = root.clone()  # of a Householder reflection
        normal[..., -1] -= 1
        turned = signs - normal * (2 * (normal * signs).sum(-1, True) / normal.square().sum(-1, True).clamp(min=1e-30))
        pull = root * turned * self.shares(before, inputs).sqrt().unsqueeze(-1)
        if self.kind == "pairs":
            return torch.cat([pull, rest], -1)
        return pull.movedim(-1, 1) if self.kind == "pixels" else pull

    def _logits(self, outputs: Tensor) -> Tensor:
        """The logits of outputs, with the classes last."""
        if self.kind == "pairs":
            return outputs[:, : len(outputs)]
        return outputs.movedim(1, -1) if self.kind == "pixels" else outputs


def _meta(graph: Graph, index: int) -> Any:
    from espalier.model.graph.graph import Ref, out_port

    ref = graph.output.args[index] if index < len(graph.output.args) else None
    return graph.nodes[ref.node].ports.get(out_port(ref.output)) if isinstance(ref, Ref) else None


def _chosen(graph: Graph) -> tuple[str, int]:
    """(name, index) of the compared result: `logits`, otherwise the first floating-point one, of rank 2 if possible."""
    names = graph.output_names
    for name in ("logits", PAIRS):
        if name in names:
            return name, names.index(name)
    real = [i for i in range(len(graph.output.args)) if floating(_meta(graph, i))]
    if not real:
        raise GraphError("The model has no floating-point result to compare.",
                         "Open a model with floating-point outputs.")  # fmt: skip
    flat = [i for i in real if len(_meta(graph, i).shape) == 2] if graph.structure != "dict" else []
    index = (flat or real)[0]
    return (names[index] if index < len(names) else ""), index
