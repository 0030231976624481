"""Options of pruning activations, and the layers that take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from espalier.model.errors import OptionsError, PassError, nearest
from espalier.model.graph.ops import OPS
from espalier.passes.select import Select
from espalier.passes.tasks.base import TASK_OPTION

LAYERS = tuple(row.name for row in OPS.values() if row.category == "linear")


PORTS = ("data_in", "weight")


ROUNDS = 4  # at most, of measuring thresholds where those of the round before hold


@dataclass(frozen=True, slots=True)
class PruneActivationsOptions:
    """`sparsity` of the values go; a threshold is measured on data, the rest needs none."""

    sparsity: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction of values to zero"})
    method: Literal["l1", "random"] = field(
        default="l1", metadata={"help": "smallest magnitudes, or random positions, equal for all samples"}
    )
    pattern: Literal["top_k", "threshold"] = field(
        default="top_k", metadata={"help": "top-k per sample, or all below a magnitude measured on data"}
    )
    scope: Literal["local", "global"] = field(
        default="local", metadata={"help": "threshold: one for each tensor, or one for all of them"}
    )
    ports: tuple[str, ...] = field(
        default=("data_in",), metadata={"help": "data_in; a matmul's weight is computed too"}
    )
    select: Select = field(default=Select("type", LAYERS), metadata={"help": "which nodes"})
    data: str = field(default="", metadata={"help": "for a threshold: demo:NAME, hub:NAME, a file or a folder",
                                            "edit": "data"})  # fmt: skip
    split: str = field(default="train", metadata={"help": "must not be the split that is scored", "edit": "split"})
    limit: int = field(default=128, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "batch size"})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text"})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's"})
    max_length: int = field(
        default=0, metadata={"min": 0, "help": "maximum length of a text in tokens; 0 = limit of model and tokenizer"}
    )
    task: str = field(default="", metadata=TASK_OPTION)

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= 1:
            raise OptionsError(f"sparsity is {self.sparsity}.", "sparsity must be a number from 0 to 1.")
        if self.method == "random" and self.pattern == "threshold":
            raise OptionsError(
                "Threshold pruning is not defined for method = random.", "Choose the pattern top_k, or the method l1."
            )
        if self.scope == "global" and self.pattern == "top_k":
            raise OptionsError("top_k takes its share of each sample of each tensor, so its scope is local.",
                               "Choose the pattern threshold for one limit over all.")  # fmt: skip
        for port in self.ports:
            if port not in PORTS:
                raise OptionsError(f"ports: {port!r} is not a port of activations.", nearest(port, PORTS))

    def ready(self) -> None:
        """Raise PassError where data is needed and none is named; a form may hold it so, a run may not."""
        if self.pattern == "threshold" and self.sparsity and not self.data:
            raise PassError("A threshold is measured on data, and none is named.",
                            "Name some, such as demo:reviews, or choose the pattern top_k.")  # fmt: skip
