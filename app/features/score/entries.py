"""The figures of the score's card: what each is called, how it is written, and which side is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from espalier.app.figures.heat_lines import divergence_text
from espalier.app.number_text import mebibytes, percent, scaled, signed
from espalier.app.translation import tr
from espalier.passes.score import Score
from espalier.passes.tasks.base import TASKS, Metric, all_metrics


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure: its key in the score, its text, and which direction is better (+1 up, −1 down)."""

    key: str
    label: str
    write: Callable[[float], str]
    change: Callable[[float, float], str]
    better: int
    help: str
    suffix: str = ""
    measured: bool = False  # by running the model, so that it can be missing
    asks: bool = False  # has the Measure button
    traced: bool = False  # has a trace of the last edits; these stay when others fold


def _relative(current: float, previous: float) -> str:
    if not previous:
        return ""
    part = 100 * (current / previous - 1)
    return signed(part, 0 if abs(part) >= 10 else 1) + "\u2009%"


def _points(current: float, previous: float) -> str:
    return signed(100 * (current - previous), 1)


def _absolute(digits: int) -> Callable[[float, float], str]:
    return lambda now, before: signed(now - before, digits)


def _of_metric(metric: Metric, *, main: bool = False) -> Entry:
    """The entry of a task's metric."""
    write, change = (percent, _points) if metric.share else (lambda v: f"{v:.4g}".replace("-", "−"), _absolute(3))
    sign = 1 if metric.better == "high" else -1
    return Entry(
        metric.name, tr(metric.title), write, change, sign, tr(metric.help), measured=True, asks=main, traced=False
    )


def _further() -> tuple[Entry, ...]:
    """Entries of metrics that tasks other than classification have; the main one asks for a measurement."""
    own = {"accuracy", "perplexity", "loss", "kl"}
    mains = {task.main.name for _, task in TASKS.items()}
    return tuple(_of_metric(m, main=n in mains) for n, m in all_metrics().items() if n not in own)


OWN: tuple[Entry, ...] = (
    Entry(
        "accuracy",
        tr("accuracy"),
        percent,
        _points,
        1,
        tr("Fraction of the samples that are classified correctly, or of the tokens that are predicted correctly"),
        measured=True,
        asks=True,
        traced=True,
    ),
    Entry(
        "perplexity",
        tr("perplexity"),
        lambda v: f"{v:.4g}",
        _relative,
        -1,
        tr("e to the power of the loss of the next tokens"),
        measured=True,
    ),
    Entry("size_bytes", tr("size"), mebibytes, _relative, -1, tr("Bytes of the packed export"), traced=True),
    Entry(
        "weight_bits",
        tr("weight bits"),
        lambda v: f"{v:.2f}",
        _absolute(2),
        -1,
        tr("Stored bits per parameter, over all parameters"),
        tr("of 32"),
        traced=True,
    ),
    Entry(
        "kl",
        tr("KL"),
        divergence_text,
        _absolute(3),
        -1,
        tr(
            "KL divergence of the outputs from those of the named baseline, in nats per sample. Estimated: predicted "
            "from the sensitivities; measured: by running the model"
        ),
    ),
    Entry(
        "loss",
        tr("loss"),
        lambda v: f"{v:.3f}",
        _absolute(3),
        -1,
        tr("Mean cross-entropy over the data set"),
        measured=True,
    ),
    Entry(
        "activation_bits",
        tr("activation bits"),
        lambda v: f"{v:.2f}",
        _absolute(2),
        -1,
        tr("Mean stored bits over the elements that layers and matmuls multiply"),
        tr("of 32"),
    ),
    Entry(
        "bitops",
        tr("BitOPs"),
        scaled,
        _relative,
        -1,
        tr("MACs × weight bits × activation bits, at the example's sizes"),
    ),
    Entry(
        "sparsity",
        tr("sparsity"),
        percent,
        _points,
        0,
        tr(
            "Zeros over elements, in all weights of products; those of experts, recurrent layers and weights that the "
            "model computes cannot be pruned"
        ),
    ),
    Entry(
        "memory_density",
        tr("memory density"),
        lambda v: f"{v:.2f} ×",
        _absolute(2),
        1,
        tr("Bits in float 32 over the bits that are stored"),
    ),
)
ENTRIES: tuple[Entry, ...] = (OWN[0], *_further(), *OWN[1:])


def value_of(score: Score, metrics: Mapping[str, float], key: str) -> float | None:
    """A figure of a score: a cost or a measured metric."""
    return metrics[key] if key in metrics else getattr(score, key, None)
