"""Makes the shipped weights of the demos: `python -m tests.demos.train [NAME…]`, minutes on two cores.

Kept in the project so that every shipped number can be made again from its seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.data.base import NEXT_TOKEN, Inputs, Split, TaskData
from espalier.model.data.loading import load_data
from espalier.model.sources.demos import DEMOS, Demo
from espalier.passes.score import perplexity

if TYPE_CHECKING:
    from torch import nn

Batch = tuple[Inputs, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a demo is trained.

    extra: texts made beyond the train split and seen once, before it; of reviews the shortest quarter comes first,
    once more: on single clauses the grammar is learnt, on whole reviews from the start only the words are.
    dropout: False trains in eval mode; over fresh reviews dropout only hides the grammar.
    """

    epochs: int
    rate: float
    batch: int
    seed: int = 0
    extra: int = 0
    dropout: bool = True


RECIPES = {
    "reviews": Recipe(epochs=1, rate=2.5e-4, batch=16, extra=130_000, dropout=False),
    "stories": Recipe(epochs=1, rate=4e-3, batch=32, extra=50_000),
    "digits": Recipe(epochs=30, rate=3e-3, batch=64),
    "digits-mlp": Recipe(epochs=80, rate=3e-3, batch=64),
}


def train(demo: Demo, recipe: Recipe) -> dict[str, Any]:
    """Trains a demo and writes its weights and card; returns the card."""
    import torch
    from safetensors.torch import save_file

    started = time.perf_counter()
    torch.set_num_threads(1)  # batches too small to share, and sums that keep their order on any machine
    torch.manual_seed(recipe.seed)
    data, module = load_data(demo.data), demo.make()
    _fit(module, list(_plan(data, recipe)), recipe)
    save_file(_stored(module), demo.folder / "model.safetensors")
    card = _card(module, data, recipe) | {"seconds": round(time.perf_counter() - started, 1)}
    (demo.folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    return card


def _stored(module: nn.Module) -> dict[str, Any]:
    """The tensors of a module by name; of those that are one, the first."""
    shared = {id(value): name for name, value in reversed(list(module.named_parameters(remove_duplicate=False)))}
    tied = {name for name, value in module.named_parameters(remove_duplicate=False) if shared[id(value)] != name}
    return {name: value.contiguous() for name, value in module.state_dict().items() if name not in tied}


def measure(module: nn.Module, split: Split) -> tuple[float, float]:
    """(accuracy 0…1, mean cross-entropy) of a model on a split; the module is put in eval mode."""
    import torch

    right, loss = 0, 0.0
    module.eval()
    with torch.no_grad():
        for inputs, labels in split.batches(250):
            logits, target = _logits(module, inputs), torch.from_numpy(labels).flatten()
            right += int((logits.argmax(-1) == target).sum())
            loss += float(torch.nn.functional.cross_entropy(logits, target, reduction="sum"))
    return right / split.targets, loss / split.targets


def _card(module: nn.Module, data: TaskData, recipe: Recipe) -> dict[str, Any]:
    scores = {name: measure(module, split) for name, split in data.splits.items()}
    texts = data.task == NEXT_TOKEN
    return {
        "accuracy": {name: accuracy for name, (accuracy, _) in scores.items()},
        "loss": {name: loss for name, (_, loss) in scores.items()},
        "sizes": {name: len(split) for name, split in data.splits.items()},
        **({"perplexity": {name: perplexity(loss) for name, (_, loss) in scores.items()}} if texts else {}),
        "extra_training_samples": recipe.extra,
        "seed": recipe.seed,
        "parameters": sum(p.numel() for p in module.parameters()),
    }


def _fit(module: nn.Module, batches: list[Batch], recipe: Recipe) -> None:
    import torch

    optimizer = torch.optim.AdamW(module.parameters(), recipe.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=len(batches), pct_start=0.1)
    module.train(recipe.dropout)
    for step, (inputs, labels) in enumerate(batches):
        loss = torch.nn.functional.cross_entropy(_logits(module, inputs), torch.from_numpy(labels).flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            sys.stderr.write(f"step {step}/{len(batches)} loss {loss.item():.3f}\n")


def _logits(module: nn.Module, inputs: Inputs) -> Any:
    import torch

    out = module(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    return getattr(out, "logits", out).flatten(0, -2)  # a row per label


def _plan(data: TaskData, recipe: Recipe) -> Iterator[Batch]:
    rng = np.random.default_rng(recipe.seed)
    if recipe.extra and data.task == NEXT_TOKEN:
        yield from _epoch(_extra_stories(recipe), recipe.batch, rng)
    elif recipe.extra:
        extra = _extra_reviews(recipe)
        yield from _epoch(_shortest(extra), recipe.batch, rng)
        yield from _epoch(extra, recipe.batch, rng)
    for _ in range(recipe.epochs):
        yield from _epoch(data.split("train"), recipe.batch, rng)


def _epoch(split: Split, size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Shuffled batches; texts of like length go together and are cut to the longest of their batch."""
    order = rng.permutation(len(split))
    mask = split.inputs.get("attention_mask")
    if mask is not None and not mask.all():
        chunks = [order[at : at + 20 * size] for at in range(0, len(order), 20 * size)]
        order = np.concatenate([chunk[np.argsort(mask[chunk].sum(1), kind="stable")] for chunk in chunks])
    starts = rng.permutation(len(split) // size) * size
    for start in starts:
        yield _batch(split, order[start : start + size])


def _batch(split: Split, rows: Any) -> Batch:
    mask = split.inputs.get("attention_mask")
    if mask is None:
        return {name: array[rows] for name, array in split.inputs.items()}, split.labels[rows]
    width = int(mask[rows].sum(1).max())
    return {name: array[rows, :width] for name, array in split.inputs.items()}, split.labels[rows]


def _extra_reviews(recipe: Recipe) -> Split:
    """Further made reviews, none of them in the data set: a stand-in for pretraining."""
    from espalier.model.data.demo import SHIPPED
    from espalier.model.data.tokens import open_shipped
    from tests.demos.reviews import SIZES, make_reviews

    rows = make_reviews({**SIZES, "extra": recipe.extra})["extra"]
    inputs, lengths = open_shipped(SHIPPED)([row.text for row in rows], 128)
    return Split(inputs, np.array([row.label for row in rows], dtype=np.int64), lengths)


def _extra_stories(recipe: Recipe) -> Split:
    """Windows of further made stories, none of them in the data set."""
    from espalier.model.data.demo import STORIES, STORY_LENGTH
    from espalier.model.data.tokens import open_stream
    from espalier.model.data.windows import JOINT, windows
    from tests.demos.stories import SIZES, make_stories

    text = JOINT.join(row.text for row in make_stories({**SIZES, "extra": recipe.extra})["extra"])
    return windows(*open_stream(STORIES)(text), text, STORY_LENGTH)[0]


def _shortest(split: Split) -> Split:
    lengths = split.inputs["attention_mask"].sum(1)
    rows = np.flatnonzero(lengths <= np.quantile(lengths, 0.25))
    return Split({name: array[rows] for name, array in split.inputs.items()}, split.labels[rows])


def main() -> None:
    """Trains the named demos, or all; prints their cards as JSON."""
    parser = argparse.ArgumentParser(description="Train the demos' weights.")
    parser.add_argument("names", nargs="*", help=f"demos to train: {', '.join(DEMOS)}; all by default")
    parser.add_argument("--texts", action="store_true", help="make the texts and vocabularies first")
    chosen = parser.parse_args()
    if chosen.texts:
        from tests.demos.vocabulary import write_reviews_folder, write_stories_folder

        write_reviews_folder()
        write_stories_folder()
    unknown = [name for name in chosen.names if name not in DEMOS]
    if unknown:
        parser.error(f"there is no demo {unknown[0]!r}")
    cards = {name: train(DEMOS[name], RECIPES[name]) for name in chosen.names or DEMOS}
    sys.stdout.write(json.dumps(cards, indent=2) + "\n")


if __name__ == "__main__":
    main()
