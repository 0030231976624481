"""Knowledge distillation from the baseline's logits and hidden states.

Logits: T²·KL of the softened scores (Hinton et al. 2015, https://arxiv.org/abs/1503.02531); hidden states: the mean
squared difference of block outputs (as in TinyBERT, https://arxiv.org/abs/1909.10351).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import build
from espalier.passes.base import Context
from espalier.passes.running.objective import Objective
from espalier.passes.tasks.base import Task
from espalier.passes.tasks.scores import scored_mask
from espalier.passes.training.blocks import Tap, block_outputs, tapped, width
from espalier.passes.training.options import FinetuneOptions

LOGITS, HIDDEN = "teacher_logits", "teacher_hidden_"
MAX_BYTES = 256 << 20  # of cached logits


def common_blocks(graph: Graph, base: Graph) -> dict[str, Node]:
    """The block outputs of `graph` with a counterpart of equal width in `base`; raises PassError if there are none."""
    mine, theirs = block_outputs(graph), block_outputs(base)
    both = {path: node for path, node in mine.items() if path in theirs}
    common = {path: node for path, node in both.items() if width(node) == width(theirs[path])}
    if not both:
        raise PassError("The model and its baseline have no common repeated blocks with hidden states.",
                        "Set hidden to 0 to distil from the logits only.")  # fmt: skip
    if not common:
        path, node = next(iter(both.items()))
        raise PassError(f"The hidden states cannot be compared: {path} has width {width(node)}, in the baseline "
                        f"{width(theirs[path])}.", "Set hidden to 0 to distil from the logits only.")  # fmt: skip
    return common


class Teacher:
    """The baseline in eval mode; its logits are cached, if they fit in memory."""

    def __init__(
        self, base: Graph, blocks: Mapping[str, Node], samples: int, context: Context, task: Task | None = None
    ) -> None:
        module = build(base, context.store, context.callables).requires_grad_(False)
        theirs = block_outputs(base)
        self.taps = tapped(module, {path: theirs[path] for path in blocks})
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.module = Objective(module, base, task=task).to(self.device).eval()
        self.samples, self.batched = samples, task is not None and task.batched
        self.seconds, self.asked = 0.0, 0
        self._logits: Tensor | None = None
        self._known = torch.zeros(samples, dtype=torch.bool)

    @property
    def caches(self) -> bool:
        """Whether logits are cached."""
        return self._logits is not None

    def state(self) -> dict[str, Any]:
        """The cached logits: computed again in other batches, they would differ in the last bits."""
        return {"logits": self._logits, "known": self._known}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self._logits, self._known = state["logits"], state["known"]

    def of(self, rows: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The teacher's outputs for the samples `rows`, whose inputs are in `batch`."""
        self.asked += len(rows)
        if self._logits is not None and not self.taps and bool(self._known[rows].all()):
            return {LOGITS: self._logits[rows]}
        start = time.perf_counter()
        with torch.no_grad():
            logits = self.module(**{n: v.to(self.device) for n, v in batch.items()})["logits"].float().cpu()
        outputs = {LOGITS: logits} | {f"{HIDDEN}{i}": t.take().cpu() for i, t in enumerate(self.taps)}
        self._cache(rows, logits)
        self.seconds += time.perf_counter() - start
        return outputs

    def _cache(self, rows: Tensor, logits: Tensor) -> None:
        size = self.samples * logits[:1].numel() * 4
        if self.taps or self.batched or len(logits) != len(rows) or size > MAX_BYTES:
            return  # scores of tokens are too many, those of a batch of pairs are of no other
        if self._logits is None:
            self._logits = torch.empty(self.samples, *logits.shape[1:])
        self._logits[rows], self._known[rows] = logits, True


class DistillationLoss(nn.Module):
    """Loss of the student against the teacher's outputs; taps record the student's hidden states."""

    def __init__(self, options: FinetuneOptions, taps: list[Tap]) -> None:
        super().__init__()
        self.share, self.temperature, self.hidden = options.distil, options.temperature, options.hidden
        self.taps = nn.ModuleList(taps)

    def loss(self, own: Tensor, logits: Tensor, batch: Mapping[str, Tensor], task: Task) -> Tensor:
        """(1 − share)·own + share·T²·KL + hidden·MSE; the divergence is the task's."""
        total = own
        if self.share:
            divergence = task.taught(*_unmasked(logits, batch[LOGITS], batch, task), self.temperature)
            total = (1 - self.share) * own + self.share * divergence
        if self.hidden:
            parts = [_distance(t.take(), batch[f"{HIDDEN}{i}"], batch) for i, t in enumerate(self.taps)]  # type: ignore[operator]
            total = total + self.hidden * torch.stack(parts).mean()
        return total


def _unmasked(mine: Tensor, theirs: Tensor, batch: Mapping[str, Tensor], task: Task) -> tuple[Tensor, Tensor]:
    """The scores without those of padding, of a task with a row of scores for each position."""
    mask = scored_mask(batch)
    if not task.positions or mask is None or mask.numel() != len(mine):
        return mine, theirs
    seen = mask.reshape(-1) != 0
    return mine[seen], theirs[seen]


def _distance(mine: Tensor, theirs: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Mean squared difference, without padding tokens."""
    squares = (mine.float() - theirs.float()).square()
    mask = batch.get("attention_mask")
    if mask is None or squares.dim() != 3 or mask.shape != squares.shape[:2]:
        return squares.mean()
    seen = mask.unsqueeze(-1).to(squares.dtype)
    return (squares * seen).sum() / (seen.sum() * squares.shape[-1]).clamp(min=1)
