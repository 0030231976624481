"""MASE's quantize dict, {"by": "type", "default": …, "linear": {"config": {…}}}, as rules of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from espalier.model.document.codec import join
from espalier.model.errors import OptionsError, nearest
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.mase.formats import port_formats
from espalier.passes.select import Select

BY = ("type", "name", "regex", "regex_name", "module")


def is_quantize_dict(data: Mapping[str, Any]) -> bool:
    """Whether options of quantize are in MASE's form."""
    return "by" in data


def quantize_options(data: Mapping[str, Any], path: str) -> QuantizeOptions:
    """The default first, so that what is named overrides it."""
    by = data["by"]
    if by not in BY:
        raise OptionsError(f"{join(path, 'by')} is {by!r}.", nearest(str(by), BY))
    by = "regex" if by == "regex_name" else by
    others = [k for k in data if k not in ("by", "default") and (k, type(data[k])) != ("report", bool)]
    rules = [_rule(Select(by, (k,)), data[k], join(path, k)) for k in others]
    default = _rule(Select("all"), data.get("default", {}), join(path, "default"))
    # A default of None leaves what is not named alone; a named None sets it back to float.
    first = [default] if default and any(default.formats.values()) else []
    return QuantizeOptions((*first, *(r for r in rules if r is not None)))


def _rule(select: Select, entry: Any, path: str) -> Rule | None:
    if not isinstance(entry, Mapping):
        raise OptionsError(f"{path} is {entry!r}.", "Write {config = {name = …}}.")
    entry = cast("Mapping[str, Any]", entry)
    for key in entry:
        if key != "config" and ("config" in entry or "name" not in entry):
            raise OptionsError(f"{join(path, str(key))} is not an option.", nearest(str(key), ["config", "name"]))
    config = entry.get("config", entry)
    where = join(path, "config") if "config" in entry else path
    if not isinstance(config, Mapping):
        raise OptionsError(f"{where} is {config!r}.", "Write a table.")
    formats = port_formats(cast("Mapping[str, Any]", config), where)
    return Rule(select, formats) if formats else None
