"""MASE's prune dict, {"weight": {sparsity, method, scope}, "activation": {…}}, as options of our two passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from espalier.model.document.codec import decode, join
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions

METHODS = {"l1-norm": "l1", "l1_norm": "l1", "l1": "l1", "random": "random"}
PARTS, KEYS = ("weight", "activation"), ("sparsity", "method", "scope")


def is_prune_dict(data: Mapping[str, Any]) -> bool:
    """Whether options of prune are in MASE's form."""
    return any(part in data for part in PARTS)


def prune_steps(data: Mapping[str, Any], path: str) -> tuple[Step, ...]:
    """A step for the weights, and another for the activations where it prunes these."""
    for key in data:
        if key not in PARTS:
            raise OptionsError(f"{join(path, key)} is not an option.", nearest(key, PARTS))
    activations = _activations(data, path)
    after = () if activations is None else (Step("prune_activations", activations),)
    if "weight" not in data and after:
        return after
    values = _values(data, "weight", path) if "weight" in data else {"sparsity": 0.0}
    return (Step("prune", _decoded(PruneOptions, values, join(path, "weight"))), *after)


def _activations(data: Mapping[str, Any], path: str) -> PruneActivationsOptions | None:
    """None for none. Locally a share of each sample, globally one threshold."""
    values = _values(data, "activation", path)
    where = join(path, "activation")
    _decoded(PruneOptions, values, where)  # the same keys, so the same mistakes
    if not values.get("sparsity", 0.0):
        return None
    if values.pop("scope", "local") == "global" and values.get("method") != "random":
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
        if method not in METHODS:
            raise OptionsError(f"{where}.method is {values['method']!r}.", nearest(method, METHODS))
        values["method"] = METHODS[method]
    return values


def _decoded(kind: type, values: dict[str, Any], where: str) -> Any:
    try:
        return decode(kind, values, where)
    except EspalierError as error:
        raise OptionsError(error.message if where in error.message else f"{where}: {error.message}",
                           error.hint) from error  # fmt: skip
