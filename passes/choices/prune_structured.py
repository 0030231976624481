"""Options of structured pruning: which units go, by which score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from espalier.model.errors import OptionsError
from espalier.passes.select import Select
from espalier.passes.tasks.base import TASK_OPTION

Score = Literal["l1", "l2", "random", "taylor", "activation"]
What = Literal["heads", "queries", "neurons", "channels", "width", "layers"]
WITHOUT = {
    "heads": "attention heads", "queries": "queries that share a key", "neurons": "neurons between two layers",
    "channels": "channels between convolutions", "width": "residual width",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PruneStructuredOptions:
    """`ratio` is the share of the units of each set that is gone afterwards: round(ratio·n) of n, one unit stays."""

    what: What = field(default="neurons", metadata={
        "help": "heads (groups that share a key); queries of each group; neurons of feed-forwards; channels of "
                "convolutions; the residual width (norms then see other statistics: fine-tune after); whole pre-norm "
                "layers"})  # fmt: skip
    ratio: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction of the units to remove"})
    count: int = field(default=0, metadata={"min": 0, "help": "number of units per set instead; 0 = by the ratio"})
    score: Score = field(default="l1", metadata={
        "help": "which go first: the smallest weights; at random; those whose shutting changes the loss least (taylor) "
                "or that the least flows through (activation): these two need data"})  # fmt: skip
    scope: Literal["local", "global"] = field(default="local", metadata={"help": "ratio per set, or over all sets"})
    multiple: int = field(default=1, metadata={"min": 1, "max": 4096, "help": "keep a multiple of this"})
    select: Select = field(default=Select(), metadata={"help": "sets that contain one of these nodes"})
    data: str = field(default="", metadata={
        "help": "for taylor and activation: demo:NAME, hub:NAME, a file or a folder", "edit": "data"})  # fmt: skip
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
        if not 0 <= self.ratio <= 1 or self.count < 0 or self.multiple < 1:
            raise OptionsError(f"ratio is {self.ratio:g}, count is {self.count}, multiple is {self.multiple}.",
                               "ratio must be from 0 to 1, count at least 0, multiple at least 1.")  # fmt: skip
