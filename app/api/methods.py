"""Methods of models from registered passes: options as keyword arguments, signature and docstring generated."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from espalier.model.document.codec import encode
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import category
from espalier.passes.base import PassSpec
from espalier.passes.recipes.config import decode_options
from espalier.passes.select import Select, types_in
from espalier.passes.transform.quantize import PORTS

ALL = "all"
WAYS = ("type", "name", "regex", "module", "where", "saved")
FORMATS_HELP = 'a format such as "int8", "mxint4" or "integer(width=8, frac_width=4)"; "float" removes it'
SELECT_HELP = (
    'the nodes: a type ("linear"), a node or module path, a list of these, "all", "regex:…", "module:…", '
    '"where:params > 1e4 and bits > 4", "saved:queries" (a saved selection), or a table {by, values}'
)
Keyword, Both = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def selection(select: Any, graph: Graph) -> dict[str, Any]:
    """Convert a caller's `select` to `{by, values}`; raises OptionsError with the nearest name."""
    if isinstance(select, Select):
        return encode(select)
    if isinstance(select, Mapping):
        return dict(cast("Mapping[str, Any]", select))
    words = [select] if isinstance(select, str) else list(cast("Sequence[Any]", _listed(select)))
    if not words or not all(isinstance(w, str) for w in words):
        raise OptionsError(f"select is {select!r}.", 'Write a type such as "linear", a name, or a list of these.')
    if words == [ALL]:
        return {"by": ALL}
    ways = {_way(w, graph) for w in words}
    if ways == {"name", "type"} and all(_bare(w, graph) for w in words):  # an id may also be the name of an op
        ways = {"name"}
    if len(ways) > 1:
        raise OptionsError(f"select mixes {' and '.join(sorted(ways))}.", "Select by one of them.")
    way = ways.pop()
    return {"by": way, "values": [w.removeprefix(f"{way}:") for w in words]}


def _listed(select: Any) -> Any:
    return select if isinstance(select, list | tuple | set) else []


def _bare(word: str, graph: Graph) -> bool:
    """Whether a word without prefix is the id of a node or the path of a module."""
    return word in graph.nodes or any(n.call == "call_module" and n.target == word for n in graph)


def _way(word: str, graph: Graph) -> str:
    """The kind of selection of a word: explicit prefix, type, node name or module path."""
    if word == ALL:
        return ALL
    head = word.partition(":")[0]
    if head in WAYS and ":" in word:
        return head
    types = types_in(graph)
    if word in types or word.replace("_", "").casefold() in {t.casefold() for t in types}:
        return "type"
    if _bare(word, graph):
        return "name"
    paths = {n.module_path for n in graph if n.module_path} | {n.target for n in graph if n.call == "call_module"}
    if any(p == word or p.startswith(f"{word}.") for p in paths):
        return "module"
    known = {n.id for n in graph if category(n) != "io"} | set(types) | paths | {ALL}
    if Path(word).exists():
        raise OptionsError(f"{word!r} selects nothing: not a type, node or module.", f"For data write data={word!r}.")
    raise OptionsError(f"{word!r} selects nothing: not a type, node or module.", nearest(word, known))


def options_from(spec: PassSpec, select: Any, values: Mapping[str, Any], graph: Graph) -> Any:
    """Typed options of a pass from keyword arguments; raises OptionsError with the nearest name."""
    given = {k: _plain(v) for k, v in values.items()}
    names = {f.name for f in dataclasses.fields(spec.options)}
    if spec.name == "quantize":
        return _quantize(spec, select, given, graph)
    if select is not None and (first := positional(spec)):
        given[first] = _plain(select)
    elif select is not None:
        if "select" not in names:
            raise OptionsError(
                f"{spec.name} selects no nodes.", f"Its options are {', '.join(sorted(names)) or 'none'}."
            )
        given["select"] = selection(select, graph)
    return decode_options(spec.name, given, "")


