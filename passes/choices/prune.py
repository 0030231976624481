"""Options of pruning weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.errors import PassError
from espalier.passes.choices.pruning import MOST, WITH_DATA, Choice, Method, Pattern, Scope
from espalier.passes.select import Select
from espalier.passes.tasks.base import TASK_OPTION

# Beside which value (or which of several) of which other field a field applies: forms hide it else.
NM, BLOCK, GLOBAL = {"when": ("pattern", "n:m")}, {"when": ("pattern", "block")}, {"when": ("scope", "global")}
DATA = {"when": ("method", frozenset(WITH_DATA))}


@dataclass(frozen=True, slots=True)
class Budget:
    """A share of their own for some nodes."""

    select: Select = field(default=Select("name"), metadata={"help": "which nodes"})
    sparsity: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "their sparsity; 0 leaves them whole"}
    )


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """`sparsity` is the fraction of elements to zero: of each weight, of all together, or of each row."""

    sparsity: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction of elements to zero"})
    method: Method = field(
        default="l1",
        metadata={"help": "which go first; wanda, snip, hessian and movement need data. movement after a few batches "
                          "is weak: its real form is the gradual pruning of a fine-tuning"},
    )  # fmt: skip
    scope: Scope = field(
        default="local", metadata={"help": "count per weight, over all, or per output row (as Wanda does)"}
    )
    select: Select = field(default=Select("all"), metadata={"help": "which nodes"})
    pattern: Pattern = field(
        default="element", metadata={"help": "elements; n of every m kept (ignores the sparsity); whole blocks"}
    )
    n: int = field(default=2, metadata={"min": 1, "max": MOST, "help": "n:m: elements kept …", **NM})
    m: int = field(default=4, metadata={"min": 1, "max": MOST, "help": "… of this many", **NM})
    rows: int = field(default=4, metadata={"min": 1, "max": MOST, "help": "outputs of a block", **BLOCK})
    columns: int = field(default=4, metadata={"min": 1, "max": MOST, "help": "inputs of a block", **BLOCK})
    least: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "global: minimum sparsity of each weight", **GLOBAL}
    )
    most: float = field(
        default=1.0, metadata={"min": 0.0, "max": 1.0, "help": "global: maximum sparsity of each weight", **GLOBAL}
    )
    budgets: tuple[Budget, ...] = field(
        default=(), metadata={"help": "other sparsities for some nodes; the last match applies"}
    )
    data: str = field(default="", metadata={"help": "for methods that need it: demo:NAME, hub:NAME, a file or a folder",
                                            "edit": "data", **DATA})  # fmt: skip
    split: str = field(
        default="train", metadata={"help": "must not be the split that is scored", "edit": "split", **DATA}
    )
    limit: int = field(default=128, metadata={"min": 0, "help": "maximum number of samples; 0 = all", **DATA})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "batch size", **DATA})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text", **DATA})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label", **DATA})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's", **DATA})
    max_length: int = field(
        default=0,
        metadata={"min": 0, "help": "maximum length of a text in tokens; 0 = limit of model and tokenizer", **DATA},
    )
    task: str = field(default="", metadata={**TASK_OPTION, **DATA})

    def __post_init__(self) -> None:
        self.choice()

    def ready(self) -> None:
        """Raise PassError where data is needed and none is named; a form may hold it so, a run may not."""
        if self.method in WITH_DATA and not self.data and (self.sparsity or any(b.sparsity for b in self.budgets)):
            raise PassError(f"{self.method} scores weights on data, and none is named.",
                            "Name some, such as demo:reviews, or choose l1.")  # fmt: skip

    def choice(self, ratio: float | None = None) -> Choice:
        """What is asked of a weight, at its own `ratio` where it has one; raises OptionsError."""
        size = {"n:m": (self.n, self.m), "block": (self.rows, self.columns)}.get(self.pattern, (1, 1))
        return Choice(self.sparsity if ratio is None else ratio, self.method,
                      "local" if ratio is not None and self.scope == "global" else self.scope,
                      self.pattern, size, self.least, self.most)  # fmt: skip
