"""The labs' prune dict, {"weight": {sparsity, method, scope}, "activation": {…}}, as options of our two passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from espalier.model.document.codec import decode, join
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions

LAB_METHODS = {"l1-norm": "l1", "l1_norm": "l1", "l1": "l1", "random": "random"}
PARTS, KEYS = ("weight", "activation"), ("sparsity", "method", "scope")


def lab_prune(data: Mapping[str, Any], path: str) -> PruneOptions:
    """What is pruned of the weights: nothing where the dict names activations alone."""
    for key in data:
        if key not in PARTS:
            raise OptionsError(f"{join(path, key)} is not an option.", nearest(key, PARTS))
    lab_activations(data, path)
    if "weight" not in data:
        return PruneOptions(0.0)
    return cast("PruneOptions", _decoded(PruneOptions, _values(data, "weight", path), join(path, "weight")))


def lab_activations(data: Mapping[str, Any], path: str) -> PruneActivationsOptions | None:
    """What is pruned of the activations; None for none. The share of each sample, or globally one threshold."""
    values = _values(data, "activation", path)
    where = join(path, "activation")
    _decoded(PruneOptions, values, where)  # the same keys, so the same mistakes
    if not values.get("sparsity", 0.0):
        return None
    together = values.pop("scope", "local") == "global" and values.get("method") != "random"
    if together:
        values |= {"scope": "global", "pattern": "threshold"}
    return cast("PruneActivationsOptions", _decoded(PruneActivationsOptions, values, where))


def _values(data: Mapping[str, Any], part: str, path: str) -> dict[str, Any]:
    entry, where = data.get(part, {}), join(path, part)
    if not isinstance(entry, Mapping):
        raise OptionsError(f"{where} is {entry!r}.", "Write {sparsity = …, method = …, scope = …}.")
    values = dict(cast("Mapping[str, Any]", entry))
    for key in values:
        if key not in KEYS:
            raise OptionsError(f"{where}.{key} is not an option.", nearest(key, KEYS))
    if "method" in values:
        method = str(values["method"])
        if method not in LAB_METHODS:
            raise OptionsError(f"{where}.method is {values['method']!r}.", nearest(method, LAB_METHODS))
        values["method"] = LAB_METHODS[method]
    return values


def _decoded(kind: type, values: dict[str, Any], where: str) -> Any:
    try:
        return decode(kind, values, where)
    except EspalierError as error:
        raise OptionsError(error.message if where in error.message else f"{where}: {error.message}",
                           error.hint) from error  # fmt: skip