def _quantize(spec: PassSpec, select: Any, given: dict[str, Any], graph: Graph) -> Any:
    """Options of `quantize`: a rule from port keywords, or complete rules."""
    known = (*PORTS, "gradient", "rules", "seed")
    for name in given:
        if name not in known:
            raise OptionsError(f"{name} is not an option.", nearest(name, known))
    formats = {p: given[p] for p in PORTS if p in given}
    rules = list(given.get("rules", ()))
    if formats:
        rule: dict[str, Any] = {"select": selection(ALL if select is None else select, graph), "formats": formats}
        rules.append(rule | ({"gradient": given["gradient"]} if "gradient" in given else {}))
    elif select is not None or not rules:
        raise _no_format(ALL if select is None else select)
    return decode_options(spec.name, {"rules": rules}, "")


def _no_format(select: Any) -> OptionsError:
    """The error for `quantize` without a format; `select` may be a format that was meant for a port."""
    if isinstance(select, Format) or (isinstance(select, str) and _is_format(select)):
        return OptionsError(f"quantize selects nodes by its first argument, and {select!s} is a format.",
                            f'Name the port: m.quantize("all", weight="{select!s}").')  # fmt: skip
    shown = f'"{select}"' if isinstance(select, str) else repr(select)
    return OptionsError("quantize names no format for a port.",
                        f'Write m.quantize({shown}, weight="int8"); ports: {", ".join(PORTS)}.')  # fmt: skip


def _is_format(text: str) -> bool:
    try:
        parse_format(text)
    except EspalierError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Convert a value for decoding: formats stay, other dataclasses, numpy values and paths become plain."""
    match value:
        case Format() | None | bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case Mapping():
            return {str(k): _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple() | set():
            return [_plain(v) for v in cast("Sequence[Any]", value)]
        case _ if dataclasses.is_dataclass(value):
            return encode(value)
        case _ if callable(getattr(value, "tolist", None)):
            return value.tolist()
        case _:
            return value


def method(spec: PassSpec) -> Callable[..., Any]:
    """Build the method of a pass for the class Model."""

    def call(self: Any, select: Any = None, /, *, seed: int = 0, **options: Any) -> Any:
        return self.run(spec.name, options.pop("select", None) if select is None else select, seed=seed, **options)

    call.__name__ = spec.name
    call.__qualname__ = f"Model.{spec.name}"
    call.__module__ = "espalier"
    call.__doc__ = documentation(spec)
    setattr(call, "__signature__", signature(spec))  # noqa: B010  functions declare no such attribute
    return call


def signature(spec: PassSpec) -> inspect.Signature:
    """The method's signature: positional selection, keyword options."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    kinds = {f.name: f for f in dataclasses.fields(spec.options) if f.init}
    listed = [own]
    if selects(spec):
        place = inspect.Parameter.POSITIONAL_ONLY
        default: Any = "all" if spec.name == "quantize" else None
        listed.append(inspect.Parameter("select", place, default=default, annotation="str | list[str] | Select"))
    if spec.name == "quantize":
        listed += [inspect.Parameter(p, Keyword, default=None, annotation="str | Format | None") for p in PORTS]
        listed.append(
            inspect.Parameter("gradient", Keyword, default="range", annotation="Literal['range', 'identity']")
        )
    for name, f in kinds.items():
        if name == positional(spec):
            kind = _kind(f) if name == "data" else "list[dict[str, Any]]"
            listed.append(inspect.Parameter(name, Both, default=_default(f), annotation=kind))
        elif name != "select":
            listed.append(inspect.Parameter(name, Keyword, default=_default(f), annotation=_kind(f)))
    listed.append(inspect.Parameter("seed", Keyword, default=0, annotation="int"))
    result = "Report" if spec.kind == "analysis" else "Model"
    return inspect.Signature(listed, return_annotation=result)


