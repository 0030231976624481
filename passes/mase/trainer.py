"""`get_tokenized_dataset` and `get_trainer`: MASE's way to data and training, done by `finetune` and `evaluate`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, PassError
from espalier.passes.mase.loan import Loan, loan_of
from espalier.passes.running.splits import EvaluateOptions, load_task
from espalier.passes.training.options import FinetuneOptions

_MADE = ("input_ids", "attention_mask", "token_type_ids")  # columns that tokenisers add; ours reads the text again


@dataclass(frozen=True, slots=True)
class TokenizedData(Mapping[str, tuple[str, ...]]):
    """Data by name, read when they are asked for: split → its texts."""

    data: str
    tokenizer: str = ""

    def _texts(self, name: str) -> dict[str, tuple[str, ...]]:
        from espalier.model.sources.reading import PLAIN

        return load_task(EvaluateOptions(name, tokenizer=self.tokenizer), PLAIN, whole=False).texts

    def __getitem__(self, split: str) -> tuple[str, ...]:
        return self._texts(self.data)[split]

    def __iter__(self) -> Any:
        return iter(self._texts(self.data))

    def __len__(self) -> int:
        return len(self._texts(self.data))


def get_tokenized_dataset(dataset: str, checkpoint: str = "", return_tokenizer: bool = False) -> Any:
    """As MASE's function. `dataset`: a name of the hub, demo:NAME, a file or a folder."""
    local = ":" in dataset or Path(dataset).expanduser().exists()
    found = TokenizedData(dataset if local else f"hub:{dataset}", checkpoint)
    return (found, checkpoint) if return_tokenizer else found


@dataclass(slots=True)
class TrainingArguments:
    """What MASE sets of transformers' arguments, with its defaults."""

    num_train_epochs: float = 1
    learning_rate: float = 5e-5
    per_device_train_batch_size: int = 8
    max_steps: int = -1
    seed: int = 42


@dataclass(frozen=True, slots=True)
class TrainOutput:
    """What `train` returns."""

    metrics: dict[str, Any]


@dataclass(slots=True)
class Trainer:
    """Trains and measures what the loan's model is at the time."""

    loan: Loan
    data: str
    tokenizer: str = ""
    args: TrainingArguments = field(default_factory=TrainingArguments)

    @property
    def model(self) -> Any:
        """`mg.model`."""
        return self.loan.mg.model

    def evaluate(self) -> dict[str, Any]:
        """Loss and accuracy on the test split, under the names of transformers."""
        begin = time.perf_counter()
        found = self.loan.run(Step("evaluate", EvaluateOptions(self.data, tokenizer=self.tokenizer)))
        names = {"eval_loss": "loss", "eval_accuracy": "accuracy", "eval_samples": "samples"}
        return {k: found.get(v) for k, v in names.items()} | {"eval_runtime": time.perf_counter() - begin}

    def train(self) -> TrainOutput:
        """Train through formats, masks and adapters; the last weights stay, as transformers' Trainer leaves them."""
        wish, steps = self.args, max(self.args.max_steps, 0)
        options = FinetuneOptions(
            self.data, epochs=float(wish.num_train_epochs), max_steps=steps,
            batch_size=wish.per_device_train_batch_size, learning_rate=wish.learning_rate, validate=False, keep="last",
            tokenizer=self.tokenizer,
        )  # fmt: skip
        found = self.loan.run(Step("finetune", options, wish.seed))
        return TrainOutput({k: v for k, v in found.items() if k != "rows"})


def get_trainer(
    model: Any, tokenized_dataset: Any, tokenizer: Any = None, evaluate_metric: str = "accuracy",
    output_dir: str = "", use_mps_device: bool = False, report_to: str = "none", num_train_epochs: float = 1,
) -> Trainer:  # fmt: skip
    """As MASE's function; the data are those of `get_tokenized_dataset`, or a DatasetDict of texts and labels."""
    if evaluate_metric != "accuracy":
        raise PassError(f"evaluate_metric is {evaluate_metric!r}.", "Only 'accuracy' is measured.")
    loan = loan_of(model)
    if isinstance(tokenized_dataset, TokenizedData):
        data, encoder = tokenized_dataset.data, tokenized_dataset.tokenizer
    elif isinstance(tokenized_dataset, Mapping):
        folder = Path(mkdtemp(prefix="mase-data-", dir=loan.context.store.folder))  # goes with the session's tensors
        data, encoder = _written(cast("Mapping[str, Any]", tokenized_dataset), folder), ""
    else:
        raise DataError(f"tokenized_dataset is a {type(tokenized_dataset).__name__}.", "Use get_tokenized_dataset.")
    encoder = encoder or str(getattr(tokenizer, "name_or_path", tokenizer or ""))
    return Trainer(loan, data, encoder, TrainingArguments(num_train_epochs))


def _written(splits: Mapping[str, Any], folder: Path) -> str:
    """Splits of the datasets library as a folder of Parquet files, less what a tokeniser added."""
    for name, split in splits.items():
        kept = [c for c in split.column_names if c not in _MADE]
        if not kept or len(split) == 0:
            continue
        split.select_columns(kept).to_parquet(str(folder / f"{name}.parquet"))
    return str(folder)
