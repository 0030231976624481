"""The formats of the ports, as MASE's dicts write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from espalier.model.document.codec import decode_format, join
from espalier.model.errors import FormatError, OptionsError, nearest
from espalier.model.formats.base import Format, named_format
from espalier.model.registry import FORMATS
from espalier.passes.choices.quantize import PORTS

USUAL = ("data_in", "weight", "bias")  # the ports of a format that is given by its name alone
_FLAGS = ("bypass", "is_ptq")  # true: the layer stays float; when weights are rounded, which the build decides here


def port_formats(config: Mapping[str, Any], path: str) -> dict[str, Format | None]:
    """{"name": "integer", "data_in_width": 8, …} → format per port; name None or bypass → every port float.

    A port has the parameters that begin with its name, and a format of its own under `<port>_name`. Parameters
    without a port hold for all ports that know them. Where no port has a parameter of its own, the format is for
    data_in, weight and bias. Raises OptionsError and FormatError with the path of what is wrong.
    """
    config = {k: v for k, v in config.items() if k not in _FLAGS or not isinstance(v, bool) or (k == "bypass" and v)}
    if config.get("bypass") is True:
        return dict.fromkeys(PORTS)
    if not config:
        return {}
    keys = _Keys.of(config)
    kinds = {p: _class(keys.names.get(p, config.get("name")), join(path, f"{p}_name" if p in keys.names else "name"))
             for p in _ports(keys, config, path)}  # fmt: skip
    _check(keys, {p: k for p, k in kinds.items() if k}, path)
    return {p: _format(p, k, keys, config, path) for p, k in kinds.items()}


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a dict: formats of their own by port, parameters by port, and those for all ports."""

    names: dict[str, Any]
    own: dict[str, dict[str, Any]]
    shared: dict[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> _Keys:
        names = {p: config[f"{p}_name"] for p in PORTS if f"{p}_name" in config}
        rest = {k: v for k, v in config.items() if k != "name" and k not in {f"{p}_name" for p in names}}
        own = {p: {k.removeprefix(f"{p}_"): v for k, v in rest.items() if k.startswith(f"{p}_")} for p in PORTS}
        shared = {k: v for k, v in rest.items() if not k.startswith(tuple(f"{p}_" for p in PORTS))}
        return cls(names, {p: o for p, o in own.items() if o}, shared)


def _ports(keys: _Keys, config: Mapping[str, Any], path: str) -> tuple[str, ...]:
    if "name" not in config and (not keys.names or set(keys.own) - set(keys.names)):
        raise OptionsError(f"{join(path, 'name')} is missing.", "Write name = …, the format of the widths beside it.")
    if config.get("name", "") is None:
        return PORTS
    usual = USUAL if "name" in config and not keys.own else ()
    return tuple(p for p in PORTS if p in keys.own or p in keys.names or p in usual)


def _class(name: Any, path: str) -> type[Format] | None:
    if name is None:
        return None
    try:
        return named_format(name)[0] if isinstance(name, str) else FORMATS.get(str(name))
    except FormatError as error:
        raise OptionsError(f"{path} is {name!r}.", error.hint) from error


def _check(keys: _Keys, kinds: Mapping[str, type[Format]], path: str) -> None:
    """Raise OptionsError for a key that is no parameter of its port's format, or of any; None takes all keys."""
    wrong = [f"{p}_{k}" for p, own in keys.own.items() if p in kinds for k in _unknown(kinds[p], own)]
    strange = [_unknown(c, keys.shared) for c in kinds.values()]
    wrong += [k for k in keys.shared if strange and all(k in some for some in strange)]
    if not wrong:
        return
    names = {f.name for c in kinds.values() for f in fields(c)}
    known = {*names, *(f"{p}_{n}" for p in PORTS for n in (*names, "name"))}
    what = ", ".join(dict.fromkeys(c.name for c in kinds.values()))
    raise OptionsError(f"{join(path, wrong[0])} is not an option of {what}.", nearest(wrong[0], known))


def _unknown(kind: type[Format], values: Mapping[str, Any]) -> list[str]:
    """The keys that are no parameters of a format, neither by their own name nor in another spelling."""
    known = {f.name for f in fields(kind)}
    try:
        return [k for k in kind.normalise(values) if k not in known]
    except FormatError:  # a spelling that it knows, with a value that it refuses, as making it will
        return []


def _format(port: str, kind: type[Format] | None, keys: _Keys, config: Mapping[str, Any], path: str) -> Format | None:
    if kind is None:
        return None
    strange = _unknown(kind, keys.shared)
    shared = {k: v for k, v in keys.shared.items() if k not in strange}
    name = keys.names.get(port, config.get("name"))
    return decode_format({**shared, **keys.own.get(port, {}), "name": name}, path)
