"""Numbers as displayed text: units, thin spaces, a minus sign instead of a hyphen."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from espalier.app.cell_text import cell_text
from espalier.app.translation import numerus, tr
from espalier.model.errors import FormatError
from espalier.model.formats.base import parse_format
from espalier.passes.tasks.base import all_metrics

if TYPE_CHECKING:
    from espalier.passes.dominant import Dominant
    from espalier.passes.figure import Change, Figure

THIN = "\u2009"
NOT_MEASURED = "not measured yet"
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

_TITLES = {
    "macs": "MACs", "flops": "FLOPs", "bitops": "BitOPs", "std": "deviation", "dtype": "type",
    "bits": "bits per element", "max error": "largest error",
    "max error before": "largest error before", "cosine": "cosine similarity", "seconds": "time (s)",
}  # fmt: skip
# Columns whose floats are shares of a whole; a count under the same name stays a count.
_SHARES = frozenset((
    "saturated", "saturated_before", "underflow", "underflow_before", "zeros", "accuracy", "accuracy_before",
    "validation_accuracy", "agreement", "sparsity", "ratio", "share", "cut", "baseline_accuracy", "recall",
    "precision", "confidence", "mean_confidence", "wrong_confidence", "trainable_share", "of_layer", "change",
    "busy", "saved", "saving",
))  # fmt: skip

_ERRORS = {
    "sqnr_db": "max_error",
    "sqnr_before_db": "max_error_before",
}  # a ratio in decibels → the error that explains why it is missing


def column_title(key: str) -> str:
    """The title of a report's column or figure."""
    plain = key.replace("_", " ")
    if "sqnr" in plain:  # worst sqnr db, sqnr before db
        return tr(plain.removesuffix(" db").replace("sqnr", "SQNR") + " (dB)")
    return tr(_TITLES.get(plain, plain))


def count(value: int) -> str:
    """`16 512`, with thin spaces."""
    return f"{value:,}".replace(",", THIN).replace("-", "−")


def figure(value: float) -> str:
    """A value with three significant digits."""
    return f"{value:.3g}".replace("-", "−")


def plural(value: int, noun: str, many: str = "") -> str:
    """`1 node`, `14 nodes`."""
    if form := numerus(f"%n {noun}", value):
        return form.replace("%n", count(value))
    return f"{count(value)} {noun if value == 1 else many or noun + 's'}"


def counted(value: int, one: str, many: str) -> str:
    """A whole text with a number at `%n`: `one` for 1, else `many`; another language has a form for each number."""
    return (numerus(one, value) or (one if value == 1 else many)).replace("%n", count(value))


def scaled(value: float, digits: int = 2) -> str:
    """A count with a decimal prefix: `0.62 G`, `18.40 k`, `950`."""
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.{digits}f}{THIN}{unit}".replace("-", "−")
    return f"{value:.0f}".replace("-", "−")


def mebibytes(size: float) -> str:
    """A size in bytes as `0.41 MiB`; small sizes in KiB, large ones in GiB."""
    if size >= 1 << 30:
        return f"{size / (1 << 30):.2f}{THIN}GiB"
    if size < 100_000:
        return f"{size / 1024:.1f}{THIN}KiB"
    return f"{size / (1 << 20):.2f}{THIN}MiB"


def data_size(size: float) -> str:
    """A number of bytes as `mebibytes`, below 1 KiB as `192 B`."""
    return mebibytes(size) if size >= 1024 else f"{size:.0f}{THIN}B"


def percent(value: float, digits: int = 1) -> str:
    """A share as `84.6 %`."""
    return f"{100 * value:.{digits}f}{THIN}%".replace("-", "−")


def percents(values: Iterable[float], spacing: float) -> list[str]:
    """Labels of an axis of shares, with the digits that values `spacing` apart need."""
    digits = max(0, math.ceil(-math.log10(100 * spacing) - 1e-9)) if spacing > 0 else 2
    return [percent(v, digits) for v in values]


def noise_text(main: Figure) -> str:
    """`n = 1 000, 95 % interval 91.4–94.5 %`, and `guess_text` for one that is no better than guessing."""
    low, high = (percent(e) if _in_per_cent(main) else cell(float(f"{e:.3g}")) for e in main.interval)
    text = tr("n = {}, 95\u2009% interval {}–{}", count(main.n), low.removesuffix(THIN + "%"), high)
    return f"{text}, {guess_text(main)}" if main.guesses else text


def guess_text(main: Figure) -> str:
    """`not above guessing (50.0 %)`, with the share of the most frequent class; `not below` for an error."""
    level = main.guessing or 0.0
    return tr(
        "not {} guessing ({})",
        tr("below") if main.low else tr("above"),
        percent(level) if _in_per_cent(main) else figure(level),
    )


def _in_per_cent(main: Figure) -> bool:
    """Whether the main metric is a share, or a mean from 0 to 1 such as an F1."""
    return main.share or bool((metric := all_metrics().get(main.name)) and metric.share)


