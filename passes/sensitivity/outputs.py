"""What is compared of two versions of a model: the distributions that it tells, or else the values that it gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import floating

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Kind = Literal["classes", "distributions", "values"]
WORDS: dict[Kind, str] = {
    "classes": "KL divergence of the classes from the baseline's, nats a sample",
    "distributions": "KL divergence of each row's distribution from the baseline's, mean over a sample's rows, nats",
    "values": "squared error of the outputs over twice their variance, mean over their elements",
}


class Outputs:
    """The tensor of a model's results that is looked at, and how far two of them are apart.

    `classes`: one distribution a sample. `distributions`: logits of any rank, such as a language model's; rows that an
    attention mask hides do not count. `values`: all other models; then the divergence is that of normal distributions
    around the values, as wide as the baseline's own spread (`learn`).
    """

    def __init__(self, graph: Graph) -> None:
        self.name, self.place = _chosen(graph)
        meta = _meta(graph, self.place)
        told = self.name == "logits" or (graph.structure != "dict" and meta is not None and len(meta.shape) == 2)
        ranked = len(meta.shape) if meta else 2
        single = meta is not None and meta.shape[-1] == 1  # one number a row: a regression, or a single score
        self.kind: Kind = "values" if not told or single else "classes" if ranked == 2 else "distributions"
        self.spread: float | None = None

    @property
    def classes(self) -> bool:
        """Whether there is an accuracy."""
        return self.kind == "classes"

    @property
    def words(self) -> str:
        """What the divergence is."""
        return WORDS[self.kind]

    def of(self, result: Any) -> Tensor:
        """The tensor among a module's results, at least float32."""
        if isinstance(result, dict):
            result = result[self.name]
        elif isinstance(result, tuple | list):
            result = result[self.place]
        return result if result.dtype.itemsize == 8 else result.float()

    def learn(self, values: Iterable[Tensor]) -> None:
        """Take the spread of values from all that the baseline gives: a batch of few has none of its own."""
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
        """The sum over the samples of a batch of how far `after` is from `before`."""
        if self.kind == "values":
            return float((after - before).square().mean() / (2 * self._variance(before))) * len(before)
        p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
        lost = (p.exp() * (p - q)).sum(-1).clamp(min=0)
        return float((lost * self.shares(before, inputs)).sum())

    def rows(self, logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """1 for each row of the logits that counts, else 0."""
        import torch

        mask = inputs.get("attention_mask")
        if mask is not None and mask.shape == logits.shape[:-1]:
            return mask.to(logits.dtype)
        return torch.ones(logits.shape[:-1], dtype=logits.dtype)

    def shares(self, logits: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """What each row counts of its sample: those of one sample together 1, whatever lies beside it in a batch."""
        weights = self.rows(logits, inputs)
        held = weights.reshape(len(weights), -1).sum(1).clamp(min=1)
        return weights / held.reshape(-1, *[1] * (weights.dim() - 1))

    def pull(self, before: Tensor, inputs: Mapping[str, Tensor], random: torch.Generator) -> Tensor:
        """A random gradient u of a batch's outputs, each sample's by itself, with E[uuᵀ] the Fisher information of what
        a sample's divergence is: ½·E[(u·δ)²] is the divergence for small changes δ.

        Of a softmax: diag(p) − ppᵀ, by a rotation that leaves out the direction in which it is 0; so two classes need
        no luck in the draw of a rare label.
        """
        import torch

        signs = (
            torch.randint(0, 2, before.shape, dtype=torch.float32, generator=random).mul_(2).sub_(1).to(before.dtype)
        )
        if self.kind == "values":
            return signs / (self._variance(before) * before[0].numel()) ** 0.5
        root = before.softmax(-1).sqrt()
        signs[..., -1] = 0
        mirror = root.clone()
        mirror[..., -1] -= 1
        turned = signs - mirror * (2 * (mirror * signs).sum(-1, True) / mirror.square().sum(-1, True).clamp(min=1e-30))
        return root * turned * self.shares(before, inputs).sqrt().unsqueeze(-1)


def _meta(graph: Graph, place: int) -> Any:
    from espalier.model.graph.graph import Ref, out_port

    ref = graph.output.args[place] if place < len(graph.output.args) else None
    return graph.nodes[ref.node].ports.get(out_port(ref.output)) if isinstance(ref, Ref) else None


def _chosen(graph: Graph) -> tuple[str, int]:
    """(name, place) of the result that is looked at: `logits`, else the first that is floating."""
    names = graph.output_names
    if "logits" in names:
        return "logits", names.index("logits")
    places = range(len(graph.output.args))
    found = [i for i in places if floating(_meta(graph, i))]
    if not found:
        raise GraphError("The model gives no floating result, so nothing can be said of how it changes.",
                         "Open a model with outputs of real numbers.")  # fmt: skip
    flat = [i for i in found if len(_meta(graph, i).shape) == 2] if graph.structure != "dict" else []
    place = (flat or found)[0]
    return (names[place] if place < len(names) else ""), place
