"""What is wrong with labels that no score can be computed of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.model.data.base import IGNORED
from espalier.model.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAMED = 3  # values that a message lists


def unfit_labels(labels: NDArray[Any]) -> DataError | None:
    """The error of labels with numbers that are no classes or targets, with these numbers; None where all are hidden.

    The hub hides the labels of test sets as −1, all of them.
    """
    import numpy as np

    if labels.dtype.kind == "f":
        wrong = ~np.isfinite(labels)
        hint = "Remove these samples, or give their targets."
        return DataError(f"{_count(wrong)} targets are not finite numbers ({_values(labels, wrong)}).", hint)
    if labels.dtype.kind != "i" or not (labels >= 0).any():
        return None
    wrong = (labels < 0) & (labels != IGNORED)
    if not wrong.any():
        return None
    low, high = int(labels[wrong].min()), int(labels.max())
    hint = f"Classes are numbered from 0: here 0 to {high - low} in place of {_signed(low)} to {high}."
    return DataError(f"{_count(wrong)} labels are negative ({_values(labels, wrong)}).", hint)


def _count(wrong: NDArray[np.bool_]) -> str:
    return f"{int(wrong.sum()):,} of {wrong.size:,}"


def _values(labels: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    import numpy as np

    values = np.unique(labels[wrong])
    more = ", …" if len(values) > _NAMED else ""
    return ", ".join(_signed(v) for v in values[:_NAMED]) + more


def _signed(value: Any) -> str:
    return f"{value:g}".replace("-", "−").replace("nan", "NaN")