def dominant_text(dominant: Dominant) -> str:
    """`embedding weights hold 90 % of the stored bits (32.0 bits an element); word_embeddings alone 87 %`."""
    share = tr("over 99\u2009%") if dominant.share >= 0.995 else percent(dominant.share, 0)
    text = tr("{} weights hold {} of the stored bits ({:.1f} bits an element)", dominant.kind, share, dominant.bits)
    return tr("{}; {} alone {}", text, dominant.node, percent(dominant.node_share, 0)) if dominant.node else text


def training_text(figures: Mapping[str, float]) -> str:
    """`training after compression lost 1.2 points`, if a trial's accuracy fell by it; else empty."""
    before, now = figures.get("accuracy_compressed"), figures.get("accuracy")
    if before is None or now is None or now >= before:
        return ""
    return tr("training after compression lost {:.1f} points", 100 * (before - now))


def change_text(change: Change) -> str:
    """`−0.4 points from opened, within noise (McNemar, p = 0.62)`."""
    named = tr("{}'s interval", change.test) if change.share else change.test
    test = f"{change.test}, p = {figure(change.p)}" if change.p is not None else named
    verdict = tr("within noise") if change.noise else tr("beyond noise")
    value = tr("{} points", signed(100 * change.value, 1)) if change.share else f"{change.value:+.3g}".replace("-", "−")
    return tr("{} from {}, {} ({})", value, tr(change.baseline), verdict, test)


def metric(name: str, value: float) -> str:
    """A figure of a running job: a share in per cent, others with three significant digits."""
    return percent(value) if name.endswith(("accuracy", "F1", "F1 micro", "F1 macro")) else cell(float(f"{value:.3g}"))


def signed(value: float, digits: int) -> str:
    """`+0.2`, `−0.01`; `±0` if it rounds to zero."""
    text = f"{value:+.{digits}f}"
    return "±0" if not text.strip("+-0.") else text.replace("-", "−")


def moment(seconds: float) -> str:
    """A local time, from seconds since 1970: `14:02:11` today, else `24 November, 14:02`."""
    then, now = time.localtime(seconds), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%d %B, %H:%M", then)


def duration(seconds: float) -> str:
    """`32 ms`, `0.4 s`, `31 s`, `2 min 5 s`, `1 h 4 min`."""
    if seconds < 0.1:
        return f"{max(1, round(1000 * seconds))}{THIN}ms"
    if seconds < 10:
        return f"{seconds:.1f}{THIN}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{THIN}s"
    if whole < 3600:
        return f"{whole // 60}{THIN}min {whole % 60}{THIN}s"
    return f"{whole // 3600}{THIN}h {whole % 3600 // 60}{THIN}min"


def left(seconds: float) -> str:
    """The estimated remaining time of a job: `5 s left`, `2 min left`."""
    if seconds < 90:
        return tr("{}\u2009s left", max(1, round(seconds)))
    if seconds < 5400:
        return tr("{}\u2009min left", round(seconds / 60))
    return tr("{:.1f}\u2009h left", seconds / 3600)


def cell(value: object) -> str:
    """Text of a value of any type in a report."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, tuple | list):
        return " × ".join(str(v) for v in value) if all(isinstance(v, int | str) for v in value) else str(value)
    if isinstance(value, dict):
        return ", ".join(f"{k} {cell(v)}" for k, v in value.items())
    return str(value)


def shown(key: str, value: object) -> str:
    """A value of a report's row under its column, on one line: shares in per cent, formats by their labels, texts of
    passes translated, others like `cell`.
    """
    if _is_share(key) and isinstance(value, float) and value == value:
        return "0" if value == 0 else percent(value, 1 if value >= 0.01 else 3)
    if isinstance(value, str):
        return _label(value) if key == "format" else cell_text(key, value).replace("\n", "⏎")
    return cell(value).replace("\n", "⏎")


def _is_share(key: str) -> bool:
    """Whether a column holds shares: those listed, and metrics of tasks."""
    metric = None if key in _SHARES else all_metrics().get(key.removeprefix("validation_"))
    return key in _SHARES or (metric is not None and metric.share)


def row_value(row: Mapping[str, object], key: str) -> object:
    """A value of a report's row; for a missing SQNR `exact` or `no signal`, if the row has the error."""
    value = row.get(key)
    error = _ERRORS.get(key, "")
    if value is None and error and error in row:
        # No zeros and no cosine: no element is finite.
        empty = row.get("elements") == 0 or (row.get("zeros") == 0 and row.get("cosine", 0) is None)
        return tr("no signal") if row[error] or empty else tr("exact")
    return value


@lru_cache(maxsize=1000)
def _label(text: str) -> str:
    """The label of a format, `int 8/4` for `integer(width=8, …)`; other text unchanged."""
    try:
        return parse_format(text).label
    except FormatError:
        return text


def _float(value: float) -> str:
    if value != value:
        return "NaN"
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 1e15:
        return count(int(value))
    size = abs(value)
    if 1e3 <= size < 1e6:
        return count(round(value))
    text = f"{value:.3g}" if size < 1e-3 or size >= 1e6 else f"{value:.4g}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")


def time_text(seconds: float) -> str:
    """`830 ns`, `12.4 µs`, `1.83 ms`, `2.1 s`."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size * 0.9995:
            return f"{figure(seconds / size)}{THIN}{unit}"
    return f"{figure(seconds * 1e9)}{THIN}ns"