def positional(spec: PassSpec) -> str:
    """The option that the method takes as its first argument, where that is not the selection; empty for none.

    It is the data of a pass that works on the whole model.
    """
    fields = dataclasses.fields(spec.options)
    chosen = next((f.name for f in fields if f.metadata.get("positional")), "")
    return chosen or ("data" if fields and fields[0].name == "data" and not selects(spec) else "")


def selects(spec: PassSpec) -> bool:
    """Whether the method takes nodes as its first argument."""
    return spec.name == "quantize" or any(f.name == "select" for f in dataclasses.fields(spec.options))


def _default(f: dataclasses.Field[Any]) -> Any:
    if f.default is not dataclasses.MISSING:
        return f.default
    return inspect.Parameter.empty if f.default_factory is dataclasses.MISSING else f.default_factory()


def _kind(f: dataclasses.Field[Any]) -> str:
    """The type annotation for callers."""
    text = f.type if isinstance(f.type, str) else getattr(f.type, "__name__", str(f.type))
    return "Data" if f.name == "data" else text.replace("Format", "str | Format")


def documentation(spec: PassSpec) -> str:
    """The method's docstring."""
    lines = [inspect.cleandoc(spec.doc or spec.title), "", "Args:"]
    if selects(spec):
        lines.append(f"    select: {SELECT_HELP}.")
    if spec.name == "quantize":
        lines += [f"    {p}: {FORMATS_HELP}." for p in PORTS]
        lines.append("    gradient: in training, the gradient passes inside the format's range only, or everywhere.")
    for f in dataclasses.fields(spec.options):
        if f.init and f.name != "select":
            lines.append(f"    {f.name}: {_help(f)}".rstrip() + ".")
    lines.append("    seed: random seed; equal seeds give equal results.")
    result = (
        "a Report: rows and figures" if spec.kind == "analysis" else "the model itself, so that calls can be chained"
    )
    lines += ["", "Returns:", f"    {result[0].upper()}{result[1:]}.", "", "Raises:",
              "    OptionsError: an option does not exist or has an invalid value.",
              "    PassError, DataError: the pass cannot work on this model, or on these data.", "",
              "Example:", f"    {_example(spec)}"]  # fmt: skip
    return "\n".join(lines)


def _help(f: dataclasses.Field[Any]) -> str:
    """Help of an option with its range."""
    if f.name == "data":
        return "a name (demo:NAME, hub:NAME, a file or folder), arrays, a Dataset, a DataLoader or a generator"
    low, high = f.metadata.get("min"), f.metadata.get("max")
    spans = [f"at least {low:g}"] if low is not None and high is None else []
    spans += [f"{low:g} to {high:g}"] if low is not None and high is not None else []
    return "; ".join(t.rstrip(".") for t in (str(f.metadata.get("help", "")), *spans) if t) or f"{_kind(f)}"


def _example(spec: PassSpec) -> str:
    if spec.name == "quantize":
        return 'm.quantize("linear", weight="mxint4", data_in="int8")'
    required = [f.name for f in dataclasses.fields(spec.options) if _default(f) is inspect.Parameter.empty]
    names = [f.name for f in dataclasses.fields(spec.options)]
    words = ['"linear"'] if selects(spec) else []
    words += [f"{n}=…" for n in required]
    words += [f"{n}=0.5" for n in ("sparsity", "ratio") if n in names]
    words += ['data="demo:digits"'] if "data" in names else []
    return f"m.{spec.name}({', '.join(words)})"


def install(cls: type) -> None:
    """Add a method per registered pass to a class, unless the name exists."""
    from espalier.model.registry import PASSES

    for name, spec in PASSES.items():
        if name.isidentifier() and not hasattr(cls, name):
            setattr(cls, name, method(spec))


def installed(cls: type) -> list[PassSpec]:
    """The passes that `install` gave to a class."""
    from espalier.model.registry import PASSES

    return [spec for name, spec in PASSES.items() if getattr(getattr(cls, name, None), "__module__", "") == "espalier"]
